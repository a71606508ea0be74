"""The page of a history in a real browser: filters, the address that keeps them, no overlap."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.cli.commands import history
from support.browsers import OVERLAPS, PHONE, UNREADABLE, WIDE, Browser, needs_browser
from support.synthetic_runs import result, trial, write_run

pytestmark = needs_browser
LEVELS_NS = {1: 1e6, 5: 0.8e6, 9: 1.5e6, 20: 1.2e6}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials over 24 days: one with three shifts, one with none."""
    folder = tmp_path_factory.mktemp("history")
    steady = trial("steady")
    moved = trial("moved", baseline=steady)
    for day in range(1, 25):
        level = LEVELS_NS[max(first for first in LEVELS_NS if first <= day)]
        told = {"seed": day, "processes": 3, "started_at": f"2026-03-{day:02d}T00:00:00.000+00:00"}
        pairs = ((steady, result(steady, **told)), (moved, result(moved, level, **told)))
        write_run(folder / "runs" / f"day-{day}", *pairs)
    history.run.reply([str(folder / "runs"), "--output", str(folder / "site")])
    return folder / "site" / "index.html"


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_nothing_overlaps_or_sticks_out(
    browser: Browser, page: Path, size: tuple[int, int], theme: str
) -> None:
    browser.open(page, size)
    assert browser.run("return document.querySelectorAll('.paper svg').length") == 2
    assert browser.run(OVERLAPS) == []
    assert browser.run(UNREADABLE) == []
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]  # type: ignore[index]
    assert browser.complaints() == []


def test_a_filter_hides_the_rest_and_stays_in_the_address(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click("input[data-shifted]")
    for _ in range(2):
        shown = browser.run("return document.getElementById('shown').textContent")
        assert shown == "1 of 2 shown"
        browser.run("location.reload()")
    assert str(browser.run("return location.hash")) == "#shifted=1"

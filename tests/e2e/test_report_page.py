"""The page of some runs in a real browser: nothing complains, nothing sticks out, all unfolds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.cli.commands import report
from benchorch.domain.trial import Skip
from support.analyzed_traces import HOSTILE as HOSTILE_NAMES
from support.browsers import DESKTOP, PHONE, Browser, needs_browser, opened_browser
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

pytestmark = needs_browser
HOSTILE = " ".join(HOSTILE_NAMES)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: a sweep on a priced machine, and names that would like to be markup."""
    folder = tmp_path_factory.mktemp("report")
    cells = []
    for batch_size in (1, 8):
        told = {"hardware_kind": "g5.xlarge", "workload": f"batch_size={batch_size}"}
        sizes = {"batch_size": batch_size}
        base = trial(workload=sizes, labels=told)
        fast, wrong, lost = (
            trial(name, baseline=base, workload=sizes, labels=told)
            for name in ("fast", "wrong", "lost")
        )
        cells += [
            (base, result(base, 1e6 * batch_size)),
            (fast, result(fast, 5e5 * batch_size, baseline_ns=1e6 * batch_size)),
            (wrong, result(wrong, 1e5, parity=DISAGREES)),
            (lost, failed(lost)),
        ]
    hostile = trial(HOSTILE, labels={"model": HOSTILE})
    skips = (Skip(labels={"model": HOSTILE}, reason=HOSTILE * 20),)
    runs = [
        write_run(folder / "swept", *cells),
        write_run(folder / "hostile", (hostile, result(hostile)), skips=skips),
    ]
    written = folder / "report.html"
    report.run([*map(str, runs), "--output", str(written)])
    return written


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_nothing_sticks_out_and_nothing_complains(browser, page, size):
    browser.open(page, size)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    unfold = "document.querySelectorAll('details').forEach(one => one.open = true)"
    assert browser.run(f"{unfold}; return document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints() == []


def test_it_is_one_request_and_has_its_style(browser, page):
    browser.open(page)
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return getComputedStyle(document.querySelector('section')).borderRadius")
    assert browser.run("return document.scripts.length") == 0


def test_the_conclusion_is_above_the_table_and_the_table_above_the_plots(browser, page):
    browser.open(page)
    tops = browser.run(
        "return ['h1', 'table', 'figure'].map(name =>"
        " document.querySelector(name).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    assert tops[1] < DESKTOP[1]


def test_every_point_lies_in_its_chart_and_has_its_numbers(browser, page):
    browser.open(page)
    told = browser.run("""
        return [...document.querySelectorAll('figure > svg')].map(svg => {
          const paper = svg.getBoundingClientRect();
          return [...svg.querySelectorAll('g')].map(mark => {
            const box = mark.getBoundingClientRect();
            return [box.left >= paper.left && box.right <= paper.right + 1 && box.top >= paper.top
              && box.bottom <= paper.bottom, mark.querySelector('title').textContent];
          });
        })""")
    assert len(told) == 5
    assert all(inside and "median latency" in tip for marks in told for inside, tip in marks)

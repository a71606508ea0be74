"""The page of an analysis in a real browser: what it shows, what it answers, what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchorch.trace.report.write import write
from support.analyzed_traces import HOSTILE, Analysis, analysed, trace_file, two_layers
from support.browsers import PHONE, UNREADABLE, WIDE, needs_browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, Path]:
    """A profile of a real model, and the page of its last call."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    folder = tmp_path_factory.mktemp("real")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64), torch.nn.LayerNorm(64)
    ).eval()
    given = torch.randn(32, 64)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(3):
            with record_function("benchorch:call"), record_function("mod:block"):
                model(given)
    profiled.export_chrome_trace(str(folder / "trace.json"))
    analysis = analysed(folder / "trace.json")
    write(analysis, folder)
    return analysis, folder / "report.html"


def test_the_page_shows_the_verdict_the_timeline_and_every_table(browser, real) -> None:
    analysis, page = real
    browser.open(page)
    first = browser.run("return document.querySelector('h1').textContent")
    assert first == analysis.verdict.sentence
    drawn = browser.run("return document.querySelectorAll('svg[aria-label=timeline] rect').length")
    assert isinstance(drawn, int)
    assert drawn > 10
    tables = browser.run("return document.querySelectorAll('table').length")
    assert tables == len(analysis.tables)
    assert browser.complaints() == []


def test_a_button_hands_the_trace_to_perfetto(browser, real) -> None:
    _, page = real
    browser.open(page)
    browser.run("window.open = address => { document.title = address; }")
    browser.click("#open")
    assert browser.run("return document.title") == "https://ui.perfetto.dev"


@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["phone", "desktop"])
def test_the_page_is_as_wide_as_the_screen(browser, real, size, theme) -> None:
    _, page = real
    browser.open(page, size)
    wider = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
    assert isinstance(wider, int)
    assert wider <= 0
    assert browser.run(UNREADABLE) == []
    text_px = browser.run("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert isinstance(text_px, int | float)
    assert text_px >= 14


def test_hostile_names_do_nothing(browser, tmp_path) -> None:
    trace = trace_file(tmp_path / "trace.json", two_layers(HOSTILE))
    write(analysed(trace), tmp_path)
    browser.open(tmp_path / "report.html")
    browser.run("window.alert = () => { document.title = 'RAN'; }")
    assert browser.run("return document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 1
    named = browser.run(
        "return [...document.querySelectorAll('td:first-child')].map(c => c.textContent)"
    )
    assert isinstance(named, list)
    assert HOSTILE[0] in named
    assert "RAN" not in str(browser.run("return document.title"))
    assert browser.complaints() == []


def test_the_page_asks_nothing_of_any_network(browser, real) -> None:
    _, page = real
    browser.open(page)
    asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert asked == []
    refused = browser.run(
        "try { return fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused') }"
        " catch { return 'refused' }"
    )
    assert refused == "refused"
    assert any(re.search("Content Security Policy", text) for text in browser.complaints())

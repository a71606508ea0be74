"""The page of an analysis in a real browser: what it shows, what it answers, what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.trace.report.write import write
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.transforms import Speedup
from support.analyzed_traces import HOSTILE, Analysis, analysed, trace_file, two_layers
from support.browsers import DESKTOP, PHONE, Browser, needs_browser, opened_browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


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


@pytest.mark.parametrize("kind", ["operator", "module"])
def test_the_form_answers_what_the_analysis_predicts(browser, real, kind) -> None:
    analysis, page = real
    rows = analysis.findings.operators if kind == "operator" else analysis.findings.modules
    name = next(row.name for row in rows if row.drag_ns and row.name != "unattributed")
    selector = Selector(op=name) if kind == "operator" else Selector(module=name)
    expected = predict(analysis, [Speedup(select=selector, speedup=2.5)]).predicted_ns
    browser.open(page)
    browser.run(f"document.querySelector('[name=kind]').value = '{kind}'")
    browser.type("[name=value]", name)
    browser.type("[name=speed]", "2.5")
    browser.click(".go")
    answered = browser.run("return Number(document.getElementById('outcome').dataset.ns)")
    assert expected < analysis.dag.makespan_ns
    # Weights are rounded edge by edge in one, in the sum in the other.
    assert answered == pytest.approx(expected, abs=analysis.dag.edges / 2 + 1)
    assert browser.complaints() == []


def test_every_row_of_a_table_has_a_what_if(browser, real) -> None:
    analysis, page = real
    browser.open(page)
    browser.click("tbody .try")
    answered = browser.run("return Number(document.getElementById('outcome').dataset.ns)")
    first = browser.run("return document.querySelector('tbody .try').dataset.value")
    asked = [Speedup(select=Selector(op=str(first)), speedup=2.0)]
    expected = predict(analysis, asked).predicted_ns
    assert answered == pytest.approx(expected, abs=analysis.dag.edges / 2 + 1)


def test_two_changes_are_made_together_and_clearing_takes_them_back(browser, real) -> None:
    analysis, page = real
    names = [row.name for row in analysis.findings.operators if row.drag_ns][:2]
    changes = [Speedup(select=Selector(op=name), speedup=2.0) for name in names]
    browser.open(page)
    for name in names:
        browser.type("[name=value]", name)
        browser.click(".go")
    answered = browser.run("return Number(document.getElementById('outcome').dataset.ns)")
    expected = predict(analysis, changes).predicted_ns
    assert answered == pytest.approx(expected, abs=analysis.dag.edges / 2 + 1)
    browser.click("#clear")
    assert browser.run("return document.getElementById('outcome').textContent") == ""


@pytest.mark.parametrize(
    ("name", "speed", "said"),
    [("no such thing", "2", "no operator called"), ("", "x", "not a valid speed")],
)
def test_an_invalid_what_if_has_a_message_and_no_prediction(
    browser, real, name, speed, said
) -> None:
    analysis, page = real
    browser.open(page)
    browser.type("[name=value]", name or analysis.findings.operators[0].name)
    browser.type("[name=speed]", speed)
    browser.click(".go")
    assert said in str(browser.run("return document.getElementById('outcome').textContent"))
    assert browser.run("return document.getElementById('outcome').dataset.ns || ''") == ""


def test_tables_are_sorted_by_what_is_clicked(browser, real) -> None:
    _, page = real
    browser.open(page)
    browser.click("thead th:nth-child(3) button")
    numbers = browser.run(
        "return [...document.querySelectorAll('.rows:not([hidden]) tbody tr')]"
        ".map(row => Number(row.children[2].dataset.value))"
    )
    assert isinstance(numbers, list)
    assert len(numbers) > 3
    assert numbers == sorted(numbers, reverse=True)


def test_curves_start_at_what_was_observed_and_fall(browser, real) -> None:
    _, page = real
    browser.open(page)
    heights = browser.run(
        "return [...document.querySelectorAll('#curves path[stroke]')]"
        ".map(line => line.getAttribute('d').match(/[ML]\\S+ ([\\d.]+)/g)"
        ".map(point => Number(point.split(' ')[1])))"
    )
    assert isinstance(heights, list)
    assert heights
    for line in heights:
        assert line == sorted(line)  # the page's y axis points down


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_page_is_as_wide_as_the_screen(browser, real, size) -> None:
    _, page = real
    browser.open(page, size)
    wider = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
    assert isinstance(wider, int)
    assert wider <= 0
    text_px = browser.run("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert isinstance(text_px, int | float)
    assert text_px >= 14


def test_hostile_names_do_nothing(browser, tmp_path) -> None:
    trace = trace_file(tmp_path / "trace.json", two_layers(HOSTILE))
    write(analysed(trace), tmp_path)
    browser.open(tmp_path / "report.html")
    browser.run("window.alert = () => { document.title = 'RAN'; }")
    assert browser.run("return document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 3
    named = browser.run("return [...document.querySelectorAll('td:first-child')].map(c => c.title)")
    assert isinstance(named, list)
    assert HOSTILE[0] in named
    browser.click("tbody .try")
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


def test_the_icicle_is_a_file_of_its_own(browser, real) -> None:
    _, page = real
    browser.open(page.with_name("icicle.svg"))
    assert browser.run("return document.documentElement.tagName") == "svg"
    assert browser.run("return document.querySelectorAll('parsererror').length") == 0
    drawn = browser.run("return document.querySelectorAll('rect').length")
    assert isinstance(drawn, int)
    assert 3 < drawn <= 5_000

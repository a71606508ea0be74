"""The page of some runs in a real browser: nothing complains, nothing sticks out, all unfolds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands import report
from benchorch.domain.price import Market, Price
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Skip
from benchorch.domain.verdict import TokenParity
from benchorch.frontends.scripts.corpus_report import (
    CorpusReport,
    Gain,
    MissingResult,
    ScriptCoverage,
)
from support.analyzed_traces import HOSTILE as HOSTILE_NAMES
from support.browsers import DESKTOP, OVERLAPS, PHONE, UNREADABLE, WIDE, needs_browser
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

pytestmark = needs_browser
HOSTILE = " ".join(HOSTILE_NAMES)
PRICE = Price(
    **{"kind": "g5.xlarge", "market": Market.ON_DEMAND, "usd_per_hour": 1.006},
    **{"region": "us-east-1", "as_of": "2026-01-01", "source": "pricing api"},
)


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
    report.run.reply([*map(str, runs), "--output", str(written)])
    return written


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that generates tokens, with prices, under a long name."""
    labels = {"model": "SmolLM2-135M-Instruct", "hardware_kind": "g5.xlarge"}
    base = trial(labels=labels)
    fast = trial("onnxruntime_int8_dynamic", baseline=base, labels=labels)
    pairs = [
        (one, _with_tokens(result(one, call_ns, prices=(PRICE,), **told)))
        for one, call_ns, told in ((base, 4e7, {}), (fast, 2e7, {"baseline_ns": 4e7}))
    ]
    folder = tmp_path_factory.mktemp("generated")
    written = folder / "report.html"
    report.run.reply([str(write_run(folder / "run", *pairs)), "--output", str(written)])
    return written


def _with_tokens(found: TrialResult) -> TrialResult:
    """Calls of four tokens, the first of which takes most of the time."""
    tokens = TokenParity(
        positions=32, agreeing=30, first_divergence=5, divergence_nats=(0.001, 0.002)
    )
    records = [
        replace(
            one,
            facts={**one.facts, "prompt_tokens": 50, "new_tokens": 4},
            observations=replace(
                one.observations,
                token_ns=tuple(
                    part
                    for whole in one.observations.durations_ns
                    for part in (whole * 7 // 10, *(whole // 10,) * 3)
                ),
                tokens_per_call=4,
            ),
        )
        for one in found.processes
    ]
    parity = replace(found.parity, tokens=tokens)
    return replace(found, processes=tuple(records), parity=parity)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a corpus of scripts, with long names, and a reason that fills lines."""
    folder = tmp_path_factory.mktemp("corpus")
    names = ("vision/detectors_with_a_long_name", "text")
    rows = tuple(
        ScriptCoverage(
            folder=name, scripts=40, with_models=39, calls=1234, benchmarkable=1230, exported=9
        )
        for name in ("all", *names)
    )
    gains = tuple(
        Gain(
            **{"folder": name, "conversion": "onnxruntime_int8_dynamic", "trials": 1234},
            **{"ran": 1200, "same_model": 1100, "faster": 1000, "speedup_ratio": 1.2345},
        )
        for name in ("all", *names)
    )
    losses = tuple(
        MissingResult(
            what=f"{name}/script.py:net", conversion=how, reason="it branches on a tensor. " * 20
        )
        for name in names
        for how in ("", "onnxruntime_int8_dynamic")
    )
    return CorpusReport(coverage=rows, gains=gains, losses=losses).write(folder)


def test_a_reason_is_read_on_a_phone_without_scrolling(browser, corpus):
    browser.open(corpus, PHONE)
    wide = "return [...document.querySelectorAll('.words, .words *')].map(one => one.scrollWidth)"
    assert max(browser.run(wide)) <= PHONE[0]


@pytest.mark.parametrize("size", [PHONE, pytest.param(WIDE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["page", "generated", "corpus"])
def test_every_word_can_be_read(browser, request, name, size, theme):
    browser.open(request.getfixturevalue(name), size)
    unfold = "document.querySelectorAll('details').forEach(one => one.open = true)"
    browser.run(unfold)
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(UNREADABLE) == []
    assert browser.run(OVERLAPS) == []
    assert browser.complaints() == []


@pytest.mark.parametrize("size", [PHONE, WIDE])
def test_nothing_sticks_out_overlaps_or_complains(browser, page, size, theme):
    browser.open(page, size)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    unfold = "document.querySelectorAll('details').forEach(one => one.open = true)"
    assert browser.run(f"{unfold}; return document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(OVERLAPS) == []
    assert browser.complaints() == []
    drawn = browser.run("return document.querySelector('.paper svg').outerHTML")
    assert ("#9aa8a0" in drawn) == (theme == "dark")  # the words at its axis


def test_a_runs_table_fits_a_desktop_without_scrolling(browser, tmp_path):
    found = BottleneckVerdict(
        limit="device compute",
        sentence="It computes.",
        critical_path_ns=10,
        classes_ns={"cpu_compute": 10},
        largest="aten::addmm",
        largest_gain_ratio=0.78,
    )
    profile = ProfileRecord(profiler="torch", trace="t", bottleneck=found)
    base = trial()
    few = trial("aot_inductor", baseline=base)
    spread = result(few, 1e8, processes=3, process_spread=0.8, baseline_ns=2e8)
    run = write_run(tmp_path / "run", (base, result(base, 2e8, profile=profile)), (few, spread))
    report.run.reply([str(run), "--output", str(tmp_path / "page.html")])
    browser.open(tmp_path / "page.html", (1440, 900))
    text = browser.run("return document.querySelector('table').innerText")
    assert "not known yet" in text
    assert "device compute" in text
    table = "document.querySelector('.rows')"
    assert browser.run(f"return {table}.scrollWidth - {table}.clientWidth") == 0


def test_it_is_one_request_and_has_its_style(browser, page):
    browser.open(page)
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return getComputedStyle(document.querySelector('section')).borderRadius")


def test_the_conclusion_is_above_the_bars_and_they_are_above_the_table(browser, page):
    browser.open(page)
    tops = browser.run(
        "return ['h1', 'figure', 'table'].map(name =>"
        " document.querySelector(name).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    assert tops[1] < DESKTOP[1]


def test_every_figure_is_drawn_and_bars_are_as_long_as_their_values(browser, page):
    browser.open(page)
    undrawn = (
        "return [...document.querySelectorAll('.paper')].filter(one => !one.firstChild).length"
    )
    assert browser.run(undrawn) == 0
    widths = browser.run("""
        const bars = [...document.querySelector('.paper').querySelectorAll('path')].filter(
          one => /^(fast|eager):/.test(one.__data__.tooltip || ""));
        return Object.fromEntries(bars.map(one => [one.__data__.tooltip, one.getBBox().width]));
    """)
    by_name = {name.partition(":")[0]: width for name, width in widths.items()}
    assert by_name["eager"] == pytest.approx(2 * by_name["fast"], rel=0.05)


def test_a_chart_can_be_saved_as_a_picture_of_its_own(browser, page):
    browser.open(page)
    saved = browser.run("""
        const told = [];
        const click = HTMLAnchorElement.prototype.click;
        HTMLAnchorElement.prototype.click = function () { told.push([this.download, this.href]); };
        document.querySelector('button[data-save=png]').click();
        document.querySelector('button[data-save=svg]').click();
        return new Promise(done => {
          const look = left => {
            if (told.length < 2 && left) return setTimeout(() => look(left - 1), 50);
            HTMLAnchorElement.prototype.click = click;
            done(told.sort());
          };
          look(200);
        });
    """)
    (png, picture), (svg, drawing) = saved
    assert png.endswith("latency.png")
    assert picture.startswith("data:image/png")
    assert svg.endswith("latency.svg")
    assert drawing.startswith("blob:")

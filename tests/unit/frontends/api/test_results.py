"""What a benchmark returns, made from results that nobody had to measure."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.domain.verdict import Verdict
from benchorch.errors import BenchorchError
from benchorch.frontends.api.results import Results

NAMES = ("eager", "onnxruntime", "inductor", "wrong<b>", "never")


def trial(conversion: str) -> Trial:
    labels = {
        **{"model": "m", "conversion": conversion, "hardware": "local", "axes": ""},
        **{"hardware_kind": "local", "workload": "batch_size=2", "scenario": "single_stream"},
    }
    baseline = None if conversion == "eager" else "eager"
    name = conversion.partition("<")[0]
    return Trial(trial_id=name, labels=labels, spec={}, baseline_id=baseline)


def estimate(value: float, unit: str = "ms") -> Estimate:
    return Estimate(
        value=value,
        low=value * 0.9,
        high=value * 1.1,
        level_ratio=0.95,
        n=5,
        unit=unit,
        method="told",
    )


@pytest.fixture
def results() -> Results:
    failure = Failure(
        stage="build", kind="build_refused", message="no <op> for it", remedy="another opset"
    )
    found = {
        name.partition("<")[0]: TrialResult(
            trial_id=name.partition("<")[0],
            labels=trial(name).labels,
            outcome=Outcome.FAILED if name == "inductor" else Outcome.OK,
            failure=failure if name == "inductor" else None,
            parity=Verdict(passed=name != "wrong<b>", reasons=(), outputs=(), tolerance_ratio=1e-4),
            baseline_id=None if name == "eager" else "eager",
        )
        for name in NAMES[:-1]
    }
    times = {"eager": 4.0, "onnxruntime": 2.0, "wrong": 1.0}
    faster = Comparison(ratio=estimate(2.0, "ratio"), verdict="faster")
    summaries = {
        name: Summary(
            metrics={"latency_ms/p50": estimate(times[name])} if name in times else {},
            speedup=faster if name == "onnxruntime" else None,
            steady=True,
            best=("onnxruntime",),
        )
        for name in found
    }
    skip = Skip(labels=trial("tvm").labels, reason="tvm is not installed")
    plan = Plan(plan_id="p", name="n", trials=tuple(map(trial, NAMES)), skips=(skip,), session={})
    return Results(
        plan=plan, results=found, summaries=summaries, directory=Path("r"), note="A note."
    )


def test_rows_come_fastest_first_and_failures_last(results: Results) -> None:
    assert [row.conversion for row in results][:3] == ["onnxruntime", "eager", "wrong<b>"]
    assert len(results) == 5
    assert results[0] is results.best


def test_each_row_says_what_became_of_it(results: Results) -> None:
    assert {row.conversion: row.verdict for row in results} == {
        "onnxruntime": "faster",
        "eager": "baseline",
        "wrong<b>": "disqualified",
        "inductor": "failed",
        "never": "not run",
    }


def test_without_a_baseline_no_row_is_one(results: Results) -> None:
    trials = tuple(replace(one, baseline_id=None) for one in results.plan.trials)
    rows = replace(results, plan=replace(results.plan, trials=trials)).rows
    assert next(row.verdict for row in rows if row.conversion == "eager") == "not compared"


def test_a_row_shows_itself_in_a_few_words(results: Results) -> None:
    assert all(row.conversion in repr(row) and len(repr(row)) < 300 for row in results)


def test_a_row_has_numbers_with_their_intervals(results: Results) -> None:
    row = results[0]
    assert row.latency_ms is not None
    assert row.speedup is not None
    assert (row.latency_ms.value, row.latency_ms.low) == (2.0, 1.8)
    assert row.speedup.value == 2.0
    assert row.directory == Path("r/trials/onnxruntime")


def test_the_table_has_all_that_a_reader_needs(results: Results) -> None:
    text = repr(results)
    for said in ("onnxruntime", "is fastest", "A note.", "no <op> for it", "tvm is not installed"):
        assert said in text


def test_a_notebook_shows_names_and_not_their_markup(results: Results) -> None:
    html = results._repr_html_()
    assert "wrong&lt;b&gt;" in html
    assert "no &lt;op&gt;" in html
    assert "<b>" not in html
    ET.fromstring(f"<div>{html}</div>")


def test_the_chart_is_an_svg_with_a_bar_for_each_median(results: Results, tmp_path: Path) -> None:
    figure = results.plot()
    root = ET.parse(figure.save(tmp_path / "chart.svg")).getroot()
    rectangles = root.iter("{http://www.w3.org/2000/svg}rect")
    bars = [each for each in rectangles if "bar" in each.get("class", "")]
    widths = [float(e.get("width", "0")) for e in bars]
    assert widths[0] * 2 == pytest.approx(widths[1], abs=0.2)
    assert len(bars) == 3
    assert figure._repr_svg_() == figure.svg


def test_rows_of_several_scenarios_are_told_apart(results: Results) -> None:
    pytest.importorskip("pandas")
    other = replace(trial("eager"), trial_id="other")
    other = replace(other, labels={**other.labels, "scenario": "multi_stream"})
    plan = replace(results.plan, trials=(*results.plan.trials, other))
    summaries = {**results.summaries, "other": results.summaries["eager"]}
    both = replace(results, plan=plan, summaries=summaries)
    assert {"single_stream eager", "multi_stream eager"} <= {both._name(row) for row in both}
    assert len({repr(row) for row in both}) == len(both)
    frame = both.to_pandas()
    assert not frame.duplicated(["conversion", "scenario"]).any()
    assert both.plot().svg.count("eager") > results.plot().svg.count("eager")


def test_a_chart_of_nothing_says_so(results: Results) -> None:
    empty = Results(plan=results.plan, results={}, summaries={}, directory=Path("r"))
    assert "nothing was measured" in empty.plot().svg
    assert empty.best is None


def test_a_data_frame_has_a_row_for_each_trial(results: Results) -> None:
    pytest.importorskip("pandas")
    frame = results.to_pandas().set_index("conversion")
    assert frame.loc["onnxruntime", "latency_ms"] == 2.0
    assert frame.loc["inductor", "failure"] == "build_refused: no <op> for it"
    assert not frame.loc["wrong<b>", "same_model"]


def test_without_pandas_the_error_says_how_to_get_it(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BenchorchError, match="pip install pandas"):
        results.to_pandas()

"""Bars by conversion: from zero, with the intervals that are worth drawing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.results.compare.load_run import load
from benchorch.results.metrics.latency import queries_ms
from benchorch.results.report.bars import case_charts
from benchorch.results.report.chart import head_texts
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from benchorch.results.report.series_figures import SeriesFigures, series_figures
from benchorch.stats.quantiles import sample_quantile
from support.synthetic_runs import result, trial, write_run


def charts(run, series=None):
    drawn = case_charts(rows_of([run], prices_of([run])), series or {})
    return {one.title: one for one in drawn}


def values(chart):
    return {one["name"]: one for one in chart.spec["data"]["values"]}


def test_each_conversion_has_a_bar_with_its_verdict_or_the_reason_why_not(run):
    bars = values(charts(run)["Latency"])
    kinds = {name: bar["kind"] for name, bar in bars.items()}
    assert kinds == {
        "fast": "faster",
        "eager": "baseline",
        "wrong": "not the same model",
        "slow": "",
        "never": "",
    }
    assert bars["slow"]["figure"] == "failed: oom"
    assert bars["never"]["value"] is None
    assert bars["fast"]["low"] < bars["fast"]["value"] < bars["fast"]["high"]


def test_without_a_baseline_no_bar_is_one(tmp_path):
    trials = [trial(name) for name in ("eager", "fast")]
    run = load(str(write_run(tmp_path / "run", *((one, result(one)) for one in trials))))
    bars = values(charts(run)["Latency"])
    assert {bar["kind"] for bar in bars.values()} == {"not compared"}


def test_speed_ups_are_of_what_is_still_the_same_model_and_start_at_zero(run):
    chart = charts(run)["Speed-up"]
    assert list(values(chart)) == ["fast"]
    low, high = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > values(chart)["fast"]["high"]


@pytest.mark.parametrize(("design", "drawn"), [("adjacent", True), ("sequential", False)])
def test_speed_ups_are_of_what_was_measured_in_pairs(run, design, drawn):
    trials = []
    for one in run.trials:
        if one.summary and one.summary.speedup:
            speedup = replace(one.summary.speedup, design=design)
            one = replace(one, summary=replace(one.summary, speedup=speedup))
        trials.append(one)
    assert ("Speed-up" in charts(replace(run, trials=tuple(trials)))) == drawn


@pytest.mark.parametrize(("ends", "drawn"), [((0.2, 1.2), False), ((0.4, 0.6), True)])
def test_what_is_not_known_yet_has_neither_a_bar_nor_a_whisker(run, ends, drawn):
    trials = []
    for one in run.trials:
        if one.summary and one.trial.labels["conversion"] == "fast":
            own = one.summary.metrics
            wide = replace(own["latency_ms/p50"], low=ends[0], high=ends[1])
            one = replace(
                one, summary=replace(one.summary, metrics={**own, "latency_ms/p50": wide})
            )
        trials.append(one)
    chart = charts(replace(run, trials=tuple(trials)))["Latency"]
    assert (values(chart)["fast"]["low"] is not None) == drawn
    assert (values(chart)["fast"]["value"] is not None) == drawn
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] < 2


def test_of_a_searched_rate_the_rates_are_drawn_and_no_times_at_different_rates(run):
    trials = []
    for one in run.trials:
        if one.summary and one.trial.labels["conversion"] == "fast":
            own = one.summary.metrics
            rate = replace(own["latency_ms/p50"], value=900.0, low=850.0, high=950.0)
            response = {"response_ms/p50": own["latency_ms/p50"], "target_rate_per_s/max": rate}
            one = replace(one, summary=replace(one.summary, metrics=response))
        trials.append(one)
    drawn = charts(replace(run, trials=tuple(trials)))
    assert "Latency" not in drawn
    chart = drawn["Rate within the target"]
    assert "longer is better" in chart.sentence
    assert values(chart)["fast"]["value"] == 900


def test_the_axis_does_not_reach_to_what_is_not_drawn(run):
    def with_latency(one, **ends):
        own = one.summary.metrics
        metrics = {**own, "latency_ms/p50": replace(own["latency_ms/p50"], **ends)}
        return replace(one, summary=replace(one.summary, metrics=metrics))

    unknown = {"value": 57.0, "n": 2, "low": None, "high": None, "seen": (0.3, 111.0)}
    trials = tuple(
        with_latency(one, **unknown)
        if one.summary and one.trial.labels["conversion"] == "fast"
        else one
        for one in run.trials
    )
    chart = charts(replace(run, trials=trials))["Latency"]
    assert values(chart)["fast"]["value"] is None
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] < 2


def test_every_process_is_a_line_of_its_quantiles(run):
    of = trial()
    measured = result(of, processes=3)
    found = series_figures([measured])
    own = [queries_ms(process) for process in measured.processes]
    assert [one[-1] for one in found[of.trial_id].processes] == [
        sample_quantile(one, 0.95) for one in own
    ]
    chart = charts(run, found)["Calls of every process"]
    lines = chart.spec["layer"][0]["data"]["values"]
    assert len(lines) == 3
    assert all(one["p5"] < one["p25"] < one["p50"] < one["p75"] < one["p95"] for one in lines)
    assert len({one["y"] for one in lines}) == 3


def test_without_raw_series_there_is_no_line(run):
    assert "Calls of every process" not in charts(run)
    nothing = {one.trial.trial_id: SeriesFigures(processes=()) for one in run.trials}
    assert "Calls of every process" not in charts(run, nothing)


def test_a_figure_is_whole_and_a_name_has_the_rest_of_the_line():
    heads = head_texts({"field": "y"}, ["1.1", "0.001 [0.0009, 0.0011]"])
    limits = [mark["mark"]["limit"]["expr"] for mark in heads]
    assert limits == ["max(width * 0.3, width - 166)", "width * 0.7"]


def test_a_name_that_may_be_cut_begins_with_the_conversion(tmp_path):
    machines = {"g5": "g5.xlarge", "r6i": "r6i.large"}
    trials = [
        trial(workload={"seq_len": size}, labels={"hardware": name, "hardware_kind": kind})
        for size, (name, kind) in enumerate(machines.items())
    ]
    run = load(str(write_run(tmp_path / "run", *((one, result(one)) for one in trials))))
    assert {*values(charts(run)["Latency"])} == {"eager g5.xlarge", "eager r6i.large"}

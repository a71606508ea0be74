"""One quantity against another: panels for each model, and a front only where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.price import Market, Price
from benchorch.results.compare.load_run import load
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from benchorch.results.report.series_figures import SeriesFigures
from benchorch.results.report.tables import TOKEN_COST, table_rows
from benchorch.results.report.tradeoffs import pareto_front, tradeoffs
from support.synthetic_runs import result, trial, write_run
from unit.results.report.test_load_curve import POINTS, estimate

NUMBERS = st.floats(1e-9, 1e12)
PRICE = Price(
    kind="g5.xlarge",
    market=Market.ON_DEMAND,
    usd_per_hour=1.006,
    region="us-east-1",
    as_of="2026-11-01",
    source="config",
)
POINT_LISTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1] and a != b


@given(POINT_LISTS)
def test_the_front_is_what_nothing_beats(points):
    front = pareto_front(points)
    assert set(front) == {one for one in points if not any(beats(o, one) for o in points)}
    assert front == sorted(front)


def charts(*runs, series=None):
    return {one.title: one for one in tradeoffs(rows_of(runs, prices_of(runs)), series or {})}


def has_front(chart):
    return any(one["mark"].get("interpolate") == "step-after" for one in chart.spec["layer"])


def test_each_others_inverses_are_no_trade_off(run):
    found = charts(run)
    assert "Latency against throughput" not in found
    assert "Cost against latency" not in found


def test_each_piece_of_work_has_a_panel_and_one_winner_is_no_front(swept):
    costs = [one for title, one in charts(swept).items() if title.startswith("Cost")]
    assert len(costs) == 2  # one a sequence length: the batch size is a choice of who serves
    assert [len(one.spec["data"]["values"]) for one in costs] == [4, 4]
    assert not any(has_front(one) for one in costs)


def test_a_front_of_two_is_drawn(tmp_path):
    cells = []
    for batch_size, call_ns in ((1, 1e6), (8, 4e6)):
        told = {"hardware_kind": "g5.xlarge", "workload": f"batch_size={batch_size}"}
        one = trial(workload={"batch_size": batch_size}, labels=told)
        found = result(one, call_ns)
        items = [
            replace(p, observations=replace(p.observations, items_per_call=batch_size))
            for p in found.processes
        ]
        cells.append((one, replace(found, processes=tuple(items))))
    found = charts(load(str(write_run(tmp_path / "run", *cells))))
    assert has_front(found["Latency against throughput"])
    assert "Pareto front" in found["Cost against latency"].sentence


def gains(directory, model, *conversions):
    baseline = trial(labels={"model": model})
    ran = [trial(one, baseline=baseline, labels={"model": model}) for one in conversions]
    cells = [(one, result(one, 5e5, baseline_ns=1e6)) for one in ran]
    return load(str(write_run(directory / model, (baseline, result(baseline)), *cells)))


def test_models_are_panels_and_one_trial_is_traded_off_against_nothing(tmp_path):
    found = charts(gains(tmp_path, "mlp", "fast", "faster"), gains(tmp_path, "other", "fast"))
    titles = [title for title in found if title.startswith("Gain")]
    assert titles == ["Gain against build time: mlp (plan-mlp)"]


def test_a_curve_of_load_has_intervals_and_what_is_unstable(run):
    fast = next(one.trial.trial_id for one in run.trials)
    wide = replace(POINTS[1], p50=replace(estimate(1.4), low=1e-6, high=1e9))
    series = {fast: SeriesFigures(processes=(), load=(POINTS[0], wide, *POINTS[2:]), target_ms=3)}
    (chart,) = (one for title, one in charts(run, series=series).items() if "load" in title)
    values = chart.spec["data"]["values"]
    assert {one["quantile"] for one in values} == {"p50", "p99"}
    assert [one["low"] for one in values if one["quantile"] == "p50"][1] is None
    assert "grows without end" in chart.sentence
    assert "target of 3 ms" in chart.sentence


def with_tokens(process):
    """Three tokens a call: the first after 2 ms, the others after 1 ms each."""
    calls = len(process.observations.durations_ns)
    times = {"token_ns": (2_000_000, 1_000_000, 1_000_000) * calls, "tokens_per_call": 3}
    return replace(process, observations=replace(process.observations, **times))


def generations(**labels):
    for prompt_tokens in (8, 32):
        told = {"workload": f"prompt_tokens={prompt_tokens}", "scenario": "generate", **labels}
        one = trial(workload={"batch_size": 1, "prompt_tokens": prompt_tokens}, labels=told)
        found = result(one, 4e6, prices=(PRICE,))
        yield one, replace(found, processes=tuple(map(with_tokens, found.processes)))


def test_generation_has_a_curve_of_tokens_over_the_length_of_the_prompt(tmp_path):
    run = load(str(write_run(tmp_path / "run", *generations())))
    drawn = charts(run)["Decoding over prompt tokens"]
    points = {(point["x"], point["y"]) for point in drawn.spec["data"]["values"]}
    assert points == {(8, 1000.0), (32, 1000.0)}


def test_a_generation_costs_dollars_per_million_tokens(tmp_path):
    run = load(str(write_run(tmp_path / "run", *generations(hardware_kind="g5.xlarge"))))
    costs = [one for title, one in charts(run).items() if title.startswith("Cost against")]
    assert len(costs) == 2  # one a length of the prompt
    for chart in costs:
        values = chart.spec["data"]["values"]
        # An hour of g5.xlarge is 1.006 USD, in which 3.6 million tokens are made.
        assert [one["y"] for one in values] == [pytest.approx(1.006 / 3.6)]
        titles = {one["encoding"]["y"]["axis"]["title"] for one in chart.spec["layer"]}
        assert titles == {"USD per million output tokens"}
        assert "USD per million output tokens" in values[0]["tip"]


def test_beside_generations_other_trials_have_no_dollars_per_million_tokens(tmp_path):
    plain = trial(labels={"scenario": "single_stream"})
    priced = plain, result(plain, prices=(PRICE,))
    run = load(str(write_run(tmp_path / "run", priced, *generations())))
    head, *rows = table_rows(run.run_results())
    at = head.index(TOKEN_COST)
    assert sorted(row[at] == "–" for row in rows) == [False, False, True]

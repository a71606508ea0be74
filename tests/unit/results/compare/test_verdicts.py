"""Verdicts of B against A, and reasons for none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchorch.results.compare.gate import gate
from benchorch.results.compare.matching import Match
from benchorch.results.compare.metric_kinds import LATENCY, SPEEDUP, TARGET_RATE
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.compare.verdicts import all_metrics, compare_cases, primary_metric
from benchorch.stats.sequential_testing import USUAL_LOOKS
from support.synthetic_runs import CANARY_NS, failed, once, price, result, session, trial, verdict

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
SMALL = trial("small", baseline=EAGER)
FEW = "fewer than three processes of a side do not show how much sessions differ"
THROUGHPUT = "throughput_items_per_s/mean"
RESPONSE, CAPACITY = "response_ms/p50", "capacity_per_s/mean"
USD = "cost_usd_per_million_items/on_demand"
PRICED = {"prices": (price("local", 0.2),)}


@pytest.mark.parametrize(
    ("call_ns", "said"), [(5e5, "faster"), (2e6, "slower"), (1.001e6, "equivalent")]
)
def test_a_clear_case_has_its_verdict_from_the_point_of_view_of_b(
    call_ns: float, said: str
) -> None:
    even = {"process_spread": 0.0005}
    found = verdict(once("a", **even), once("b", call_ns, **even))
    assert found.verdict == said
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(call_ns / 1e6, rel=0.01)
    assert (found.design, found.reason) == ("sequential", "")


def test_of_a_rate_more_is_faster() -> None:
    found = verdict(once("a"), once("b", 2e6), THROUGHPUT)
    assert found.verdict == "slower"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5, rel=0.02)


def test_of_memory_more_is_higher_and_needs_no_reference_workload_and_no_steady_state() -> None:
    b = once("b", rss=2 * 10**8, canaries_ns=None, steady=False)
    found = verdict(once("a", canaries_ns=None), b, "peak_rss_bytes/max")
    assert found.verdict == "higher"
    assert found.drift_ratio is None


def test_drift_of_the_reference_workloads_is_no_difference() -> None:
    quiet, slow = (CANARY_NS, CANARY_NS), (1.1 * CANARY_NS, 1.10 * CANARY_NS)
    close = verdict(once("a", canaries_ns=quiet), once("b", 1.06e6, canaries_ns=quiet))
    far = verdict(once("a", canaries_ns=quiet), once("b", 1.06e6, canaries_ns=slow))
    assert (close.verdict, far.verdict) == ("slower", "inconclusive")
    assert far.drift_ratio == pytest.approx(0.10)
    assert verdict(once("a", canaries_ns=slow), once("b", 1.3e6)).verdict == "slower"


def test_dollars_are_compared_as_the_rate_that_they_follow_from() -> None:
    slow = 1.25 * CANARY_NS
    found = verdict(once("a", **PRICED), once("b", 1.25e6, canaries_ns=(slow, slow), **PRICED), USD)
    assert found.verdict == "inconclusive"
    assert found.drift_ratio == pytest.approx(0.25)
    alone = verdict(once("a", canaries_ns=None, **PRICED), once("b", 2e6, **PRICED), USD)
    assert alone.verdict == "refused"
    unsteady = verdict(once("a", **PRICED), once("b", 2e6, steady=False, **PRICED), USD)
    assert unsteady.verdict == "inconclusive"
    assert verdict(once("a", **PRICED), once("b", 2e6, **PRICED), USD).verdict == "higher"


def test_reference_workloads_that_scatter_alike_on_both_sides_are_no_drift() -> None:
    uneven = (CANARY_NS, 1.10 * CANARY_NS)
    found = verdict(once("a", canaries_ns=uneven), once("b", 1.06e6, canaries_ns=uneven))
    assert found.verdict == "slower"
    assert found.drift_ratio is None


def test_a_machine_that_was_slower_in_one_session_altogether_explains_as_much() -> None:
    slow = 1.2 * CANARY_NS
    found = verdict(once("a"), once("b", 1.15e6, canaries_ns=(slow, slow)))
    assert found.verdict == "inconclusive"
    assert found.drift_ratio == pytest.approx(0.2)


def test_slower_memory_of_a_session_explains_as_much_where_it_is_large_and_sure() -> None:
    """A model that waits for memory is slower with it; the arithmetic of the machine is not."""
    a = once("a", memory_ns=5e5)
    found = verdict(a, once("b", 1.15e6, memory_ns=6.5e5))
    assert found.verdict == "inconclusive"
    assert found.drift_ratio == pytest.approx(0.3, abs=0.02)
    assert verdict(a, once("b", 1.15e6, memory_ns=5.3e5)).verdict == "slower"
    assert verdict(a, once("b", 1.15e6)).verdict == "slower"


def test_between_machines_that_are_compared_only_their_own_drift_counts() -> None:
    fast, slow = (CANARY_NS, 1.01 * CANARY_NS), (2 * CANARY_NS, 2.02 * CANARY_NS)
    there = {"host": "node-2", "cpu_model": "Other"}
    a, b = once("a", canaries_ns=fast), once("b", 2e6, canaries_ns=slow, environment=there)
    assert verdict(a, b).verdict == "refused"
    found = verdict(a, b, LATENCY, "hardware")
    assert found.verdict == "slower"
    assert found.drift_ratio is None  # each stood still by itself


def test_a_failed_side_is_refused_with_its_failure() -> None:
    broken = session("b", (EAGER, failed(EAGER)))[0]
    found = verdict(once("a"), broken)
    assert (found.verdict, found.reason) == ("refused", "failed in B (oom: no memory)")


def test_two_trials_that_met_are_compared_by_their_pairs() -> None:
    eager, fast = session(
        "a",
        # Alone, the two would say the opposite: only what happened in turns counts.
        (EAGER, result(EAGER, 1e6)),
        (FAST, result(FAST, 1.1e6, baseline_ns=1.2e6, canaries_ns=None)),
    )
    found = verdict(eager, fast, LATENCY, "conversion")
    assert (found.verdict, found.design, found.drift_ratio) == ("faster", "alternated", None)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.1 / 1.2, rel=0.01)
    back = verdict(fast, eager, LATENCY, "conversion")
    assert back.verdict == "slower"
    assert back.ratio is not None
    assert back.ratio.value == pytest.approx(1.2 / 1.1, rel=0.01)


def test_two_trials_that_met_the_same_baseline_are_compared_through_it() -> None:
    fast, small = session(
        "a",
        (EAGER, result(EAGER)),
        (FAST, result(FAST, 1e6, baseline_ns=2e6)),
        # The machine had become twice as slow by then.
        (SMALL, result(SMALL, 1.6e6, baseline_ns=4e6)),
    )[1:]
    found = verdict(fast, small, LATENCY, "conversion")
    assert (found.verdict, found.design) == ("faster", "alternated via baseline")
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.8, rel=0.01)


def offline(one: StoredTrial) -> StoredTrial:
    """The same where calls have a rate and no latency."""
    assert one.summary is not None
    metrics = {name: each for name, each in one.metrics.items() if not name.startswith("latency")}
    return replace(one, summary=replace(one.summary, metrics=metrics))


def test_offline_rates_are_compared_by_the_pairs_that_the_run_was_judged_by() -> None:
    found = session(
        "a",
        (EAGER, result(EAGER, 1e6)),
        (FAST, result(FAST, 1.1e6, baseline_ns=2.2e6)),
        (SMALL, result(SMALL, 1.6e6, baseline_ns=4e6)),
    )
    eager, fast, small = map(offline, found)
    for a, b, ratio, word, design in (
        (eager, fast, 2.0, "faster", "alternated"),
        (fast, eager, 0.5, "slower", "alternated"),
        (fast, small, 1.25, "faster", "alternated via baseline"),
    ):
        judged = verdict(a, b, THROUGHPUT, "conversion")
        assert (judged.verdict, judged.design, judged.drift_ratio) == (word, design, None)
        assert judged.ratio is not None
        assert judged.ratio.value == pytest.approx(ratio, rel=0.01)
    assert verdict(*found[:2], THROUGHPUT, "conversion").design == "sequential"


def test_pairs_of_another_session_are_no_pairs_of_this_one() -> None:
    fast = session("b", (EAGER, result(EAGER)), (FAST, result(FAST, 1e6, seed=1, baseline_ns=2e6)))[
        1
    ]
    assert verdict(once("a"), fast, LATENCY, "conversion").design == "sequential"


def test_a_trial_that_ran_again_is_of_another_session() -> None:
    """`rerun` keeps the plan; what slowed a trial and its baseline alike must not cancel."""
    (eager, fast), (eager_again, fast_again) = (
        session(
            "a",
            (EAGER, result(EAGER, 2 * call_ns, seed=seed)),
            (FAST, result(FAST, call_ns, seed=seed, baseline_ns=2 * call_ns)),
        )
        for seed, call_ns in enumerate((1e6, 2e6))
    )
    for a, b in ((eager, eager_again), (fast, fast_again)):
        found = verdict(a, b)
        assert (found.verdict, found.design) == ("slower", "sequential")
        assert found.session_ratio is not None
        assert found.ratio is not None
        assert found.ratio.value == pytest.approx(2, rel=0.01)
    within = verdict(eager_again, fast_again, LATENCY, "conversion")
    assert within.design == "alternated"


def test_the_same_observations_are_the_same() -> None:
    found = verdict(once("a", canaries_ns=None), once("a", canaries_ns=None))
    assert (found.verdict, found.design) == ("equivalent", "exact")
    assert found.reason == "the same observations on both sides"


def test_what_is_counted_and_not_estimated_is_compared_as_it_is() -> None:
    from dataclasses import replace

    a, b = result(EAGER), result(EAGER, seed=1)
    assert a.build is not None
    larger = replace(b, build=replace(a.build, artifact_bytes=1100))
    before, after = session("a", (EAGER, a))[0], session("b", (EAGER, larger))[0]
    found = verdict(before, after, "artifact_bytes/total")
    assert (found.verdict, found.design) == ("higher", "exact")
    assert found.ratio is not None
    assert (found.ratio.low, found.ratio.high) == (1.1, 1.1)


def test_one_value_a_trial_has_a_ratio_and_no_verdict() -> None:
    found = verdict(once("a"), once("b"), "build_s/total")
    assert (found.verdict, found.reason) == ("inconclusive", "its spread is unknown")
    assert found.ratio is not None


def test_a_quantile_that_no_process_has_by_itself_is_compared_by_the_two_intervals() -> None:
    # Only calls that may be counted as independent of their process are pooled.
    a, b = once("a", process_spread=1e-9), once("b", 3e6, process_spread=1e-9)
    assert "latency_ms/p95" not in a.evidence.values
    found = verdict(a, b, "latency_ms/p95")
    assert found.verdict == "slower"
    assert found.ratio is not None
    assert found.ratio.low < found.ratio.value < found.ratio.high  # type: ignore[operator]


@pytest.mark.parametrize("metric", ["net_energy_j_per_item/mean", "goodput_per_s/mean"])
def test_an_interval_that_reaches_below_0_gives_no_verdict_and_no_error(metric: str) -> None:
    """Joules less the idle machine's do so where the model takes few, rates where some are 0."""
    a, b = once("a"), once("b")
    around = replace(a.metrics[LATENCY], value=0.02, low=-0.01, high=0.05)
    assert a.summary is not None
    a = replace(a, summary=replace(a.summary, metrics={metric: around}))
    b = replace(b, summary=replace(a.summary, metrics={metric: replace(around, low=0.01)}))
    for sides in ((a, b), (b, a), (a, replace(a, plan_id="b"))):
        found = verdict(*sides, metric)
        assert (found.verdict, found.reason) == ("inconclusive", "its spread is unknown")


def test_a_metric_that_a_side_lacks_is_named() -> None:
    found = verdict(once("a"), once("b"), "energy_j_per_item/mean")
    assert found.verdict == "refused"
    assert "no energy_j_per_item/mean in A and B" in found.reason


def test_one_process_a_side_decides_nothing() -> None:
    found = verdict(once("a", processes=1), once("b", 9e6))
    assert found.verdict == "inconclusive"
    assert found.remedy


@pytest.mark.parametrize("fewer", [2, 10])
def test_two_processes_of_a_side_of_two_sessions_decide_nothing(fewer: int) -> None:
    """Three have what sessions differ by in their interval, which two do not have."""
    found = verdict(once("a", processes=2), once("b", 9e6, processes=fewer))
    assert found.verdict == "inconclusive"
    assert found.reason == FEW
    assert found.ratio is not None
    assert (found.ratio.low, found.p_value) == (None, None)
    assert verdict(once("a", processes=3), once("b", 9e6, processes=3)).verdict == "slower"


def test_conversions_that_were_measured_apart_are_to_be_interleaved_by_the_same_command() -> None:
    a, b = once("a", canaries_ns=None), once("b", of=FAST)
    assert verdict(a, b, LATENCY, "conversion").remedy.startswith(
        "interleave them: A's command with conversion=[eager,fast] baseline=eager; or "
    )


def test_pairs_that_decide_nothing_are_not_to_be_interleaved_again() -> None:
    a, b = session("p", (EAGER, result(EAGER)), (FAST, result(FAST, 1e6, baseline_ns=1e6)))
    pairs = tuple((1e6, theirs) for theirs in (0.9e6, 1.1e6, 1e6))
    b = replace(b, evidence=replace(b.evidence, pairs_ns=pairs))
    found = verdict(a, b, LATENCY, "conversion")
    assert (found.verdict, found.design) == ("inconclusive", "alternated")
    assert found.remedy.startswith("more processes: ")


@pytest.mark.parametrize("metric", ["service_ms/p50", CAPACITY])
def test_under_load_longer_is_a_longer_load(metric: str) -> None:
    a, b = (
        replace(one, summary=replace(one.summary, metrics={metric: one.metrics[LATENCY]}))
        for one in (once("a", steady=False), once("b", steady=False))
    )
    assert verdict(a, b, metric).remedy.endswith(" or a longer scenario.duration_s")


def test_interval_and_p_of_two_medians_do_not_depend_on_how_the_trials_were_stopped() -> None:
    plain, looked = (
        verdict(once("a"), once("b", 1.1e6, stop_looks=looks)) for looks in ((), USUAL_LOOKS)
    )
    assert (plain.ratio, plain.p_value) == (looked.ratio, looked.p_value)


def test_the_ratio_is_the_quotient_of_the_two_medians_beside_it() -> None:
    found = verdict(once("a", process_spread=0.2), once("b", 1.1e6, process_spread=0.3))
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(found.b.value / found.a.value)  # type: ignore[union-attr]


def test_a_table_is_read_together() -> None:
    cases = [(Match(name=str(i), a=once(f"a{i}"), b=once(f"b{i}", 1.01e6)), LATENCY)
             for i in range(10)]  # fmt: skip
    together, alone = compare_cases(cases), [compare_cases([case])[0] for case in cases]
    for one, single in zip(together, alone, strict=True):
        assert one.ratio is not None
        assert single.ratio is not None
        assert one.ratio.low < single.ratio.low  # type: ignore[operator]
        assert one.adjusted_p_value >= single.p_value  # type: ignore[operator]
    assert min(one.adjusted_p_value for one in together) == pytest.approx(  # type: ignore[type-var]
        10 * min(one.p_value for one in alone)  # type: ignore[type-var,operator]
    )


def test_what_is_refused_counts_for_nothing() -> None:
    good = Match(name="good", a=once("a"), b=once("b", 1.01e6)), LATENCY
    refused = Match(name="bad", a=once("a"), b=once("b", environment={"host": "y"})), LATENCY
    assert compare_cases([good, *[refused] * 9])[0] == compare_cases([good])[0]


def test_the_primary_metric_is_one_that_both_have() -> None:
    one = Match(name="x", a=once("a"), b=once("b"))
    assert primary_metric(one) == LATENCY
    assert {LATENCY, THROUGHPUT, "peak_rss_bytes/max"} <= set(all_metrics(one))
    assert primary_metric(Match(name="x", a=once("a"), b=session("b", (EAGER, failed(EAGER)))[0]))


def under_load(
    plan_id: str,
    values: dict[str, float],
    scenario: str = "peak_rate",
    *,
    reach: float = 0.05,
    processes: int = 10,
    **fields: Any,
) -> StoredTrial:
    """A trial with these metrics alone; each interval reaches so far, 5 %, from its value."""
    one = once(plan_id, of=trial(labels={"scenario": scenario}), processes=processes)
    assert one.summary is not None
    metrics = {
        name: replace(
            one.metrics[LATENCY],
            **{"value": value, "low": (1 - reach) * value, "high": (1 + reach) * value, **fields},
        )
        for name, value in values.items()
    }
    own = {
        name: tuple(value + 0.001 * i for i in range(processes)) for name, value in values.items()
    }
    evidence = replace(one.evidence, values=own)
    return replace(one, summary=replace(one.summary, metrics=metrics), evidence=evidence)


def primary_verdict(a: StoredTrial, b: StoredTrial) -> tuple[str, str]:
    metric = primary_metric(Match(name="x", a=a, b=b))
    return metric, verdict(a, b, metric).verdict


def test_peak_rates_are_compared_by_the_rate_and_not_by_the_response_at_each_ones_own() -> None:
    a = under_load("a", {TARGET_RATE: 500, RESPONSE: 1, CAPACITY: 900})
    b = under_load("b", {TARGET_RATE: 5000, RESPONSE: 4, CAPACITY: 9000})
    assert primary_verdict(a, b) == (TARGET_RATE, "faster")
    assert primary_verdict(b, a) == (TARGET_RATE, "slower")


def test_a_curve_is_compared_by_its_capacity() -> None:
    a, b = under_load("a", {CAPACITY: 1740}), under_load("b", {CAPACITY: 15403})
    assert primary_verdict(a, b) == (CAPACITY, "faster")


def test_what_lacks_the_first_metric_is_not_judged_by_a_later_one_under_the_same_load() -> None:
    a = under_load("a", {TARGET_RATE: 500, RESPONSE: 4})
    assert primary_verdict(a, under_load("b", {RESPONSE: 1})) == (TARGET_RATE, "refused")
    overloaded = under_load("b", {CAPACITY: 900}, "server")
    served = under_load("a", {RESPONSE: 4, CAPACITY: 900}, "server")
    assert primary_verdict(served, overloaded) == (RESPONSE, "refused")
    assert primary_metric(Match(name="x", a=a, b=served)) == RESPONSE


@pytest.mark.parametrize(
    ("processes", "state"), [(1, "unclear"), (2, "unclear"), (3, "regression")]
)
def test_queries_of_one_or_two_processes_do_not_show_how_much_sessions_differ(
    processes: int, state: str
) -> None:
    """Their interval is within the process: thousands of queries make it narrow."""
    a, b = (
        under_load(name, {RESPONSE: ms}, "server", reach=0.01, processes=processes, n=400)
        for name, ms in (("a", 10.0), ("b", 10.5))
    )
    (case,) = gate([a], [b], limit_ratio=0.02).cases
    found = case.judged
    assert case.state == state
    assert found.ratio is not None
    assert found.ratio.n == processes
    if processes < 3:
        assert (found.verdict, found.reason) == ("inconclusive", FEW)
        assert (found.ratio.low, found.p_value, case.processes_needed) == (None, None, 5)
    within = replace(b, plan_id="a", trial=replace(b.trial, trial_id="other"))
    assert verdict(a, within, RESPONSE).verdict == "slower"


def test_a_lower_limit_gives_no_verdict() -> None:
    known = under_load("a", {RESPONSE: 10})
    low, lower = (
        under_load(name, {RESPONSE: ms}, high=None, at_least=True)
        for name, ms in (("b", 92), ("c", 90))
    )
    within = replace(lower, plan_id="b", trial=replace(lower.trial, trial_id="other"))
    for sides in ((known, low), (low, known), (lower, low), (low, within)):
        found = verdict(*sides, RESPONSE)
        assert found.verdict == "inconclusive"
        assert found.reason == "a side has a lower limit only, from which no ratio follows"
        assert found.remedy.endswith("a longer scenario.duration_s")
        assert found.ratio is not None
        assert (found.ratio.low, found.p_value) == (None, None)
    assert [one.state for one in gate([lower], [low], limit_ratio=0.1).cases] == ["unclear"]


def test_rates_without_an_interval_show_nothing_of_how_much_sessions_differ() -> None:
    """Within a session they are compared by their processes, and the smallest time always is."""
    a, b = (under_load(name, {THROUGHPUT: rate}, low=None, high=None) for name, rate in
            (("a", 100), ("b", 120)))  # fmt: skip
    found = verdict(a, b, THROUGHPUT)
    assert found.verdict == "inconclusive"
    assert found.reason == "a side has no interval, so how much sessions differ is not known"
    within = replace(b, plan_id="a", trial=replace(b.trial, trial_id="other"))
    assert verdict(a, within, THROUGHPUT).verdict == "faster"
    assert verdict(once("a"), once("b", 9e6), "latency_ms/best").verdict == "slower"


def test_differences_that_do_not_matter_can_be_chosen() -> None:
    case = Match(name="x", a=once("a"), b=once("b", 1.03e6)), LATENCY
    assert compare_cases([case])[0].verdict == "slower"
    assert compare_cases([case], delta_ratio=0.1)[0].verdict == "slower"
    nearly = Match(name="x", a=once("a"), b=once("b", process_spread=0.03)), LATENCY
    assert compare_cases([nearly])[0].verdict == "inconclusive"
    assert compare_cases([nearly], delta_ratio=0.2)[0].verdict == "equivalent"


def test_identical_code_in_two_sessions_is_rarely_called_different() -> None:
    """The machine wanders by 3 % over both sessions; its reference workloads follow within 0.5 %.

    300 repetitions of two sessions of 8 processes: a rate of 5 % has a standard error of 1.3 %,
    so that 8.8 % is three of them above it.
    """
    from benchorch.results.compare.machine_change import reference_change
    from benchorch.results.compare.pairing import Samples
    from benchorch.stats.between_processes import over_processes

    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        drift = np.exp(np.cumsum(rng.normal(0, 0.03 / 4, 16)))
        times = 1e6 * drift * rng.lognormal(0, 0.01, 16)
        looks = (CANARY_NS * drift * rng.lognormal(0, 0.005, 16)).reshape(-1, 1)
        b, a = (over_processes(side, unit="ns") for side in (times[8:], times[:8]))
        assert b is not None
        assert a is not None
        machine = reference_change(looks[:8].tolist(), looks[8:].tolist())
        samples = Samples(design="sequential", intervals=(b, a), machine=machine)
        found = samples.compare(delta_ratio=0.01, alpha=0.05)
        assert found is not None
        wrong += found.verdict in ("faster", "slower")
    assert wrong / 300 <= 0.05


def gained(plan_id: str, gain: float, **fields: Any) -> StoredTrial:
    """A candidate and what it gained over eager, on an unknown machine."""
    seed = sum(map(ord, plan_id))
    fast = result(FAST, 1e6 / gain, seed=seed, baseline_ns=1e6, canaries_ns=None, **fields)
    return session(plan_id, (EAGER, result(EAGER, seed=seed)), (FAST, fast))[1]


def test_gains_over_the_same_baseline_need_no_reference_workload_and_no_quiet_machine() -> None:
    found = verdict(gained("a", 2.0, grade="C"), gained("b", 1.5, grade="C"), SPEEDUP)
    assert (found.verdict, found.design) == ("slower", "alternated via baseline")
    assert found.drift_ratio is None
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.75, rel=0.01)
    assert verdict(gained("b", 1.5), gained("a", 2.0), SPEEDUP).verdict == "faster"


def test_gains_over_different_baselines_are_not_compared() -> None:
    from dataclasses import replace

    a, b = gained("a", 2.0), gained("b", 2.0)
    other = replace(b.trial, baseline_conversion={"runtime": {"_target_": "other"}})
    found = verdict(a, replace(b, trial=other), SPEEDUP)
    assert found.verdict == "refused"
    assert "baseline conversion.runtime._target_: None in A, other in B" in found.reason


def test_a_trial_without_pairs_has_no_gain() -> None:
    apart = session("b", (EAGER, result(EAGER)), (FAST, result(FAST, 5e5)))[1]
    found = verdict(gained("a", 2.0), apart, SPEEDUP)
    assert (found.verdict, found.ratio) == ("refused", None)
    assert "no speedup_ratio/p50 in B" in found.reason

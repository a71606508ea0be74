"""Estimates and doubts of trials under load."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchorch.domain.codec import decode, encode
from benchorch.domain.estimate import METRICS
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.formatting import is_unknown
from benchorch.hardware.cpu import CpuClock
from benchorch.results.compare.load_run import evidence_of
from benchorch.results.metrics.load import is_steady, load_metrics, quantile_over, verdict
from benchorch.results.metrics.load_curve import LoadPoint, load_points, rising
from benchorch.results.metrics.load_warnings import load_warnings
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.scenarios.server import Server
from benchorch.scenarios.single_stream import SingleStream
from benchorch.scenarios.throughput_latency import ThroughputLatency
from benchorch.stats.binomial_bound import Target, TargetStatus
from benchorch.stats.steady_state import steady_from
from support.load_runs import QuickClock, constant, process, queue, run, varying
from support.synthetic_runs import result, trial

MS = 1_000_000


@cache
def searched(seed: int = 1, budget_s: float = 20) -> Observations:
    """A search for the highest rate; many tests look at the same one."""
    return run(PeakRate(target_ms=10, budget_s=budget_s, duration_s=5, seed=seed))


def served(**options: object) -> ProcessRecord:
    defaults: dict[str, object] = {"rate_per_s": 500.0, "duration_s": 20.0, "seed": 1}
    return process(run(Server(**{**defaults, **options})))  # type: ignore[arg-type]


def test_metrics_have_documented_names_and_their_units() -> None:
    metrics = {
        **load_metrics([served(target_ms=10.0, utilisation_ratio=0.5, rate_per_s=None)]),
        **load_metrics([process(searched())]),
    }
    assert set(metrics) <= set(METRICS)
    assert {"response_ms/p99.9", "target_rate_per_s/max", "capacity_per_s/mean"} <= set(metrics)
    for name, estimate in metrics.items():
        assert estimate.unit == ("per_s" if "_per_s/" in name else "ms")


def test_a_response_is_what_waiting_and_service_make() -> None:
    metrics = load_metrics([served(rate_per_s=800.0)])
    assert metrics["service_ms/p50"].value == 1.0
    together = metrics["queueing_ms/p99"].value + metrics["service_ms/p99"].value
    assert metrics["response_ms/p99"].value == pytest.approx(together)


def test_several_processes_are_combined_as_processes() -> None:
    processes = [served(seed=seed) for seed in range(5)]
    found = load_metrics(processes)["response_ms/p99"]
    own = [load_metrics([one])["response_ms/p99"].value for one in processes]
    assert found.n == 5
    assert found.value == pytest.approx(float(np.median(own)))
    assert found.low is not None
    assert found.low < min(own) or found.low < found.value


def test_a_response_quantile_has_the_definition_of_a_latency_quantile() -> None:
    """Hazen's: the customary one is 7 % too low in a long tail."""
    rng = np.random.default_rng(0)
    runs = [rng.pareto(1.5, 400) for _ in range(3)]
    found = quantile_over([[run] for run in runs], 0.99)
    own, customary = ([np.quantile(run, 0.99, method=method) for run in runs]
                      for method in ("hazen", "linear"))  # fmt: skip
    assert found is not None
    assert found.value == np.median(own) > np.median(customary)


def test_there_is_no_p99_below_368_queries_and_it_says_so() -> None:
    few = served(rate_per_s=20.0, duration_s=15.0, min_queries=0)
    assert "response_ms/p99" not in load_metrics([few])
    assert "response_ms/p50" in load_metrics([few])
    assert any(doubt.startswith("There is no p99: it takes 368") for doubt in load_warnings([few]))


def test_warm_up_is_not_in_the_figures_and_is_doubted_where_it_lasts() -> None:
    clock = QuickClock()
    costs = (MS + (4 * MS if n < 400 else 0) + n % 7 * 1000 for n in range(10**6))
    scenario = Server(rate_per_s=100, duration_s=100, seed=1)
    brief = process(run(scenario, varying(clock, costs), clock))
    assert load_metrics([brief])["service_ms/p99"].value < 1.1
    assert not any("settled" in doubt for doubt in load_warnings([brief]))
    clock = QuickClock()
    costs = (MS + (4 * MS if n < 4000 else 0) + n % 7 * 1000 for n in range(10**6))
    long = process(run(scenario, varying(clock, costs), clock))
    assert any("had not settled" in doubt for doubt in load_warnings([long]))


def curve(seed: int, change: float, rise: float = 0.0) -> ProcessRecord:
    """A curve whose calls take `change` longer on an idle server, and `rise` more by the end."""
    observed = run(ThroughputLatency(duration_s=0.5, capacity_s=0.2, seed=seed))
    costs = np.asarray(observed.durations_ns, dtype=float)
    for load in observed.loads:
        idle = 1.0 - (load.utilisation_ratio or 1.0)
        within = np.linspace(0.0, rise, load.end - load.first)
        costs[load.first : load.end] *= (1.0 + change * idle) * (1.0 + within)
    costs *= np.random.default_rng(seed).lognormal(0.0, 0.02, costs.size)
    observed = replace(observed, durations_ns=tuple(map(int, costs)))
    whole = steady_from(observed.durations_ns)
    return replace(process(observed), steady_from=whole)


def test_a_curve_is_steady_where_its_stretches_are() -> None:
    """Calls that take longer at low rates make levels of the series; none is unsteady for that."""
    processes = [curve(seed, 0.05) for seed in range(10)]
    assert sum(one.steady_from is None for one in processes) >= 8
    assert all(map(is_steady, processes))
    found = replace(result(trial(), processes=1), processes=tuple(processes))
    assert evidence_of(found, each_process=False).unsteady_ratio == 0.0
    assert not any(map(is_steady, (curve(seed, 0.05, rise=0.3) for seed in range(3))))
    assert not is_steady(replace(process(run(SingleStream())), steady_from=None))


@pytest.mark.parametrize(
    ("target_ms", "word"), [(20.0, ""), (2.0, "is missed"), (5.7, "is not decided")]
)
def test_a_target_is_met_missed_or_undecided(target_ms: float, word: str) -> None:
    doubts = load_warnings([served(rate_per_s=600.0, duration_s=60.0, target_ms=target_ms)])
    about = [doubt for doubt in doubts if "target" in doubt or "decided" in doubt]
    assert bool(about) is bool(word)
    assert all(word in doubt for doubt in about)


@pytest.mark.parametrize(
    ("count", "late", "status"),
    [
        (510, 0, TargetStatus.MET),
        (500, 0, TargetStatus.UNDECIDED),
        (736, 1, TargetStatus.MET),
        (726, 1, TargetStatus.UNDECIDED),
    ],
)
def test_independent_queries_decide_on_a_target_as_early_stopping_does(
    count: int, late: int, status: TargetStatus
) -> None:
    """The first tenth does not count: 459 without a late one are left, or 662 with one."""
    due_ns = (np.arange(count) + 1) * 100 * MS
    duration_ns = (np.random.default_rng(0).lognormal(0, 0.1, count) * 10 * MS).astype(np.int64)
    duration_ns[200 : 200 + late] = 60 * MS
    target = Target(target_ms=50.0, quantile_ratio=0.99)
    found, evidence = verdict([queue(due_ns, due_ns, duration_ns)], target)
    assert evidence.queries == pytest.approx(0.9 * count, abs=1)
    assert found is status


def test_late_queries_in_a_row_are_worth_fewer() -> None:
    count, target = 2000, Target(target_ms=50.0, quantile_ratio=0.99)
    due_ns = (np.arange(count) + 1) * 10 * MS
    duration_ns = (np.random.default_rng(0).lognormal(0, 0.1, count) * MS).astype(np.int64)
    started_ns = due_ns.copy()
    for stalled in (500, 1000, 1500):  # one stall holds up all that are due meanwhile
        started_ns[stalled : stalled + 5] += 60 * MS
    _, evidence = verdict([queue(due_ns, started_ns, duration_ns)], target)
    assert evidence.queries < 0.9 * count / 3


def test_a_target_that_an_unstable_queue_misses_is_told_by_its_cause() -> None:
    doubts = load_warnings([served(rate_per_s=1050.0, duration_s=60.0, target_ms=100_000.0)])
    (about,) = (doubt for doubt in doubts if "target is missed" in doubt)
    assert about.startswith("The target is missed: the queue grew, ")
    assert "%" not in about


def test_every_doubt_says_what_to_try() -> None:
    clock = QuickClock(late_ns=MS)
    doubted = [
        served(rate_per_s=1200.0, target_ms=1.5),
        served(rate_per_s=20.0, duration_s=15.0, min_queries=0, target_ms=3.0),
        process(run(Server(rate_per_s=100, duration_s=20, seed=1), constant(clock), clock)),
        process(run(PeakRate(target_ms=0.5, seed=1))),
        process(run(PeakRate(target_ms=10, budget_s=2, duration_s=2, seed=1))),
    ]
    said = [doubt for one in doubted for doubt in load_warnings([one])]
    assert len(said) >= 7
    assert all(": try " in doubt or "Try " in doubt for doubt in said)


def test_a_wide_search_is_doubted() -> None:
    found = process(run(PeakRate(target_ms=10, budget_s=2, duration_s=2, seed=1)))
    peak = load_metrics([found])["target_rate_per_s/max"]
    assert peak.low is not None
    assert peak.high is not None
    assert peak.high / peak.low > 1.05
    assert any("larger scenario.budget_s" in doubt for doubt in load_warnings([found]))


def test_one_process_that_could_serve_no_rate_is_told_beside_those_that_could() -> None:
    slow = QuickClock()
    scenario = PeakRate(target_ms=10, budget_s=20, duration_s=5, seed=1)
    both = [process(searched()), process(run(scenario, constant(slow, 11.0), slow))]
    first, *_ = load_warnings(both)
    assert first.startswith("In 1 of 2 processes no rate could be served within 10 ms at p99")
    found = load_metrics(both)
    assert found["target_rate_per_s/max"].n == 1
    assert {"response_ms/p50", "achieved_per_s/mean"} <= set(found)
    assert "the highest rate is that of the others" in first


def test_a_rate_that_a_minority_of_processes_found_is_not_named() -> None:
    slow = QuickClock()
    scenario = PeakRate(target_ms=10, budget_s=10, duration_s=5, seed=1)
    none = process(run(scenario, constant(slow, 11.0), slow))
    found = process(searched(1, 10))
    first, *rest = load_warnings([none, none, found])
    assert first.startswith("In 2 of 3 processes no rate could be served within 10 ms at p99")
    assert "no rate is named as within the target: try " in first
    assert not any("highest rate" in said for said in rest)
    assert "target_rate_per_s/max" not in load_metrics([none, none, found])
    assert load_metrics([none, found, found])["target_rate_per_s/max"].n == 2


def test_the_interval_of_one_search_is_at_the_level_of_all_others() -> None:
    found = process(searched())
    assert load_metrics([found])["target_rate_per_s/max"].level_ratio == 0.95


def strict_curve(seed: int, **options: Any) -> ProcessRecord:
    clock = QuickClock()
    scenario = ThroughputLatency(seed=seed, **options)
    return process(run(scenario, constant(clock, 10.0), clock))


def test_a_rate_far_below_those_offered_is_not_named_with_an_interval_without_it() -> None:
    """Of 10 a second a tenth is late, which is all that the curve shows of the true 1.04."""
    found = load_metrics([strict_curve(seed, target_ms=10.5) for seed in range(3)])
    rate = found["target_rate_per_s/max"]
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= 1.04 <= rate.high < 10
    assert is_unknown(rate)


def test_processes_that_know_nothing_above_what_was_offered_agree_on_a_lower_limit() -> None:
    few = [strict_curve(seed, target_ms=2000.0, fractions=(0.1, 0.3)) for seed in range(3)]
    rate = load_metrics(few)["target_rate_per_s/max"]
    assert rate.at_least
    assert rate.high is None
    assert rate.low is not None
    assert 20 < rate.low <= rate.value < 31
    (said,) = (doubt for doubt in load_warnings(few) if "lower limit: that the target" in doubt)
    assert "scenario.fractions" in said
    assert "budget_s" not in said


def test_an_interval_over_processes_is_no_narrower_than_each_ones_own() -> None:
    searches = [
        process(run(PeakRate(target_ms=10, budget_s=4, duration_s=2, seed=seed)))
        for seed in range(3)
    ]
    own = [load_metrics([one])["target_rate_per_s/max"] for one in searches]
    rate = load_metrics(searches)["target_rate_per_s/max"]
    assert rate.low is not None
    assert rate.low <= np.median([one.low for one in own])
    assert rate.at_least or rate.high >= np.median([one.high or np.inf for one in own])


def refuted(observed: Observations, step: int = 10) -> ProcessRecord:
    """A search whose full run has one late query in so many."""
    confirmed = observed.loads[-1]
    costs = list(observed.durations_ns)
    late = range(confirmed.first, confirmed.end, step)
    costs[confirmed.first : confirmed.end : step] = [11 * MS for _ in late]
    return process(replace(observed, durations_ns=tuple(costs)))


def test_a_rate_that_a_full_run_refutes_is_not_named() -> None:
    observed = searched()
    assert "target_rate_per_s/max" in load_metrics([process(observed)])
    assert "target_rate_per_s/max" not in load_metrics([refuted(observed)])
    (said,) = (doubt for doubt in load_warnings([refuted(observed)]) if "did not hold" in doubt)
    assert "No rate is named as within the target: try " in said


@pytest.mark.parametrize(("count", "is_named"), [(1, True), (2, False)])
def test_a_rate_is_named_unless_the_full_runs_of_most_processes_refute_it(
    count: int, is_named: bool
) -> None:
    runs = [searched(seed, 10) for seed in range(3)]
    processes = [*map(refuted, runs[:count]), *map(process, runs[count:])]
    (said,) = (doubt for doubt in load_warnings(processes) if "did not hold" in doubt)
    assert ("target_rate_per_s/max" in load_metrics(processes)) is is_named
    assert ("No rate is named" not in said) is is_named


def test_a_rate_that_all_full_runs_together_refute_is_not_named() -> None:
    runs = [searched(seed, 10) for seed in range(5)]
    processes = [refuted(one, 60) for one in runs]
    assert all("target_rate_per_s/max" in load_metrics([one]) for one in processes)
    assert "target_rate_per_s/max" not in load_metrics(processes)


def test_a_budget_too_small_for_one_probe_ends_with_a_verdict() -> None:
    clock = QuickClock()
    scenario = PeakRate(target_ms=100_000, budget_s=5, seed=1)
    found = process(run(scenario, constant(clock, 20_000.0), clock))
    assert "target_rate_per_s/max" not in load_metrics([found])
    (said,) = load_warnings([found])
    assert "does not hold a single probe: try a larger scenario.budget_s" in said


def test_a_call_that_does_nothing_is_served() -> None:
    found = process(run(Server(duration_s=0.2, capacity_s=0.05, seed=1), lambda: None, CpuClock()))
    assert load_metrics([found])["service_ms/p50"].value > 0


def test_a_model_that_slows_down_for_ever_is_unstable_or_unsettled() -> None:
    clock = QuickClock()
    costs = (MS + 200 * n for n in range(10**6))
    found = process(
        run(Server(rate_per_s=500, duration_s=30, seed=1), varying(clock, costs), clock)
    )
    said = " ".join(load_warnings([found]))
    assert "Unstable" in said
    assert "had not settled" in said


def test_a_confirmation_that_fails_is_told() -> None:
    clock = QuickClock()
    slower_at = 20_000  # after the probes, in the middle of the run that confirms
    costs = (MS if n < slower_at else 2 * MS for n in range(10**7))
    scenario = PeakRate(target_ms=10, budget_s=15, duration_s=30, seed=1)
    found = process(run(scenario, varying(clock, costs), clock))
    assert found.observations.loads[-1].first < 20_000
    assert any("search found did not hold" in d for d in load_warnings([found])) or any(
        doubt.startswith("Unstable") for doubt in load_warnings([found])
    )


def test_a_trial_without_load_has_neither_metrics_nor_doubts() -> None:
    closed = process(run(SingleStream()))
    assert load_metrics([closed]) == {}
    assert load_warnings([closed]) == ()
    assert load_points([closed]) == ()
    assert load_metrics([]) == {}


def test_the_same_follows_from_what_was_stored() -> None:
    observed = run(ThroughputLatency(duration_s=2, fractions=(0.3, 0.6), target_ms=5, seed=1))
    stored = decode(Observations, json.loads(json.dumps(encode(observed))))
    assert stored == observed
    assert load_metrics([process(stored)]) == load_metrics([process(observed)])
    assert load_points([process(stored)]) == load_points([process(observed)])


def points(*processes: ProcessRecord) -> tuple[LoadPoint, ...]:
    return load_points(processes)


def test_a_point_is_one_share_of_capacity_over_all_processes() -> None:
    scenario = {"duration_s": 3, "fractions": (0.3, 0.6), "min_queries": 0}
    slow, clock = QuickClock(), QuickClock()
    one = process(run(ThroughputLatency(**scenario, seed=1), constant(clock), clock))  # type: ignore[arg-type]
    two = process(run(ThroughputLatency(**scenario, seed=2), constant(slow, 1.1), slow))  # type: ignore[arg-type]
    found = points(one, two)
    assert [point.utilisation_ratio for point in found] == [0.3, 0.6]
    assert [point.runs for point in found] == [4, 4]
    assert found[0].rate_per_s == pytest.approx(0.3 * (1000 + 1000 / 1.1) / 2)
    assert found[0].p50 is not None
    assert found[0].p50.low is not None


def test_one_disturbed_run_does_not_end_the_curve() -> None:
    clock = QuickClock()

    def call() -> None:
        clock.true_ns += MS
        nonlocal made
        made += 1
        if made == 4000:
            clock.true_ns += 20_000 * MS  # somebody else has the machine for twenty seconds

    made = 0
    scenario = ThroughputLatency(
        duration_s=4, fractions=(0.2, 0.3, 0.4, 0.5, 0.6), replicates=3, min_queries=0, seed=3
    )
    found = points(process(run(scenario, call, clock)))
    assert not any(point.unstable for point in found)


def test_a_fit_never_falls_and_is_nearest() -> None:
    assert rising([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert rising([1.0, 3.0, 2.0], [1, 3, 1]) == [1.0, 2.75, 2.75]
    assert rising([], []) == []

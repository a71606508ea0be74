"""What is derived from a trial's result."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchorch.domain.codec import encode
from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.measurement import (
    Calibration,
    Conditions,
    Observations,
    Paired,
    ProcessRecord,
)
from benchorch.domain.result import NO_PAIR_IN_TIME, BuildRecord, Failure, Outcome, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.results.metrics.summary import _as_known, summarise, summarise_all
from benchorch.results.report.tables import speedup_text
from benchorch.stats.sequential_testing import USUAL_LOOKS

CALIBRATION = Calibration(pair_cost_ns=40, step_ns=10, loop_turn_ns=9)
FAILED = Failure(stage="build", kind="build_refused", message="no")
WRONG = Verdict(passed=False, reasons=("far off",), outputs=(), tolerance_ratio=1e-3)


def process(
    durations_ns: Sequence[int],
    *,
    steady_from: int | None = 0,
    calls_per_block: int = 1,
    items: int = 1,
    preempted: Sequence[bool] = (),
    threads: int = 2,
) -> ProcessRecord:
    starts = np.cumsum([0, *durations_ns])[:-1].tolist()
    return ProcessRecord(
        load_s=0.5,
        first_call_s=0.1,
        observations=Observations(
            durations_ns=tuple(durations_ns),
            started_ns=tuple(starts),
            calls_per_block=calls_per_block,
            items_per_call=items,
            preempted=tuple(preempted),
        ),
        steady_from=steady_from,
        calibration=CALIBRATION,
        peak_rss_bytes=1000,
        facts={"threads": threads},
    )


def trial(
    *processes: ProcessRecord,
    name: str = "candidate",
    outcome: Outcome = Outcome.OK,
    **fields: object,
) -> TrialResult:
    return TrialResult(
        trial_id=name,
        labels={},
        outcome=outcome,
        processes=processes,
        baseline_id=None if name == "baseline" else "baseline",
        **fields,  # type: ignore[arg-type]
    )


def paired(
    process: ProcessRecord,
    theirs_ns: Sequence[int],
    ours_ns: Sequence[int] | None = None,
    design: str = "alternated",
) -> ProcessRecord:
    """The same process, which met its baseline: at its own speed unless told otherwise."""
    ours = ours_ns or process.observations.durations_ns
    return dataclasses.replace(
        process,
        paired=Paired(
            baseline_id="baseline",
            design=design,
            ours=series(ours) if design == "alternated" else None,
            theirs=series(theirs_ns),
        ),
    )


def series(durations_ns: Sequence[int]) -> Observations:
    return Observations(
        durations_ns=tuple(durations_ns),
        started_ns=tuple(np.cumsum([0, *durations_ns])[:-1].tolist()),
        calls_per_block=1,
        items_per_call=1,
    )


def met(call_ns: int, theirs_ns: int, n: int = 60, **fields: object) -> list[ProcessRecord]:
    """Five processes that alternated with a baseline as much slower as they are."""
    return [
        paired(p, [theirs_ns + i * theirs_ns // 1000 + (-1) ** i * 100] * n)
        for i, p in enumerate(five(call_ns, n, **fields))
    ]


def five(call_ns: int, n: int = 60, **fields: object) -> list[ProcessRecord]:
    """Five processes within a thousandth of each other."""
    return [process([call_ns + i * call_ns // 1000] * n, **fields) for i in range(5)]  # type: ignore[arg-type]


def test_the_headline_is_the_median_of_steady_medians_per_call() -> None:
    warm = [9_000_000] * 10
    result = trial(*(process(warm + [ms * 4_000_000] * 50, steady_from=10, calls_per_block=4)
                     for ms in (1, 2, 5)))  # fmt: skip
    p50 = summarise(result, None).metrics["latency_ms/p50"]
    assert (p50.value, p50.n, p50.unit) == (2.0, 3, "ms")
    assert p50.low is not None
    assert p50.low < 2.0 < p50.high  # type: ignore[operator]


def test_throughput_is_items_over_elapsed_and_never_a_mean_of_reciprocals() -> None:
    result = trial(process([1_000_000, 3_000_000] * 30, items=8))
    found = summarise(result, None).metrics["throughput_items_per_s/mean"]
    assert found.value == pytest.approx(8 * 60 / 0.12)


def waiting(ratio: float) -> list[ProcessRecord]:
    """Interrupted in each block, for this part of the time."""
    conditions = Conditions(waited_ratio=ratio)
    interrupted = five(10**6, n=400, preempted=[True] * 400)
    return [dataclasses.replace(one, conditions=conditions) for one in interrupted]


def with_cpus(count: int) -> list[ProcessRecord]:
    conditions = Conditions(cpus=tuple(range(count)))
    return [dataclasses.replace(p, conditions=conditions) for p in five(10**6)]


def with_copies(*took_ns: float) -> list[ProcessRecord]:
    around = [Conditions(memory_before_ns=took_ns[0], memory_after_ns=took) for took in took_ns]
    return [dataclasses.replace(p, conditions=c) for p, c in zip(five(10**6), around, strict=True)]


def with_facts(call_ns: int = 10**6, **facts: bool) -> list[ProcessRecord]:
    return [dataclasses.replace(p, facts={**p.facts, **facts}) for p in five(call_ns)]


def with_event(event: str, block: int = 7) -> list[ProcessRecord]:
    return [
        dataclasses.replace(
            p, observations=dataclasses.replace(p.observations, events={event: (block,)})
        )
        for p in five(10**6)
    ]


def noisy(rng: np.random.Generator, n: int, level_ns: float = 1e6) -> list[int]:
    """Calls that do not depend on each other."""
    return [int(x) for x in level_ns * (1 + 0.02 * rng.standard_normal(n))]


@pytest.mark.parametrize(("n", "given"), [(73, False), (300, True)])
def test_p99_needs_368_independent_steady_calls_over_the_processes(n: int, given: bool) -> None:
    rng = np.random.default_rng(2)
    result = trial(*(process(noisy(rng, n)) for _ in range(5)))
    assert (5 * n >= 368) is given
    assert ("latency_ms/p99" in summarise(result, None).metrics) is given


def test_calls_of_processes_that_differ_are_not_pooled() -> None:
    rng = np.random.default_rng(0)
    result = trial(*(process(noisy(rng, 100, 1e6 * (1 + 0.03 * i))) for i in range(5)))
    summary = summarise(result, None)
    assert "latency_ms/p99" not in summary.metrics
    assert any("resemble each other" in warning for warning in summary.warnings)


def test_warm_up_calls_do_not_count_towards_p99() -> None:
    rng = np.random.default_rng(0)
    result = trial(*(process(noisy(rng, 100), steady_from=50) for _ in range(5)))
    metrics = summarise(result, None).metrics
    assert "latency_ms/p90" in metrics
    assert "latency_ms/p99" not in metrics


def test_blocks_of_several_calls_have_no_percentiles() -> None:
    metrics = summarise(trial(*five(1_000_000, n=500, calls_per_block=3)), None).metrics
    assert not {name for name in metrics if name.startswith("latency_ms/p9")}
    assert "latency_ms/p50" in metrics


def test_processes_with_calls_enough_are_combined_as_processes() -> None:
    rng = np.random.default_rng(0)
    slow = [process((1e6 * s * rng.lognormal(0, 0.01, 500)).astype(int).tolist())
            for s in (1, 1.1, 1.2, 1.3, 1.4)]  # fmt: skip
    p99 = summarise(trial(*slow), None).metrics["latency_ms/p99"]
    assert p99.n == 5
    assert p99.high / p99.low > 1.15  # type: ignore[operator]


def test_latency_without_interruptions_stands_beside_the_headline() -> None:
    durations = [1_000_000] * 40 + [5_000_000] * 60
    flags = [False] * 40 + [True] * 60
    metrics = summarise(trial(process(durations, preempted=flags)), None).metrics
    assert metrics["latency_ms/p50"].value == 5.0
    assert metrics["undisturbed_latency_ms/p50"].value == 1.0


def test_a_start_and_its_memory_are_those_of_fresh_processes() -> None:
    first, *others = five(1_000_000)
    quick = {"load_s": 0.01, "first_call_s": 0.01, "peak_rss_bytes": 5000, "forked": True}
    forked = [replace(one, **quick) for one in others]  # type: ignore[arg-type]
    metrics = summarise(trial(first, *forked), None).metrics
    start = ("load_s/p50", "first_call_s/p50", "time_to_steady_s/p50", "peak_rss_bytes/max")
    assert [metrics[name].value for name in start] == [0.5, 0.1, 0.6, 1000]
    assert {metrics[name].n for name in start} == {1}
    assert metrics["latency_ms/p50"].n == 5


def test_costs_are_reported_with_the_trial() -> None:
    build = BuildRecord(
        key="k", cache="hit", build_s=0.0, original_build_s=7.0, artifact_bytes=123, model_digest=""
    )
    metrics = summarise(trial(*five(1_000_000), build=build), None).metrics
    assert metrics["load_s/p50"].value == 0.5
    assert metrics["first_call_s/p50"].value == 0.1
    assert metrics["peak_rss_bytes/max"].value == 1000
    assert metrics["build_s/total"].value == 0.0
    assert metrics["original_build_s/total"].value == 7.0
    assert metrics["artifact_bytes/total"].value == 123
    assert metrics["latency_ms/best"].value == 1.0


@pytest.mark.parametrize(
    ("own", "other", "warns"), [("a", "a", False), ("a", "b", True), ("", "b", False)]
)
def test_a_baseline_of_another_model_is_a_warning(own: str, other: str, warns: bool) -> None:
    build = BuildRecord(
        key="", cache="none", build_s=0.0, original_build_s=0.0, artifact_bytes=0, model_digest=""
    )
    one = trial(*five(1_000_000), build=dataclasses.replace(build, reference=own))
    baseline = trial(
        *five(2_000_000), name="baseline", build=dataclasses.replace(build, reference=other)
    )
    said = ["not that of the baseline's row" in each for each in summarise(one, baseline).warnings]
    assert any(said) is warns


def test_twice_as_fast_is_faster_by_two() -> None:
    candidate = trial(*met(1_000_000, 2_000_000))
    speedup = summarise(candidate, trial(*five(2_000_000), name="baseline")).speedup
    assert speedup is not None
    assert speedup.ratio.value == pytest.approx(2.0, rel=1e-3)
    assert (speedup.verdict, speedup.material, speedup.design) == ("faster", True, "alternated")
    assert summarise(candidate, None).speedup == speedup


def test_two_that_never_met_get_a_ratio_and_no_verdict() -> None:
    baseline = trial(*five(2_000_000), name="baseline")
    speedup = summarise(trial(*five(1_000_000)), baseline).speedup
    assert speedup is not None
    assert speedup.ratio.value == pytest.approx(2.0, rel=1e-3)
    assert speedup.ratio.low is not None
    assert (speedup.verdict, speedup.material) == ("inconclusive", False)
    assert speedup.reason.startswith("not interleaved")


@pytest.mark.parametrize(
    ("result", "baseline"),
    [
        (trial(*five(10**6), name="baseline"), trial(*five(10**6), name="baseline")),
        (trial(*five(10**6), name="baseline"), None),
        (trial(*five(10**6)), None),
        (trial(*five(10**6), parity=WRONG), trial(*five(10**6), name="baseline")),
        (
            trial(*five(10**6), outcome=Outcome.FAILED, failure=FAILED),
            trial(*five(10**6), name="baseline"),
        ),
        (
            trial(*five(10**6)),
            trial(name="baseline", outcome=Outcome.FAILED, failure=FAILED),
        ),
        (trial(*five(10**6)), trial(name="baseline")),
    ],
    ids=["itself", "baseline", "none", "wrong", "failed", "baseline failed", "baseline empty"],
)
def test_what_cannot_be_ranked_has_no_speedup(
    result: TrialResult, baseline: TrialResult | None
) -> None:
    assert summarise(result, baseline).speedup is None


def slowing(call_ns: int, share: float, n: int = 400) -> list[int]:
    return [int(call_ns * (1 + share * i / n)) for i in range(n)]


def test_a_drift_that_both_share_costs_no_verdict() -> None:
    ours, theirs = slowing(1_000_000, 0.3), slowing(1_100_000, 0.3)
    result = trial(
        *(
            paired(process([x + 50 * i for x in ours], steady_from=None), theirs)
            for i in range(8)
        )
    )  # fmt: skip
    summary = summarise(result, None)
    assert summary.speedup is not None
    assert (summary.speedup.verdict, summary.speedup.reason) == ("faster", "")
    assert not summary.steady


@pytest.mark.parametrize(("theirs_ns", "verdict"), [(3_000_000, "faster"), (1_150_000, "")])
def test_a_ratio_that_moves_decides_only_what_both_halves_support(
    theirs_ns: int, verdict: str
) -> None:
    result = trial(
        *(
            paired(process(slowing(1_000_000 + 50 * i, 0.3), steady_from=None), [theirs_ns] * 400)
            for i in range(8)
        )
    )  # fmt: skip
    speedup = summarise(result, None).speedup
    assert speedup is not None
    assert speedup.verdict == (verdict or "inconclusive")
    assert ("not steady" in speedup.reason) if verdict else ("no steady" in speedup.reason)


@pytest.mark.parametrize(("theirs_ns", "verdict"), [(3_000_000, "faster"), (1_150_000, "")])
def test_adjacent_processes_that_never_settled_decide_only_what_every_level_supports(
    theirs_ns: int, verdict: str
) -> None:
    result = trial(
        *(
            paired(
                process(slowing(1_000_000 + 50 * i, 0.3), steady_from=None),
                [theirs_ns] * 400,
                design="adjacent",
            )
            for i in range(8)
        )
    )
    speedup = summarise(result, None).speedup
    assert speedup is not None
    assert speedup.design == "adjacent"
    assert speedup.verdict == (verdict or "inconclusive")


def test_a_candidate_that_alternating_slows_down_gets_no_verdict() -> None:
    alone = [process([1_000_000 + 100 * i] * 400) for i in range(8)]
    slowed = [[1_200_000 + 90 * i] * 400 for i in range(8)]
    result = trial(
        *(paired(p, [2_000_000] * 400, ours) for p, ours in zip(alone, slowed, strict=True))
    )
    speedup = summarise(result, None).speedup
    assert speedup is not None
    assert speedup.verdict == "inconclusive"
    assert "changes the candidate's own speed" in speedup.reason


def in_order(process: ProcessRecord, candidate_first: bool, slower: float) -> ProcessRecord:
    """The same pair, in which whoever came first is slower by so much than as the second."""
    ours, theirs = 1_000_000, 1_000_000
    if candidate_first:
        ours = round(ours * slower)
    else:
        theirs = round(theirs * slower)
    made = paired(process, [theirs] * 60, [ours] * 60)
    assert made.paired is not None
    noted = dataclasses.replace(made.paired, candidate_first=candidate_first)
    return dataclasses.replace(made, paired=noted)


@pytest.mark.parametrize(("slower", "said"), [(1.013, True), (1.0, False)])
def test_that_coming_first_matters_is_said(slower: float, said: bool) -> None:
    records = [
        in_order(process([1_000_000 + 90 * i] * 60), i % 2 == 0, slower + (-1) ** (i // 2) * 1e-4)
        for i in range(8)
    ]
    found = summarise(trial(*records), None)
    assert any("came first in a process took 1.01" in each for each in found.warnings) is said
    assert found.speedup is not None
    assert found.speedup.ratio.value == pytest.approx(1.0, abs=1e-3)


def test_pairs_of_a_design_that_was_given_up_do_not_count() -> None:
    given_up = paired(process([1_000_000] * 60), [9_000_000] * 60)
    kept = [
        paired(p, [2_000_000 + 100 * i] * 60, design="adjacent")
        for i, p in enumerate(five(1_000_000))
    ]
    speedup = summarise(trial(given_up, *kept), None).speedup
    assert speedup is not None
    assert speedup.design == "adjacent"
    assert speedup.ratio.n == 5
    assert speedup.ratio.value == pytest.approx(2.0, rel=1e-2)


def test_disturbed_processes_count_nowhere_and_are_told() -> None:
    disturbed = dataclasses.replace(met(9_000_000, 1_000_000)[0], disturbance="It was slow.")
    clean = met(1_000_000, 2_000_000)
    summary = summarise(trial(disturbed, *clean), None)
    assert summary.speedup == summarise(trial(*clean), None).speedup
    metrics = dict(summary.metrics)
    every = metrics.pop("unrejected_latency_ms/p50")
    assert metrics == summarise(trial(*clean), None).metrics
    assert every.n == len(clean) + 1
    assert any("with them" in warning for warning in summary.warnings)
    assert any("measured again" in warning for warning in summary.warnings)


def on_a_machine(speeds: Sequence[float], name: str, follows: bool = True) -> TrialResult:
    """Processes of one program, each between two reference workloads at the machine's speed."""

    def at(speed: float, place: int) -> ProcessRecord:
        call_ns = 1e6 * (speed if follows else 1.0) * (1 + 0.001 * (-1) ** place)
        around = Conditions(canary_before_ns=3e7 * speed, canary_after_ns=3e7 * speed)
        return replace(process([round(call_ns)] * 60), conditions=around)

    return trial(*(at(speed, place) for place, speed in enumerate(speeds)), name=name)


def test_every_process_counts_and_the_median_at_the_machines_usual_speed_is_beside_it() -> None:
    quiet, slow = [0.98, 1.0, 0.99, 1.02, 1.01, 1.0], [1.18, 1.2, 1.19, 1.22, 1.21, 1.2]
    both = [on_a_machine(quiet, "first"), on_a_machine(slow, "second")]
    found = summarise_all({one.trial_id: one for one in both})
    plain, adjusted = (
        [one.metrics[name] for one in found.values()]
        for name in ("latency_ms/p50", "adjusted_latency_ms/p50")
    )
    assert [one.n for one in (*plain, *adjusted)] == [6] * 4
    assert plain[1].value / plain[0].value == pytest.approx(1.2, rel=0.01)
    assert adjusted[1].value / adjusted[0].value == pytest.approx(1.0, rel=0.01)
    for one in found.values():
        assert any("The machine's own speed moved p50" in warning for warning in one.warnings)
    still = [on_a_machine(quiet, "first", False), on_a_machine(slow, "second", False)]
    for one in summarise_all({each.trial_id: each for each in still}).values():
        assert "adjusted_latency_ms/p50" not in one.metrics


def test_the_looks_that_were_taken_widen_the_ratio_and_no_median() -> None:
    once = summarise(trial(*met(1_000_000, 2_000_000)), None)
    looked = summarise(trial(*met(1_000_000, 2_000_000), stop_looks=USUAL_LOOKS), None)
    for name in ("latency_ms/p50", "throughput_items_per_s/mean"):
        assert looked.metrics[name] == once.metrics[name]
    assert looked.speedup.ratio.high > once.speedup.ratio.high  # type: ignore[operator, union-attr]
    assert looked.speedup.p_value == once.speedup.p_value  # type: ignore[union-attr]
    assert looked.speedup.adjusted_p_value == pytest.approx(  # type: ignore[union-attr]
        once.speedup.p_value * 0.05 / 0.0115  # type: ignore[union-attr, operator]
    )


def test_another_number_of_threads_decides_nothing() -> None:
    baseline = trial(*five(3_000_000, threads=1), name="baseline")
    speedup = summarise(trial(*met(1_000_000, 3_000_000)), baseline).speedup
    assert speedup is not None
    assert speedup.verdict == "inconclusive"
    assert speedup.reason == "threads differ: 2 against the baseline's 1"


def test_a_trial_that_never_ran_has_an_empty_summary() -> None:
    summary = summarise(trial(outcome=Outcome.FAILED, failure=FAILED), None)
    assert (summary.metrics, summary.speedup, summary.steady, summary.warnings) == (
        {}, None, False, (),
    )  # fmt: skip


def test_a_process_that_saw_nothing_does_not_count() -> None:
    summary = summarise(trial(process([]), *five(1_000_000)), None)
    assert summary.metrics["latency_ms/p50"].n == 5


def test_queries_that_were_there_at_once_have_a_rate_and_no_latency() -> None:
    records = [
        dataclasses.replace(
            p, observations=dataclasses.replace(p.observations, at_once=True, calls_per_block=10)
        )
        for p in five(10_000_000)
    ]
    metrics = summarise(trial(*records), None).metrics
    assert metrics["throughput_items_per_s/mean"].value == pytest.approx(1000, rel=1e-2)
    assert not {name for name in metrics if name.startswith(("latency", "undisturbed"))}


def test_a_process_that_answered_nothing_once_it_was_steady_has_a_rate_of_0() -> None:
    answered = dataclasses.replace(series([1_000_000] * 60), at_once=True)
    refused = dataclasses.replace(answered, events={"missed 503": tuple(range(30, 60))})
    records = [
        dataclasses.replace(p, observations=refused if number == 4 else answered, steady_from=30)
        for number, p in enumerate(five(1_000_000))
    ]
    found = summarise(trial(*records, stop_reason="fixed"), None)
    rate = found.metrics["throughput_items_per_s/mean"]
    assert (rate.value, rate.low) == (pytest.approx(1000), 0)
    assert any("503" in warning for warning in found.warnings), found.warnings


def test_latency_is_of_a_query_of_several_calls() -> None:
    records = [
        dataclasses.replace(
            p,
            observations=dataclasses.replace(
                p.observations, calls_per_block=8, calls_per_query=4, items_per_call=2
            ),
        )
        for p in five(8_000_000)
    ]
    metrics = summarise(trial(*records), None).metrics
    assert metrics["latency_ms/p50"].value == pytest.approx(4.0, rel=1e-2)
    assert metrics["throughput_items_per_s/mean"].value == pytest.approx(2000, rel=1e-2)


def test_what_was_read_beside_each_block_is_reported_per_query() -> None:
    observed = dataclasses.replace(
        series([2_000_000] * 60),
        calls_per_block=2,
        cpu_ns=(6_000_000,) * 60,
        device_ns=(1_000_000,) * 60,
        issue_ns=(200_000,) * 60,
    )
    record = dataclasses.replace(process([2_000_000] * 60), observations=observed)
    metrics = summarise(trial(record, record), None).metrics
    assert metrics["cpu_ms/p50"].value == 3.0
    assert metrics["device_ms/p50"].value == 0.5
    assert metrics["issue_ms/p50"].value == 0.1
    assert "cpu_ms/p50" not in summarise(trial(*five(1_000_000)), None).metrics


def test_time_to_steady_counts_from_the_beginning_of_loading() -> None:
    warm = process([100_000_000] * 10 + [1_000_000] * 50, steady_from=10)
    metrics = summarise(trial(warm, warm), None).metrics
    assert metrics["time_to_steady_s/p50"].value == pytest.approx(0.5 + 0.1 + 1.0)
    never = dataclasses.replace(warm, steady_from=None)
    assert "time_to_steady_s/p50" not in summarise(trial(warm, never), None).metrics


def test_a_mean_is_given_where_the_tail_is_light() -> None:
    rng = np.random.default_rng(0)
    light = trial(*(process(noisy(rng, 100)) for _ in range(5)))
    assert summarise(light, None).metrics["latency_ms/mean"].value == pytest.approx(1.0, rel=0.01)
    heavy = trial(*(process((1e6 * (1 + rng.pareto(1.2, 100))).astype(int)) for _ in range(5)))
    assert "latency_ms/mean" not in summarise(heavy, None).metrics


def test_a_rate_whose_calls_have_no_mean_has_no_interval() -> None:
    """A rate is one over a mean: what takes the mean's interval takes the rate's."""
    rng = np.random.default_rng(0)
    light = trial(*(process(noisy(rng, 100)) for _ in range(5)))
    heavy = trial(*(process((1e6 * (1 + rng.pareto(1.2, 100))).astype(int)) for _ in range(5)))
    name = "throughput_items_per_s/mean"
    assert summarise(light, None).metrics[name].low is not None
    assert summarise(heavy, None).metrics[name].low is None


def test_candidates_of_different_baselines_are_different_tables() -> None:
    one = trial(*met(1_000_000, 1_020_000), name="a")
    others = {f"b{i}": dataclasses.replace(one, trial_id=f"b{i}", baseline_id="other")
              for i in range(5)}  # fmt: skip
    found = summarise_all({"a": one, **others})
    alone = summarise(one, None).speedup
    assert found["a"].speedup == alone
    assert found["b0"].speedup is not None
    assert found["b0"].speedup.ratio.high > alone.ratio.high  # type: ignore[operator, union-attr]


def test_a_comparison_that_is_refused_does_not_widen_the_others() -> None:
    good = trial(*met(1_000_000, 1_020_000), name="a")
    apart = trial(*five(1_000_000), name="b")
    baseline = trial(*five(1_020_000), name="baseline")
    found = summarise_all({"a": good, "b": apart, "baseline": baseline})
    assert found["a"].speedup == summarise(good, baseline).speedup
    assert found["b"].speedup is not None
    assert found["b"].speedup.adjusted_p_value is None
    assert found["baseline"].speedup is None


def copies(*ratios: float) -> TrialResult:
    """A baseline whose processes met a copy of it that was so many times as fast."""
    processes = [paired(process([1_000_000] * 60), [round(1e6 * ratio)] * 60) for ratio in ratios]
    return trial(*processes, name="baseline")


def test_the_control_is_told_with_the_baseline_and_is_no_candidate() -> None:
    baseline = copies(1.001, 0.999, 1.002, 0.998, 1.0)
    found = summarise_all({"baseline": baseline, "a": trial(*met(1_000_000, 1_020_000), name="a")})
    control = found["baseline"].control
    assert control is not None
    assert control.ratio.low < 1 < control.ratio.high  # type: ignore[operator]
    assert found["baseline"].speedup is None
    assert found["a"].control is None
    assert found["a"].best == found["baseline"].best == ("a",)


def test_a_control_that_is_not_one_is_a_doubt() -> None:
    (said,) = (w for w in summarise(copies(*[0.98, 0.981] * 4), None).warnings if "A/A" in w)
    assert said.startswith("The A/A control failed: a second copy of the baseline ran at 0.98")


def test_a_clean_trial_leaves_no_doubt() -> None:
    assert summarise(trial(*five(1_000_000, n=400)), None).warnings == ()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (trial(*five(10**6, steady_from=None)), "No steady state in 5 of 5 processes"),
        (trial(*five(10**6, steady_from=None), stop_reason="fixed"), "stopping.window_s=5"),
        (trial(*five(10**6)[:1]), "No interval from a single process"),
        (trial(*five(10**6)[:3], stop_reason="fixed"), "stopping.processes=5"),
        (trial(*five(10**6)[:3], unfinished=True), "to rely on: try benchorch resume"),
        (trial(*five(10**6)[:1], unfinished=True), "process so far: try benchorch resume"),
        (trial(*five(10**6)[:3], stop_reason="budget_exhausted"), "try a larger stopping.budget_s"),
        (
            trial(*five(10**6, steady_from=None), stop_reason="run_budget_exhausted"),
            "(fixed, quick: stopping.window_s=5)",
        ),
        (trial(*five(10**6), stop_reason="budget_exhausted"), "stopping.budget_s"),
        (trial(*five(10**6), *five(2 * 10**6)), "known to within"),
        (trial(*five(10**6, preempted=[True, False, False] * 20)), "interrupted 33 %"),
        (trial(*five(10**6, preempted=[True] * 60)), "5 of 5 processes were slowed"),
        (trial(*waiting(0.03)), "Calls waited for a processor 3 % of the time"),
        (trial(*waiting(0.3)), "5 of 5 processes were slowed"),
        (trial(*five(10**5, calls_per_block=7)), "blocks of 7 calls"),
        (trial(*five(10**4)), "reading the clock"),
        (trial(*five(10**6), grade="C"), "grade C"),
        (trial(*five(10**6), pairing="adjacent: it crashed"), "back to back (it crashed)"),
        (
            trial(*five(10**6)[:1], pairing=f"adjacent: {NO_PAIR_IN_TIME}"),
            "ended before the first pair): try a larger budget.minutes",
        ),
        (trial(*with_cpus(4)), "4 threads were requested, and the runtime reports 2"),
        (trial(*with_copies(5e5, 5e5, 9e5, 5e5, 5e5)), "memory took up to 1.8 times as long"),
        (trial(*with_facts(io_binding=True)), "a program that calls session.run copies them"),
        (trial(*with_event("compilation")), "Code was compiled while 5 of 5"),
        (trial(*with_event("allocator_retry")), "allocator ran out while 5 of 5"),
        (trial(*with_event("collection")), "Garbage was collected while 5 of 5"),
    ],
)
def test_a_warning_is_in_plain_words(result: TrialResult, said: str) -> None:
    warnings = summarise(result, None).warnings
    assert any(said in warning for warning in warnings), warnings


def test_what_does_not_matter_is_no_warning() -> None:
    assert summarise(trial(*with_facts(10**7, io_binding=True)), None).warnings == ()
    assert summarise(trial(*with_copies(5e5, 5e5, 6e5, 5e5, 5e5)), None).warnings == ()


def test_interruptions_that_cost_no_time_are_no_doubt() -> None:
    assert summarise(trial(*waiting(0.005)), None).warnings == ()


def test_what_a_first_block_did_or_a_server_collected_is_no_doubt() -> None:
    first = with_event("compilation", block=0)
    served = [
        dataclasses.replace(p, observations=dataclasses.replace(p.observations, at_once=True))
        for p in with_event("collection")
    ]
    for records in (first, served):
        assert summarise(trial(*records), None).warnings == ()


@pytest.mark.parametrize(
    ("call_spread", "process_spread", "said"),
    [(0.2, 0.0005, "stopping.min_window_s="), (0.001, 0.03, "a larger stopping.budget_s")],
)
def test_a_spent_budget_says_where_repeating_pays(
    call_spread: float, process_spread: float, said: str
) -> None:
    rng = np.random.default_rng(3)
    levels = 1e6 * np.exp(process_spread * rng.standard_normal(5))
    records = [
        dataclasses.replace(
            process((level * np.exp(call_spread * rng.standard_normal(40))).astype(int).tolist()),
            elapsed_s=6.0,
        )
        for level in levels
    ]
    warnings = summarise(trial(*records, stop_reason="budget_exhausted"), None).warnings
    assert any("budget ended" in warning and said in warning for warning in warnings), warnings


def test_every_doubt_says_what_to_try() -> None:
    worst = trial(*five(10**4, steady_from=None, calls_per_block=2, preempted=[True] * 60)[:2])
    warnings = summarise(worst, None).warnings
    assert len(warnings) >= 5
    assert all("try " in warning for warning in warnings)


def test_a_summary_can_be_stored_and_is_the_same_every_time() -> None:
    candidate = trial(*met(1_000_000, 2_000_000))
    baseline = trial(*five(2_000_000), name="baseline")
    one = json.dumps(encode(summarise(candidate, baseline)), allow_nan=False)
    assert one == json.dumps(encode(summarise(candidate, baseline)), allow_nan=False)
    again = dataclasses.replace(candidate, processes=tuple(reversed(candidate.processes)))
    other = summarise(again, baseline).metrics["latency_ms/p50"]
    assert other.value == summarise(candidate, baseline).metrics["latency_ms/p50"].value


def test_a_ratio_that_is_not_the_quotient_of_the_two_medians_says_why() -> None:
    candidate = trial(*met(1_000_000, 2_000_000))
    fits, other = (trial(*five(level), name="baseline") for level in (2_000_000, 5_000_000))
    for baseline, said in ((fits, False), (other, True)):
        named = dataclasses.replace(candidate, baseline_id=baseline.trial_id)
        found = summarise_all({named.trial_id: named, baseline.trial_id: baseline})
        warnings = found[named.trial_id].warnings
        assert any("quotient of 5" in warning for warning in warnings) is said


def test_a_process_that_was_slowed_inside_its_window_is_told_with_the_median_without_it() -> None:
    calm, slowed = five(10**6), five(16 * 10**6, preempted=[True] * 60)[:1]
    warnings = summarise(trial(*calm, *slowed), None).warnings
    assert any("1 of 6 processes were slowed" in one and "without them p50" in one
               for one in warnings)  # fmt: skip


def test_processes_at_two_levels_are_told_with_their_numbers() -> None:
    warnings = summarise(trial(*five(10**6), *five(12 * 10**5)), None).warnings
    assert any("2 levels: 5 at 1.002 ms, 5 at 1.202 ms" in warning for warning in warnings)


def test_three_processes_take_the_spread_of_the_other_trials_of_their_machine() -> None:
    few = trial(*five(10**6)[:3])
    others = [trial(*five(10**6 * i), name=f"other {i}") for i in (2, 3, 4)]
    together = summarise_all({one.trial_id: one for one in (few, *others)})
    among, alone = together[few.trial_id].metrics, summarise(few, None).metrics
    for name in ("latency_ms/p50", "throughput_items_per_s/mean", "latency_ms/p01"):
        assert among[name].value == alone[name].value
        assert among[name].high < alone[name].high  # type: ignore[operator]


def test_a_pairs_ratio_is_known_no_better_than_its_medians() -> None:
    def estimate(unit: str, *values: float) -> Estimate:
        seen = min(values), max(values)
        return Estimate(
            value=values[0], level_ratio=0.95, n=len(values), unit=unit, method="", seen=seen
        )

    def text(*baseline_ms: float) -> str:
        above, own = (
            Summary(metrics={"latency_ms/p50": one}, speedup=None, steady=True)
            for one in (estimate("ms", *baseline_ms), estimate("ms", 0.0023))
        )
        pair = Comparison(ratio=estimate("ratio", 16840.0), verdict="inconclusive")
        summary = replace(own, speedup=_as_known(pair, above, own))
        return speedup_text(summary, trial(), compared=True)

    assert text(0.046, 39.95) == "not known yet (1 pair) inconclusive"
    assert "16840× (1 pair)" in text(39.0, 40.0)

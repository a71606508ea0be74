from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from benchorch.domain.estimate import METRICS
from benchorch.domain.measurement import (
    Calibration,
    DeviceMemory,
    Memory,
    Observations,
    Paired,
    ProcessRecord,
    TransferBreakdown,
)
from benchorch.domain.result import (
    BuildRecord,
    EnergyRecord,
    EnergyWindow,
    ModelCounts,
    Outcome,
    TrialResult,
)
from benchorch.domain.verdict import Verdict
from benchorch.results.metrics.resources import overlap_ratio, resource_metrics, resource_warnings
from benchorch.results.metrics.summary import metrics_of, summarise
from benchorch.stats.between_processes import over_processes
from benchorch.stats.mean_of_processes import mean

COUNTS = ModelCounts(parameters=10, parameter_bytes=40, macs=1_000, flops=2_000)
SPLIT = TransferBreakdown(
    stages_ns={"h2d": (2_000, 3_000, 4_000), "compute": (7_000,) * 3, "d2h": (2_000,) * 3},
    joined_ns=(9_000, 9_000, 12_000),
    stage_bytes={"h2d": 600, "d2h": 100},
)
MEMORY = Memory(start=100, loaded=300, peak=450, after=320)


def observed(*milliseconds: float, **more: Any) -> Observations:
    durations = tuple(round(1e6 * each) for each in milliseconds)
    return Observations(
        durations_ns=durations,
        started_ns=tuple(range(len(durations))),
        calls_per_block=1,
        items_per_call=4,
        **more,
    )


def process(*milliseconds: float, **more: Any) -> ProcessRecord:
    return ProcessRecord(
        **{
            "load_s": 1.0,
            "first_call_s": 1.0,
            "observations": observed(*milliseconds),
            "steady_from": 0,
            "calibration": Calibration(pair_cost_ns=1.0, step_ns=1.0),
            "peak_rss_bytes": 1,
            "facts": {},
            **more,
        }
    )


def paired(ours_ms: float, theirs_ms: float) -> ProcessRecord:
    met = Paired(
        baseline_id="b",
        design="alternated",
        ours=observed(ours_ms, ours_ms),
        theirs=observed(theirs_ms, theirs_ms),
    )
    return process(ours_ms, ours_ms, paired=met)


def result(*processes: ProcessRecord, **more: Any) -> TrialResult:
    return TrialResult(
        **{
            "trial_id": "a",
            "labels": {},
            "outcome": Outcome.OK,
            "processes": processes,
            **more,
        }
    )


def built(seconds: float) -> BuildRecord:
    return BuildRecord(
        key="k",
        cache="hit",
        build_s=0.0,
        original_build_s=seconds,
        artifact_bytes=1,
        model_digest="d",
    )


def energy(*joules: float, **more: Any) -> EnergyRecord:
    windows = tuple(
        EnergyWindow(joules=each, seconds=10.0, calls=100, updates=200, busy_ratio=0.5)
        for each in joules
    )
    return EnergyRecord(
        **{"source": "rapl", "idle_w": 20.0, "windows": windows, "items_per_call": 8, **more}
    )


def test_a_trial_that_measured_nothing_has_no_metrics_and_no_doubts() -> None:
    for processes in ((), (process(),), (process(1.0),)):
        assert resource_metrics(result(*processes), None) == {}
        assert resource_warnings(result(*processes), None) == ()


def test_every_name_is_one_that_a_summary_may_hold() -> None:
    memory = replace(MEMORY, device=DeviceMemory(allocated=1, reserved=2, process=3))
    whole = result(
        *(replace(paired(1.0, 2.0), split=SPLIT, memory=memory) for _ in range(3)),
        build=built(1.0),
        counts=COUNTS,
        energy=energy(300.0, 310.0),
    )
    found = resource_metrics(whole, None)
    stages = ["h2d_ms", "compute_ms", "d2h_ms", "end_to_end_ms", "stages_sum_ms", "overlap_ratio"]
    memories = ["start_rss", "loaded_rss", "inference_rss", "after_rss"]
    devices = ["device_allocated", "device_reserved", "device_process"]
    work = ["parameters", "macs", "flops", "achieved_flops_per_s", "break_even_calls"]
    energies = ["energy_j_per_item", "net_energy_j_per_item", "idle_w", "utilisation_ratio"]
    rates = ["h2d_bytes_per_s", "d2h_bytes_per_s"]
    sizes = [f"{name}_bytes" for name in (*memories, *devices)]
    assert {name.split("/")[0] for name in found} == {*stages, *rates, *sizes, *work, *energies}
    assert set(found) <= set(METRICS)


def test_stages_are_medians_of_passes_and_then_of_processes() -> None:
    slower = replace(SPLIT, stages_ns={**SPLIT.stages_ns, "h2d": (6_000,) * 3})
    found = resource_metrics(result(process(1, split=SPLIT), process(1, split=slower)), None)
    assert found["h2d_ms/p50"].value == pytest.approx((0.003 + 0.006) / 2)
    assert found["h2d_ms/p50"].n == 2
    assert found["h2d_ms/p50"].low is None
    assert found["h2d_ms/p50"].seen == pytest.approx((0.003, 0.006))
    assert found["compute_ms/p50"].value == pytest.approx(0.007)
    assert found["end_to_end_ms/p50"].value == pytest.approx(0.009)
    # Sums of passes, not of medians: 11, 12, 13 and 15, 15, 15 microseconds.
    assert found["stages_sum_ms/p50"].value == pytest.approx((0.012 + 0.015) / 2)
    assert "prepare_ms/p50" not in found


def test_copies_have_a_rate_where_they_moved_something() -> None:
    found = resource_metrics(result(process(1, split=SPLIT)), None)
    assert found["h2d_bytes_per_s/p50"].value == pytest.approx(600 / 3e-6)
    host = TransferBreakdown(
        stages_ns={"prepare": (1,), "compute": (1,), "post": (1,)}, joined_ns=(3,)
    )
    names = resource_metrics(result(process(1, split=host)), None)
    assert not [name for name in names if name.startswith(("h2d", "d2h"))]


def test_a_copy_below_the_clocks_step_has_no_rate() -> None:
    instant = replace(SPLIT, stages_ns={**SPLIT.stages_ns, "h2d": (0, 0, 0)})
    found = resource_metrics(result(process(1, split=instant)), None)
    assert "h2d_bytes_per_s/p50" not in found
    assert found["h2d_ms/p50"].value == 0.0


def test_overlap_is_what_joining_saves_whatever_the_scale() -> None:
    assert overlap_ratio(SPLIT) == pytest.approx(1 - 9 / 12)
    scaled = TransferBreakdown(
        stages_ns={name: tuple(7 * each for each in ns) for name, ns in SPLIT.stages_ns.items()},
        joined_ns=tuple(7 * each for each in SPLIT.joined_ns),
    )
    assert overlap_ratio(scaled) == pytest.approx(overlap_ratio(SPLIT))
    dearer = replace(SPLIT, joined_ns=(18_000,) * 3)
    assert overlap_ratio(dearer) == pytest.approx(-0.5)


def test_the_interval_of_overlap_contains_it_and_may_reach_below_zero() -> None:
    splits = [replace(SPLIT, joined_ns=(ns,) * 3) for ns in (11_000, 12_000, 12_500)]
    found = resource_metrics(result(*(process(1, split=each) for each in splits)), None)
    overlap = found["overlap_ratio/p50"]
    assert overlap.value == pytest.approx(0.0)
    assert overlap.low is not None
    assert overlap.high is not None
    assert overlap.low < 0 < overlap.high < 1
    assert overlap.seen == pytest.approx((1 - 12_500 / 12_000, 1 - 11_000 / 12_000))


def test_passes_that_took_no_time_have_no_overlap() -> None:
    nothing = TransferBreakdown(stages_ns={"compute": (0,)}, joined_ns=(0,))
    assert math.isnan(overlap_ratio(nothing))
    assert "overlap_ratio/p50" not in resource_metrics(result(process(1, split=nothing)), None)


def test_memory_is_the_middle_of_processes_and_the_worst_of_peaks() -> None:
    larger = replace(MEMORY, start=110, peak=900)
    found = resource_metrics(result(process(1, memory=MEMORY), process(1, memory=larger)), None)
    assert found["start_rss_bytes/p50"].value == 105
    assert found["loaded_rss_bytes/p50"].value == 300
    assert found["inference_rss_bytes/max"].value == 900
    assert found["inference_rss_bytes/max"].n == 2
    assert found["after_rss_bytes/p50"].value == 320
    assert not [name for name in found if name.startswith("device")]


def test_what_a_framework_does_not_tell_of_a_device_is_absent() -> None:
    memory = replace(MEMORY, device=DeviceMemory(process=77))
    found = resource_metrics(result(process(1, memory=memory)), None)
    assert found["device_process_bytes/max"].value == 77
    assert "device_allocated_bytes/max" not in found
    assert "device_reserved_bytes/max" not in found


def test_disturbed_processes_do_not_count() -> None:
    disturbed = process(1, memory=replace(MEMORY, peak=10**9), split=SPLIT, disturbance="drift")
    found = resource_metrics(result(process(1, memory=MEMORY), disturbed), None)
    assert found["inference_rss_bytes/max"].value == 450
    assert "compute_ms/p50" not in found


def test_energy_per_item_is_given_with_the_idle_machine_and_without() -> None:
    found = resource_metrics(result(energy=energy(1000.0, 1200.0, 1400.0)), None)
    gross, net = found["energy_j_per_item/mean"], found["net_energy_j_per_item/mean"]
    assert gross.value == pytest.approx(1200 / 800)
    assert net.value == pytest.approx((1200 - 20 * 10) / 800)
    # Student's t on three windows: 4.303 standard errors.
    assert gross.high == pytest.approx(1.5 + 4.30265 * 0.25 / math.sqrt(3), rel=1e-4)
    assert gross.n == 3
    assert found["idle_w/mean"].value == 20.0
    assert found["utilisation_ratio/mean"].value == 0.5


def test_energy_that_is_not_known_has_no_number_but_a_reason() -> None:
    unknown = result(energy=EnergyRecord(unavailable="no counter here"))
    assert resource_metrics(unknown, None) == {}
    assert resource_warnings(unknown) == ("Energy is not known: no counter here",)


def test_a_machine_that_idles_dearer_than_it_calls_is_doubted() -> None:
    (doubt,) = resource_warnings(result(energy=energy(1000.0, 150.0)))
    assert "no more than the 20 W of the idle machine" in doubt
    assert resource_warnings(result(energy=energy(1000.0, 1100.0))) == ()


def test_one_window_has_no_interval() -> None:
    found = resource_metrics(result(energy=energy(1000.0)), None)
    assert found["energy_j_per_item/mean"].low is None


@pytest.mark.parametrize("n", [2, 5])
def test_the_mean_of_windows_covers_the_truth(n: int) -> None:
    draw = random.Random(n)
    hits = 0
    for _ in range(2_000):
        found = mean([draw.gauss(1.0, 0.1) for _ in range(n)], of="windows", unit="j")
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.0 <= found.high
    # Standard error of 2000 repetitions at 95 %: 0.5 points; the band is three of them.
    assert hits / 2_000 == pytest.approx(0.95, abs=0.015)


def test_counts_are_totals_and_the_rate_is_work_over_time() -> None:
    processes = [process(1, 1, 4), process(2, 2, 2)]
    found = resource_metrics(result(*processes, counts=COUNTS), None)
    assert found["parameters/total"].value == 10
    assert found["macs/total"].value == 1_000
    assert found["flops/total"].value == 2_000
    # Three calls in six milliseconds in both: slow calls weigh with their time.
    assert found["achieved_flops_per_s/mean"].value == pytest.approx(2_000 * 3 / 0.006)


@pytest.mark.parametrize("heavy", [True, False])
def test_work_a_second_has_an_interval_where_the_items_of_the_same_calls_have_one(
    heavy: bool,
) -> None:
    rng = random.Random(0)
    calls = [
        [rng.paretovariate(1.0) if heavy else rng.uniform(1, 2) for _ in range(400)]
        for _ in range(5)
    ]
    one = result(*(process(*each) for each in calls), counts=COUNTS)
    work, items = (
        metrics_of(one, None)[name]
        for name in ("achieved_flops_per_s/mean", "throughput_items_per_s/mean")
    )
    assert (work.low is None) == (items.low is None) == heavy


def test_warm_up_is_no_part_of_the_rate() -> None:
    found = resource_metrics(result(process(50, 1, 1, steady_from=1), counts=COUNTS), None)
    assert found["achieved_flops_per_s/mean"].value == pytest.approx(2_000 / 0.001)


def test_blocks_of_several_calls_do_the_work_of_all_of_them() -> None:
    block = replace(observed(1, 1), calls_per_block=10)
    found = resource_metrics(result(process(observations=block), counts=COUNTS), None)
    assert found["achieved_flops_per_s/mean"].value == pytest.approx(2_000 * 10 / 0.001)


def test_queries_that_are_served_as_one_batch_share_its_time() -> None:
    together = replace(observed(9, 3, 3, 3, 2), started_ns=(0, 10, 10, 10, 20))
    found = resource_metrics(
        result(process(observations=together, steady_from=1), counts=COUNTS), None
    )
    assert found["achieved_flops_per_s/mean"].value == pytest.approx(2_000 * 4 / 0.005)


def test_a_model_that_could_not_be_counted_keeps_its_parameters_and_says_why() -> None:
    counts = replace(COUNTS, macs=None, flops=None, unavailable="it would not run")
    found = resource_metrics(result(process(1), counts=counts), None)
    assert set(found) == {"parameters/total"}
    assert resource_warnings(result(counts=counts)) == (
        "MACs and FLOPs are not known: it would not run",
    )


def test_operators_without_a_rule_are_named_the_most_frequent_first() -> None:
    uncounted = {"aten.a": 1, "aten.b": 9, "aten.c": 3, "aten.d": 2}
    (doubt,) = resource_warnings(result(counts=replace(COUNTS, uncounted=uncounted)))
    assert doubt.endswith("are too low: aten.b (9), aten.c (3), aten.d (2) and 1 more.")


def test_the_break_even_is_build_time_over_time_saved() -> None:
    met = [paired(1.0, 3.0), paired(1.0, 3.2), paired(1.0, 2.8)]
    found = resource_metrics(result(*met, build=built(4.0)), None)["break_even_calls/total"]
    assert found.value == pytest.approx(4.0 / 0.002)
    saved = over_processes([0.0018, 0.002, 0.0022], unit="s")
    assert saved is not None
    assert (found.low, found.high) == pytest.approx((4.0 / saved.high, 4.0 / saved.low))  # type: ignore[operator]
    assert found.unit == "calls"
    assert found.seen == pytest.approx((4.0 / 0.0022, 4.0 / 0.0018))
    assert resource_warnings(result(*met, build=built(4.0))) == ()


def test_the_break_even_counts_the_calls_of_which_a_query_is_made() -> None:
    def eight(milliseconds: float) -> Observations:
        return replace(observed(milliseconds), calls_per_block=8, calls_per_query=8)

    pair = Paired(baseline_id="b", design="alternated", ours=eight(8.0), theirs=eight(16.0))
    met = [process(paired=pair, observations=eight(8.0))] * 5
    found = resource_metrics(result(*met, build=built(80.0)), None)["break_even_calls/total"]
    assert found.value == pytest.approx(80.0 / 0.001)
    assert found.low == pytest.approx(80.0 / 0.001)


def test_pairs_are_preferred_to_a_baseline_of_another_time() -> None:
    met = [paired(1.0, 3.0), paired(1.0, 3.0)]
    elsewhere = result(process(100.0), trial_id="b")
    found = resource_metrics(result(*met, build=built(4.0)), elsewhere)
    assert found["break_even_calls/total"].value == pytest.approx(2000)


def test_an_unpaired_baseline_is_compared_as_independent() -> None:
    ours = result(process(1.0), process(1.1), process(0.9), build=built(4.0))
    theirs = result(process(3.0), process(3.1), process(2.9), trial_id="b")
    found = resource_metrics(ours, theirs)["break_even_calls/total"]
    assert found.value == pytest.approx(2000)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 2000 < found.high
    assert "MOVER" in found.method


@pytest.mark.parametrize("ours_ms", [2.0, 2.5])
@pytest.mark.parametrize(
    ("count", "said"),
    [
        (6, "never pay off: it is not faster than the baseline."),
        (3, "may never pay off: in no process was it faster than the baseline."),
    ],
)
def test_a_build_that_saves_nothing_never_pays_off(ours_ms: float, count: int, said: str) -> None:
    trial = result(*(paired(ours_ms, 2.0) for _ in range(count)), build=built(4.0))
    assert "break_even_calls/total" not in resource_metrics(trial, None)
    assert resource_warnings(trial) == (f"The 4 s of its build {said}",)


@pytest.mark.parametrize(
    ("ours_ms", "words"), [(4.0, "in no process was it faster"), (2.95, "cannot be told")]
)
def test_two_unpaired_processes_show_what_is_saved_by_the_values_seen(
    ours_ms: float, words: str
) -> None:
    ours = result(process(ours_ms), process(ours_ms + 0.1), build=built(4.0))
    (warning,) = resource_warnings(ours, result(process(3.0), process(2.9), trial_id="b"))
    assert words in warning


def test_a_single_slower_process_does_not_say_that_a_build_never_pays_off() -> None:
    (doubt,) = resource_warnings(result(paired(2.5, 2.0), build=built(4.0)))
    assert "may never pay off" in doubt


def test_savings_that_might_be_none_have_no_interval_and_a_doubt() -> None:
    trial = result(paired(1.0, 1.5), paired(1.0, 0.9), paired(1.0, 1.2), build=built(4.0))
    found = resource_metrics(trial, None)["break_even_calls/total"]
    assert (found.low, found.high, found.seen) == (None, None, None)
    (doubt,) = resource_warnings(trial)
    assert "may never pay off" in doubt


@pytest.mark.parametrize(
    "change",
    [
        {"build": None},
        {"build": built(0.0)},
        {"parity": Verdict(passed=False, reasons=(), outputs=(), tolerance_ratio=0.0)},
    ],
    ids=["nothing kept", "nothing built", "wrong outputs"],
)
def test_nothing_breaks_even_that_was_not_built_or_is_not_the_model(change: dict[str, Any]) -> None:
    trial = result(paired(1.0, 2.0), paired(1.0, 2.0), **{"build": built(4.0), **change})
    assert resource_metrics(trial, None) == {}
    assert resource_warnings(trial) == ()


@pytest.mark.parametrize("ours_ms", [1.0, 3.0])
def test_no_build_pays_off_against_a_baseline_that_is_not_deterministic(ours_ms: float) -> None:
    agrees = Verdict(passed=True, reasons=(), outputs=(), tolerance_ratio=0.0)
    pairs = [paired(ours_ms, 2.0) for _ in range(6)]
    trial = result(*pairs, build=built(4.0), parity=agrees, baseline_id="b")
    sound = result(process(2.0), trial_id="b", parity=agrees)
    random = replace(sound, parity=agrees.not_deterministic("it draws"))
    name, text = "break_even_calls/total", "its build never pay off"

    found = summarise(trial, sound)
    assert (name in found.metrics, text in str(found.warnings)) == (ours_ms < 2, ours_ms > 2)
    found = summarise(trial, random)
    assert (name in found.metrics, text in str(found.warnings)) == (False, False)


@pytest.mark.parametrize("steady_from", [None, 0])
def test_sides_that_never_met_must_have_settled(steady_from: int | None) -> None:
    ours = result(process(1.0), build=built(4.0))
    theirs = result(process(3.0, steady_from=steady_from), trial_id="b")
    assert bool(resource_metrics(ours, theirs)) == (steady_from == 0)


def test_a_baseline_does_not_break_even_with_itself() -> None:
    alone = result(process(1.0), process(1.0), build=built(4.0))
    assert resource_metrics(alone, alone) == {}


def test_response_times_under_a_schedule_say_nothing_of_what_a_call_saves() -> None:
    scheduled = observed(1.0, 1.0, scheduled_ns=(0, 1))
    ours = result(process(observations=scheduled), build=built(4.0))
    assert "break_even_calls/total" not in resource_metrics(
        ours, result(process(3.0), trial_id="b")
    )


def test_the_break_even_interval_covers_the_truth() -> None:
    draw = random.Random(3)
    hits = []
    for _ in range(1_000):
        met = [paired(draw.gauss(1.0, 0.02), draw.gauss(2.0, 0.02)) for _ in range(8)]
        found = resource_metrics(result(*met, build=built(1.0)), None)["break_even_calls/total"]
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= 1_000 <= found.high)
    # Standard error of 1000 repetitions at 95 %: 0.7 points; the band is three of them.
    assert statistics.fmean(hits) == pytest.approx(0.95, abs=0.021)

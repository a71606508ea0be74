"""What a reader should doubt in a trial's numbers, the gravest first, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchorch.analysis.latency import median_ms, preempted_ratio
from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.units import NS_PER_MS

FIXED = "fixed"
LEAST_PROCESSES = 5
MOST_PREEMPTED_RATIO = 0.1
MOST_OVERHEAD_RATIO = 0.01
READS_PER_BLOCK = 1000
WIDE_RATIO = 0.05


def doubts(
    processes: Sequence[ProcessRecord], metrics: Mapping[str, Estimate], stop_reason: str
) -> tuple[str, ...]:
    """One sentence for each doubt, in plain words, with the next thing to try."""
    seen = [process for process in processes if process.observations.durations_ns]
    if not seen:
        return ()
    return (
        *_unsteady(seen, stop_reason),
        *_few(seen, stop_reason),
        *_wide(metrics, stop_reason),
        *_preempted(seen),
        *_instrument(seen),
        *_blocks(seen),
    )


def _unsteady(processes: Sequence[ProcessRecord], stop_reason: str) -> Iterator[str]:
    unsteady = sum(process.steady_from is None for process in processes)
    key = "window_s=5" if stop_reason == FIXED else "max_window_s=20"
    if unsteady:
        yield (
            f"No steady state in {unsteady} of {len(processes)} processes, whose every call "
            f"counts: try stopping.{key}, or a quieter machine."
        )


def _few(processes: Sequence[ProcessRecord], stop_reason: str) -> Iterator[str]:
    count = len(processes)
    key = "processes" if stop_reason == FIXED else "min_processes"
    if count == 1:
        yield "One process has no interval: try stopping=quick for five."
    elif count < LEAST_PROCESSES:
        yield (
            f"Only {count} processes, where {LEAST_PROCESSES} are the least to rely on: "
            f"try stopping.{key}={LEAST_PROCESSES}."
        )


def _wide(metrics: Mapping[str, Estimate], stop_reason: str) -> Iterator[str]:
    headline = metrics.get("latency_ms/p50")
    if headline is None or headline.low is None or headline.high is None:
        return
    reach = max(headline.high / headline.value, headline.value / headline.low) - 1
    if stop_reason == "budget_exhausted":
        yield (
            f"The budget ended before the target was met; the median is known to within "
            f"{_percent(reach)}: try a larger stopping.budget_s."
        )
    elif reach > WIDE_RATIO:
        yield (
            f"The median is known to within {_percent(reach)} only: "
            "try stopping=precision, or a quieter machine."
        )


def _preempted(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    share = preempted_ratio(processes)
    if share > MOST_PREEMPTED_RATIO:
        yield (
            f"Other work interrupted {_percent(share)} of the timed blocks: "
            "try a quieter machine, or fewer threads with hardware.threads."
        )


def _instrument(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    """The clock's and the loop's share of a block, where it is more than it should be."""
    overheads = [
        max(
            # Half the rule: a block sized while the machine was slower may fall a little short.
            p.calibration.pair_cost_ns * READS_PER_BLOCK / 2 > ms * p.observations.calls_per_block,
            p.calibration.loop_turn_ns > MOST_OVERHEAD_RATIO * ms,
        )
        for p, ms in zip(processes, (m * NS_PER_MS for m in median_ms(processes)), strict=True)
    ]
    if any(overheads):
        yield (
            "The calls are so short that reading the clock and the loop around them show in the "
            "figures: try a larger workload.batch_size."
        )


def _blocks(processes: Sequence[ProcessRecord]) -> Iterator[str]:
    calls = max(process.observations.calls_per_block for process in processes)
    if calls > 1:
        yield (
            f"Single calls are too short for this clock; figures are of blocks of {calls} calls, "
            "which have no percentiles: try a larger workload.batch_size."
        )


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"

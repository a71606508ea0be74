"""Resources of a trial: stages around the call, memory, energy, work, its build."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import (
    DeviceMemory,
    Memory,
    ProcessRecord,
    TransferBreakdown,
    fresh,
)
from benchorch.domain.result import EnergyRecord, EnergyWindow, TrialResult
from benchorch.formatting import first_few
from benchorch.results.metrics.break_even import break_even, break_even_warnings
from benchorch.results.metrics.latency import rate_over_processes
from benchorch.stats.between_processes import over_processes
from benchorch.stats.mean_of_processes import mean
from benchorch.stats.quantiles import without_interval
from benchorch.units import NS_PER_S, ns_to_ms, ns_to_s

_COPIES = ("h2d", "d2h")
_NAMED_OPERATORS = 3


def resource_metrics(result: TrialResult, baseline: TrialResult | None) -> Mapping[str, Estimate]:
    """Every estimate that is neither latency nor throughput, by its metric's name.

    Of processes, only those that count. What was not measured has no entry.

    Args:
        result: the trial's.
        baseline: the one it is compared with, or None if there is none or it has no result.
    """
    processes = result.valid
    found = {
        **_split_metrics([p.split for p in processes if p.split is not None]),
        **_memory_metrics([p.memory for p in fresh(processes) if p.memory is not None]),
        **_energy_metrics(result.energy),
        **_count_metrics(result),
        "break_even_calls/total": break_even(result, baseline),
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def resource_warnings(result: TrialResult, baseline: TrialResult | None = None) -> tuple[str, ...]:
    """Warnings about them, one sentence each."""
    return (
        *_count_warnings(result),
        *_energy_warnings(result.energy),
        *break_even_warnings(result, baseline),
    )


def overlap_ratio(split: TransferBreakdown) -> float:
    """How much of the stages' time is saved where they run without a drain in between.

    Estimator: 1 less the joined passes' median over the median of the split passes' sums. 0 where
    nothing overlaps; below 0 where joining them costs time. Scaling all times changes nothing.
    NaN where a pass took no time.
    """
    together = statistics.median(_sums_ns(split))
    return 1.0 - statistics.median(split.joined_ns) / together if together > 0 else math.nan


def _sums_ns(split: TransferBreakdown) -> list[int]:
    return [sum(stages) for stages in zip(*split.stages_ns.values(), strict=True)]


def _split_metrics(splits: Sequence[TransferBreakdown]) -> dict[str, Estimate | None]:
    """Medians of passes in each process, then over processes."""
    if not splits:
        return {}
    stages = splits[0].stages_ns  # all processes ran on the same kind of device
    return {
        **{f"{name}_ms/p50": _stage(splits, name) for name in stages},
        "end_to_end_ms/p50": _per_process(splits, lambda split: split.joined_ns),
        "stages_sum_ms/p50": _per_process(splits, _sums_ns),
        "overlap_ratio/p50": _overlap(splits),
        **{f"{name}_bytes_per_s/p50": _rate(splits, name) for name in _COPIES if name in stages},
    }


def _stage(splits: Sequence[TransferBreakdown], name: str) -> Estimate | None:
    return _per_process(splits, lambda split: split.stages_ns[name])


def _per_process(
    splits: Sequence[TransferBreakdown], passes_ns: Callable[[TransferBreakdown], Sequence[int]]
) -> Estimate | None:
    medians = [ns_to_ms(statistics.median(passes_ns(split))) for split in splits]
    return over_processes(medians, unit="ms")


def _overlap(splits: Sequence[TransferBreakdown]) -> Estimate | None:
    """The interval is that of the time that is left, which is a positive ratio."""
    left = over_processes([1.0 - overlap_ratio(split) for split in splits], unit="ratio")
    if left is None:
        return None
    return replace(
        left,
        value=1.0 - left.value,
        low=None if left.high is None else 1.0 - left.high,
        high=None if left.low is None else 1.0 - left.low,
        seen=left.seen and (1.0 - left.seen[1], 1.0 - left.seen[0]),
        method="1 less end to end over the sum of stages; order statistics",
    )


def _rate(splits: Sequence[TransferBreakdown], stage: str) -> Estimate | None:
    """Bytes over the stage's median time, so with the host's own share of the stage."""
    rates = [
        split.stage_bytes[stage] * NS_PER_S / statistics.median(split.stages_ns[stage])
        for split in splits
        if split.stage_bytes.get(stage) and all(split.stages_ns[stage])
    ]
    return over_processes(rates, unit="bytes_per_s")


def _memory_metrics(memories: Sequence[Memory]) -> dict[str, Estimate | None]:
    devices = [memory.device for memory in memories if memory.device is not None]
    return {
        "start_rss_bytes/p50": over_processes([m.start for m in memories], unit="bytes"),
        "loaded_rss_bytes/p50": over_processes([m.loaded for m in memories], unit="bytes"),
        "inference_rss_bytes/max": _largest(m.peak for m in memories),
        "after_rss_bytes/p50": over_processes([m.after for m in memories], unit="bytes"),
        **_device_metrics(devices),
    }


def _device_metrics(devices: Sequence[DeviceMemory]) -> dict[str, Estimate | None]:
    return {
        "device_allocated_bytes/max": _largest(d.allocated for d in devices),
        "device_reserved_bytes/max": _largest(d.reserved for d in devices),
        "device_process_bytes/max": _largest(d.process for d in devices),
    }


def _largest(sizes: Iterable[int | None]) -> Estimate | None:
    known = [size for size in sizes if size is not None]
    return (
        without_interval(max(known), "bytes", "maximum over processes", len(known))
        if known
        else None
    )


def _energy_metrics(energy: EnergyRecord | None) -> dict[str, Estimate | None]:
    """Joules per item with the idle machine's share and without; the interval is over windows."""
    if energy is None:
        return {}
    idle_w = energy.idle_w
    found: dict[str, Estimate | None] = {}
    if idle_w is not None:
        found["idle_w/mean"] = without_interval(idle_w, "w", "one window before the calls")
        net = [_joules_per_item(energy, window, idle_w) for window in energy.windows]
        found["net_energy_j_per_item/mean"] = mean(net, of="windows", unit="j_per_item")
    gross = [_joules_per_item(energy, window, 0.0) for window in energy.windows]
    busy = [window.busy_ratio for window in energy.windows if window.busy_ratio is not None]
    return {
        **found,
        "energy_j_per_item/mean": mean(gross, of="windows", unit="j_per_item"),
        "utilisation_ratio/mean": mean(busy, of="windows", unit="ratio"),
    }


def _joules_per_item(energy: EnergyRecord, window: EnergyWindow, idle_w: float) -> float:
    joules = window.joules - idle_w * window.seconds
    return joules / (window.calls * energy.items_per_call)


def _count_metrics(result: TrialResult) -> dict[str, Estimate | None]:
    """The model's size and work, and how fast the work was done."""
    counts = result.counts
    if counts is None:
        return {}
    found: dict[str, Estimate | None] = {
        "parameters/total": without_interval(counts.parameters, "parameters", "counted")
    }
    if counts.macs is not None and counts.flops is not None:
        found["macs/total"] = without_interval(counts.macs, "macs", "counted, one call")
        found["flops/total"] = without_interval(counts.flops, "flops", "counted, one call")
        found["achieved_flops_per_s/mean"] = _achieved(result.valid, counts.flops)
    return found


def _achieved(processes: Sequence[ProcessRecord], flops: int) -> Estimate | None:
    """FLOPs of the steady calls over the time they took together, the median over processes.

    Queries that are served as one batch have the same start and duration, which counts once.
    """
    rates = []
    for process in processes:
        observed, first = process.observations, process.steady_from or 0
        blocks_ns = observed.durations_ns[first:]
        calls = len(blocks_ns) * observed.calls_per_block
        batches = {*zip(observed.started_ns[first:], blocks_ns, strict=True)}
        rates.append(flops * calls / ns_to_s(sum(took_ns for _, took_ns in batches)))
    return rate_over_processes(rates, processes, of="FLOPs", unit="flops_per_s")


def _count_warnings(result: TrialResult) -> Iterator[str]:
    counts = result.counts
    if counts is None:
        return
    if counts.unavailable:
        yield f"MACs and FLOPs are not known: {counts.unavailable}"
    if counts.uncounted:
        names = sorted(counts.uncounted, key=lambda name: -counts.uncounted[name])
        found = [f"{name} ({counts.uncounted[name]})" for name in names]
        shown = first_few(found, _NAMED_OPERATORS)
        yield f"MACs and FLOPs leave out operators without a rule, so are too low: {shown}."


def _energy_warnings(energy: EnergyRecord | None) -> Iterator[str]:
    if energy is None:
        return
    if energy.unavailable:
        yield f"Energy is not known: {energy.unavailable}"
    idle_w = energy.idle_w
    if idle_w is not None and any(w.joules <= idle_w * w.seconds for w in energy.windows):
        yield (
            f"Calling, it drew no more than the {idle_w:.3g} W of the idle machine before: "
            "something else ran then: measure energy on a quiet machine."
        )

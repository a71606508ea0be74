"""What a trial's processes say of its latency and throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.analysis.processes import over_processes, steady_queries_ns
from benchorch.analysis.quantiles import LEVEL_RATIO, minimum_n, quantile
from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.units import NS_PER_MS, ns_to_s

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

TAILS = {"p90": 0.90, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
LEAST_UNDISTURBED = 30

TENTHS = 10


def latency_metrics(processes: Sequence[ProcessRecord]) -> Mapping[str, Estimate]:
    """Every estimate that the steady calls of these processes allow, by its metric's name.

    Processes that observed nothing do not count; without any there is no metric.
    """
    seen = [process for process in processes if process.observations.durations_ns]
    if not seen:
        return {}
    found = {
        "latency_ms/p50": over_processes(median_ms(seen), unit="ms"),
        **{f"latency_ms/{name}": tail_ms(seen, ratio) for name, ratio in TAILS.items()},
        "latency_ms/best": best_ms(seen),
        "undisturbed_latency_ms/p50": undisturbed_ms(seen),
        "throughput_items_per_s/mean": over_processes(throughput(seen), unit="items_per_s"),
    }
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def median_ms(processes: Sequence[ProcessRecord]) -> list[float]:
    """Each process's steady median time per call, in milliseconds."""
    import numpy as np

    return [float(np.median(calls_ms(process))) for process in processes]


def levels_ms(process: ProcessRecord) -> tuple[float, float]:
    """The fastest and the slowest level of a process, in milliseconds per call.

    Estimator: a steady process has one level, its median. Of any other, the smallest and largest
    median of `TENTHS` consecutive parts of its calls: how far it wandered while it was watched.
    """
    import numpy as np

    calls = calls_ms(process)
    parts = 1 if process.steady_from is not None else min(TENTHS, calls.size)
    medians = [float(np.median(part)) for part in np.array_split(calls, parts)]
    return min(medians), max(medians)


def calls_ms(process: ProcessRecord) -> NDArray[float64]:
    """Time per call of each steady block, shape (n,), in milliseconds."""
    return steady_queries_ns(process.observations, process.steady_from) / NS_PER_MS


def tail_ms(processes: Sequence[ProcessRecord], quantile_ratio: float) -> Estimate | None:
    """A tail quantile of single calls, or None where it cannot be estimated.

    Where every one of several processes has calls enough for its own quantile, they are combined
    as processes. Otherwise all calls are pooled as if independent. Blocks of several calls have
    no quantile per call.
    """
    import numpy as np

    if any(process.observations.calls_per_block != 1 for process in processes):
        return None
    samples = [calls_ms(process) for process in processes]
    enough = minimum_n(quantile_ratio)
    if len(samples) > 1 and min(sample.size for sample in samples) >= enough:
        own = [float(np.quantile(sample, quantile_ratio)) for sample in samples]
        return over_processes(own, unit="ms")
    return quantile(np.concatenate(samples), quantile_ratio, unit="ms")


def best_ms(processes: Sequence[ProcessRecord]) -> Estimate:
    """The smallest steady time per call: the cost without noise, never the headline."""
    samples = [calls_ms(process) for process in processes]
    return Estimate(
        value=min(float(sample.min()) for sample in samples),
        low=None,
        high=None,
        level_ratio=LEVEL_RATIO,
        n=sum(sample.size for sample in samples),
        unit="ms",
        method="minimum",
    )


def undisturbed_ms(processes: Sequence[ProcessRecord]) -> Estimate | None:
    """The headline over the blocks in which the process was never switched out.

    None where a process has fewer than 30 of them: long calls are nearly always interrupted.
    """
    import numpy as np

    medians = []
    for process in processes:
        flags = process.observations.preempted[process.steady_from or 0 :]
        calm = calls_ms(process)[~np.asarray(flags, dtype=np.bool_)] if flags else np.empty(0)
        if calm.size < LEAST_UNDISTURBED:
            return None
        medians.append(float(np.median(calm)))
    return over_processes(medians, unit="ms")


def throughput(processes: Sequence[ProcessRecord]) -> list[float]:
    """Each process's items a second: items of its steady calls over the time they took together.

    The time between blocks, in which the harness reads counters, is not the model's.
    """
    rates = []
    for process in processes:
        observed = process.observations
        blocks = observed.durations_ns[process.steady_from or 0 :]
        items = len(blocks) * observed.calls_per_block * observed.items_per_call
        rates.append(items / ns_to_s(sum(blocks)))
    return rates


def preempted_ratio(processes: Sequence[ProcessRecord]) -> float:
    """Share of all steady blocks in which the process was switched out; 0 where nobody counted."""
    flags = [flag for p in processes for flag in p.observations.preempted[p.steady_from or 0 :]]
    return sum(flags) / len(flags) if flags else 0.0

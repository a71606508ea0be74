"""Latency and throughput of a trial."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord, fresh
from benchorch.stats.autocorrelation import independent, independent_n
from benchorch.stats.between_processes import over_processes, steady_queries_ns
from benchorch.stats.clustered_quantiles import pooled_quantile
from benchorch.stats.heavy_tailed_mean import is_heavy, mean_over_processes
from benchorch.stats.quantiles import minimum_n, sample_quantile, without_interval
from benchorch.stats.steady_state import median
from benchorch.units import NS_PER_MS, ns_to_s

TAILS = {"p90": 0.90, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
LEAST_UNDISTURBED = 30
FLOOR = 0.01
LEAST_FOR_FLOOR = 10


def latency_metrics(processes: Sequence[ProcessRecord]) -> Mapping[str, Estimate]:
    """Every estimate that the steady blocks of these processes allow, by its metric's name.

    Processes that observed nothing do not count; without any there is no metric. Blocks whose
    calls were all there at once have a throughput and no latency of single queries.
    """
    measured = [process for process in processes if process.observations.durations_ns]
    if not measured:
        return {}
    found = dict(_shared(measured))
    if not any(process.observations.at_once for process in measured):
        found.update(_of_queries(measured))
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _shared(processes: Sequence[ProcessRecord]) -> Iterator[tuple[str, Estimate | None]]:
    """Metrics of every closed scenario."""
    for name in ("cpu", "device", "issue"):
        yield f"{name}_ms/p50", beside_ms(processes, f"{name}_ns")
    yield "throughput_items_per_s/mean", _items_per_s(processes)
    yield "time_to_steady_s/p50", time_to_steady_s(processes)
    if any(process.observations.missed for process in processes):
        yield "missed_ratio/mean", over_processes(_missed_ratios(processes), unit="ratio")


def _of_queries(processes: Sequence[ProcessRecord]) -> Iterator[tuple[str, Estimate | None]]:
    """Metrics that require one query after the other."""
    samples = [queries_ms(process) for process in processes]
    yield "latency_ms/p50", over_processes(median_ms(processes), unit="ms")
    yield from ((f"latency_ms/{name}", tail) for name, tail in tails_ms(processes))
    yield "latency_ms/p01", floor_ms(samples)
    yield "latency_ms/best", best_ms(processes)
    yield "latency_ms/mean", mean_over_processes(samples, unit="ms")
    yield "undisturbed_latency_ms/p50", undisturbed_ms(processes)


def _items_per_s(processes: Sequence[ProcessRecord]) -> Estimate | None:
    return rate_over_processes(throughput(processes), processes, of="items", unit="items_per_s")


def rate_over_processes(
    rates: Sequence[float], processes: Sequence[ProcessRecord], *, of: str, unit: str
) -> Estimate | None:
    """A rate over processes; without an interval where calls have no mean that could have one."""
    found = over_processes(rates, unit=unit)
    if found is None or any(process.observations.at_once for process in processes):
        return found
    if not is_heavy([queries_ms(process) for process in processes]):
        return found
    return replace(found, low=None, high=None, method=f"{of} over time; its tail has no mean")


def floor_ms(samples: Sequence[NDArray[float64]]) -> Estimate | None:
    """The floor: the median over processes of the first percentile of each one's queries.

    It moves with what every query has to do and hardly with what disturbs some of them, so that it
    repeats from session to session where the median does not; what slows a share of the queries
    only is not in it. None where a process has fewer than `LEAST_FOR_FLOOR` queries.

    Source: Chen and Revels, *Robust benchmarking in noisy environments*, 2016, on the minimum; the
    percentile depends less on how many queries there are.
    """
    floors = floors_ms(samples)
    return over_processes(floors, unit="ms") if floors else None


def floors_ms(samples: Sequence[NDArray[float64]]) -> list[float]:
    """Each process's floor, in milliseconds; empty where one has too few queries."""
    if min((sample.size for sample in samples), default=0) < LEAST_FOR_FLOOR:
        return []
    return [sample_quantile(sample, FLOOR) for sample in samples]


def median_ms(processes: Sequence[ProcessRecord]) -> list[float]:
    """Each process's steady median time per query, in milliseconds."""
    return [float(median(queries_ms(process))) for process in processes]


def queries_ms(process: ProcessRecord) -> NDArray[float64]:
    """Time per query of each steady block, shape (n,), in milliseconds."""
    return steady_queries_ns(process.observations, process.steady_from) / NS_PER_MS


def tails_ms(processes: Sequence[ProcessRecord]) -> Iterator[tuple[str, Estimate | None]]:
    """Each tail quantile of single queries, by its name; None where it cannot be estimated.

    Where every one of several processes has as many independent queries as its own quantile
    needs, they are combined as processes. Otherwise all queries are pooled, if they may be counted
    as independent within processes, and count for what they are worth between them. Blocks of
    several queries have no quantile per query.
    """
    if any(process.observations.queries_per_block != 1 for process in processes):
        return
    samples = [queries_ms(process) for process in processes]
    least = min(independent_n(sample) for sample in samples)
    poolable = independent(samples)
    for name, ratio in TAILS.items():
        if len(samples) > 1 and least >= minimum_n(ratio):
            own = [sample_quantile(sample, ratio) for sample in samples]
            yield name, over_processes(own, unit="ms")
        else:
            yield name, pooled_quantile(samples, ratio, unit="ms") if poolable else None


def best_ms(processes: Sequence[ProcessRecord]) -> Estimate:
    """The smallest steady time per query: the cost without noise, never the headline.

    Source: Chen and Revels, *Robust benchmarking in noisy environments*, 2016.
    """
    samples = [queries_ms(process) for process in processes]
    count = sum(sample.size for sample in samples)
    return without_interval(min(sample.min() for sample in samples), "ms", "minimum", count)


def undisturbed_ms(processes: Sequence[ProcessRecord]) -> Estimate | None:
    """The headline over the blocks in which the process was never switched out.

    None where a process has fewer than 30 of them: long calls are nearly always interrupted.
    """
    medians = []
    for process in processes:
        flags = process.observations.preempted[process.steady_from or 0 :]
        calm = queries_ms(process)[~np.asarray(flags, dtype=np.bool_)] if flags else np.empty(0)
        if calm.size < LEAST_UNDISTURBED:
            return None
        medians.append(float(median(calm)))
    return over_processes(medians, unit="ms")


def beside_ms(processes: Sequence[ProcessRecord], field: str) -> Estimate | None:
    """The median per query of what was read beside each block: CPU, device or issue time.

    None where a process has not read it.
    """
    medians = []
    for process in processes:
        observed = process.observations
        series = getattr(observed, field)[process.steady_from or 0 :]
        if not series:
            return None
        medians.append(float(median(series)) / observed.queries_per_block / NS_PER_MS)
    return over_processes(medians, unit="ms")


def time_to_steady_s(processes: Sequence[ProcessRecord]) -> Estimate | None:
    """From the beginning of loading to the first steady block, the first call in between.

    None where a process never became steady.
    """
    times = []
    for process in fresh(processes):
        if process.steady_from is None:
            return None
        warming_s = ns_to_s(process.observations.started_ns[process.steady_from])
        times.append(process.load_s + process.first_call_s + warming_s)
    return over_processes(times, unit="s")


def throughput(processes: Sequence[ProcessRecord]) -> list[float]:
    """Each process's items a second: answered items of steady blocks over the time they all took.

    The time between blocks, in which the harness reads counters, is not the model's.
    """
    rates = []
    for process in processes:
        observed = process.observations
        first = process.steady_from or 0
        blocks = observed.durations_ns[first:]
        calls = len(blocks) * observed.calls_per_block - missed_calls(observed, first)
        rates.append(calls * observed.items_per_call / ns_to_s(sum(blocks)))
    return rates


def _missed_ratios(processes: Sequence[ProcessRecord]) -> list[float]:
    ratios = []
    for process in processes:
        observed, first = process.observations, process.steady_from or 0
        calls = (len(observed.durations_ns) - first) * observed.calls_per_block
        ratios.append(missed_calls(observed, first) / calls)
    return ratios


def missed_calls(observed: Observations, first: int) -> int:
    """Number of calls without an answer from a block on."""
    return sum(block >= first for blocks in observed.missed.values() for block in blocks)


def preempted_ratio(processes: Sequence[ProcessRecord]) -> float:
    """Share of all steady blocks in which the process was switched out; 0 if not counted."""
    flags = [flag for p in processes for flag in p.observations.preempted[p.steady_from or 0 :]]
    return sum(flags) / len(flags) if flags else 0.0

"""Responses of a trial under load; `load_warnings` has what to watch out for."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy import float64, int64
from numpy.typing import NDArray

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.stats.autocorrelation import integrated_time
from benchorch.stats.between_processes import over_processes
from benchorch.stats.binomial_bound import (
    ExceedanceCount,
    Target,
    TargetStatus,
    kept,
    share_bounds,
    target_of,
)
from benchorch.stats.correlated_quantiles import correlated_quantile, correlation_time
from benchorch.stats.peak_rate import LOWEST_RATIO, Belief, bracketed, never, probe
from benchorch.stats.quantiles import ALPHA, minimum_n, sample_quantile
from benchorch.stats.queueing import LoadPhase, overloaded, steady, stretches
from benchorch.stats.student import student_t
from benchorch.units import NS_PER_MS

TAILS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
P50_AND_P99 = {"p50": 0.5, "p99": 0.99}

WRONG_OVERLOADS = 0.01

LONG_TIMES = 100
"""Correlation times from which a process's own quantile is of the queue and not of its start."""

MOST_UNSTEADY_RATIO = 0.2
"""Share of a process's stretches whose service times may not have settled."""

CAPACITY, OFFERED, CONFIRMATION = "capacity", "offered", "confirmation"


def load_metrics(processes: Sequence[ProcessRecord]) -> Mapping[str, Estimate]:
    """Every estimate of responses under load that these processes allow, by its metric's name.

    Responses count from when a query was due. They, and what they consist of, are given where each
    process offered one rate (or confirmed one); where several were offered, `load_points` has them.
    An overloaded trial has no quantiles of responses: they would grow with the length of the run.
    Times are those of the queries that were answered; `missed_ratio` is the share of the others.

    Parameters
    ----------
    processes : sequence of ProcessRecord
        Those without loads do not count.
    """
    observations = seen_under_load(processes)
    mains = at_one_rate(observations)
    found: dict[str, Estimate | None] = {
        "capacity_per_s/mean": over_processes(_capacities(observations), unit="per_s"),
        "target_rate_per_s/max": _target_rate(observations),
    }
    if mains:
        found.update(_of_one_rate(mains))
    if any(observed.missed for observed in observations):
        found["missed_ratio/mean"] = over_processes(_missed_ratios(mains), unit="ratio")
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def seen_under_load(processes: Sequence[ProcessRecord]) -> list[Observations]:
    """Observations of the processes under load."""
    return [p.observations for p in processes if p.observations.loads]


def at_one_rate(observations: Sequence[Observations]) -> list[LoadPhase]:
    """The one rate of each process that has one; empty where a process offered several.

    A process in which no rate could be searched has none, and the others' still count.
    """
    found = [offered_stretches(observed) for observed in observations]
    return [s for one in found for s in one] if all(len(one) <= 1 for one in found) else []


def offered_stretches(observed: Observations) -> list[LoadPhase]:
    """Stretches at the rates in question, without capacity and probes."""
    return [s for s in stretches(observed) if s.load.purpose in (OFFERED, CONFIRMATION)]


def is_steady(process: ProcessRecord) -> bool:
    """Whether a process reached a steady state; under load, whether nearly all its stretches did.

    The series of a curve has the levels of its rates, in random order: as a whole it need not end
    in a long level, however steady the process. Stretches of which nobody can tell count as steady.
    """
    if process.steady_from is not None:
        return True
    found = offered_stretches(process.observations)
    unsteady = sum(steady(s) is False for s in found)
    return bool(found) and unsteady <= MOST_UNSTEADY_RATIO * len(found)


def _of_one_rate(mains: Sequence[LoadPhase]) -> Iterator[tuple[str, Estimate | None]]:
    settled = [main.settled() for main in mains]
    offered = [rate for s in settled if (rate := s.offered_per_s())]
    achieved = [rate for s in settled if (rate := s.achieved_per_s())]
    yield "offered_per_s/mean", over_processes(offered, unit="per_s")
    yield "achieved_per_s/mean", over_processes(achieved, unit="per_s")
    settled = [s.with_answer() for s in settled if s.answered.any()]
    if not settled:
        return
    for name, ratio in P50_AND_P99.items():
        served = [[to_ms(s.duration_ns)] for s in settled]
        yield f"service_ms/{name}", quantile_over(served, ratio)
    if unstable(mains):
        return
    for name, ratio in P50_AND_P99.items():
        waited = [[to_ms(s.queueing_ns)] for s in settled]
        yield f"queueing_ms/{name}", quantile_over(waited, ratio)
    for name, ratio in TAILS.items():
        responses = [[to_ms(s.response_ns)] for s in settled]
        yield f"response_ms/{name}", quantile_over(responses, ratio)


def _missed_ratios(mains: Sequence[LoadPhase]) -> list[float]:
    return [1.0 - float(main.settled().answered.mean()) for main in mains]


def quantile_over(
    processes: Sequence[Sequence[NDArray[float64]]], quantile_ratio: float
) -> Estimate | None:
    """A quantile, in milliseconds, of several processes' runs; None where n does not allow one.

    Where every one of three or more processes has queries enough for its own, they are combined
    as processes; with an interval where each of them is `LONG_TIMES` correlation times long. In a
    shorter one a queue has not been as long as it can get: every process is low in the same way,
    and there is a lower limit only. Otherwise all runs are taken together, as far as their
    correlation allows.
    """
    pooled = [np.concatenate(runs) for runs in processes if runs]
    enough = minimum_n(quantile_ratio)
    if len(pooled) > 2 and min(values.size for values in pooled) >= enough:
        own = [sample_quantile(values, quantile_ratio) for values in pooled]
        found = over_processes(own, unit="ms")
        shortest = min(_times(runs, quantile_ratio) for runs in processes if runs)
        if found is None or shortest >= LONG_TIMES:
            return found
    else:
        runs = [run for process in processes for run in process]
        found = correlated_quantile(runs, quantile_ratio, unit="ms") if runs else None
        if found is None or found.low is not None:
            return found
    return _at_least(found, [run for runs in processes for run in runs], quantile_ratio)


def _times(runs: Sequence[NDArray[float64]], quantile_ratio: float) -> float:
    """How many correlation times of a quantile a process lasted."""
    return sum(run.size for run in runs) / correlation_time(runs, quantile_ratio)


def _at_least(found: Estimate, runs: Sequence[NDArray[float64]], quantile_ratio: float) -> Estimate:
    """The same with a lower limit only.

    Estimator: the quantile at the lower end of the interval of its share (Woodruff), for one
    observation in each correlation time.
    """
    values = np.concatenate(runs)
    count = max(values.size / correlation_time(runs, quantile_ratio), 1.0)
    spread = math.sqrt(quantile_ratio * (1 - quantile_ratio) / count)
    low = sample_quantile(values, max(quantile_ratio - student_t(ALPHA, count) * spread, 0.0))
    method = f"{found.method}; too few correlation times for more than a lower limit"
    return replace(
        found, low=min(low, found.value), high=None, seen=None, at_least=True, method=method
    )


def unstable(mains: Sequence[LoadPhase]) -> bool:
    """Whether any of these was overloaded; one false alarm in a hundred, over all of them."""
    confidence = 1.0 - WRONG_OVERLOADS / max(len(mains), 1)
    return any(overloaded(main, confidence) for main in mains)


def is_unstable(processes: Sequence[ProcessRecord]) -> bool:
    """Whether the one rate that was offered overloaded any of these."""
    return unstable(at_one_rate(seen_under_load(processes)))


def to_ms(times_ns: NDArray[int64]) -> NDArray[float64]:
    """Milliseconds, shape (n,)."""
    return times_ns / NS_PER_MS


def _capacities(observations: Sequence[Observations]) -> list[float]:
    found = (capacity_of(observed) for observed in observations)
    return [stretch.settled().completed_per_s() for stretch in found if stretch is not None]


def capacity_of(observed: Observations) -> LoadPhase | None:
    """The last stretch at full speed; those before it only find out how long it should be."""
    found = [s for s in stretches(observed) if s.load.purpose == CAPACITY]
    return found[-1] if found else None


def _target_rate(observations: Sequence[Observations]) -> Estimate | None:
    """Highest rate at which the target holds; None without `peaks_of`."""
    found = peaks_of(observations)
    together = over_processes([peak.value for peak in found], unit="per_s")
    return together and _no_narrower(together, found)


def peaks_of(observations: Sequence[Observations]) -> list[Belief]:
    """Each one's `peak_of`, of the processes that have one.

    Empty where most have none, as the median process then has none, and where `not_confirmed`.
    """
    found = [peak for observed in observations if (peak := peak_of(observed)) is not None]
    unnamed = 2 * len(found) < len(observations) or not_confirmed(at_one_rate(observations))
    return [] if unnamed else found


def _no_narrower(together: Estimate, peaks: Sequence[Belief]) -> Estimate:
    """The same, with an interval no narrower than what a typical process knows by itself.

    Processes whose probes say little agree all the same, on what was likely beforehand.
    """
    low, high = (
        float(np.median([getattr(peak, end) for peak in peaks])) for end in ("low", "high")
    )
    single = len(peaks) == 1
    method = "posterior over rates and slopes" if single else together.method
    method = f"{method}; credible interval{'' if single else 's'}"
    if math.isinf(high):
        low = min(low, together.low or low, together.value)
        return replace(together, low=low, high=None, seen=None, at_least=True, method=method)
    if single:
        return replace(together, low=low, high=high, seen=None, method=method)
    if together.low is None or together.high is None:
        return together
    low, high = min(low, together.low), max(high, together.high)
    return replace(together, low=low, high=high, method=method)


def not_confirmed(mains: Sequence[LoadPhase]) -> bool:
    """Whether full runs of most searches, at the rates that they found, missed the target.

    Or all together did, without a minority that did so alone: few late responses in each process
    are undecided, and in all are not.
    """
    target = target_of(mains[0].load) if mains else None
    if target is None or mains[0].load.purpose != CONFIRMATION:
        return False
    rest = [one for one in mains if verdict([one], target)[0] is not TargetStatus.MISSED]
    return 2 * len(rest) < len(mains) or verdict(rest, target)[0] is TargetStatus.MISSED


def peak_of(observed: Observations) -> Belief | None:
    """Posterior of one process's highest rate at which its target holds, as `bracketed`.

    None without a target, where fewer than two rates were offered, where no rate can hold it, and
    where even the lowest ones left more queries without an answer than it allows.
    """
    at_full_speed = capacity_of(observed)
    target = target_of(observed.loads[-1])
    if at_full_speed is None or target is None or never(at_full_speed, target):
        return None
    offered = [s for s in stretches(observed) if s.load.purpose != CAPACITY]
    if len({s.load.rate_per_s for s in offered}) < 2:
        return None
    capacity_per_s = at_full_speed.settled().completed_per_s()
    probes = [probe(s, target) for s in offered]
    found = bracketed(probes, capacity_per_s, target.quantile_ratio)
    # Where no rate is too low to be the answer, misses up to half the capacity are of no overload.
    nowhere = found.low < 2.0 * LOWEST_RATIO * capacity_per_s
    highest_per_s = max(offered[-1].load.rate_per_s, capacity_per_s / 2.0 if nowhere else 0.0)
    lowest = [s for s in offered if s.load.rate_per_s <= highest_per_s]
    return None if _never_answered(lowest, 1.0 - target.quantile_ratio) else found


def _never_answered(lowest: Sequence[LoadPhase], allowed_ratio: float) -> bool:
    """Whether more queries than allowed had no answer even at the lowest rates.

    Misses in a row, as of a server that limits its rate, count for what they are worth: one in
    each correlation time.
    """
    missed = [~s.answered for s in lowest]
    count, queries = sum(int(each.sum()) for each in missed), sum(each.size for each in missed)
    time = sum(integrated_time(each) * each.size for each in missed) / queries
    low, _ = share_bounds(ExceedanceCount(violations=count / time, queries=queries / time))
    return low > allowed_ratio


def verdict(mains: Sequence[LoadPhase], target: Target) -> tuple[TargetStatus, ExceedanceCount]:
    """Whether responses stayed within the target, and on what evidence.

    Queries count for what they are worth: one in each correlation time, and each where they pass
    for independent. One without an answer is a violation.
    """
    responses = [to_ms(main.settled().until_answered_ns()) for main in mains]
    time = correlation_time(responses, target.quantile_ratio, cautious=False)
    above = sum(int((values > target.target_ms).sum()) for values in responses)
    count = sum(values.size for values in responses)
    evidence = ExceedanceCount(violations=above / time, queries=count / time)
    if unstable(mains):
        return TargetStatus.MISSED, evidence
    return kept(evidence, target.quantile_ratio), evidence

"""What a trial's processes say of responses under load, and what to doubt in that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.analysis.correlated import correlated_quantile, correlation_time
from benchorch.analysis.peak import LEVEL_RATIO as BELIEF_LEVEL_RATIO
from benchorch.analysis.peak import Belief, belief, never, probe
from benchorch.analysis.processes import over_processes
from benchorch.analysis.quantiles import ALPHA, minimum_n
from benchorch.analysis.queueing import (
    Stretch,
    disagreement_ratio,
    lateness_ns,
    overloaded,
    steady,
    stretches,
)
from benchorch.analysis.slo import Evidence, Kept, Target, kept, target_of
from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.units import NS_PER_MS, NS_PER_US, format_ms

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

TAILS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
P50_AND_P99 = {"p50": 0.5, "p99": 0.99}

MOST_LATE_RATIO = 0.05
MOST_LATE_NS = 100 * NS_PER_US
"""Lateness of the generator, at p99: more of a median response, or more at all, shows."""

MOST_DISAGREEMENT_RATIO = 0.001
WRONG_OVERLOADS = 0.01
WIDE_RATIO = 0.05

CAPACITY, OFFERED, CONFIRMATION = "capacity", "offered", "confirmation"


def load_metrics(
    processes: Sequence[ProcessRecord], alpha: float = ALPHA
) -> Mapping[str, Estimate]:
    """Every estimate of responses under load that these processes allow, by its metric's name.

    Responses count from when a query was due. They, and what they consist of, are given where each
    process offered one rate (or confirmed one); where several were offered, `load_points` has them.
    An overloaded trial has no quantiles of responses: they would grow with the length of the run.

    Parameters
    ----------
    processes : sequence of ProcessRecord
        Those without loads do not count.
    alpha : float
        Error rate of intervals over processes: see `over_processes`.
    """
    seen = _seen(processes)
    mains = _mains(seen)
    found: dict[str, Estimate | None] = {
        "capacity_per_s/mean": over_processes(_capacities(seen), unit="per_s", alpha=alpha),
        "target_rate_per_s/max": _target_rate(seen, alpha),
    }
    if mains:
        found.update(_of_one_rate(mains, alpha))
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _seen(processes: Sequence[ProcessRecord]) -> list[Observations]:
    return [p.observations for p in processes if p.observations.loads]


def _mains(seen: Sequence[Observations]) -> list[Stretch]:
    """The one rate of each process; empty where a process offered several, or none."""
    found = [
        [s for s in stretches(observed) if s.load.purpose in (OFFERED, CONFIRMATION)]
        for observed in seen
    ]
    return [one[0] for one in found] if all(len(one) == 1 for one in found) else []


def _of_one_rate(mains: Sequence[Stretch], alpha: float) -> Iterator[tuple[str, Estimate | None]]:
    settled = [main.settled() for main in mains]
    offered = [rate for s in settled if (rate := s.offered_per_s())]
    achieved = [rate for s in settled if (rate := s.achieved_per_s())]
    yield "offered_per_s/mean", over_processes(offered, unit="per_s", alpha=alpha)
    yield "achieved_per_s/mean", over_processes(achieved, unit="per_s", alpha=alpha)
    for name, ratio in P50_AND_P99.items():
        served = [[_ms(s.duration_ns)] for s in settled]
        yield f"service_ms/{name}", quantile_over(served, ratio, alpha)
    if unstable(mains):
        return
    for name, ratio in P50_AND_P99.items():
        waited = [[_ms(s.queueing_ns)] for s in settled]
        yield f"queueing_ms/{name}", quantile_over(waited, ratio, alpha)
    for name, ratio in TAILS.items():
        responses = [[_ms(s.response_ns)] for s in settled]
        yield f"response_ms/{name}", quantile_over(responses, ratio, alpha)


def quantile_over(
    processes: Sequence[Sequence[NDArray[float64]]], quantile_ratio: float, alpha: float = ALPHA
) -> Estimate | None:
    """A quantile, in milliseconds, of several processes' runs; None where n does not allow one.

    Where every one of several processes has queries enough for its own quantile, they are combined
    as processes. Otherwise all runs are taken together, as far as their correlation allows.
    """
    import numpy as np

    pooled = [np.concatenate(runs) for runs in processes if runs]
    enough = minimum_n(quantile_ratio)
    if len(pooled) > 1 and min(values.size for values in pooled) >= enough:
        own = [float(np.quantile(values, quantile_ratio)) for values in pooled]
        return over_processes(own, unit="ms", alpha=alpha)
    runs = [run for process in processes for run in process]
    return correlated_quantile(runs, quantile_ratio, unit="ms") if runs else None


def unstable(mains: Sequence[Stretch]) -> bool:
    """Whether any of these was overloaded; one false alarm in a hundred, over all of them."""
    confidence = 1.0 - WRONG_OVERLOADS / max(len(mains), 1)
    return any(overloaded(main, confidence) for main in mains)


def _ms(times_ns: NDArray[int64]) -> NDArray[float64]:
    return times_ns / NS_PER_MS


def _capacities(seen: Sequence[Observations]) -> list[float]:
    found = (_capacity(observed) for observed in seen)
    return [stretch.settled().completed_per_s() for stretch in found if stretch is not None]


def _capacity(observed: Observations) -> Stretch | None:
    """The last stretch at full speed; those before it only find out how long it should be."""
    found = [s for s in stretches(observed) if s.load.purpose == CAPACITY]
    return found[-1] if found else None


def _target_rate(seen: Sequence[Observations], alpha: float) -> Estimate | None:
    """The highest rate at which the target holds; None where nobody looked at several."""
    found = [peak for observed in seen if (peak := peak_of(observed)) is not None]
    if len(found) == 1:
        (peak,) = found
        return Estimate(
            value=peak.value,
            low=peak.low,
            high=peak.high,
            level_ratio=BELIEF_LEVEL_RATIO,
            n=1,
            unit="per_s",
            method="probabilistic bisection; credible interval",
        )
    return over_processes([peak.value for peak in found], unit="per_s", alpha=alpha)


def peak_of(observed: Observations) -> Belief | None:
    """What one process saw of the highest rate at which its target holds.

    None without a target, where fewer than two rates were offered, and where no rate can hold it.
    """
    at_full_speed = _capacity(observed)
    target = target_of(observed.loads[-1])
    if at_full_speed is None or target is None or never(at_full_speed, target):
        return None
    offered = [s for s in stretches(observed) if s.load.purpose != CAPACITY]
    if len({s.load.rate_per_s for s in offered}) < 2:
        return None
    capacity_per_s = at_full_speed.settled().completed_per_s()
    return belief([probe(s, target) for s in offered], capacity_per_s, target.quantile_ratio)


def verdict(mains: Sequence[Stretch], target: Target) -> tuple[Kept, Evidence]:
    """Whether responses stayed within the target, and on what evidence.

    Queries count for what they are worth: one in each correlation time.
    """
    responses = [_ms(main.settled().response_ns) for main in mains]
    time = correlation_time(responses, target.quantile_ratio)
    above = sum(int((values > target.target_ms).sum()) for values in responses)
    count = sum(values.size for values in responses)
    evidence = Evidence(violations=above / time, queries=count / time)
    if unstable(mains):
        return Kept.MISSED, evidence
    return kept(evidence, target.quantile_ratio), evidence


def load_doubts(processes: Sequence[ProcessRecord]) -> tuple[str, ...]:
    """One sentence for each doubt about a trial under load, the gravest first, with what to do."""
    seen = _seen(processes)
    if not seen:
        return ()
    mains = _mains(seen)
    return (
        *_contradiction(seen),
        *_never(seen),
        *_overload(mains),
        *_missed(mains),
        *_late(seen),
        *_unsettled(seen),
        *_few(mains),
        *_wide_peak(seen),
    )


def _contradiction(seen: Sequence[Observations]) -> Iterator[str]:
    worst = max(disagreement_ratio(s) for observed in seen for s in stretches(observed))
    if worst > MOST_DISAGREEMENT_RATIO:
        yield (
            f"The times of the queries contradict each other by {_percent(worst)}: replaying the "
            "schedule through the queue gives other responses than were measured. Do not use "
            "these figures; run it again, and if it repeats, this machine's clock cannot be "
            "trusted."
        )


def _never(seen: Sequence[Observations]) -> Iterator[str]:
    for observed in seen:
        target, at_full_speed = target_of(observed.loads[-1]), _capacity(observed)
        if target is not None and at_full_speed is not None and never(at_full_speed, target):
            yield (
                f"No rate can be served within {format_ms(target.target_ms)} ms at "
                f"{_quantile(target)}: service alone, with nothing waiting, takes longer. "
                "Try a larger scenario.target_ms, a smaller workload.batch_size or another "
                "conversion."
            )
            return


def _overload(mains: Sequence[Stretch]) -> Iterator[str]:
    if not (mains and unstable(mains)):
        return
    offered = max(main.load.rate_per_s for main in mains)
    given_up = sum(main.load.unserved for main in mains)
    lost = f", and {given_up} queries were given up" if given_up else ""
    yield (
        f"Unstable: at {offered:.4g} queries a second the queue grew for as long as it was watched"
        f"{lost}. Quantiles of responses would grow with the run, so there are none: try a lower "
        "scenario.rate_per_s, or scenario.utilisation_ratio=0.5."
    )


def _missed(mains: Sequence[Stretch]) -> Iterator[str]:
    target = target_of(mains[0].load) if mains else None
    if target is None:
        return
    found, evidence = verdict(mains, target)
    share = _percent(evidence.violations / evidence.queries)
    limit = format_ms(target.target_ms)
    if found is Kept.UNDECIDED:
        yield (
            f"Whether {_quantile(target)} stays within {limit} ms is not decided: {share} of "
            f"responses took longer, on the evidence of {evidence.queries:.0f} independent ones: "
            "try a longer scenario.duration_s."
        )
    elif found is Kept.MISSED and mains[0].load.purpose == CONFIRMATION:
        yield (
            f"The rate that the search found did not hold for a full run: {share} of responses "
            f"took longer than {limit} ms: try a larger scenario.budget_s, or a quieter machine."
        )
    elif found is Kept.MISSED:
        yield (
            f"The target is missed: {share} of responses took longer than {limit} ms: try a lower "
            f"scenario.rate_per_s; scenario=peak_rate scenario.target_ms={target.target_ms:g} "
            "finds one that holds."
        )


def _late(seen: Sequence[Observations]) -> Iterator[str]:
    import numpy as np

    limited = 0.0
    offered = [s for o in seen for s in stretches(o) if s.load.purpose != CAPACITY]
    for s in offered:
        late_ns = float(np.quantile(lateness_ns(s), 0.99))
        typical_ns = float(np.median(s.settled().response_ns))
        if late_ns > min(MOST_LATE_NS, MOST_LATE_RATIO * typical_ns):
            limited = max(limited, late_ns)
    if limited:
        yield (
            f"Generator limited: one query in a hundred was started more than "
            f"{format_ms(limited / NS_PER_MS)} ms later than it could have been, which is in its "
            "response: try a quieter machine, fewer hardware.threads, or fewer scenario.servers."
        )


def _unsettled(seen: Sequence[Observations]) -> Iterator[str]:
    offered = [s for o in seen for s in stretches(o) if s.load.purpose in (OFFERED, CONFIRMATION)]
    unsettled = sum(steady(s) is False for s in offered)
    if unsettled:
        yield (
            f"Service times had not settled after the first tenth of {unsettled} of "
            f"{len(offered)} stretches: try a longer scenario.duration_s, or a quieter machine."
        )


def _few(mains: Sequence[Stretch]) -> Iterator[str]:
    if not mains or unstable(mains):
        return
    p99 = quantile_over([[_ms(main.settled().response_ns)] for main in mains], 0.99)
    if p99 is None:
        yield (
            f"There is no p99: it takes {minimum_n(0.99)} queries after the first tenth of the "
            "time: try a longer scenario.duration_s."
        )
    elif p99.low is None:
        yield (
            "p99 has no interval: waiting times of neighbours resemble each other, and too few "
            "are independent: try a longer scenario.duration_s, or several processes with "
            "stopping=quick."
        )


def _wide_peak(seen: Sequence[Observations]) -> Iterator[str]:
    found = [peak for observed in seen if (peak := peak_of(observed)) is not None]
    widest = max((peak.width_ratio for peak in found), default=0.0)
    if widest > WIDE_RATIO:
        yield (
            f"The search for the highest rate ended with an interval {_percent(widest)} wide: "
            "try a larger scenario.budget_s."
        )


def _quantile(target: Target) -> str:
    return f"p{100 * target.quantile_ratio:g}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"

"""Throughput-latency curve: responses at each rate that was offered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.results.metrics.load import CAPACITY, quantile_over
from benchorch.stats.correlated_quantiles import correlation_time
from benchorch.stats.queueing import LoadPhase, overloaded, stretches
from benchorch.units import NS_PER_MS

UNSTABLE_SHARE_RATIO = 0.5
"""Share of a rate's runs above which it is unstable, after comparison with its neighbours."""

MOST_TIME = 10.0
"""A correlation time beyond which a median without an interval is not for lack of queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """Point of the curve at one rate.

    Attributes:
        rate_per_s: offered; the mean where processes with capacities of their own differ.
        utilisation_ratio: the share of the capacity that it was meant to be, or None.
        achieved_per_s: queries done a second, or None where there were fewer than two.
        p50, p99: of responses in milliseconds, with an interval; None where unstable, and where n
            allows no interval.
        unstable: whether the queue grew for as long as it was watched, or wandered so slowly that
            not even its median can be told.
        queries: behind the figures; runs: and in how many stretches.
    """

    rate_per_s: float
    utilisation_ratio: float | None
    achieved_per_s: float | None
    p50: Estimate | None
    p99: Estimate | None
    unstable: bool
    queries: int
    runs: int


def load_points(processes: Sequence[ProcessRecord]) -> tuple[LoadPoint, ...]:
    """Each rate that was offered, lowest first.

    Runs at the same share of capacity are one point. Quantiles are those of its stable runs, made
    to rise with the rate: what is lower at a higher rate is chance, and both say the same of what
    lies between. The same is done with the share of unstable runs, so that one disturbed run among
    good ones does not end the curve.

    Source
    ------
    Isotonic regression: Barlow, Bartholomew, Bremner and Brunk, *Statistical inference under order
    restrictions* (1972), weighted by queries.
    """
    groups = sorted(_groups(processes), key=_rate)
    if not groups:
        return ()
    shares = [sum(overloaded(s) for s in _flat(group)) / len(_flat(group)) for group in groups]
    fitted = rising(shares, [len(_flat(group)) for group in groups])
    points = [
        _point(group, unstable=share >= UNSTABLE_SHARE_RATIO)
        for group, share in zip(groups, fitted, strict=True)
    ]
    queries = [point.queries for point in points]
    p50s = _made_to_rise([point.p50 for point in points], queries)
    p99s = _made_to_rise([point.p99 for point in points], queries)
    return tuple(
        replace(point, p50=p50, p99=p99) for point, p50, p99 in zip(points, p50s, p99s, strict=True)
    )


Group = Sequence[Sequence[LoadPhase]]
"""A rate's stretches, process by process."""


def _groups(processes: Sequence[ProcessRecord]) -> list[Group]:
    found: dict[object, dict[int, list[LoadPhase]]] = {}
    for number, process in enumerate(processes):
        for s in stretches(process.observations):
            if s.load.purpose != CAPACITY:
                key = s.load.utilisation_ratio or (s.load.rate_per_s,)
                found.setdefault(key, {}).setdefault(number, []).append(s)
    return [list(group.values()) for group in found.values()]


def _flat(group: Group) -> list[LoadPhase]:
    return [s for process in group for s in process]


def _rate(group: Group) -> float:
    rates = [s.load.rate_per_s for s in _flat(group)]
    return sum(rates) / len(rates)


def _point(group: Group, *, unstable: bool) -> LoadPoint:
    stable = [[] if unstable else [s for s in runs if not overloaded(s)] for runs in group]
    answered = [[s.settled().with_answer() for s in runs] for runs in stable if runs]
    responses = [[s.response_ns / NS_PER_MS for s in runs] for runs in answered]
    p50 = _with_interval(quantile_over(responses, 0.5))
    flat = [run for runs in responses for run in runs]
    wanders = p50 is None and correlation_time(flat, 0.5) > MOST_TIME
    whole = _flat(group)
    achieved = [rate for s in whole if (rate := s.settled().achieved_per_s())]
    return LoadPoint(
        rate_per_s=_rate(group),
        utilisation_ratio=whole[0].load.utilisation_ratio,
        achieved_per_s=sum(achieved) / len(achieved) if achieved else None,
        p50=p50,
        p99=None if wanders else _with_interval(quantile_over(responses, 0.99)),
        unstable=unstable or wanders,
        queries=sum(run.size for run in flat),
        runs=len(whole),
    )


def _with_interval(estimate: Estimate | None) -> Estimate | None:
    return None if estimate is None or estimate.high is None else estimate


def _made_to_rise(
    estimates: Sequence[Estimate | None], weights: Sequence[float]
) -> list[Estimate | None]:
    """The estimates, and the ends of their intervals, rising; those that are missing stay so."""
    values = _rising_where_known([e.value if e else None for e in estimates], weights)
    lows = _rising_where_known([e.low if e else None for e in estimates], weights)
    highs = _rising_where_known([e.high if e else None for e in estimates], weights)
    return [
        None
        if estimate is None or value is None
        else _around(replace(estimate, value=value, low=low, high=high))
        for estimate, value, low, high in zip(estimates, values, lows, highs, strict=True)
    ]


def _rising_where_known(
    values: Sequence[float | None], weights: Sequence[float]
) -> list[float | None]:
    known = {place: value for place, value in enumerate(values) if value is not None}
    fitted = rising(list(known.values()), [weights[place] for place in known])
    levels = dict(zip(known, fitted, strict=True))
    return [levels.get(place) for place in range(len(values))]


def _around(estimate: Estimate) -> Estimate:
    """The same, its interval wide enough to hold its value."""
    if estimate.low is None or estimate.high is None:
        return estimate
    low, high = min(estimate.low, estimate.value), max(estimate.high, estimate.value)
    return replace(estimate, low=low, high=high)


def rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest series that never falls, by weighted least squares."""
    from scipy.optimize import isotonic_regression

    if not values:
        return []
    return [float(level) for level in isotonic_regression(values, weights=weights).x]

"""What charts show of raw series: calls of each process, and responses at each offered rate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from benchorch.domain.result import TrialResult
from benchorch.results.metrics.load_curve import LoadPoint, load_points

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Quantiles = tuple[float, ...]
"""Of the steady calls of one process, in milliseconds: 5, 25, 50, 75 and 95 %."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFigures:
    """Of one trial.

    Attributes:
        processes: those that count, in the order in which they ran.
        load: each offered rate, lowest first; empty where fewer than two were offered.
        target_ms: what a response should stay within, or None.
    """

    processes: tuple[Quantiles, ...]
    load: tuple[LoadPoint, ...] = ()
    target_ms: float | None = None


AllSeries = Mapping[str, SeriesFigures]
"""Of each trial, by its id; trials without raw series are missing."""


def series_figures(results: Iterable[TrialResult]) -> AllSeries:
    """Of each result that has raw series."""
    return {one.trial_id: _of(one) for one in results if one.valid}


def _of(result: TrialResult) -> SeriesFigures:
    loads = [load for process in result.valid for load in process.observations.loads]
    points = load_points(result.valid) if loads else ()
    return SeriesFigures(
        processes=() if loads else _processes(result),
        load=points if len(points) > 1 else (),
        target_ms=loads[-1].target_ms if loads else None,
    )


def _processes(result: TrialResult) -> tuple[Quantiles, ...]:
    import numpy as np

    from benchorch.results.metrics.latency import queries_ms

    series = [queries_ms(each) for each in result.valid if not each.observations.at_once]
    drawn = (np.quantile(one, _QUANTILES, method="hazen").tolist() for one in series if one.size)
    return tuple(map(tuple, drawn))

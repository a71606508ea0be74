"""Gates: whether B is worse than A by more than a limit, trial by trial."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchorch.results.compare.matching import Match, Unmatched, match
from benchorch.results.compare.metric_kinds import higher_is_better
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.compare.verdicts import (
    REFUSED,
    MetricVerdict,
    applies,
    compare_cases,
    primary_metric,
)

PASS, REGRESSION, UNCLEAR = "pass", "regression", "unclear"
_GRAVEST_FIRST = (REGRESSION, REFUSED, UNCLEAR, PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """One trial in one metric.

    Attributes:
        state: ``pass`` where the whole interval lies within the limit; ``regression`` where the
            whole interval lies beyond it; ``unclear`` where it includes the limit, or is no
            evidence; ``refused`` where there is nothing to compare.
        limit: what B / A may be at most; at least, where more is better.
    """

    judged: MetricVerdict
    state: str
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """All trials of a baseline that ran correctly.

    Attributes:
        state: the gravest of all cases; ``refused`` where there is none.
        alone: the candidate's trials that the baseline does not have; they are left out.
        exempt: left out because the baseline's own trial failed or disagreed.
        missing: the baseline's trials that the candidate does not have.
    """

    state: str
    limit_ratio: float
    cases: tuple[Gated, ...]
    missing: tuple[Unmatched, ...]
    alone: tuple[Unmatched, ...]
    exempt: tuple[Match, ...]
    matches: tuple[Match, ...]


def gate(
    baseline: Sequence[StoredTrial],
    candidate: Sequence[StoredTrial],
    *,
    limit_ratio: float,
    metrics: Sequence[str] = (),
    across: Collection[str] = (),
) -> Gate:
    """Compare every trial of the baseline that ran correctly.

    Args:
        limit_ratio: by which share the candidate may be worse.
        metrics: of each trial; its primary metric where there are none.
        across: factors that may differ.
    """
    matches, alone = match(baseline, candidate, across)
    exempt = tuple(one for one in matches if not _had_result(one.a))
    requested = [
        (one, metric)
        for one in matches
        if _had_result(one.a)
        for metric in metrics or (primary_metric(one),)
        if applies(one, metric)
    ]
    cases = tuple(_gated(one, limit_ratio) for one in compare_cases(requested, across=across))
    missing = tuple(one for one in alone if one.side == "A" and _had_result(one.stored))
    states = {one.state for one in cases} | ({REFUSED} if missing or not cases else set())
    return Gate(
        state=next(state for state in _GRAVEST_FIRST if state in states),
        limit_ratio=limit_ratio,
        cases=cases,
        missing=missing,
        alone=tuple(one for one in alone if one not in missing),
        exempt=exempt,
        matches=tuple(matches),
    )


def _had_result(stored: StoredTrial) -> bool:
    return not (stored.failure or stored.disagreement)


def _gated(judged: MetricVerdict, limit_ratio: float) -> Gated:
    more_is_better = bool(higher_is_better(judged.metric))
    limit = 1 / (1 + limit_ratio) if more_is_better else 1 + limit_ratio
    return Gated(judged=judged, state=_state(judged, limit, more_is_better), limit=limit)


def _state(judged: MetricVerdict, limit: float, more_is_better: bool) -> str:
    """The side of the limit on which the whole interval lies."""
    ratio = judged.ratio
    if judged.verdict == REFUSED:
        return REFUSED
    if ratio is None or ratio.low is None or ratio.high is None or not judged.is_evidence:
        return UNCLEAR
    if more_is_better:
        beyond, within = ratio.high < limit, ratio.low >= limit
    else:
        beyond, within = ratio.low > limit, ratio.high <= limit
    return REGRESSION if beyond else PASS if within else UNCLEAR

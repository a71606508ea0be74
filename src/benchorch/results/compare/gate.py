"""Gates: whether B is worse than A by more than a limit, trial by trial."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from benchorch.formatting import is_known
from benchorch.results.compare.matching import Match, Unmatched, match
from benchorch.results.compare.metric_kinds import FLOOR, higher_is_better
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.compare.verdicts import (
    REFUSED,
    MetricVerdict,
    applies,
    compare_cases,
    has_floor,
    is_thin,
    primary_metric,
)
from benchorch.stats.median_interval import LEAST_VALUES

MOST_PROCESSES = 200
"""Nobody waits for more."""

APART = (
    "either the machine was not the same, or only part of the calls changed. Measure both "
    "interleaved, or with more processes"
)
"""Why median and floor of what was measured apart may contradict each other."""

PASS, REGRESSION, UNCLEAR = "pass", "regression", "unclear"
_GRAVEST_FIRST = (REGRESSION, REFUSED, UNCLEAR, PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """Outcome of one trial in one metric.

    Attributes:
        state: ``pass`` where the whole interval lies within the limit; ``regression`` where the
            whole interval lies beyond it; ``unclear`` where it includes the limit, or is no
            evidence; ``refused`` where there is nothing to compare.
        limit: what B / A may be at most; at least, where more is better.
        floor: the same trial by its floor, which decides where the median cannot; None where
            there is none, and where a metric was asked for.
        by_floor: whether the floor decided and not the metric.
        remark: what decided, and what would where nothing did; empty where the interval did.
        processes_needed: of each side, after which the case would be clear, were nothing else to
            change; None where it is clear, and where no number would do.
    """

    judged: MetricVerdict
    state: str
    limit: float
    floor: MetricVerdict | None = None
    by_floor: bool = False
    remark: str = ""
    processes_needed: int | None = None


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
    sessions: Sequence[Sequence[StoredTrial]] = (),
) -> Gate:
    """Compare every trial of the baseline that ran correctly.

    Args:
        limit_ratio: by which share the candidate may be worse.
        metrics: of each trial; its primary metric where there are none.
        across: factors that may differ.
        sessions: trials of other sessions of the baseline's code, which show how much sessions
            differ.
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
    by_default = [] if metrics else requested
    floors = [(one, FLOOR) for one, metric in by_default if has_floor(one, metric)]
    judged = compare_cases([*requested, *floors], across=across, sessions=sessions)
    by_floor = {one.name: one for one in judged[len(requested) :]}
    cases = tuple(
        gated(one, by_floor.get(one.name), limit_ratio) for one in judged[: len(requested)]
    )
    missing = tuple(one for one in alone if one.side == "A" and _had_result(one.stored))
    states = {one.state for one in cases} | ({REFUSED} if missing or not cases else set())
    return Gate(
        state=gravest(states),
        limit_ratio=limit_ratio,
        cases=cases,
        missing=missing,
        alone=tuple(one for one in alone if one not in missing),
        exempt=exempt,
        matches=tuple(matches),
    )


def gravest(states: Collection[str]) -> str:
    """The gravest of some states."""
    return next(state for state in _GRAVEST_FIRST if state in states)


def _had_result(stored: StoredTrial) -> bool:
    return not (stored.failure or stored.disagreement)


def gated(judged: MetricVerdict, floor: MetricVerdict | None, limit_ratio: float) -> Gated:
    """The state of one case: of its metric, and of its floor where there is one."""
    more_is_better = bool(higher_is_better(judged.metric))
    limit = 1 / (1 + limit_ratio) if more_is_better else 1 + limit_ratio
    own = _state(judged, limit, more_is_better)
    thick = None if floor is None or is_thin(floor) else floor
    by_floor = _state(thick, limit, more_is_better) if thick else UNCLEAR
    apparent = own
    if judged.sessions_alike is not None:
        apparent = _state(replace(judged, ratio=judged.sessions_alike), limit, more_is_better)
        if own == REGRESSION and thick and thick.ratio and thick.ratio.value <= limit:
            by_floor = PASS  # enough to withhold what earlier sessions do not support
    state, remark = _decided(own, apparent, by_floor)
    needed = None
    if state == UNCLEAR and not remark:
        known = [one for one in (judged, floor) if one is not None and one.is_evidence]
        counts = [count for one in known if (count := _needed(one, limit))]
        needed = min(counts, default=None)
        remark = _advice(needed)
    return Gated(
        judged=judged,
        state=state,
        limit=limit,
        floor=floor,
        by_floor=state == by_floor != own,
        remark=remark,
        processes_needed=needed,
    )


def _decided(own: str, apparent: str, by_floor: str) -> tuple[str, str]:
    """The state of a case by its metric and by the floor, and what to say of it.

    The floor decides where the metric cannot; where the two contradict each other nothing does.

    Args:
        own: by the metric.
        apparent: by the metric, if sessions of the same code did not differ.
        by_floor: by the floor.
    """
    if own == REFUSED or by_floor in (UNCLEAR, REFUSED, own):
        return own, ""
    if {apparent, by_floor} != {PASS, REGRESSION}:
        return by_floor, (
            f"by the floor: {FLOOR}; the median cannot tell, and a change of part of the calls "
            "is not in the floor"
        )
    slower, other = ("median", "floor") if apparent == REGRESSION else ("floor", "median")
    return UNCLEAR, f"the {slower} is beyond the limit and the {other} is not: {APART}"


def _needed(judged: MetricVerdict, limit: float) -> int | None:
    """Processes a side with which the interval would end at the limit; None for too many."""
    ratio = judged.ratio
    if ratio is None or ratio.value == limit:
        return None
    if ratio.n < LEAST_VALUES:  # its reach is that of an assumed spread, from which nothing follows
        return LEAST_VALUES
    if not ratio.low or not ratio.high:
        return None
    up, down = math.log(ratio.high / ratio.value), math.log(ratio.value / ratio.low)
    reach, other = (up, down) if limit > ratio.value else (down, up)
    # The interval also holds the ratio less the machine's change, which no number makes smaller.
    change = min(max(reach - other, 0.0), math.log1p(judged.drift_ratio or 0.0))
    distance = abs(math.log(limit / ratio.value)) - change
    fixed = math.log1p(judged.session_ratio or 0.0)
    if distance <= fixed:
        return None
    left = distance**2 - fixed**2
    count = math.ceil(ratio.n * max((reach - change) ** 2 - fixed**2, 0.0) / left)
    return count if ratio.n < count <= MOST_PROCESSES else None


def _advice(needed: int | None) -> str:
    if needed is None:
        return (
            "no number of processes would tell on a machine like this: measure both interleaved, "
            "or on a quieter one"
        )
    if needed == LEAST_VALUES:
        return (
            f"only {needed} processes of each side or more show by themselves how much they vary: "
            "stopping.processes, or stopping.unpaired_processes of decide"
        )
    return f"some {needed} processes of each side would tell, if the machine stays as it is"


def _state(judged: MetricVerdict, limit: float, more_is_better: bool) -> str:
    """Side of the limit on which the whole interval lies."""
    ratio = judged.ratio
    if judged.verdict == REFUSED:
        return REFUSED
    if ratio is None or ratio.low is None or ratio.high is None or not judged.is_evidence:
        return UNCLEAR
    if more_is_better:
        beyond, within = ratio.high < limit, ratio.low >= limit
    else:
        beyond, within = ratio.low > limit, ratio.high <= limit
    if beyond:
        return REGRESSION
    return PASS if within and is_known(ratio) else UNCLEAR

"""Whether a repetition gave the same figures: reproduced, differs, or not comparable.

What is expected is stated before anything is measured again, from the processes of the first
measurement alone. A figure that falls outside is only said to differ where both sides are evidence.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import METRICS, Estimate
from benchorch.formatting import is_known
from benchorch.results.compare import metric_kinds, pairing
from benchorch.results.compare.compatibility import (
    FieldDifference,
    baseline_differences,
    differences,
    excused_by,
)
from benchorch.results.compare.machine_change import Difference
from benchorch.results.compare.matching import Match
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.compare.verdicts import primary_metric, too_noisy, unsettled
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.pairs import Pair
from benchorch.stats.prediction import repetition_interval
from benchorch.stats.quantiles import ALPHA

REPRODUCED, NOT_COMPARABLE, DIFFERS = "reproduced", "not comparable", "differs"
OUTPUTS, WEIGHTS = "outputs", "weights"

_OF_FILES = ("packages", "model", "conversion", "workload")
"""Factors on which a model's counts depend; times depend on all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureVerdict:
    """Verdict of one figure of a trial, or of its outputs, in the repetition.

    Attributes:
        name: the trial's, for people.
        figure: a metric, or `OUTPUTS`.
        expected: the first measurement's, with the interval within which the repetition's value
            must fall; None where there is nothing to expect.
        found: the repetition's value; None where it has none.
        verdict: `REPRODUCED`, `NOT_COMPARABLE` or `DIFFERS`.
        reason: why it is not comparable, or by what it differs; empty where it is reproduced.
        drift_ratio: by which share the machine may have changed; the interval allows for it.
    """

    name: str
    figure: str
    verdict: str
    expected: Estimate | None = None
    found: float | None = None
    reason: str = ""
    drift_ratio: float | None = None


def expectations(trials: Sequence[StoredTrial]) -> Mapping[str, Mapping[str, Estimate]]:
    """Expected figures of a repetition with as many processes, by trial id.

    All intervals hold together in 19 of 20 repetitions (Bonferroni).
    """
    alone = [Match(name=one.trial.trial_id, a=one, b=one) for one in trials]
    alpha = _shared_alpha(alone)
    found = {
        one.name: {metric: _expected(one, metric, alpha) for metric in figures(one)}
        for one in alone
    }
    return {
        name: {metric: estimate for metric, estimate in of.items() if estimate is not None}
        for name, of in found.items()
    }


def figures(match: Match) -> tuple[str, ...]:
    """Figures of a repetition: the primary metric, the gain, and counts; a size is not judged."""
    is_candidate = match.a.trial.baseline_id is not None  # a baseline's pairs are its A/A control
    gain = (metric_kinds.SPEEDUP,) if is_candidate and match.a.evidence.pairs_ns else ()
    counts = tuple(
        name for name in METRICS if name in metric_kinds.EXACT and name in match.a.metrics
    )
    return (primary_metric(match), *gain, *counts)


def judged(matches: Sequence[Match], across: Collection[str]) -> tuple[FigureVerdict, ...]:
    """The verdict of every figure of each repetition (B) against what was measured first (A).

    Args:
        across: factors that may differ; machines may always have other names.
    """
    alpha, excused = _shared_alpha(matches), excused_by({"host", *across})
    return tuple(verdict for one in matches for verdict in _verdicts(one, excused, alpha))


def overall(verdicts: Sequence[FigureVerdict]) -> str:
    """The verdict of all together: a difference counts most, then what is not comparable."""
    found = {one.verdict for one in verdicts}
    return next((word for word in (DIFFERS, NOT_COMPARABLE) if word in found), REPRODUCED)


def too_vague(expected: Estimate) -> str:
    """Reason why an expectation admits nearly any value; empty if it does not."""
    if expected.low is None or expected.high is None:
        return "a single process was measured: its spread is unknown"
    if is_known(expected):
        return ""
    return (
        f"its first processes differ so much that a repetition may give {expected.low:.3g} to "
        f"{expected.high:.3g} {expected.unit}: measure more of them first, with stopping=precise"
    )


def _shared_alpha(matches: Sequence[Match]) -> float:
    estimated = [f for one in matches for f in figures(one) if f not in metric_kinds.EXACT]
    return ALPHA / max(1, len(estimated))


def _verdicts(match: Match, excused: Collection[str], alpha: float) -> Iterator[FigureVerdict]:
    if match.b.failure:
        reason = f"the repetition failed ({match.b.failure})"
        yield _verdict(match, OUTPUTS, NOT_COMPARABLE, reason=reason)
        return
    if match.b.disagreement:
        yield _verdict(match, OUTPUTS, DIFFERS, reason=match.b.disagreement)
    elif match.b.result is not None and match.b.result.parity is not None:
        yield _verdict(match, OUTPUTS, REPRODUCED)
    differing = [*differences(match.a, match.b), *baseline_differences(match.a, match.b)]
    for figure in figures(match):
        if figure == metric_kinds.SIZE:
            continue  # files name the paths of code and packages, on which their size depends
        reason = _incomparable(figure, differing, excused)
        expected = _expected(match, figure, alpha)
        if reason or expected is None:
            missing = "the first measurement has no positive value"
            yield _verdict(
                match, figure, NOT_COMPARABLE, expected=expected, reason=reason or missing
            )
        elif figure in metric_kinds.EXACT:
            yield _counted(match, figure, expected)
        else:
            yield _estimated(match, figure, expected, excused)


def _verdict(match: Match, figure: str, verdict: str, **fields: object) -> FigureVerdict:
    return FigureVerdict(name=match.name, figure=figure, verdict=verdict, **fields)  # type: ignore[arg-type]


def _incomparable(
    figure: str, differing: Sequence[FieldDifference], excused: Collection[str]
) -> str:
    """The fields in which the two differ and for this figure must not; empty for none."""
    counted = figure in metric_kinds.EXACT
    found = [
        str(one)
        for one in differing
        if one.field == WEIGHTS
        or (
            one.factor
            and one.factor not in excused
            and not (counted and one.factor not in _OF_FILES)
        )
    ]
    return "; ".join(found)


def _counted(match: Match, figure: str, expected: Estimate) -> FigureVerdict:
    found = _value(match.b, figure)
    if found is None:
        reason = "the repetition has no such figure"
        return _verdict(match, figure, NOT_COMPARABLE, expected=expected, reason=reason)
    if found == expected.value:
        return _verdict(match, figure, REPRODUCED, expected=expected, found=found)
    reason = _by_how_much(found, expected)
    return _verdict(match, figure, DIFFERS, expected=expected, found=found, reason=reason)


def _estimated(
    match: Match, figure: str, expected: Estimate, excused: Collection[str]
) -> FigureVerdict:
    drift = None
    if metric_kinds.drifts(figure) and figure != metric_kinds.SPEEDUP:
        drift = pairing.machine_change(match, figure, excused)
        if drift is None:
            reason = "no reference workloads, so how much the machine has changed is unknown"
            return _verdict(match, figure, NOT_COMPARABLE, expected=expected, reason=reason)
    found = _value(match.b, figure)
    problem = _no_evidence(expected, found)
    vague = "" if problem else too_vague(expected)
    if drift is not None:
        expected = _after(expected, drift, is_rate=metric_kinds.is_rate(figure))
    inside = not problem and _inside(expected, found)
    if inside:
        problem = vague
    elif figure != metric_kinds.SPEEDUP:  # whose noise both sides of a pair have
        problem = problem or unsettled(match)[0] or too_noisy(match)
    verdict = NOT_COMPARABLE if problem else REPRODUCED if inside else DIFFERS
    return _verdict(
        match,
        figure,
        verdict,
        expected=expected,
        found=found,
        reason=problem or ("" if inside else _by_how_much(found or math.nan, expected)),
        drift_ratio=None if drift is None else drift.largest_ratio,
    )


def _no_evidence(expected: Estimate, found: float | None) -> str:
    if found is None:
        return "the repetition has no such figure"
    return (
        "" if expected.low is not None else "a single process was measured: its spread is unknown"
    )


def _inside(expected: Estimate, found: float | None) -> bool:
    ends = expected.low, expected.high
    return found is not None and None not in ends and ends[0] <= found <= ends[1]  # type: ignore[operator]


def _expected(match: Match, figure: str, alpha: float) -> Estimate | None:
    """Expected figure of side B, from side A's processes alone."""
    if figure in metric_kinds.EXACT:
        return match.a.metrics[figure]
    return repetition_interval(
        _values(match.a, figure),
        max(1, len(_values(match.b, figure))),
        unit=_unit(match.a, figure),
        alpha=alpha,
        margin_ratio=pairing.delta_ratio(match),
    )


def _after(expected: Estimate, drift: Difference, *, is_rate: bool) -> Estimate:
    """The interval that holds the value as it is, and less what the machine changed by."""
    if expected.low is None or expected.high is None:
        return expected
    centre = drift.centre if is_rate else -drift.centre
    reach = drift.reach(ALPHA)
    low = bounded_exp(math.log(expected.low) + min(0.0, centre - reach))
    high = bounded_exp(math.log(expected.high) + max(0.0, centre + reach))
    return replace(expected, low=low, high=high)


def _values(stored: StoredTrial, figure: str) -> Sequence[float]:
    """One value per process."""
    if figure == metric_kinds.SPEEDUP:
        return [math.exp(Pair(*pair).log_ratio) for pair in stored.evidence.pairs_ns]
    return stored.evidence.values.get(figure, ())


def _value(stored: StoredTrial, figure: str) -> float | None:
    if figure in metric_kinds.EXACT:
        return stored.metrics[figure].value if figure in stored.metrics else None
    values = _values(stored, figure)
    if not values or not all(value > 0 for value in values):
        return None
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _unit(stored: StoredTrial, figure: str) -> str:
    return stored.metrics[figure].unit if figure in stored.metrics else "ratio"


def _by_how_much(found: float, expected: Estimate) -> str:
    share = found / expected.value - 1 if expected.value else math.inf
    return f"{abs(share):.2%} {'more' if share > 0 else 'less'} than was measured first"

"""What may be said of B against A, metric by metric?

Every case either has a verdict at the table's own error rate, or the reason why there is none. Two
sides that met in one process are compared by their pairs. Any others are sequential data: between
them the machine may have changed, so their interval is widened by all that the canaries of both
sides saw it change; without canaries there is no verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.results.compare import metric_kinds, pairing
from benchorch.results.compare.compatibility import (
    FieldDifference,
    baseline_differences,
    differences,
)
from benchorch.results.compare.matching import Match
from benchorch.results.compare.pairing import Weighing
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.stats.quantiles import LEVEL_RATIO
from benchorch.stats.significance import holm

EQUIVALENT, INCONCLUSIVE, REFUSED = "equivalent", "inconclusive", "refused"
_WORST_GRADE = "C"
_LONGER = (
    "a quieter machine, or longer: stopping.max_window_s=20 (fixed, quick: stopping.window_s=5)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """B against A in one metric.

    Attributes:
        a, b: each side's own estimate, or None where it has none.
        ratio: B's value over A's, its interval simultaneous with all others of the table and,
            for sequential data, widened by the drift; without ends where nothing is known of it.
        verdict: of B: ``faster`` or ``slower`` for times and rates, ``lower`` or ``higher`` for
            all else, ``equivalent``, ``inconclusive``, or ``refused``.
        reason: why there is no verdict, or an empty string.
        remedy: what would bring one, or an empty string.
        design: ``alternated``, ``adjacent``, either of them ``via baseline``, ``sequential``,
            ``exact`` or empty.
        drift_ratio: by how much the canaries saw the machine change, where that counts.
        p_value, adjusted_p_value: of no difference beyond the drift; after Holm over the table.
        refused_for: the fields in which the two differ and must not.
        is_evidence: whether the interval may be read as such; not where a side never settled, or
            its machine is too uneven.
    """

    name: str
    metric: str
    a: Estimate | None
    b: Estimate | None
    ratio: Estimate | None = None
    verdict: str = REFUSED
    reason: str = ""
    remedy: str = ""
    design: str = ""
    drift_ratio: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    refused_for: tuple[FieldDifference, ...] = ()
    is_evidence: bool = False


def headline(match: Match) -> str:
    """What the two are compared by unless something else is asked for."""
    known = _metrics(match.a).keys() & _metrics(match.b).keys()
    return next((name for name in metric_kinds.HEADLINES if name in known), metric_kinds.LATENCY)


def has_it(match: Match, metric: str) -> bool:
    """Whether it makes sense of these trials: a baseline has no gain over itself."""
    alone = match.a.trial.baseline_id is None and match.b.trial.baseline_id is None
    return metric != metric_kinds.SPEEDUP or not alone


def all_metrics(match: Match) -> tuple[str, ...]:
    """Every metric that either side has, in the order in which they are documented."""
    known = _metrics(match.a).keys() | _metrics(match.b).keys()
    return tuple(name for name in metric_kinds.NAMES if name in known)


def judge(
    cases: Iterable[tuple[Match, str]],
    *,
    across: Collection[str] = (),
    delta_ratio: float | None = None,
) -> tuple[Judged, ...]:
    """Each case with its verdict; any of them errs in no more tables than one comparison would.

    Args:
        cases: two trials and the metric to compare them by.
        across: factors that may differ: they are the point of the comparison.
        delta_ratio: differences up to this share do not matter; None takes the trials' own.
    """
    opened = [_Case(match, metric, frozenset(across), delta_ratio) for match, metric in cases]
    refused = [case.refusal() for case in opened]
    estimated = [
        refusal is None and not pairing.is_exact(case.match, case.metric)
        for case, refusal in zip(opened, refused, strict=True)
    ]
    family = max(1, sum(estimated))
    judged = [
        case.judged(family) if refusal is None else refusal
        for case, refusal in zip(opened, refused, strict=True)
    ]
    adjusted = iter(holm([one.p_value for one in judged if one.p_value is not None]))
    return tuple(
        one if one.p_value is None else replace(one, adjusted_p_value=next(adjusted))
        for one in judged
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """Two trials and a metric."""

    match: Match
    metric: str
    across: frozenset[str]
    delta_ratio: float | None

    def refusal(self) -> Judged | None:
        """Why these two cannot be compared at all, or None where they can."""
        unusable = _unusable(self.match)
        if unusable:
            return self._told(reason=unusable)
        differing = tuple(
            difference
            for difference in self._differences()
            if difference.factor and difference.factor not in self.across
        )
        if differing:
            return self._told(
                reason="; ".join(map(str, differing)),
                remedy=_alike(differing),
                refused_for=differing,
            )
        if self._a is None or self._b is None:
            return self._told(reason=_missing(self.metric, self._a, self._b))
        if self._is_apart() and metric_kinds.drifts(self.metric) and self._drift_ratio() is None:
            return self._told(
                ratio=_bare_ratio(self._a, self._b),
                reason=_no_canaries(self.match),
                remedy=_interleave(self.match),
                design="sequential",
            )
        return None

    def judged(self, family: int) -> Judged:
        """The verdict, one of `family` that are read together."""
        if pairing.is_exact(self.match, self.metric):
            return self._exact()
        weighed = self._weighed()
        found = weighed and weighed.compare(
            delta_ratio=self._delta_ratio(), alpha=pairing.alpha(self.match, family)
        )
        if not weighed or not found:
            return self._told(
                ratio=self._bare_ratio(),
                verdict=INCONCLUSIVE,
                reason="nothing is known of its spread",
            )
        doubt, remedy = self._doubt(weighed)
        verdict = INCONCLUSIVE if doubt else _verdict(found, self.metric)
        return self._told(
            ratio=_inverted(found.ratio),
            verdict=verdict,
            reason=doubt or found.reason,
            remedy=remedy or (_more(self.match) if verdict == INCONCLUSIVE else ""),
            design=weighed.design,
            drift_ratio=weighed.drift_ratio or None,
            p_value=pairing.after_looks(self.match, found.p_value),
            is_evidence=not doubt,
        )

    def _differences(self) -> Sequence[FieldDifference]:
        a, b = self.match.a, self.match.b
        yardsticks = baseline_differences(a, b) if self.metric == metric_kinds.SPEEDUP else ()
        return (*differences(a, b), *yardsticks)

    @property
    def _a(self) -> Estimate | None:
        return _metrics(self.match.a).get(self.metric)

    @property
    def _b(self) -> Estimate | None:
        return _metrics(self.match.b).get(self.metric)

    def _told(self, **told: object) -> Judged:
        known = {"name": self.match.name, "metric": self.metric, "a": self._a, "b": self._b}
        return Judged(**known, **told)  # type: ignore[arg-type]  # Judged's own fields

    def _exact(self) -> Judged:
        ratio = self._bare_ratio()
        same = "the same observations on both sides" if pairing.is_same(self.match) else ""
        if ratio is None:
            return self._told(verdict=INCONCLUSIVE, reason=same or "A's value is 0")
        far = abs(ratio.value - 1) > self._delta_ratio()
        smaller = ratio.value < 1
        return self._told(
            ratio=replace(ratio, low=ratio.value, high=ratio.value),
            verdict=metric_kinds.word(self.metric, smaller=smaller) if far else EQUIVALENT,
            reason=same,
            design="exact",
            is_evidence=True,
        )

    def _weighed(self) -> Weighing | None:
        if self.metric == metric_kinds.SPEEDUP:
            return pairing.weigh_speedups(self.match)
        met = pairing.weigh_met(self.match) if self.metric == metric_kinds.LATENCY else None
        drift = self._drift_ratio() if metric_kinds.drifts(self.metric) else None
        return met or pairing.weigh_apart(self.match, self.metric, drift or 0.0)

    def _is_apart(self) -> bool:
        exact = pairing.is_exact(self.match, self.metric)
        weighed = None if exact else self._weighed()
        return weighed is not None and weighed.design == "sequential"

    def _drift_ratio(self) -> float | None:
        return pairing.drift_ratio(self.match, self.across)

    def _delta_ratio(self) -> float:
        return pairing.delta_ratio(self.match) if self.delta_ratio is None else self.delta_ratio

    def _bare_ratio(self) -> Estimate | None:
        return None if self._a is None or self._b is None else _bare_ratio(self._a, self._b)

    def _doubt(self, weighed: Weighing) -> tuple[str, str]:
        """Why even a clear interval decides nothing, and a remedy; empty strings where it does."""
        if not metric_kinds.needs_steady_state(self.metric):
            return "", ""
        sides = {"A": self.match.a, "B": self.match.b}
        if weighed.design != "sequential":
            return next(filter(None, map(_own_doubt, sides.values())), ""), ""
        unsteady = " and ".join(name for name, side in sides.items() if not _is_steady(side))
        if unsteady:
            return f"no steady state in {unsteady}", _LONGER
        noisy = " and ".join(name for name, s in sides.items() if _grade(s) == _WORST_GRADE)
        if noisy:
            uneven = f"the machine of {noisy} is too uneven (grade C) to compare what ran apart"
            return (
                uneven,
                "another machine; what is wrong with this one: python -m benchorch doctor",
            )
        return "", ""


def _unusable(match: Match) -> str:
    """What became of a side that has nothing to compare, or an empty string."""
    sides = {"A": match.a, "B": match.b}
    failed = [f"failed in {name} ({one.failure})" for name, one in sides.items() if one.failure]
    differing = [
        f"the outputs in {name} are not the reference's ({one.disagreement})"
        for name, one in sides.items()
        if one.disagreement
    ]
    return "; ".join(failed or differing)


def _missing(metric: str, a: Estimate | None, b: Estimate | None) -> str:
    lacking = " and ".join(name for name, side in (("A", a), ("B", b)) if side is None)
    return f"no {metric} in {lacking}: it was not measured, or too little to estimate it"


def _alike(differing: Sequence[FieldDifference]) -> str:
    factors = dict.fromkeys(difference.factor for difference in differing)
    words = " ".join(f"--across {factor}" for factor in factors)
    return f"measure both alike; or, if that is what you compare, {words}"


def _no_canaries(match: Match) -> str:
    sides = {"A": match.a, "B": match.b}
    lacking = " and ".join(name for name, side in sides.items() if not pairing.looks_ns(side))
    return f"measured apart, and {lacking} has no canaries that tell how the machine changed"


def _interleave(match: Match) -> str:
    """How the two would meet, or at least be watched."""
    a, b = match.a.trial.labels, match.b.trial.labels
    names = list(dict.fromkeys((a.get("conversion", ""), b.get("conversion", ""))))
    canaries = "measure both with protocol.canary_tolerance_ratio=0.02"
    if len(names) == 1:
        return canaries
    run = f"python -m benchorch model={b.get('model', '')} conversion=[{','.join(names)}]"
    return f"interleave them: {run} baseline={names[0]}; or {canaries}"


def _more(match: Match) -> str:
    a, b = match.a.trial.labels, match.b.trial.labels
    if a.get("conversion") == b.get("conversion"):
        return "more processes: stopping=precision stopping.budget_s=300; or a quieter machine"
    return _interleave(match).partition(";")[0]


def _verdict(found: Comparison, metric: str) -> str:
    smaller = {"faster": True, "slower": False}.get(found.verdict)
    return found.verdict if smaller is None else metric_kinds.word(metric, smaller=smaller)


def _own_doubt(stored: StoredTrial) -> str:
    """Why this side's own run withheld a verdict that more pairs would not bring."""
    speedup = None if stored.summary is None else stored.summary.speedup
    withheld = speedup is not None and speedup.verdict == INCONCLUSIVE
    return speedup.reason if speedup and withheld and speedup.pairs_needed is None else ""


def _bare_ratio(a: Estimate, b: Estimate) -> Estimate | None:
    if a.value == 0:
        return None
    return Estimate(
        value=b.value / a.value,
        low=None,
        high=None,
        level_ratio=LEVEL_RATIO,
        n=min(a.n, b.n),
        unit="ratio",
        method="ratio of the two values",
    )


def _inverted(ratio: Estimate) -> Estimate:
    """A over B turned into B over A."""
    low = None if ratio.high is None else 1 / ratio.high
    high = None if ratio.low is None else 1 / ratio.low
    return replace(ratio, value=1 / ratio.value, low=low, high=high)


def _metrics(stored: StoredTrial) -> Mapping[str, Estimate]:
    summary = stored.summary
    if summary is None:
        return {}
    met = summary.speedup is not None and bool(stored.evidence.pairs_ns)
    gain = {metric_kinds.SPEEDUP: summary.speedup.ratio} if summary.speedup and met else {}
    return {**summary.metrics, **gain}


def _is_steady(stored: StoredTrial) -> bool:
    return stored.summary is not None and stored.summary.steady


def _grade(stored: StoredTrial) -> str:
    return "" if stored.result is None else stored.result.grade

"""Verdicts of B against A, metric by metric.

Every case has a verdict at the table's own error rate, or a reason why there is none. Two sides
measured in the same processes are compared by their pairs. All others are unpaired: between them
the machine may have changed, so their interval also holds the ratio less what the reference
workloads changed by, and what sessions of the same code differ by: as others show it, or as much
as their processes; without reference workloads there is no verdict.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.formatting import percent
from benchorch.results.compare import metric_kinds, pairing
from benchorch.results.compare.compatibility import (
    FieldDifference,
    baseline_differences,
    differences,
)
from benchorch.results.compare.machine_change import Difference
from benchorch.results.compare.matching import Match
from benchorch.results.compare.pairing import Samples
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.stats.interval_arithmetic import quotient
from benchorch.stats.pairs import SEQUENTIAL
from benchorch.stats.quantiles import without_interval
from benchorch.stats.significance import holm

EQUIVALENT, INCONCLUSIVE, REFUSED = "equivalent", "inconclusive", "refused"
MOST_UNSTEADY_RATIO = 0.2
"""Share of a side's processes without a steady state that a median over processes can bear."""

LEAST_DECIDING = 3
"""Processes a side from which on a floor decides."""

_WORST_GRADE = "C"
_BACK_TO_BACK = "both back to back: benchorch duel"
_LONGER = (
    "a quieter machine, or longer: stopping.max_window_s=20 (fixed, quick: stopping.window_s=5)"
)
_LONGER_LOAD = "a quieter machine, or a longer scenario.duration_s"
_OF_LOAD = {"service_ms/p50", "capacity_per_s/mean"}  # the latter alone over several rates


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVerdict:
    """B against A in one metric.

    Attributes:
        a, b: each side's own estimate, or None where it has none.
        ratio: B's value over A's, its interval simultaneous with all others of the table and,
            for unpaired data, widened by the drift; without ends where its spread is unknown.
        verdict: of B: ``faster`` or ``slower`` for times and rates, ``lower`` or ``higher`` for
            all else, ``equivalent``, ``inconclusive``, or ``refused``.
        reason: why there is no verdict, or an empty string.
        remedy: how to get one, or an empty string.
        design: ``alternated``, ``adjacent``, either of them ``via baseline``, ``sequential``,
            ``exact`` or empty.
        drift_ratio: the drift of the reference workloads, where that counts.
        session_ratio: by which share sessions of the same code may differ besides, as three or
            more show it or as it is assumed; None where that does not count.
        sessions_alike: where it is assumed, the ratio with its interval if sessions did not differ.
        p_value, adjusted_p_value: of no difference beyond the drift; after Holm over the table.
        refused_for: the fields in which the two differ and must not.
        is_evidence: whether the interval is conclusive; not where too many processes of a side
            never reached a steady state.
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
    session_ratio: float | None = None
    sessions_alike: Estimate | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    refused_for: tuple[FieldDifference, ...] = ()
    is_evidence: bool = False


def primary_metric(match: Match) -> str:
    """The metric by which two trials are compared by default.

    Under the same load the first that either has: the other was overloaded, or within the target
    at no rate, which is not in what both have. Of two scenarios the first that both have.
    """
    a, b = _metrics(match.a).keys(), _metrics(match.b).keys()
    known = a | b if _scenario(match.a) == _scenario(match.b) else a & b
    return next((name for name in metric_kinds.PRIMARY if name in known), metric_kinds.LATENCY)


def _scenario(stored: StoredTrial) -> str | None:
    return stored.trial.labels.get("scenario")


def applies(match: Match, metric: str) -> bool:
    """Whether a metric makes sense for these trials: a baseline has no gain over itself."""
    alone = match.a.trial.baseline_id is None and match.b.trial.baseline_id is None
    return metric != metric_kinds.SPEEDUP or not alone


def has_floor(match: Match, metric: str) -> bool:
    """Whether two trials that are compared by this metric have a floor as well."""
    both = all(metric_kinds.FLOOR in one.metrics for one in (match.a, match.b))
    return both and metric == metric_kinds.LATENCY


def all_metrics(match: Match) -> tuple[str, ...]:
    """Every metric of either side, in the order of the documentation."""
    known = _metrics(match.a).keys() | _metrics(match.b).keys()
    return tuple(name for name in metric_kinds.NAMES if name in known)


def compare_cases(
    cases: Iterable[tuple[Match, str]],
    *,
    across: Collection[str] = (),
    delta_ratio: float | None = None,
    sessions: Sequence[Sequence[StoredTrial]] = (),
) -> tuple[MetricVerdict, ...]:
    """The verdict of each case; together they err no more often than one comparison would.

    Args:
        cases: two trials and the metric to compare them by.
        across: factors that may differ: they are the point of the comparison.
        delta_ratio: the equivalence margin; None takes the trials' own.
        sessions: trials of other sessions of A's code on the same machine.
    """
    opened = [
        _Case(match, metric, frozenset(across), delta_ratio, sessions) for match, metric in cases
    ]
    refused = [case.refusal() for case in opened]
    estimated = [
        refusal is None and not pairing.is_exact(case.match, case.metric)
        for case, refusal in zip(opened, refused, strict=True)
    ]
    family = max(1, sum(estimated))
    found = [
        case.compared(family) if refusal is None else refusal
        for case, refusal in zip(opened, refused, strict=True)
    ]
    adjusted = iter(holm([one.p_value for one in found if one.p_value is not None]))
    return tuple(
        one if one.p_value is None else replace(one, adjusted_p_value=next(adjusted))
        for one in found
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """Two trials and a metric."""

    match: Match
    metric: str
    across: frozenset[str]
    delta_ratio: float | None
    sessions: Sequence[Sequence[StoredTrial]] = ()

    def refusal(self) -> MetricVerdict | None:
        """Why these two cannot be compared at all, or None where they can."""
        unusable = _unusable(self.match)
        if unusable:
            return self._outcome(reason=unusable)
        differing = tuple(
            difference
            for difference in self._differences()
            if difference.factor and difference.factor not in self.across
        )
        if differing:
            return self._outcome(
                reason="; ".join(map(str, differing)),
                remedy=_alike(differing),
                refused_for=differing,
            )
        if self._a is None or self._b is None:
            return self._outcome(reason=self._missing())
        if self._is_unpaired() and metric_kinds.drifts(self.metric) and self._machine() is None:
            return self._outcome(
                ratio=_bare_ratio(self._a, self._b),
                reason=_no_reference_workload(self.match),
                remedy=_interleave(self.match),
                design=SEQUENTIAL,
            )
        return None

    def _missing(self) -> str:
        lacking = self.match.sides_that(lambda side: self.metric not in _metrics(side))
        return f"no {self.metric} in {lacking}: it was not measured, or too little to estimate it"

    def compared(self, family: int) -> MetricVerdict:
        """The verdict, one of `family` that are read together."""
        if pairing.is_exact(self.match, self.metric):
            return self._exact()
        samples = self._samples()
        found = samples and self._found(samples, family)
        if not samples or not found:
            return self._outcome(
                ratio=self._bare_ratio(), verdict=INCONCLUSIVE, reason="its spread is unknown"
            )
        warning, remedy = self._warning(samples)
        doubt = warning or self._doubt(samples, found)
        verdict = INCONCLUSIVE if doubt else _verdict(found, self.metric)
        return self._outcome(
            ratio=quotient(1, found.ratio),
            verdict=verdict,
            reason=doubt or found.reason,
            remedy=remedy or (self._more(samples) if verdict == INCONCLUSIVE else ""),
            design=samples.design,
            drift_ratio=samples.drift_ratio or None,
            session_ratio=None if samples.session is None else samples.session.largest_ratio,
            p_value=pairing.after_interim_analyses(self.match, samples, found.p_value),
            sessions_alike=self._sessions_alike(samples, family),
            is_evidence=not warning,
        )

    def _more(self, samples: Samples) -> str:
        """What would bring a verdict, as the trial is."""
        if any(one is not None and one.at_least for one in (self._a, self._b)):
            return _LONGER_LOAD
        a, b = (side.trial.labels.get("conversion") for side in (self.match.a, self.match.b))
        if a != b and samples.design == SEQUENTIAL:
            return _interleave(self.match).partition(";")[0]
        longer = "more processes: stopping=precise stopping.budget_s=300; or a quieter machine"
        assumed = samples.session is not None and samples.session.assumed
        return f"{_BACK_TO_BACK}; {longer}" if assumed else longer

    def _doubt(self, samples: Samples, found: Comparison) -> str:
        """Why a difference between the floors of two sessions is no verdict, or an empty string.

        Floors repeat, though not exactly: without earlier sessions that show how well, what is
        within the equivalence margin may be the session.
        """
        delta, (low, high) = self._delta_ratio(), _ends(found.ratio)
        apart = samples.design == SEQUENTIAL and pairing.is_apart(self.match)
        beyond = low > 1 + delta or high < 1 / (1 + delta)
        certain = beyond or samples.session is not None or found.verdict == EQUIVALENT
        if self.metric != metric_kinds.FLOOR or not apart or certain:
            return ""
        return f"floors of two sessions may differ by {percent(delta)}, the equivalence margin"

    def _found(self, samples: Samples, family: int) -> Comparison | None:
        alpha = pairing.alpha(self.match, samples, family)
        return samples.compare(delta_ratio=self._delta_ratio(), alpha=alpha)

    def _sessions_alike(self, samples: Samples, family: int) -> Estimate | None:
        if samples.session is None or not samples.session.assumed:
            return None
        found = self._found(replace(samples, session=None), family)
        return quotient(1, found.ratio) if found else None

    def _differences(self) -> Sequence[FieldDifference]:
        a, b = self.match.a, self.match.b
        baselines = baseline_differences(a, b) if self.metric == metric_kinds.SPEEDUP else ()
        return (*differences(a, b), *baselines)

    @property
    def _a(self) -> Estimate | None:
        return _metrics(self.match.a).get(self.metric)

    @property
    def _b(self) -> Estimate | None:
        return _metrics(self.match.b).get(self.metric)

    def _outcome(self, **fields: object) -> MetricVerdict:
        known = {"name": self.match.name, "metric": self.metric, "a": self._a, "b": self._b}
        return MetricVerdict(**known, **fields)  # type: ignore[arg-type]  # its own fields

    def _exact(self) -> MetricVerdict:
        ratio = self._bare_ratio()
        same = "the same observations on both sides" if pairing.is_same(self.match) else ""
        if ratio is None:
            return self._outcome(verdict=INCONCLUSIVE, reason=same or "A's value is 0")
        far = abs(ratio.value - 1) > self._delta_ratio()
        smaller = ratio.value < 1
        return self._outcome(
            ratio=replace(ratio, low=ratio.value, high=ratio.value),
            verdict=metric_kinds.verdict_word(self.metric, smaller=smaller) if far else EQUIVALENT,
            reason=same,
            design="exact",
            is_evidence=True,
        )

    def _samples(self) -> Samples | None:
        if self.metric == metric_kinds.SPEEDUP:
            return pairing.speedup_samples(self.match)
        paired = pairing.paired_samples(self.match, self.metric)
        machine = session = None
        if metric_kinds.drifts(self.metric):
            machine = self._machine()
            session = pairing.session_change(self.match, self.metric, self.sessions, self.across)
        return paired or pairing.unpaired_samples(self.match, self.metric, machine, session)

    def _is_unpaired(self) -> bool:
        exact = pairing.is_exact(self.match, self.metric)
        samples = None if exact else self._samples()
        return samples is not None and samples.design == SEQUENTIAL

    def _machine(self) -> Difference | None:
        return pairing.machine_change(self.match, self.metric, self.across)

    def _delta_ratio(self) -> float:
        return pairing.delta_ratio(self.match) if self.delta_ratio is None else self.delta_ratio

    def _bare_ratio(self) -> Estimate | None:
        return None if self._a is None or self._b is None else _bare_ratio(self._a, self._b)

    def _warning(self, samples: Samples) -> tuple[str, str]:
        """Why even a clear interval is inconclusive, and a remedy; or two empty strings."""
        if not metric_kinds.needs_steady_state(self.metric):
            return "", ""
        if samples.design != SEQUENTIAL:
            warnings = map(_own_warning, (self.match.a, self.match.b))
            return next(filter(None, warnings), ""), ""
        return unsettled(self.match)


def supported(judged: MetricVerdict, floor: MetricVerdict) -> MetricVerdict:
    """The verdict of a median, withheld where the floor contradicts it.

    Where earlier sessions show how much sessions differ, the median's stands.
    """
    if judged.sessions_alike is None or judged.verdict in (EQUIVALENT, INCONCLUSIVE):
        return judged
    if _overlap(judged, floor):
        return judged
    return replace(
        judged,
        verdict=INCONCLUSIVE,
        reason="the floor contradicts the median: either the machine was not the same, or only "
        "part of the calls changed",
        remedy=_BACK_TO_BACK,
    )


def decides(floor: MetricVerdict, judged: MetricVerdict) -> bool:
    """Whether the floor has a verdict where the median has none, and does not contradict it.

    Two processes a side do not suffice: where processes have two levels, both may be on one.
    """
    told = floor.verdict not in (INCONCLUSIVE, REFUSED)
    undecided = judged.verdict == INCONCLUSIVE and not is_thin(floor)
    return told and undecided and _overlap(judged, floor)


def is_thin(floor: MetricVerdict) -> bool:
    """Whether one side has too few processes to show how much its floor varies."""
    return any(side is None or side.n < LEAST_DECIDING for side in (floor.a, floor.b))


def _overlap(one: MetricVerdict, other: MetricVerdict) -> bool:
    (low, high), (least, most) = _ends(one.ratio), _ends(other.ratio)
    return least <= high and low <= most


def _ends(ratio: Estimate | None) -> tuple[float, float]:
    """The ends of an interval, which reaches everywhere where it is unknown."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return 0.0, math.inf
    return ratio.low, ratio.high


def unsettled(match: Match) -> tuple[str, str]:
    """Why what ran apart is no evidence of a difference, and a remedy; or two empty strings.

    A noisy machine is no such reason: what it changed by between the two is in their interval.
    """
    unsteady = match.sides_that(lambda side: not _is_steady(side))
    under_load = any(_OF_LOAD & side.metrics.keys() for side in (match.a, match.b))
    longer = _LONGER_LOAD if under_load else _LONGER
    return (f"no steady state in {unsteady}", longer) if unsteady else ("", "")


def too_noisy(match: Match) -> str:
    """Which side's machine varies by too much for absolute figures, or an empty string."""
    noisy = match.sides_that(lambda side: side.result and side.result.grade == _WORST_GRADE)
    return f"the machine of {noisy} is too noisy (grade C) for absolute figures" if noisy else ""


def _unusable(match: Match) -> str:
    """Why a side has nothing to compare, or an empty string."""
    sides = {"A": match.a, "B": match.b}
    failed = [f"failed in {name} ({one.failure})" for name, one in sides.items() if one.failure]
    differing = [
        f"the outputs in {name} are not the reference's ({one.disagreement})"
        for name, one in sides.items()
        if one.disagreement
    ]
    return "; ".join(failed or differing)


def _alike(differing: Sequence[FieldDifference]) -> str:
    factors = dict.fromkeys(difference.factor for difference in differing)
    words = " ".join(f"--across {factor}" for factor in factors)
    return f"measure both alike; or, if that is what you compare, {words}"


def _no_reference_workload(match: Match) -> str:
    lacking = match.sides_that(lambda side: not any(side.evidence.canaries_ns))
    return f"measured apart, and {lacking} has no reference workloads to bound the machine's drift"


def _interleave(match: Match) -> str:
    """How to pair the two, or at least to bound the drift."""
    a, b = match.a.trial.labels, match.b.trial.labels
    names = list(dict.fromkeys((a.get("conversion", ""), b.get("conversion", ""))))
    bounded = "measure both with protocol.canary_tolerance_ratio=0.02"
    if len(names) == 1:
        return bounded
    words = f"conversion=[{','.join(names)}] baseline={names[0]}"
    return f"interleave them: A's command with {words}; or {bounded}"


def _verdict(found: Comparison, metric: str) -> str:
    smaller = {"faster": True, "slower": False}.get(found.verdict)
    return found.verdict if smaller is None else metric_kinds.verdict_word(metric, smaller=smaller)


def _own_warning(stored: StoredTrial) -> str:
    """Why this side's own run has no verdict, where more pairs would not bring one."""
    speedup = stored.speedup
    withheld = speedup is not None and speedup.verdict == INCONCLUSIVE
    return speedup.reason if speedup and withheld and speedup.pairs_needed is None else ""


def _bare_ratio(a: Estimate, b: Estimate) -> Estimate | None:
    if a.value == 0:
        return None
    ratio = b.value / a.value
    return without_interval(ratio, "ratio", "ratio of the two values", min(a.n, b.n))


def _metrics(stored: StoredTrial) -> Mapping[str, Estimate]:
    if stored.speedup is None or not stored.evidence.pairs_ns:
        return stored.metrics
    return {**stored.metrics, metric_kinds.SPEEDUP: stored.speedup.ratio}


def _is_steady(stored: StoredTrial) -> bool:
    """Whether nearly all processes are: single ones do not move a median over them by much."""
    unsteady = stored.evidence.unsteady_ratio
    if unsteady is None:
        return stored.summary is not None and stored.summary.steady
    return unsteady <= MOST_UNSTEADY_RATIO

"""The values by which two trials are compared: pairs, ratios to a common baseline, or unpaired.

Unpaired, each process contributes one value. A metric without a value per process, such as a p99 of
few calls, is compared by the two sides' own intervals.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.results.compare import metric_kinds
from benchorch.results.compare.machine_change import (
    Difference,
    assumed_session_spread,
    memory_change,
    reference_change,
    reference_floor_change,
    reference_floor_level,
    reference_level,
    session_spread,
)
from benchorch.results.compare.matching import Match
from benchorch.results.compare.matching import match as pair_up
from benchorch.results.compare.ratio_interval import ratio_interval
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.pairs import SEQUENTIAL, Pair
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO
from benchorch.stats.ratio_test import DELTA_RATIO, INCONCLUSIVE, compare, compare_pairs
from benchorch.stats.sequential_testing import look_alpha

LEAST_APART = 3
"""Processes a side from which on two sessions are compared."""

_FEW = "fewer than three processes of a side do not show how much sessions differ"
_LIMIT = "a side has a lower limit only, from which no ratio follows"
_NO_INTERVAL = "a side has no interval, so how much sessions differ is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """B's and A's times, ready to be compared.

    Attributes:
        design: ``alternated``, ``adjacent``, either of them ``via baseline``, or ``sequential``.
        pairs: B as the candidate and A as its baseline; empty where they are not paired.
        b, a: one value a process where there are no pairs; each over its own baseline's where
            both are paired with the same one.
        intervals: B's and A's own medians, where the two were measured apart.
        machine: A's over B's speed of the machine, as the reference workloads show it; None where
            it does not count.
        session: what else sessions differ by; None where it does not count.
        unknown: why no interval of the ratio is known; empty where one is.
    """

    design: str
    pairs: tuple[Pair, ...] = ()
    b: tuple[float, ...] = ()
    a: tuple[float, ...] = ()
    intervals: tuple[Estimate, Estimate] | None = None
    machine: Difference | None = None
    session: Difference | None = None
    unknown: str = ""

    @property
    def drift_ratio(self) -> float:
        """Maximum relative change of the machine between the two."""
        return 0.0 if self.machine is None else self.machine.largest_ratio

    def compare(self, *, delta_ratio: float, alpha: float) -> Comparison | None:
        """B as the candidate and A as its baseline; None where a value is not positive."""
        if self.pairs:
            return compare_pairs(self.pairs, self.design, delta_ratio=delta_ratio, alpha=alpha)
        found = self._unpaired(delta_ratio=delta_ratio, alpha=alpha)
        if found is None or not self.unknown or found.ratio.low is None:
            return found and replace(found, design=self.design)
        return Comparison(
            ratio=replace(found.ratio, low=None, high=None),
            verdict=INCONCLUSIVE,
            reason=self.unknown,
            design=self.design,
        )

    def _unpaired(self, *, delta_ratio: float, alpha: float) -> Comparison | None:
        if self.intervals:
            return self._by_intervals(*self.intervals, delta_ratio=delta_ratio, alpha=alpha)
        return compare(
            self.b, self.a, delta_ratio=delta_ratio, alpha=alpha, drift_ratio=self.drift_ratio
        )

    def _by_intervals(
        self, b: Estimate, a: Estimate, *, delta_ratio: float, alpha: float
    ) -> Comparison | None:
        """A's value over B's, as in `compare`."""
        found = ratio_interval(a, b, alpha=alpha, machine=self.machine, session=self.session)
        if found is None:
            return None
        low, high, delta = found.low, found.high, math.log1p(delta_ratio)
        within = -delta < low and high < delta
        verdict = "faster" if low > 0 else "slower" if high < 0 else "equivalent" if within else ""
        return Comparison(
            ratio=Estimate(
                value=a.value / b.value,
                low=bounded_exp(low),
                high=bounded_exp(high),
                level_ratio=LEVEL_RATIO,
                n=min(a.n, b.n),
                unit="ratio",
                method="ratio of the two values; MOVER from their intervals",
            ),
            verdict=verdict or INCONCLUSIVE,
            reason="" if verdict else "the interval includes no difference and one that matters",
            design=self.design,
            p_value=found.p_value,
        )


def paired_samples(match: Match, metric: str) -> Samples | None:
    """Pairs of the two sides, or of both with one baseline, in one session; None without.

    They are times of calls. Offline, where a call has no latency, they give the rate as well,
    unless calls have no answer and therefore no items.
    """
    if metric == metric_kinds.LATENCY:
        return _paired_times(match)
    metrics = match.a.metrics.keys() | match.b.metrics.keys()
    if metric != metric_kinds.THROUGHPUT or metrics & {metric_kinds.LATENCY, "missed_ratio/mean"}:
        return None
    return _as_rates(_paired_times(match))


def _as_rates(times: Samples | None) -> Samples | None:
    """The same of calls a second."""
    return times and replace(
        times,
        pairs=tuple(Pair(pair.theirs, pair.ours) for pair in times.pairs),
        b=tuple(1 / value for value in times.b),
        a=tuple(1 / value for value in times.a),
    )


def _paired_times(match: Match) -> Samples | None:
    a, b = match.a, match.b
    if is_apart(match):
        return None
    if _is_paired_with(b, a):
        return Samples(design=b.evidence.design, pairs=_pairs(b))
    if _is_paired_with(a, b):
        swapped = tuple(Pair(pair.theirs, pair.ours) for pair in _pairs(a))
        return Samples(design=a.evidence.design, pairs=swapped)
    shared = a.trial.baseline_id is not None and a.trial.baseline_id == b.trial.baseline_id
    if not (shared and a.evidence.pairs_ns and b.evidence.pairs_ns):
        return None
    relative_b, relative_a = (
        tuple(pair.ours / pair.theirs for pair in _pairs(side)) for side in (b, a)
    )
    return Samples(design=f"{b.evidence.design} via baseline", b=relative_b, a=relative_a)


def speedup_samples(match: Match) -> Samples | None:
    """Each side's gain over its own baseline, in its own session; None without pairs."""
    b, a = (tuple(math.exp(pair.log_ratio) for pair in _pairs(s)) for s in (match.b, match.a))
    design = f"{match.b.evidence.design} via baseline"
    return Samples(design=design, b=b, a=a) if a and b else None


def unpaired_samples(
    match: Match, metric: str, machine: Difference | None, session: Difference | None = None
) -> Samples | None:
    """The two medians with their intervals, else values of the processes; None without either."""
    if machine is not None and metric_kinds.is_rate(metric):
        machine = replace(machine, centre=-machine.centre)
    sides = match.b, match.a
    b_own, a_own = (side.metrics.get(metric) for side in sides)
    apart = _may_differ_by_session(match, metric)
    if b_own and a_own and None not in (b_own.high, a_own.high):
        counts = [len(side.evidence.canaries_ns) for side in sides]
        b_own, a_own = map(_of_processes, (b_own, a_own), counts)
        few = apart and session is None and min(counts) < LEAST_APART
        positive = all((one.low or 0) > 0 for one in (b_own, a_own))  # else no ratio's interval
        if apart and session is None and positive and not few:
            session = assumed_session_spread((b_own, counts[0]), (a_own, counts[1]))
        return Samples(
            design=SEQUENTIAL,
            intervals=(b_own, a_own),
            machine=machine,
            session=session,
            unknown=_FEW if few else "",
        )
    b, a = (side.evidence.values.get(metric, ()) for side in sides)
    if not (a and b):
        return None
    unknown = ""
    if any(one is not None and one.at_least for one in (b_own, a_own)):
        unknown = _LIMIT
    elif apart and min(len(b), len(a)) < LEAST_APART:
        unknown = _FEW
    elif apart and metric != metric_kinds.BEST:
        unknown = _NO_INTERVAL
    return Samples(design=SEQUENTIAL, b=b, a=a, machine=machine, unknown=unknown)


def _of_processes(one: Estimate, count: int) -> Estimate:
    """The same, of no more observations than processes: the calls of one depend on it."""
    return replace(one, n=min(one.n, count)) if count else one


def _may_differ_by_session(match: Match, metric: str) -> bool:
    """Whether the median of one session may not be that of another, by more than is known.

    A floor repeats: what disturbs some calls of a session does not move it.
    """
    return is_apart(match) and metric_kinds.drifts(metric) and metric != metric_kinds.FLOOR


def machine_change(match: Match, metric: str, across: Collection[str]) -> Difference | None:
    """A's over B's speed of the machine by its reference workloads; None without any.

    Where machines are compared, that they differ is the point, and only how well each is known
    counts.
    """
    a, b = (side.evidence.canaries_ns for side in (match.a, match.b))
    change = reference_floor_change if metric == metric_kinds.FLOOR else reference_change
    found = memory_change(match.a.evidence.memory_ns, match.b.evidence.memory_ns) or change(a, b)
    return found and (replace(found, centre=0.0) if "hardware" in across else found)


def session_change(
    match: Match, metric: str, sessions: Sequence[Sequence[StoredTrial]], across: Collection[str]
) -> Difference | None:
    """Session component of A's code; None for fewer than three sessions."""
    same = [one.b for trials in sessions for one in pair_up([match.a], trials, across)[0]]
    level = reference_floor_level if metric == metric_kinds.FLOOR else reference_level
    found = [
        (one.metrics[metric], level(one.evidence.canaries_ns))
        for one in (match.a, *same)
        if metric in one.metrics
    ]
    levels = [reference for _, reference in found if reference is not None]
    sign = -1.0 if metric_kinds.is_rate(metric) else 1.0
    references = [sign * one for one in levels] if len(levels) == len(found) else []
    return session_spread([estimate for estimate, _ in found], references)


def delta_ratio(match: Match) -> float:
    """The larger of the two equivalence margins."""
    results = [side.result for side in (match.a, match.b)]
    return max(DELTA_RATIO if result is None else result.delta_ratio for result in results)


def alpha(match: Match, samples: Samples, family: int) -> float:
    """The error rate of one of `family` comparisons that are read together.

    Bonferroni's, after the interim analyses of each side's ratios; intervals of medians hold in
    spite of them.
    """
    overall = ALPHA / family
    if samples.intervals:
        return overall
    results = [side.result for side in (match.a, match.b)]
    looks = [one.stop_looks if one else () for one in results]
    return min(look_alpha(each, overall) for each in looks)


def after_interim_analyses(match: Match, samples: Samples, p_value: float | None) -> float | None:
    """A p-value scaled so that 5 % stays 5 % in spite of each side's interim analyses."""
    return None if p_value is None else min(1.0, p_value * ALPHA / alpha(match, samples, 1))


def is_same(match: Match) -> bool:
    """Whether both sides are the same observations."""
    a, b = match.a, match.b
    started = [None if side.result is None else side.result.started_at for side in (a, b)]
    same = a.plan_id == b.plan_id and a.trial.trial_id == b.trial.trial_id
    return same and started[0] == started[1]


def is_apart(match: Match) -> bool:
    """Whether the two are of different sessions; a trial that ran again keeps its run's plan."""
    a, b = match.a, match.b
    again = a.trial.trial_id == b.trial.trial_id and not is_same(match)
    return again or a.plan_id != b.plan_id


def is_exact(match: Match, metric: str) -> bool:
    """Whether there is nothing to estimate."""
    return metric in metric_kinds.EXACT or is_same(match)


def _is_paired_with(stored: StoredTrial, other: StoredTrial) -> bool:
    """Whether the processes of one are paired with the other as their baseline."""
    is_baseline = stored.trial.baseline_id == other.trial.trial_id
    return is_baseline and bool(stored.evidence.pairs_ns)


def _pairs(stored: StoredTrial) -> tuple[Pair, ...]:
    return tuple(Pair(*pair) for pair in stored.evidence.pairs_ns)

"""How is one side weighed against the other: by pairs, by a common baseline, or apart?

Apart, each process speaks for itself; a metric that single processes do not have, such as a p99 of
few calls, is compared by the two sides' own intervals.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.results.compare import metric_kinds
from benchorch.results.compare.matching import Match
from benchorch.results.compare.ratio_interval import ratio_interval
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.stats.pairs import Pair
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO
from benchorch.stats.ratio_test import DELTA_RATIO, INCONCLUSIVE, compare, compare_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """B's and A's times, ready to be compared.

    Attributes:
        pairs: B's as ``ours`` and A's as ``theirs``; empty where the two never met.
        b, a: one value a process where there are no pairs; each over its own baseline's where
            both met the same one.
        design: ``alternated``, ``adjacent``, either of them ``via baseline``, or ``sequential``.
        intervals: B's and A's own, where single processes have no value.
        drift_ratio: by how much the machine may have changed between the two.
    """

    design: str
    pairs: tuple[Pair, ...] = ()
    b: tuple[float, ...] = ()
    a: tuple[float, ...] = ()
    intervals: tuple[Estimate, Estimate] | None = None
    drift_ratio: float = 0.0

    def compare(self, *, delta_ratio: float, alpha: float) -> Comparison | None:
        """B as the candidate and A as its baseline; None where a value is not positive."""
        if self.pairs:
            return compare_pairs(self.pairs, self.design, delta_ratio=delta_ratio, alpha=alpha)
        if self.intervals:
            return self._by_intervals(delta_ratio=delta_ratio, alpha=alpha)
        found = compare(
            self.b, self.a, delta_ratio=delta_ratio, alpha=alpha, drift_ratio=self.drift_ratio
        )
        return None if found is None else replace(found, design=self.design)

    def _by_intervals(self, *, delta_ratio: float, alpha: float) -> Comparison | None:
        """A's value over B's, as `compare` has it."""
        assert self.intervals  # else there are values
        b, a = self.intervals
        ends = ratio_interval(a, b, alpha=alpha)
        if ends is None:
            return None
        drift, delta = math.log1p(self.drift_ratio), math.log1p(delta_ratio)
        low, high = ends[0] - drift, ends[1] + drift
        within = -delta < low and high < delta
        verdict = "faster" if low > 0 else "slower" if high < 0 else "equivalent" if within else ""
        return Comparison(
            ratio=Estimate(
                value=a.value / b.value,
                low=math.exp(low),
                high=math.exp(high),
                level_ratio=LEVEL_RATIO,
                n=min(a.n, b.n),
                unit="ratio",
                method="ratio of the two values; from their intervals",
            ),
            verdict=verdict or INCONCLUSIVE,
            reason="" if verdict else "the interval includes no difference and one that matters",
            design=self.design,
        )


def weigh_met(match: Match) -> Weighing | None:
    """By what the two saw of each other, or both of one baseline, in one session; else None."""
    a, b = match.a, match.b
    if a.plan_id != b.plan_id:
        return None
    if _met(b, a):
        return Weighing(design=b.evidence.design, pairs=_pairs(b))
    if _met(a, b):
        turned = tuple(Pair(pair.theirs, pair.ours) for pair in _pairs(a))
        return Weighing(design=a.evidence.design, pairs=turned)
    shared = a.trial.baseline_id is not None and a.trial.baseline_id == b.trial.baseline_id
    if not (shared and a.evidence.pairs_ns and b.evidence.pairs_ns):
        return None
    return Weighing(
        design=f"{b.evidence.design} via baseline", b=_relative_times(b), a=_relative_times(a)
    )


def weigh_speedups(match: Match) -> Weighing | None:
    """By what each side gained over its own baseline, in its own session; else None."""
    b, a = (tuple(math.exp(pair.log_ratio) for pair in _pairs(s)) for s in (match.b, match.a))
    design = f"{match.b.evidence.design} via baseline"
    return Weighing(design=design, b=b, a=a) if a and b else None


def weigh_apart(match: Match, metric: str, drift_ratio: float) -> Weighing | None:
    """By each process's own value, else by the two intervals; None where a side has neither."""
    b, a = (side.evidence.values.get(metric, ()) for side in (match.b, match.a))
    if a and b:
        return Weighing(design="sequential", b=b, a=a, drift_ratio=drift_ratio)
    b_own, a_own = (
        side.summary and side.summary.metrics.get(metric) for side in (match.b, match.a)
    )
    if b_own and a_own and None not in (b_own.low, a_own.low):
        return Weighing(design="sequential", intervals=(b_own, a_own), drift_ratio=drift_ratio)
    return None


def drift_ratio(match: Match, across: Collection[str]) -> float | None:
    """From the fastest to the slowest canary of both sides; None where a side has none.

    Where machines are what is compared, only what each drifted by itself counts.
    """
    sides = [looks_ns(side) for side in (match.a, match.b)]
    if not all(sides):
        return None
    if "hardware" in across:
        return math.prod(max(looks) / min(looks) for looks in sides) - 1
    looks = [look for side in sides for look in side]
    return max(looks) / min(looks) - 1


def looks_ns(stored: StoredTrial) -> list[float]:
    """Every canary around the processes that count."""
    return [look for looks in stored.evidence.canaries_ns for look in looks]


def delta_ratio(match: Match) -> float:
    """The larger of what the two call too small to matter."""
    results = [side.result for side in (match.a, match.b)]
    return max(DELTA_RATIO if result is None else result.delta_ratio for result in results)


def alpha(match: Match, family: int) -> float:
    """The error rate of one of `family` comparisons that are read together.

    Bonferroni's, after what each side's own looks at its processes have cost.
    """
    return _after_own_looks(match) / family


def after_looks(match: Match, p_value: float | None) -> float | None:
    """A p-value on the scale on which 5 % is 5 % in spite of each side's own looks."""
    return None if p_value is None else min(1.0, p_value * ALPHA / _after_own_looks(match))


def _after_own_looks(match: Match) -> float:
    spent = [ALPHA if s.result is None else s.result.stop_alpha for s in (match.a, match.b)]
    return min(ALPHA, *spent)


def is_same(match: Match) -> bool:
    """Whether both sides are the same observations."""
    a, b = match.a, match.b
    started = [None if side.result is None else side.result.started_at for side in (a, b)]
    same = a.plan_id == b.plan_id and a.trial.trial_id == b.trial.trial_id
    return same and started[0] == started[1]


def is_exact(match: Match, metric: str) -> bool:
    """Whether there is nothing to estimate."""
    return metric in metric_kinds.EXACT or is_same(match)


def _met(stored: StoredTrial, other: StoredTrial) -> bool:
    """Whether the processes of one met the other as their baseline."""
    is_baseline = stored.trial.baseline_id == other.trial.trial_id
    return is_baseline and bool(stored.evidence.pairs_ns)


def _pairs(stored: StoredTrial) -> tuple[Pair, ...]:
    return tuple(Pair(ours, theirs) for ours, theirs in stored.evidence.pairs_ns)


def _relative_times(stored: StoredTrial) -> tuple[float, ...]:
    return tuple(pair.ours / pair.theirs for pair in _pairs(stored))

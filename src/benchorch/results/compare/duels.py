"""Two versions in processes back to back: whether the new one is slower by more than a limit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Estimate
from benchorch.results.compare.gate import APART, MOST_PROCESSES, UNCLEAR, Gated, gated
from benchorch.results.compare.metric_kinds import FASTER, FLOOR, LATENCY, SLOWER
from benchorch.results.compare.verdicts import (
    EQUIVALENT,
    INCONCLUSIVE,
    REFUSED,
    MetricVerdict,
)
from benchorch.stats.between_processes import over_processes
from benchorch.stats.interval_arithmetic import quotient
from benchorch.stats.median_of_pairs import median_of_pairs
from benchorch.stats.pairs import ADJACENT, Pair
from benchorch.stats.position_effect import by_order, effect_of_order
from benchorch.stats.quantiles import ALPHA
from benchorch.stats.ratio_test import compare_pairs
from benchorch.stats.sequential_testing import USUAL_LOOKS, look_alpha
from benchorch.units import NS_PER_MS

LOOKS = USUAL_LOOKS
"""Counts of pairs at which a duel may end; fewer than the first decide nothing."""

_STATISTICS = 2  # the median and the floor, which are read together


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTimes:
    """Time per query of one process of a trial, in nanoseconds.

    Attributes:
        median: its primary metric.
        floor: its first percentile; None where it has too few calls, or a schedule.
    """

    median: float
    floor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """One process of each version, back to back.

    Attributes:
        new_first: whether the new one ran first.
    """

    new: ProcessTimes
    old: ProcessTimes
    new_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelTerms:
    """Error levels and margins of a duel.

    Attributes:
        limit_ratio: by which share the new version may be slower.
        delta_ratio: differences up to this share do not matter.
        trials: how many are read together.
    """

    limit_ratio: float
    delta_ratio: float
    trials: int

    @property
    def alpha(self) -> float:
        """Level of one interval at one of the `LOOKS`, for a family-wise 5 %."""
        return look_alpha(LOOKS, ALPHA / (_STATISTICS * self.trials))


def judge(name: str, meetings: Sequence[Meeting], terms: DuelTerms) -> Gated:
    """State of a trial by its medians, or by its floors if these are inconclusive.

    Estimator: `compare_pairs` of the medians, `median_of_pairs` of the floors: a process that runs
    beside another program's work from its start to its end has a floor that is far off. Both are
    without the effect of the order in which the two ran.
    """
    medians = [(meeting.new.median, meeting.old.median) for meeting in meetings]
    floors = [
        (meeting.new.floor, meeting.old.floor)
        for meeting in meetings
        if meeting.new.floor is not None and meeting.old.floor is not None
    ]
    first = [meeting.new_first for meeting in meetings]

    def of(metric: str, values: Sequence[tuple[float, float]]) -> _Pairs:
        return _Pairs(name=name, metric=metric, values=values, first=first, terms=terms)

    floor = of(FLOOR, floors).by_median() if len(floors) == len(medians) else None
    found = gated(of(LATENCY, medians).by_mean(), floor, terms.limit_ratio)
    return replace(found, remark=_advice(found)) if found.state == UNCLEAR else found


def refused(name: str, reason: str, terms: DuelTerms) -> Gated:
    """A trial that one of the two could not run."""
    verdict = MetricVerdict(
        name=name, metric=LATENCY, a=None, b=None, verdict=REFUSED, reason=reason
    )
    return gated(verdict, None, terms.limit_ratio)


def position(meetings: Sequence[Meeting]) -> Estimate | None:
    """Time of whichever version runs first in a pair over what it takes as the second."""
    logs = [
        (math.log(meeting.old.median / meeting.new.median), meeting.new_first)
        for meeting in meetings
    ]
    return effect_of_order(*by_order(logs))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """One statistic of each pair, of the new and of the old version, ns."""

    name: str
    metric: str
    values: Sequence[tuple[float, float]]
    first: Sequence[bool]
    terms: DuelTerms

    def by_mean(self) -> MetricVerdict:
        """Verdict by the mean of logarithms, and a paired t."""
        found = compare_pairs(
            [Pair(*pair) for pair in self.values],
            ADJACENT,
            delta_ratio=self.terms.delta_ratio,
            alpha=self.terms.alpha,
            first=self.first,
        )
        assert found is not None  # there is a pair
        return self._judged(quotient(1, found.ratio), found.verdict, found.p_value)

    def by_median(self) -> MetricVerdict:
        """Verdict by the median of the pairs; by their mean if they are too few."""
        ratio = median_of_pairs(
            [math.log(new / old) for new, old in self.values], self.first, alpha=self.terms.alpha
        )
        if ratio is None:
            return self.by_mean()
        return self._judged(ratio, _word(ratio, self.terms.delta_ratio), None)

    def _judged(self, ratio: Estimate, verdict: str, p_value: float | None) -> MetricVerdict:
        new, old = ([ns / NS_PER_MS for ns in side] for side in zip(*self.values, strict=True))
        return MetricVerdict(
            name=self.name,
            metric=self.metric,
            a=over_processes(old, unit="ms"),
            b=over_processes(new, unit="ms"),
            ratio=ratio,
            verdict=verdict,
            design=ADJACENT,
            p_value=p_value,
            is_evidence=len(self.values) >= LOOKS[0] and ratio.low is not None,
        )


def _word(ratio: Estimate, delta_ratio: float) -> str:
    """The verdict that an interval of new over old gives."""
    assert ratio.low is not None
    assert ratio.high is not None
    if ratio.low > 1 or ratio.high < 1:
        return SLOWER if ratio.low > 1 else FASTER
    within = 1 / (1 + delta_ratio) < ratio.low and ratio.high < 1 + delta_ratio
    return EQUIVALENT if within else INCONCLUSIVE


def _advice(found: Gated) -> str:
    """How an unclear case could become clear."""
    if found.judged.ratio is None or found.judged.ratio.n < LOOKS[0]:
        return f"fewer than {LOOKS[0]} pairs tell nothing: --minutes gives it longer"
    if found.processes_needed is not None:
        return f"some {found.processes_needed} pairs would tell, if the machine stays as it is"
    if found.remark.startswith("no number"):
        return f"no number of pairs up to {MOST_PROCESSES} would tell; a larger limit would"
    together = "only part of the calls changed, or there are too few pairs (--pairs)"
    return found.remark.replace(APART, together)

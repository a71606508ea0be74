"""A table as one family: all candidates against one baseline, and the best against the others.

Contract
--------
``judged(candidates, terms)`` takes the log ratios that each `Candidate` has so far, in the order
of its processes, and returns a `Family`: for each candidate a `Standing`, the set of best, and who
needs more processes. It is pure and remembers nothing. A scheduler asks it

- after every process or round, with ``interim=True``: each candidate is then judged by the pairs of
  its last planned look, so that asking more often costs nothing. Run each that has a `next_look` up
  to it, and ask again. Where none has one, or time is up, measuring ends.
- at the end with ``interim=False`` (the default): all pairs count, as in the report.

A candidate whose trial is still to come is one without log ratios, or is counted in
``terms.planned``. What may be given no verdict whatever its numbers is not handed in.

Method
------
Contrasts: each candidate's mean log ratio, two-sided (m of them); and, since the best is compared
with all others, m - 1 one-sided differences of two candidates' mean log ratios, which is their
ratio because both met the same baseline. All m + (m - 1) / 2 two-sided contrasts share the error
rate equally (Bonferroni: whatever their dependence, at any numbers of pairs), and each contrast's
share is spent on the looks by constant levels that are calibrated for Student's t.

A step-down procedure (Holm, closed tests) would decide a few pairs earlier, but the intervals that
belong to it say nothing but the sign once a hypothesis is rejected. Here the verdict follows from
the interval beside it. Dunnett's constant for ten candidates is within 1 % of Bonferroni's, since
candidates have baselines measured anew and their ratios hardly correlate.

Set of best: a candidate, or the baseline, is out where another is shown to be faster. The best one
is out in at most one table of twenty (with ties, a given one of those), and so is a false winner.

Variances: each candidate's own, moderated by those of all candidates from `LEAST_TRIALS` on; an own
variance that is too large to come from the others' law is not moderated (robust moderation).
Differences of two candidates: Welch's degrees of freedom. One or two candidates have a moderated
variance up to four pairs only, with an assumed spread.

Sources
-------
Dunnett 1955; Hsu, *Constrained simultaneous confidence intervals for multiple comparisons with the
best*, 1984; Strassburger and Bretz 2008, on the intervals of step-down procedures; Jennison and
Turnbull, *Group Sequential Methods*, 2000, chapters 2 and 9 (repeated confidence intervals);
Smyth 2004 and Phipson et al. 2016 (robust moderated variance); Welch 1947.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.moderated_variance import ASSUMED, UsualSpread, usual_spread_of_logs
from benchorch.stats.quantiles import LEVEL_RATIO
from benchorch.stats.sequential_testing import LEAST_PAIRS, look_alpha
from benchorch.stats.significance import student_p
from benchorch.stats.student import student_t

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FASTER, SLOWER, EQUIVALENT, UNDECIDED = "faster", "slower", "equivalent", "undecided"

_FEW = 4
"""Degrees of freedom below which an assumed spread takes the place of other candidates'."""

_OUTLYING = 0.05
_MOST_PAIRS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Observations of one candidate.

    Attributes:
        log_ratios: of each pair, the logarithm of the baseline's over the candidate's time, in
            the order of processes; above 0 where the candidate is faster. Finite.
        alone: whether it stopped where its own spread decided it, by a rule that knew of no other
            candidate: what it showed then must stand.
    """

    name: str
    log_ratios: tuple[float, ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Margins and looks of a table; all that is claimed of it holds at `LEVEL_RATIO`.

    Attributes:
        baseline: its name in the set of best.
        delta_ratio: differences up to this share are of no practical importance; None where
            every difference is.
        looks: planned counts of pairs at which to judge; empty for a single analysis.
        most: processes that a candidate may have; None for any number.
        planned: how many candidates the table will have, where not all of them are given.
    """

    baseline: str = "baseline"
    delta_ratio: float | None = 0.01
    looks: tuple[int, ...] = ()
    most: int | None = None
    planned: int = 0

    @property
    def delta(self) -> float:
        """The smallest logarithm that matters."""
        return math.log1p(self.delta_ratio or 0.0)

    def contrast_alpha(self, candidates: int) -> float:
        """The two-sided error rate of each contrast at each analysis."""
        count = max(candidates, self.planned, 1)
        overall = round(1.0 - LEVEL_RATIO, 12) / (count + (count - 1) / 2)
        return look_alpha(self.looks, overall)

    def last_look(self, n: int) -> int:
        """How many of `n` pairs had been seen at the last look; 0 before the first."""
        full = self.most is not None and n >= self.most
        return n if full or not self.looks else max((k for k in self.looks if k <= n), default=0)

    def next_look(self, n: int) -> int | None:
        """The count at which it is judged next; None where no more may be added."""
        most = math.inf if self.most is None else self.most
        if n >= most:
            return None
        following = min((look for look in self.looks if look > n), default=most)
        return n + 1 if following == math.inf else int(min(following, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Interval, p-value and verdict of one candidate.

    Attributes:
        n: pairs that it was judged by.
        verdict: ``faster``, ``slower`` or ``equivalent`` to the baseline, or ``undecided``.
        ratio: baseline's over candidate's time, the geometric mean of the pairs; None without any.
        low, high: its interval, simultaneous with all of the table; None below `LEAST_PAIRS`.
        p_value: of no difference, as if this were the only comparison and the only analysis.
        adjusted_p_value: the same for the whole table and all its looks: below 1 - `LEVEL_RATIO`
            exactly where the interval excludes 1.
        rank_open: whether it may win, may not, or ties with the leader by less than matters, is
            still to be found.
        more: further pairs predicted to settle verdict and rank; None where nothing is open or
            nothing can be predicted.
        next_look: count of pairs at which to judge it next; None where nothing is open, or no more
            processes are allowed.
    """

    name: str
    n: int
    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    rank_open: bool = True
    more: int | None = None
    next_look: int | None = None

    @property
    def decided(self) -> bool:
        """Whether neither its verdict nor its rank is open."""
        return self.verdict != UNDECIDED and not self.rank_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Verdicts of a table, with the set of best.

    Attributes:
        standings: in the order of the candidates.
        best: the names of all that cannot be told from the best, the baseline's among them where
            it may be; a single name is a winner.
    """

    standings: tuple[Standing, ...]
    best: frozenset[str]

    def of(self, name: str) -> Standing:
        """The standing of this candidate."""
        return next(one for one in self.standings if one.name == name)


def judged(candidates: Sequence[Candidate], terms: Terms, *, interim: bool = False) -> Family:
    """Verdicts that the pairs support; see the module for method and sources.

    Parameters
    ----------
    candidates : sequence of Candidate, length m
        With any, and differing, numbers of pairs.
    terms : Terms
    interim : bool
        Whether more may follow: each is then judged by the pairs of its last look.

    Returns
    -------
    Family
        For m = 0 the baseline is the winner. A candidate with fewer than `LEAST_PAIRS` pairs has
        no interval, is undecided and may win.
    """
    have = {one.name: len(one.log_ratios) for one in candidates}
    used = {
        one.name: one.log_ratios[: terms.last_look(have[one.name]) if interim else None]
        for one in candidates
    }
    alpha = terms.contrast_alpha(len(candidates))
    means = _means(candidates, used, alpha)
    table = _TableContrasts({terms.baseline: _BASELINE, **means}, alpha, terms)
    standings = (table.standing(n) if n in means else _unknown(n, used[n]) for n in used)
    unknown = used.keys() - means.keys()
    return Family(
        standings=tuple(_with_next(one, have[one.name], terms) for one in standings),
        best=frozenset(unknown.union(table.unbeaten)),
    )


def _unknown(name: str, logs: Sequence[float]) -> Standing:
    """Standing of a candidate with too few pairs."""
    ratio = bounded_exp(math.fsum(logs) / len(logs)) if logs else None
    return Standing(name=name, n=len(logs), verdict=UNDECIDED, ratio=ratio)


def _with_next(one: Standing, have: int, terms: Terms) -> Standing:
    return one if one.decided else replace(one, next_look=terms.next_look(have))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """A mean of logarithms: `variance` is of a single one, `freedom` its degrees of freedom."""

    centre: float
    variance: float
    freedom: float
    n: int


_BASELINE = _Mean(centre=0.0, variance=0.0, freedom=math.inf, n=1)


def _means(
    candidates: Sequence[Candidate], used: Mapping[str, Sequence[float]], alpha: float
) -> dict[str, _Mean]:
    usual = usual_spread_of_logs(used.values())
    return {
        one.name: _mean(used[one.name], ASSUMED if one.alone else usual, alpha)
        for one in candidates
        if len(used[one.name]) >= LEAST_PAIRS
    }


def _mean(logs: Sequence[float], usual: UsualSpread, alpha: float) -> _Mean:
    n = len(logs)
    centre = math.fsum(logs) / n
    own = math.fsum((x - centre) ** 2 for x in logs) / (n - 1)
    variance, freedom = _moderated(own, n - 1, usual, alpha)
    return _Mean(centre=centre, variance=variance, freedom=freedom, n=n)


def _moderated(
    own: float, own_freedom: int, usual: UsualSpread, alpha: float
) -> tuple[float, float]:
    """The variance and its degrees of freedom, after what the other candidates show."""
    from scipy.special import fdtrc

    freedom = own_freedom + usual.freedom
    variance = (usual.freedom * usual.variance + own_freedom * own) / freedom
    if usual.assumed:
        alone = student_t(alpha, own_freedom) * math.sqrt(own)
        few = own_freedom < _FEW and student_t(alpha, freedom) * math.sqrt(variance) > alone
        return (variance, freedom) if few else (own, own_freedom)
    rare = fdtrc(own_freedom, usual.freedom, own / usual.variance) < _OUTLYING
    return (own, own_freedom) if rare else (variance, freedom)


class _TableContrasts:
    """All contrasts of a table at one error rate each.

    Args:
        means: of all that have pairs enough, the baseline among them.

    Attributes:
        leader: the name of the largest centre.
        unbeaten: the names of those that nothing is shown to be faster than.
    """

    def __init__(self, means: Mapping[str, _Mean], alpha: float, terms: Terms) -> None:
        import numpy as np

        self._alpha = alpha
        self._terms = terms
        self._means = means
        self._places = {name: place for place, name in enumerate(means)}
        centres = np.array([one.centre for one in means.values()])
        self._gaps = centres[:, None] - centres
        self._reaches = _reaches(list(means.values()), alpha)
        beaten = (self._gaps > self._reaches).any(axis=0)
        self.leader = max(means, key=lambda name: means[name].centre)
        self.unbeaten = [name for name, place in self._places.items() if not beaten[place]]

    def standing(self, name: str) -> Standing:
        """Standing of one candidate."""
        own, baseline = self._means[name], self._terms.baseline
        reach, rivals = self._reach(name, baseline), self._rivals(name)
        verdict = self._verdict(own.centre, reach)
        p = student_p(own.centre, math.sqrt(own.variance / own.n), own.freedom)
        scale = (1.0 - LEVEL_RATIO) / self._alpha
        return Standing(
            name=name,
            n=own.n,
            verdict=verdict,
            ratio=bounded_exp(own.centre),
            low=bounded_exp(own.centre - reach),
            high=bounded_exp(own.centre + reach),
            p_value=p,
            adjusted_p_value=min(1.0, p * scale),
            rank_open=bool(rivals),
            more=self._more(name, {*rivals, *([baseline] if verdict == UNDECIDED else [])}),
        )

    def _verdict(self, centre: float, reach: float) -> str:
        if abs(centre) > reach:
            return FASTER if centre > 0 else SLOWER
        return EQUIVALENT if abs(centre) + reach < self._terms.delta else UNDECIDED

    def _rivals(self, name: str) -> list[str]:
        """Who must still be told from it: of the leader all that may win, of those the leader."""
        if name not in self.unbeaten:
            return []
        others = self.unbeaten if name == self.leader else [self.leader]
        return [other for other in others if other != name and not self._ties(name, other)]

    def _ties(self, name: str, other: str) -> bool:
        """Whether they are shown to differ by less than matters."""
        return self._gap(name, other) + self._reach(name, other) < self._terms.delta

    def _gap(self, name: str, other: str) -> float:
        return abs(float(self._gaps[self._places[name], self._places[other]]))

    def _reach(self, name: str, other: str) -> float:
        return float(self._reaches[self._places[name], self._places[other]])

    def _more(self, name: str, others: Iterable[str]) -> int | None:
        """Pairs after which it would differ from each of these, all else being equal."""
        found = [self._more_against(name, other) for other in others]
        known = [more for more in found if more is not None]
        return max(known) if known and len(known) == len(found) else None

    def _more_against(self, name: str, other: str) -> int | None:
        gap = self._gap(name, other)
        # Either no difference comes to lie outside the interval, or all that matter do.
        target = max(gap, self._terms.delta - gap)
        few, many = 0, 1
        while self._reach_after(name, other, many) > target:
            few, many = many, 2 * many
            if many > _MOST_PAIRS:
                return None
        while many - few > 1:
            middle = (few + many) // 2
            narrow = self._reach_after(name, other, middle) <= target
            few, many = (few, middle) if narrow else (middle, many)
        return many

    def _reach_after(self, name: str, other: str, more: int) -> float:
        """Half-width of the contrast after that many more pairs of either candidate."""
        sides = [one for one in (self._means[name], self._means[other]) if one.variance]
        shares = [one.variance / (one.n + more) for one in sides]
        inverse = sum(
            share**2 / (one.freedom + more) for share, one in zip(shares, sides, strict=True)
        )
        total = math.fsum(shares)
        return student_t(self._alpha, total**2 / inverse) * math.sqrt(total) if total else 0.0


def _reaches(means: Sequence[_Mean], alpha: float) -> NDArray[float64]:
    """Half the interval of the difference of any two, Welch's degrees of freedom; shape (k, k)."""
    import numpy as np
    from scipy.special import stdtrit

    shares = np.array([one.variance / one.n for one in means])
    freedoms = np.array([one.freedom for one in means])
    total = shares[:, None] + shares
    weights = shares**2 / freedoms
    inverse = weights[:, None] + weights
    known = inverse > 0
    freedom = np.divide(total**2, inverse, out=np.ones_like(total), where=known)
    reaches: NDArray[float64] = stdtrit(freedom, 1.0 - alpha / 2.0) * np.sqrt(total)
    return reaches

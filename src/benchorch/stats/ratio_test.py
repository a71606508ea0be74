"""Ratio of a candidate's and its baseline's times, with interval and verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.family import UNDECIDED, Standing
from benchorch.stats.pairs import SEQUENTIAL, Pair
from benchorch.stats.position_effect import by_order, error_over_orders
from benchorch.stats.quantiles import ALPHA, LEVEL_RATIO
from benchorch.stats.sequential_testing import LEAST_PAIRS
from benchorch.stats.significance import student_p
from benchorch.stats.student import student_t

DELTA_RATIO = 0.01
WELCH = "ratio of medians; Welch t on logarithms of independent processes"
PAIRED = "ratio of medians; paired t on logarithms"
IN_FAMILY = "ratio of medians; simultaneous t on paired logarithms, moderated variance"
INCONCLUSIVE = "inconclusive"
UNCLEAR = "the interval includes both no difference and one that matters"

LEAST_MATERIAL = 5
"""Minimum of pairs for practical significance: fewer err more often than once in 200 times."""

_MOST_PAIRS = 100_000


def compare(
    candidate: Sequence[float],
    baseline: Sequence[float],
    *,
    delta_ratio: float = DELTA_RATIO,
    alpha: float = ALPHA,
    drift_ratio: float = 0.0,
) -> Comparison | None:
    """Two sets of processes that were measured apart: one after the other, or in two sessions.

    Estimator: difference of the means of logarithms, exponentiated: baseline's time over
    candidate's, above 1 where the candidate is faster. Interval: Welch's t, so that the two may
    spread differently, widened on both sides by what the machine may have drifted in between; p
    is of no difference beyond that. Swapping the two inverts ratio and interval and flips the
    verdict; scaling both changes nothing.

    Parameters
    ----------
    candidate, baseline : sequences of float, lengths n and m
        Each process's headline, positive, both in one unit.
    delta_ratio : float
        Differences up to this share are of no practical importance.
    alpha : float
        Error rate of the interval, where the machine did not drift.
    drift_ratio : float
        By which share the machine may have become faster or slower between the two.

    Returns
    -------
    Comparison or None
        None where a side is empty or holds a NaN or a value that is not positive; without an
        interval, and so inconclusive, where a side has a single process.

    Source
    ------
    Welch, *The generalization of Student's problem*, 1947; equivalence by inclusion of the
    interval: Westlake, 1972.
    """
    sides = candidate, baseline
    if not all(side and all(0 < x < math.inf for x in side) for side in map(list, sides)):
        return None
    ours, theirs = ([math.log(time) for time in side] for side in sides)
    found = _welch(ours, theirs)
    few = "a single process shows no spread between processes" if found.n < 2 else ""
    terms = _Terms(delta_ratio=delta_ratio, alpha=alpha, drift=math.log1p(drift_ratio), few=few)
    return replace(_comparison(found, terms, WELCH), design=SEQUENTIAL)


def compare_pairs(
    pairs: Sequence[Pair],
    design: str,
    *,
    delta_ratio: float = DELTA_RATIO,
    alpha: float = ALPHA,
    first: Sequence[bool] = (),
) -> Comparison | None:
    """Comparison of two sides that were paired in each process, or in adjacent ones.

    Estimator: mean of the pairs' log ratios, exponentiated; paired t. What the two of a pair
    share, such as the machine's drift, is in neither. Swapping the two inverts ratio and interval
    exactly on the scale of logarithms and flips the verdict; neither scale nor order of the pairs
    matters. With `first` what coming first costs is in neither as well: the mean of both orders'
    means, their pooled variance, and n - 2 degrees of freedom.

    Parameters
    ----------
    pairs : sequence of Pair, length n
        Each side's median in each pair.
    delta_ratio : float
        Differences up to this share are of no practical importance.
    alpha : float
        Error rate of the interval: below `ALPHA` where the number of pairs was chosen by looking,
        or where several comparisons are read together.
    first : sequence of bool, length n
        Where the candidate came first; empty where the order is not accounted for. Without effect
        below 3 pairs, and where all have one order.

    Returns
    -------
    Comparison or None
        None for n = 0; without an interval for n = 1; without a verdict below `LEAST_PAIRS`.

    Source
    ------
    Kalibera and Jones, 2013, on effect sizes with intervals; equivalence: Westlake, 1972; both
    orders: Jones and Kenward, *Design and Analysis of Cross-Over Trials*, 2014, section 2.
    """
    if not pairs:
        return None
    ratios = [pair.log_ratio for pair in pairs]
    n = len(ratios)
    found = _crossed(ratios, first) if first else _paired(ratios)
    few = f"{n} of the {LEAST_PAIRS} pairs that a verdict needs at least" if n < LEAST_PAIRS else ""
    terms = _Terms(delta_ratio=delta_ratio, alpha=alpha, few=few)
    compared = _comparison(found, terms, PAIRED)
    settled = compared.verdict != INCONCLUSIVE
    return replace(
        compared,
        design=design,
        pairs_needed=None if settled else _pairs_needed(found, terms),
    )


def paired_comparison(
    standing: Standing, pairs: Sequence[Pair], *, design: str, delta_ratio: float
) -> Comparison:
    """`compare_pairs` for pairs that a table has judged as a member of its family."""
    n, delta = len(pairs), math.log1p(delta_ratio)
    undecided = standing.verdict == UNDECIDED
    few = f"{n} of the {LEAST_PAIRS} pairs that a verdict needs at least" if n < LEAST_PAIRS else ""
    low, high = (end and math.log(end) for end in (standing.low, standing.high))
    beyond = low is not None and high is not None and (low > delta or high < -delta)
    return Comparison(
        ratio=Estimate(
            value=math.nan if standing.ratio is None else standing.ratio,
            low=standing.low,
            high=standing.high,
            level_ratio=LEVEL_RATIO,
            n=n,
            unit="ratio",
            method=IN_FAMILY,
        ),
        verdict=INCONCLUSIVE if undecided else standing.verdict,
        reason=(few or UNCLEAR) if undecided else "",
        design=design,
        p_value=standing.p_value,
        adjusted_p_value=standing.adjusted_p_value,
        material=n >= LEAST_MATERIAL and beyond,
        pairs_needed=standing.more if undecided else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """Error level and margin of a difference.

    Attributes:
        drift: logarithm by which the interval is widened on both sides.
        few: why there are too few observations for a verdict; empty where there are enough.
    """

    delta_ratio: float
    alpha: float
    drift: float = 0.0
    few: str = ""

    @property
    def delta(self) -> float:
        """The smallest logarithm that matters."""
        return math.log1p(self.delta_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """A mean difference of logarithms.

    Attributes:
        centre: baseline's less candidate's: above 0 where the candidate is faster.
        spread: its standard error; None where nothing is known of it.
        degrees_of_freedom: of the spread.
        n: observations of the smaller side.
    """

    centre: float
    spread: float | None
    degrees_of_freedom: float
    n: int

    def interval(self, terms: _Terms) -> tuple[float, float]:
        """Ends of the interval; infinite if the spread is unknown."""
        if self.spread is None:
            return -math.inf, math.inf
        reach = terms.drift
        if self.spread:
            reach += student_t(terms.alpha, self.degrees_of_freedom) * self.spread
        return self.centre - reach, self.centre + reach

    def p_value(self, drift: float) -> float | None:
        """P-value of no difference beyond the drift."""
        if self.spread is None:
            return None
        return student_p(max(abs(self.centre) - drift, 0.0), self.spread, self.degrees_of_freedom)


def _paired(ratios: Sequence[float]) -> _Difference:
    n = len(ratios)
    variance = _variance(ratios)
    return _Difference(
        centre=math.fsum(ratios) / n,
        spread=None if variance is None else math.sqrt(variance / n),
        degrees_of_freedom=n - 1,
        n=n,
    )


def _crossed(ratios: Sequence[float], first: Sequence[bool]) -> _Difference:
    """`_paired` without the effect of the order."""
    orders = by_order(zip(ratios, first, strict=True))
    freedom = len(ratios) - 2
    if freedom < 1 or not all(orders):
        return _paired(ratios)
    return _Difference(
        centre=math.fsum(math.fsum(values) / len(values) for values in orders) / 2,
        spread=error_over_orders(*orders),
        degrees_of_freedom=freedom,
        n=len(ratios),
    )


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> _Difference:
    centre = math.fsum(theirs) / len(theirs) - math.fsum(ours) / len(ours)
    smaller = min(len(ours), len(theirs))
    variances = _variance(ours), _variance(theirs)
    if variances[0] is None or variances[1] is None:
        return _Difference(centre=centre, spread=None, degrees_of_freedom=0, n=smaller)
    shares = variances[0] / len(ours), variances[1] / len(theirs)
    total = shares[0] + shares[1]
    weights = [share / total for share in shares] if total else [0.5, 0.5]
    sizes = len(ours), len(theirs)
    inverse = sum(weight**2 / (n - 1) for weight, n in zip(weights, sizes, strict=True))
    return _Difference(
        centre=centre, spread=math.sqrt(total), degrees_of_freedom=1 / inverse, n=smaller
    )


def _variance(values: Sequence[float]) -> float | None:
    """Around the mean with n - 1; exactly rounded sums, so that order does not matter."""
    n = len(values)
    if n < 2:
        return None
    centre = math.fsum(values) / n
    return math.fsum((value - centre) ** 2 for value in values) / (n - 1)


def _comparison(found: _Difference, terms: _Terms, method: str) -> Comparison:
    low, high = found.interval(terms)
    verdict = "" if terms.few else _verdict(found, terms)
    known = found.spread is not None
    ratio = Estimate(
        value=bounded_exp(found.centre),
        low=bounded_exp(low) if known else None,
        high=bounded_exp(high) if known else None,
        level_ratio=LEVEL_RATIO,
        n=found.n,
        unit="ratio",
        method=method,
    )
    beyond = low > terms.delta or high < -terms.delta
    return Comparison(
        ratio=ratio,
        verdict=verdict or INCONCLUSIVE,
        reason="" if verdict else terms.few or UNCLEAR,
        p_value=found.p_value(terms.drift),
        material=bool(verdict) and found.n >= LEAST_MATERIAL and beyond,
    )


def _verdict(found: _Difference, terms: _Terms) -> str:
    """Verdict that the interval supports; empty for none."""
    low, high = found.interval(terms)
    if low > 0:
        return "faster"
    if high < 0:
        return "slower"
    return "equivalent" if -terms.delta < low and high < terms.delta else ""


def _pairs_needed(found: _Difference, terms: _Terms) -> int | None:
    """Further pairs after which the interval would be narrow enough, were nothing else to change.

    None where the spread is not known and where there would be too many to measure.
    """
    if found.spread is None:
        return None
    deviation = found.spread * math.sqrt(found.n)
    # Either no difference comes to lie outside the interval, or all that matter do.
    target = max(abs(found.centre), terms.delta - abs(found.centre))
    fewest = max(found.n, LEAST_PAIRS - 1)
    enough = fewest + 1
    while student_t(terms.alpha, enough - 1) * deviation / math.sqrt(enough) > target:
        fewest, enough = enough, 2 * enough
        if enough > _MOST_PAIRS:
            return None
    while enough - fewest > 1:
        middle = (fewest + enough) // 2
        reach = student_t(terms.alpha, middle - 1) * deviation / math.sqrt(middle)
        fewest, enough = (fewest, middle) if reach <= target else (middle, enough)
    return enough - found.n

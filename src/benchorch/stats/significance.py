"""Tests of no difference, and how large a difference is: companions of an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


MOST_EXACT = 20
"""Pairs up to which every one of the 2**n ways to flip signs is looked at."""

FLIPS = 10_000


def student_p(distance: float, spread: float, degrees_of_freedom: float) -> float:
    """Two-sided p of Student's t for a mean `distance` from zero with standard error `spread`.

    Without any spread it is 1 at a distance of 0 and 0 anywhere else.
    """
    from scipy.special import stdtr

    if spread == 0:
        return 1.0 if distance == 0 else 0.0
    return float(2.0 * stdtr(degrees_of_freedom, -abs(distance) / spread))


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of no difference, which assumes of the differences only that they are symmetric.

    Estimator: the share of ways to flip signs whose sum is at least as far from zero as the one
    seen; all ways up to `MOST_EXACT` differences, else `FLIPS` seeded random ones and the one
    seen. Neither the order of the differences nor the sign of all of them matters.

    Parameters
    ----------
    differences : sequence of float, length n
        One a pair. For n = 0, and where they add up to 0, the result is 1; for n = 5 it cannot
        fall below 1/16.

    Source
    ------
    Fisher, *The Design of Experiments*, 1935; the random version with the seen one counted:
    Phipson and Smyth, *Permutation p-values should never be zero*, 2010.
    """
    import numpy as np  # late: `compare --help` and `gate --help` import this module

    sizes = np.sort(np.abs(np.asarray(differences, dtype=np.float64)))
    observed = abs(math.fsum(differences))
    # Sums of the same numbers in another order differ in their last digits.
    reached = observed - 1e-12 * math.fsum(sizes)
    if reached <= 0:
        return 1.0
    if sizes.size <= MOST_EXACT:
        return _share_of_all(sizes, reached)
    draws = np.random.default_rng(0).bytes(FLIPS * math.ceil(sizes.size / 8))
    bits = np.frombuffer(draws, dtype=np.uint8).reshape(FLIPS, -1)
    sums = 2.0 * (np.unpackbits(bits, axis=1, count=sizes.size) @ sizes) - sizes.sum()
    return float((1 + np.sum(np.abs(sums) >= reached)) / (1 + FLIPS))


def _share_of_all(sizes: NDArray[float64], reached: float) -> float:
    """Share of all sign flips whose sum is at least as far from zero.

    Sums of one half of the differences are counted against the sorted sums of the other: 2**20
    ways cost two thousand sums.
    """
    import numpy as np  # late: `compare --help` and `gate --help` import this module

    middle = sizes.size // 2
    some, others = _all_sums(sizes[:middle]), np.sort(_all_sums(sizes[middle:]))
    above = others.size - np.searchsorted(others, reached - some, side="left")
    below = np.searchsorted(others, -reached - some, side="right")
    return float((above + below).sum()) / (some.size * others.size)


def _all_sums(sizes: NDArray[float64]) -> NDArray[float64]:
    """The sums under all flips of signs, shape (2**n,)."""
    import numpy as np  # late: `compare --help` and `gate --help` import this module

    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums + size, sums - size))
    return sums


def cliffs_delta(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How far two samples lie apart, in ranks: 1 where each of ours is below each of theirs.

    Source: Cliff, *Dominance statistics*, 1993.
    """
    import numpy as np  # late: `compare --help` and `gate --help` import this module

    mine, other = np.asarray(ours)[:, None], np.asarray(theirs)[None, :]
    return float(np.mean(np.sign(other - mine)))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted so that all of them together err at the rate that each claims.

    Estimator: the k-th smallest of m times m - k + 1, never below the one before it, at most 1;
    in the order given.

    Source: Holm, *A simple sequentially rejective multiple test procedure*, 1979.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted

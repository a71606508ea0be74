"""Tests of no difference: companions of an interval."""

from collections.abc import Sequence


def student_p(distance: float, spread: float, degrees_of_freedom: float) -> float:
    """Two-sided p of Student's t for a mean `distance` from zero with standard error `spread`.

    Without any spread it is 1 at a distance of 0 and 0 anywhere else.
    """
    from scipy.special import stdtr

    if spread == 0:
        return 1.0 if distance == 0 else 0.0
    return float(2.0 * stdtr(degrees_of_freedom, -abs(distance) / spread))


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

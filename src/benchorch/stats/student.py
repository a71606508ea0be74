"""Critical values of Student's t."""

from functools import lru_cache


@lru_cache(maxsize=10_000)
def student_t(alpha: float, degrees_of_freedom: float) -> float:
    """The two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 1.0 - alpha / 2.0))

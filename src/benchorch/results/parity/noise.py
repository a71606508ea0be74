"""How far two runs of the baseline are apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy import float64, generic
from numpy.typing import NDArray

from benchorch.domain.noise import Noise
from benchorch.results.parity.comparable import real
from benchorch.results.parity.figures import distances, finite, usable
from benchorch.results.parity.limits import (
    FLOAT32_EPSILON,
    SAME_ROUNDING_RATIO,
    SPREAD_EPSILONS,
    SPREAD_FACTOR,
)

Array = NDArray[generic]
Floats = NDArray[float64]


def noise_between(
    first: Sequence[Mapping[str, Array]],
    again: Sequence[Mapping[str, Array]],
    *,
    epsilon: float = FLOAT32_EPSILON,
) -> Noise:
    """The difference of two runs on the same inputs, without a cause.

    A value differs by rounding where the difference is small beside itself or beside the usual
    value of its channel, or within a few epsilons of the usual value of its output, for sums are
    rounded as their largest terms are; or where all values differ as little and it is one of them.

    Parameters
    ----------
    first, again : sequence of mapping from name to ndarray
        One mapping for each input, in the same order.
    epsilon : float
        Of the dtype that the baseline computes in.
    """
    found = Noise()
    for number, (one, other) in enumerate(zip(first, again, strict=True)):
        for name in dict.fromkeys((*one, *other)):
            where = f"output {name} on input {number}"
            if name not in one or name not in other:
                return Noise(ratio=1.0, beyond_rounding=True, where=where)
            here = _difference(real(one[name]), real(other[name]), where, epsilon)
            worse = (here.beyond_rounding, here.ratio) > (found.beyond_rounding, found.ratio)
            found = here if worse or (here.where and not found.where) else found
    return found


def _difference(one: Array, other: Array, where: str, epsilon: float) -> Noise:
    if one.shape != other.shape or one.dtype != other.dtype:
        return Noise(ratio=1.0, beyond_rounding=True, where=where)
    if one.dtype.kind != "f":
        share = float(np.mean(one != other)) if one.size else 0.0
        return Noise(ratio=share, beyond_rounding=share > 0, where=where if share else "")
    if np.array_equal(one, other, equal_nan=True):
        return Noise()
    ours, theirs = finite(one), finite(other)
    usual = float(np.sqrt((ours**2).mean()))
    allowed = SAME_ROUNDING_RATIO * max(epsilon / FLOAT32_EPSILON, 1.0)
    rounding = allowed * (np.abs(ours) + _usual_of_channels(ours)) + 4 * epsilon * usual
    apart = np.abs(ours - theirs)
    far = apart > rounding + _spread(apart, epsilon * usual)
    difference = Noise(ratio=distances(theirs, ours).relative_l2_ratio, where=where)
    return replace(difference, beyond_rounding=bool(far.any() or not usable(one, other).all()))


def _spread(apart: Floats, unit: float) -> float:
    """What a value may differ by where all do, as sums in another order do; 0 where some stand out.

    Deep models sum often: GPT-2's scores with one thread and with two are ten epsilons apart, and
    the worst of a million five times as far, be its word's own scores large or small.
    """
    usual = float(np.sqrt(np.square(apart).mean()))
    return SPREAD_FACTOR * usual if usual <= SPREAD_EPSILONS * unit else 0.0


def _usual_of_channels(values: Floats) -> Floats:
    """Root mean square of the smaller channel that each value is in; all of it without channels."""
    axes = range(1, values.ndim) if values.ndim > 1 else (values.ndim,)
    others = [tuple(each for each in range(values.ndim) if each != axis) for axis in axes]
    squares = [np.square(values).mean(axis=over, keepdims=True) for over in others]
    return np.asarray(np.sqrt(reduce(np.minimum, squares)))

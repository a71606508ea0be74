"""Sums and quotients of estimated quantities, with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace

from benchorch.domain.estimate import Estimate


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """The estimate of a known multiple of a quantity."""
    low, high, seen = estimate.low, estimate.high, estimate.seen
    if factor < 0:
        low, high, seen = high, low, seen and (seen[1], seen[0])
    return replace(
        estimate,
        value=estimate.value * factor,
        low=None if low is None else low * factor,
        high=None if high is None else high * factor,
        seen=seen and (seen[0] * factor, seen[1] * factor),
    )


def quotient(number: float, estimate: Estimate) -> Estimate:
    """The estimate of a known number over a quantity, both above 0.

    The largest quantity gives the smallest quotient; where it may be 0, there is no largest one.
    """
    low, high, seen = estimate.low, estimate.high, estimate.seen
    return replace(
        estimate,
        value=number / estimate.value,
        low=None if high is None else number / high,
        high=None if low is None or low <= 0 else number / low,
        seen=None if seen is None or seen[0] <= 0 else (number / seen[1], number / seen[0]),
    )


def total(estimates: Sequence[Estimate]) -> Estimate | None:
    """The sum of quantities that were estimated independently of each other.

    Estimator: the sum of the values; each end lies away from it by the root of the summed squares
    of the parts' own distances, so that an interval need not be symmetric.

    Parameters
    ----------
    estimates : sequence of Estimate, length k, all in one unit and at one level

    Returns
    -------
    Estimate or None
        None for k = 0; the very estimate for k = 1; without an interval where a part has none.
        Its n is the smallest of the parts'.

    Source
    ------
    Zou and Donner, *Construction of confidence limits about effect measures: a general approach*,
    2008.
    """
    if len(estimates) < 2:
        return estimates[0] if estimates else None
    value = math.fsum(each.value for each in estimates)
    below = [each.value - each.low for each in estimates if each.low is not None]
    above = [each.high - each.value for each in estimates if each.high is not None]
    known = len(below) == len(above) == len(estimates)
    return Estimate(
        value=value,
        low=value - math.hypot(*below) if known else None,
        high=value + math.hypot(*above) if known else None,
        level_ratio=estimates[0].level_ratio,
        n=min(each.n for each in estimates),
        unit=estimates[0].unit,
        method="sum; distances of the ends added in quadrature",
    )

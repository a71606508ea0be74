"""Effect of being first in a pair."""

import math
import statistics
from collections.abc import Iterable, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.stats.pairs import compared, log_ratio
from benchorch.stats.student import student_t

ALPHA = 0.01
LEAST_IN_ORDER = 2


def position_effect(processes: Sequence[ProcessRecord]) -> Estimate | None:
    """Time of whichever side comes first in its process, over what it takes as the second.

    Both orders occur equally often, so that the speed-up is free of it.

    Estimator: half the difference of the two orders' mean log ratios, as in a cross-over design;
    pooled t with n - 2 degrees of freedom, at 1 %. Above 1 coming first is slower.

    Returns
    -------
    Estimate or None
        None for fewer than two pairs in either order, and where nobody noted the order.

    Source
    ------
    Jones & Kenward, *Design and Analysis of Cross-Over Trials*, 2014, section 2.
    """
    paired = [
        (found, process.paired.candidate_first)
        for process in compared(processes)
        if process.paired and (found := log_ratio(process)) is not None
    ]
    known = [(found, first) for found, first in paired if first is not None]
    return effect_of_order(*by_order(known))


def by_order(pairs: Iterable[tuple[float, bool]]) -> tuple[list[float], list[float]]:
    """Values of the pairs in which the candidate came first, and of those in which it did not."""
    orders: tuple[list[float], list[float]] = ([], [])
    for value, first in pairs:
        orders[not first].append(value)
    return orders


def error_over_orders(ahead: Sequence[float], behind: Sequence[float]) -> float:
    """Standard error of the mean of both orders' means, and of half their difference.

    Of a variance that is pooled, with n - 2 degrees of freedom; neither order is empty, and n > 2.
    """
    means = [math.fsum(values) / len(values) for values in (ahead, behind)]
    squares = math.fsum(
        (value - mean) ** 2
        for values, mean in zip((ahead, behind), means, strict=True)
        for value in values
    )
    freedom = len(ahead) + len(behind) - 2
    return math.sqrt(squares / freedom * (1 / len(ahead) + 1 / len(behind))) / 2


def effect_of_order(ahead: Sequence[float], behind: Sequence[float]) -> Estimate | None:
    """`position_effect` of log ratios where the candidate was first, and second."""
    if min(len(ahead), len(behind)) < LEAST_IN_ORDER:
        return None
    n = len(ahead) + len(behind)
    effect = (statistics.fmean(behind) - statistics.fmean(ahead)) / 2
    reach = student_t(ALPHA, n - 2) * error_over_orders(ahead, behind)
    return Estimate(
        value=math.exp(effect),
        low=math.exp(effect - reach),
        high=math.exp(effect + reach),
        level_ratio=1 - ALPHA,
        n=n,
        unit="ratio",
        method="first over second: half the difference between the orders; pooled t",
    )

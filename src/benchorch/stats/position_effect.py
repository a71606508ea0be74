"""What it costs to come first in a pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

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
    orders: dict[bool, list[float]] = {True: [], False: []}
    for process in compared(processes):
        found = log_ratio(process)
        first = process.paired.candidate_first if process.paired else None
        if found is not None and first is not None:
            orders[first].append(found)
    return effect_of_order(orders[True], orders[False])


def effect_of_order(ahead: Sequence[float], behind: Sequence[float]) -> Estimate | None:
    """As `position_effect`, of log ratios where the candidate came first, and second."""
    if min(len(ahead), len(behind)) < LEAST_IN_ORDER:
        return None
    n = len(ahead) + len(behind)
    effect = (statistics.fmean(behind) - statistics.fmean(ahead)) / 2
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in (ahead, behind))
    error = math.sqrt(squares / (n - 2) * (1 / len(ahead) + 1 / len(behind))) / 2
    reach = student_t(ALPHA, n - 2) * error
    return Estimate(
        value=math.exp(effect),
        low=math.exp(effect - reach),
        high=math.exp(effect + reach),
        level_ratio=1 - ALPHA,
        n=n,
        unit="ratio",
        method="first over second: half the difference between the orders; pooled t",
    )

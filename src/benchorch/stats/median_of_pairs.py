"""The median of pairs' ratios, for pairs of which some are disturbed beyond any law."""

import math
import statistics
from collections.abc import Sequence

from benchorch.domain.estimate import Estimate
from benchorch.stats.between_processes import bounded_exp
from benchorch.stats.median_interval import median_interval
from benchorch.stats.position_effect import by_order
from benchorch.stats.quantiles import LEVEL_RATIO


def median_of_pairs(
    log_ratios: Sequence[float], first: Sequence[bool], *, alpha: float
) -> Estimate | None:
    """The median ratio of pairs, less what coming first costs.

    Estimator: half the difference between the two orders' medians is taken from each logarithm;
    then the median, with `median_interval`. A few pairs that are far off move it hardly, where
    they would move a mean and its t without bound; of pairs without such it needs half as many
    again as the mean does. Inverting all ratios inverts it.

    Parameters
    ----------
    log_ratios : sequence of float, length n
        Independent.
    first : sequence of bool, length n
        Where the numerator's side came first; its effect is taken out where both orders occur.
    alpha : float
        Error rate of the interval.

    Returns
    -------
    Estimate or None
        None where n is too small for `alpha` (below 9 at 0.5 %).

    Source
    ------
    The sources of `median_interval`; of two orders: Koch, *The use of non-parametric methods in
    the statistical analysis of the two-period change-over design*, 1972.
    """
    pairs = list(zip(log_ratios, first, strict=True))
    orders = by_order(pairs)
    effect = 0.0
    if all(orders):
        ahead, behind = map(statistics.median, orders)
        effect = (ahead - behind) / 2
    values = [ratio - effect if is_first else ratio + effect for ratio, is_first in pairs]
    ends = median_interval([math.exp(value) for value in values], alpha) if values else None
    if ends is None:
        return None
    return Estimate(
        value=bounded_exp(statistics.median(values)),
        low=ends[0],
        high=ends[1],
        level_ratio=LEVEL_RATIO,
        n=len(values),
        unit="ratio",
        method="median of the pairs' ratios; order statistics",
    )

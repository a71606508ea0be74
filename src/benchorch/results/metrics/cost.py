"""Cost of a million items on a machine that is paid by the hour."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from benchorch.domain.estimate import Estimate
from benchorch.domain.price import Price
from benchorch.domain.result import TrialResult
from benchorch.stats.interval_arithmetic import quotient, scaled
from benchorch.units import SECONDS_PER_HOUR

ITEMS = 1_000_000


def usd_per_million_items(throughput: Estimate, usd_per_hour: float) -> Estimate:
    """The cost of a million items at a rate, in dollars.

    The price is taken to be exact, so the interval is the rate's own, turned over: the highest
    rate gives the lowest cost.

    Args:
        throughput: items per second, above 0.
        usd_per_hour: of one machine, above 0.
    """
    cost = scaled(quotient(usd_per_hour / SECONDS_PER_HOUR, throughput), ITEMS)
    return replace(
        cost, unit="usd", method=f"hourly price over {throughput.method}", seen=None, at_least=False
    )


def busy_items_per_s(
    metrics: Mapping[str, Estimate], items_per_query: float, *, has_target: bool
) -> Estimate | None:
    """Items a second of a machine that is busy all the time; None where that is not known.

    Under load it is the highest rate within the target or, where there is no target, the capacity:
    the rate that was offered may be any share of them.
    """
    capacity = None if has_target else metrics.get("capacity_per_s/mean")
    queries = metrics.get("target_rate_per_s/max", capacity)
    items = queries and scaled(queries, items_per_query)
    return metrics.get("throughput_items_per_s/mean", items)


def cost_warnings(prices: Iterable[Price]) -> Iterator[str]:
    """A sentence where a price is that of a part of a machine."""
    for parts in sorted({price.shared_by for price in prices} - {1}):
        yield (
            f"USD per 1M is of one of {parts} GPUs, as if {parts} such models were served at once, "
            "which was not measured."
        )


def unpriced_tokens(result: TrialResult) -> Iterator[str]:
    """A sentence where tokens were generated on a machine without a price."""
    if not result.prices:
        kind = result.labels.get("hardware_kind", "local")
        yield (
            f"No dollars per million tokens, since no price of `{kind}` is known; give yours: "
            f"'+pricing.usd_per_hour={{{kind}: 0.2}}'."
        )

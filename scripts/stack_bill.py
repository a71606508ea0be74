"""What a stack costs at list prices: an hour while everything runs, and until all has ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLES = Path(__file__).resolve().parents[1] / "infra" / "terraform" / "variables.tf"
BESIDES_USD = 0.04  # an hour of a machine's public address and disk
LATE_MINUTES = 25  # the reaper's grace, and its interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Dollars; a type without a known price counts nothing and is named.

    Attributes:
        hour_usd: while the head and as many workers run as may.
        worst_usd: from one make provision, if nobody ever looks again.
    """

    region: str
    hour_usd: float
    worst_usd: float
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        least, types = "at least" if self.unknown else "at most", ",".join(self.unknown)
        lacking = (
            f", without {', '.join(self.unknown)}, whose price there is unknown. It is read by: "
            f"python -m benchorch plan -m model=mlp hardware={types} pricing.region={self.region}"
        )
        return (
            f"{least} {self.hour_usd:.2f} USD an hour while everything runs, and {least} "
            f"{self.worst_usd:.2f} USD until all has ended by itself, by list prices of "
            f"{self.region}{lacking * bool(self.unknown)}"
        )


def bill(variables: Mapping[str, str], region: str) -> Bill:
    """By the variables that were given to Terraform, and its defaults."""
    from account_checks.requested import stack_request

    request = stack_request("", VARIABLES.read_text(), [f"{k}={v}" for k, v in variables.items()])
    counts = Counter(request.fleet)
    counts[request.head_type] += 1
    prices = _usd_per_hour(counts, region)
    usd = sum((prices.get(kind, 0.0) + BESIDES_USD) * n for kind, n in counts.items())
    hours = (request.ttl_minutes + LATE_MINUTES) / 60
    unknown = tuple(sorted(counts.keys() - prices.keys()))
    return Bill(region=region, hour_usd=usd, worst_usd=usd * hours, unknown=unknown)


def _usd_per_hour(kinds: Iterable[str], region: str) -> Mapping[str, float]:
    """Those that are known: of the bundled list, or asked of AWS before."""
    from benchorch.journal.registry import state_directory
    from benchorch.results.pricing.price_book import PriceBook, bundled_prices

    book = PriceBook(
        region=region,
        own={},
        source=None,
        cache=state_directory() / "prices",
        bundled=bundled_prices(),
    )
    found = book.snapshot(list(kinds), {kind: n for kind in kinds if (n := _vcpus(kind))})
    return {kind: price.usd_per_hour for kind, price in found.on_demand.items()}


def _vcpus(kind: str) -> int:
    """By the size's name; 0 for one that says nothing."""
    size = kind.partition(".")[2]
    return {"large": 2, "xlarge": 4}.get(size) or 4 * int((re.match(r"\d+", size) or [0])[0])

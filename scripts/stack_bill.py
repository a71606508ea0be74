"""What a stack costs at list prices: an hour while everything runs, and until all has ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD, FLEET, TTL_MINUTES = "m7i.large", {"g5.xlarge": 1, "r6i.large": 2}, 480
BESIDES_USD = 0.04  # an hour of a machine's public address and disk
LATE_MINUTES = 25  # the reaper's grace, and its interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Dollars; a type without a known price counts nothing and is named.

    Attributes:
        hour_usd: while the head and as many workers run as may.
        worst_usd: from one make provision, if nobody ever looks again.
    """

    hour_usd: float
    worst_usd: float
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        lacking = f"; without {', '.join(self.unknown)}, whose price is unknown" * bool(
            self.unknown
        )
        return (
            f"at most {self.hour_usd:.2f} USD an hour while everything runs, and "
            f"{self.worst_usd:.2f} USD until all has ended by itself (list prices{lacking})"
        )


def bill(variables: Mapping[str, str]) -> Bill:
    """By the variables that were given to Terraform, and its defaults."""
    fleet = _fleet(variables["fleet"]) if "fleet" in variables else FLEET
    counts = {**fleet, variables.get("head_type", HEAD): 1}
    prices = {kind: _usd_per_hour(kind) for kind in counts}
    usd = sum((prices[kind] or 0.0) * n + BESIDES_USD * n for kind, n in counts.items())
    hours = (float(variables.get("ttl_minutes", TTL_MINUTES)) + LATE_MINUTES) / 60
    unknown = tuple(sorted(kind for kind, price in prices.items() if price is None))
    return Bill(hour_usd=usd, worst_usd=usd * hours, unknown=unknown)


def _fleet(text: str) -> Mapping[str, int]:
    """Of Terraform's own notation, ``{"g5.xlarge" = 1}``, or JSON's."""
    try:
        return {kind: int(n) for kind, n in json.loads(text).items()}
    except ValueError:
        return {kind: int(n) for kind, n in re.findall(r'"?([\w.-]+)"?\s*[=:]\s*(\d+)', text)}


def _usd_per_hour(kind: str) -> float | None:
    from benchorch.results.pricing.price_book import bundled_prices

    prices = bundled_prices()
    named = prices["usd_per_hour"].get(kind)
    if named is not None:
        return float(named)
    family, _, size = kind.partition(".")
    per_vcpu = prices.get("per_vcpu", {}).get(family)
    vcpus = {"large": 2, "xlarge": 4}.get(size) or 4 * int((re.match(r"\d+", size) or [0])[0])
    return float(per_vcpu) * vcpus if per_vcpu and vcpus else None

"""Prices of machine hours, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from benchorch.domain.bounds import Amount, Positive
from benchorch.units import SECONDS_PER_HOUR


class Market(StrEnum):
    """How a machine is paid for."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one machine kind in one market.

    Attributes:
        kind: as `Hardware.kind`, e.g. ``g5.xlarge``.
        usd_per_hour: above 0; of a spot machine the median over the zones.
        as_of: the day or the time it was valid, ISO 8601.
        source: who says so: ``config``, ``pricing api``, ``spot history``, or the bundled list's.
        least_usd_per_hour: of a spot machine, in the cheapest zone; else the same.
        shared_by: accelerators of a machine of which each has an equal part of its price; the
            dollars are those of one part, 1 for a whole machine.
    """

    kind: str
    market: Market
    usd_per_hour: Amount
    region: str
    as_of: str
    source: str
    least_usd_per_hour: Amount | None = None
    shared_by: Positive = 1

    def of_one_of(self, accelerators: int) -> Price:
        """Price of one accelerator's share of the machine."""
        if self.shared_by > 1 or accelerators <= 1:
            return self
        least = self.least_usd_per_hour
        return replace(
            self,
            usd_per_hour=self.usd_per_hour / accelerators,
            least_usd_per_hour=None if least is None else least / accelerators,
            shared_by=accelerators,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSnapshot:
    """The prices by which a whole sweep is judged, so that no row is judged by another's.

    Attributes:
        on_demand, spot: by kind; a kind that is missing has no known price, which is not 0.
        taken_at: when they were looked up, ISO 8601 in UTC.
        warnings: sentences: that a list is old, that an API could not be asked.
    """

    on_demand: Mapping[str, Price] = field(default_factory=dict)
    spot: Mapping[str, Price] = field(default_factory=dict)
    taken_at: str = ""
    warnings: tuple[str, ...] = ()

    def of(self, kind: str, market: Market) -> Price | None:
        """The price of a kind, or None if it is unknown."""
        return (self.on_demand if market is Market.ON_DEMAND else self.spot).get(kind)


def usd_of(seconds: float, usd_per_hour: float) -> float:
    """Cost of a machine for a time; the minute that EC2 bills at least is of a launch."""
    return seconds * usd_per_hour / SECONDS_PER_HOUR

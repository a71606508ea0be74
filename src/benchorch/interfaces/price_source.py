"""Sources of current instance prices."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import NamedTuple


class SpotPrice(NamedTuple):
    """Spot price of one kind over a region's zones, in USD per hour."""

    median: float
    least: float


class PriceSource(ABC):
    """Requests prices over the network; PriceUnavailable without a response."""

    @abstractmethod
    def on_demand(self, kinds: Collection[str], region: str) -> Mapping[str, float]:
        """USD per hour by kind, without kinds that are not sold there."""

    @abstractmethod
    def spot(self, kinds: Collection[str], region: str) -> Mapping[str, SpotPrice]:
        """The newest spot prices by kind, without kinds that are not sold there."""

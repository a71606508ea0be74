"""Who can be asked what a machine costs today."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import NamedTuple


class SpotPrice(NamedTuple):
    """Of one kind over a region's zones, in dollars an hour."""

    median: float
    least: float


class PriceSource(ABC):
    """Asks over the network; PriceUnavailable where it gets no answer."""

    @abstractmethod
    def on_demand(self, kinds: Collection[str], region: str) -> Mapping[str, float]:
        """Dollars an hour by kind; kinds that are not sold there are missing."""

    @abstractmethod
    def spot(self, kinds: Collection[str], region: str) -> Mapping[str, SpotPrice]:
        """The newest price of each zone, by kind; kinds that are not sold there are missing."""

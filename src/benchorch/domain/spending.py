"""Cost of a sweep's launched machines so far, and its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.domain.price import Market

BUDGET_REACHED = "budget_reached"
"""Kind of failure of a trial that the run's budget of minutes or dollars ended or left out."""

HEAD_KIND = "head"
"""In place of a kind of hardware: the machine that launches the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingRules:
    """How a sweep's launched machines are paid for, and the limit of that.

    Attributes:
        max_usd: the sweep's budget; None for no limit.
        spent_usd: by the same sweep before it was resumed.
        market: by whose prices trials to come are judged.
        head_usd_per_hour: of the machine that launches the others.
        launch_s: by kind, from launch to first trial where that was observed before.
    """

    max_usd: float | None = None
    spent_usd: float = 0.0
    market: Market = Market.ON_DEMAND
    head_usd_per_hour: float = 0.0
    launch_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A sweep's machines and their cost so far, in dollars.

    Attributes:
        machines: that are booting or there, by kind.
        launch_s: by kind, from its first machine to its first trial, where both were observed; of
            `HEAD_KIND` until it took the sweep.
    """

    usd: float
    max_usd: float | None = None
    machines: Mapping[str, int] = field(default_factory=dict)
    launch_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """For people, e.g. ``0.31 of 2.00 USD so far; machines: g5.xlarge 2``."""
        limit = "" if self.max_usd is None else f" of {self.max_usd:.2f}"
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.machines.items()))
        return f"{self.usd:.2f}{limit} USD so far; machines: {listed or 'none'}"

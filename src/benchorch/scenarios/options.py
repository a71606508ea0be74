"""What every open-loop scenario is asked for, and what follows from that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from benchorch.scenarios.arrivals import Arrivals, Kind, fresh_seed
from benchorch.stats.binomial_bound import Target

# More queries of one stretch are neither needed nor kept.
MOST_QUERIES = 200_000
# A stretch that lacks queries is prolonged, up to so many times its duration.
MOST_PROLONGED = 5


class Options(Protocol):
    """The options they share; `Server` says more of each."""

    @property
    def arrivals(self) -> Kind:
        """How gaps between queries are distributed."""

    @property
    def cv(self) -> float:
        """Of the gaps of bursty arrivals: standard deviation over mean."""

    @property
    def servers(self) -> int:
        """How many calls may run side by side."""

    @property
    def max_batch(self) -> int:
        """How many waiting queries a server takes at once."""

    @property
    def duration_s(self) -> float:
        """Of one stretch of queries."""

    @property
    def min_queries(self) -> int:
        """For which a stretch is prolonged."""

    @property
    def target_ms(self) -> float | None:
        """What responses should stay within."""

    @property
    def quantile_ratio(self) -> float:
        """The share of them that should."""

    @property
    def capacity_s(self) -> float:
        """How long the capacity is measured."""

    @property
    def seed(self) -> int | None:
        """Of schedules; None draws one."""


def require(options: Options, own_rules: Mapping[str, bool]) -> None:
    """ValueError for the first option out of its bounds, shared ones and those of one scenario.

    Args:
        own_rules: whether each is kept; its name begins with the option it is about.
    """
    rules = {
        **own_rules,
        "servers: at least 1": options.servers >= 1,
        "max_batch: at least 1": options.max_batch >= 1,
        "duration_s: above 0": positive(options.duration_s),
        "min_queries: at least 0": options.min_queries >= 0,
        "target_ms: above 0": positive(options.target_ms),
        "quantile_ratio: between 0 and 1": 0 < options.quantile_ratio < 1,
        "capacity_s: above 0": positive(options.capacity_s),
        "seed: at least 0, or null": options.seed is None or options.seed >= 0,
    }
    for rule, kept in rules.items():
        if not kept:
            option = rule.partition(":")[0]
            raise ValueError(f"{rule}; got {option}={getattr(options, option)!r}")
    stream(options)


def positive(value: float | None) -> bool:
    """Whether a number is above 0 and finite; None, which stands for no number, may be."""
    return value is None or 0 < value < math.inf


def stream(options: Options) -> Arrivals:
    """How queries arrive."""
    return Arrivals(kind=options.arrivals, cv=options.cv)


def seed_of(options: Options) -> int:
    """The seed asked for, or one that nobody chose."""
    return fresh_seed() if options.seed is None else options.seed


def target_of(options: Options) -> Target | None:
    """What responses should do, or None."""
    if options.target_ms is None:
        return None
    return Target(target_ms=options.target_ms, quantile_ratio=options.quantile_ratio)


def queries(rate_per_s: float, duration_s: float, least: int) -> int:
    """How many queries fill a stretch, given that it should have at least so many.

    A rate so low that they would take more than `MOST_PROLONGED` times as long gives fewer.
    """
    wanted = max(rate_per_s * duration_s, min(least, rate_per_s * duration_s * MOST_PROLONGED))
    return max(1, math.ceil(min(wanted, MOST_QUERIES)))

"""Kinds of metrics, by their documented names."""

from __future__ import annotations

from benchorch.domain.estimate import METRICS
from benchorch.errors import Problem

LATENCY = "latency_ms/p50"
FLOOR = "latency_ms/p01"
"""Floor metric, which is stable between sessions; see `floor_ms`."""

BEST = "latency_ms/best"
"""The smallest time, which has no interval by its nature."""

SPEEDUP = "speedup_ratio/p50"
"""A trial's gain over its own baseline: drift of a session cancels out."""

NAMES = (*METRICS, SPEEDUP)
"""Metrics that can be compared."""

TARGET_RATE = "target_rate_per_s/max"
THROUGHPUT = "throughput_items_per_s/mean"

PRIMARY = (LATENCY, TARGET_RATE, "response_ms/p50", "capacity_per_s/mean", THROUGHPUT)
"""Metrics by which trials are ranked and compared, by scenario: the first one that is there."""

SIZE = "artifact_bytes/total"

# Constant for an artifact: they differ, or they do not.
EXACT = frozenset({SIZE, "parameters/total", "macs/total", "flops/total"})
_DIRECTIONLESS = frozenset(
    {"parameters/total", "macs/total", "flops/total", "offered_per_s/mean", "idle_w/mean"}
    | {"utilisation_ratio/mean", "overlap_ratio/p50"}
)
# Of a process's start, which comes before any steady state.
_COLD = frozenset({"load_s/p50", "first_call_s/p50", "time_to_steady_s/p50"})

FASTER, SLOWER, LOWER, HIGHER = "faster", "slower", "lower", "higher"


def unknown_metric(name: str) -> Problem | None:
    """Why a name is not a metric; None where it is one."""
    from benchorch.config.components import misspelt, nearest

    if name in NAMES:
        return None
    listed = "" if nearest(name, NAMES) else f" Metrics: {', '.join(NAMES)}."
    return misspelt(f"{name!r} is not a metric.", name, NAMES, listed)


def is_rate(metric: str) -> bool:
    """Whether it counts something per second."""
    return "_per_s/" in metric


def is_time(metric: str) -> bool:
    """Whether it is a duration."""
    return "_ms/" in metric or ("_s/" in metric and not is_rate(metric))


def is_cost(metric: str) -> bool:
    """Whether it is a price over a rate."""
    return metric.startswith("cost_usd_per_million_")


def drifts(metric: str) -> bool:
    """Whether the machine's speed is in it."""
    timed = is_time(metric) or is_rate(metric) or is_cost(metric)
    return timed or "_j_per_item/" in metric


def needs_steady_state(metric: str) -> bool:
    """Whether it is of the calls after warming up."""
    timed = is_time(metric) or is_rate(metric) or is_cost(metric) or metric == SPEEDUP
    return timed and metric not in _COLD and metric != FLOOR


def higher_is_better(metric: str) -> bool | None:
    """Which way it should go; None where neither way is better."""
    return None if metric in _DIRECTIONLESS else is_rate(metric) or metric == SPEEDUP


def verdict_word(metric: str, *, smaller: bool) -> str:
    """The verdict of the side whose value is shown to be smaller, or larger."""
    if is_rate(metric) or metric == SPEEDUP:
        return SLOWER if smaller else FASTER
    if is_time(metric):
        return FASTER if smaller else SLOWER
    return LOWER if smaller else HIGHER

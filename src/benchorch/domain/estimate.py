"""Numbers that carry their doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

METRICS = (
    *("latency_ms/p50", "latency_ms/p90", "latency_ms/p95", "latency_ms/p99", "latency_ms/p99.9"),
    *("latency_ms/best", "undisturbed_latency_ms/p50", "throughput_items_per_s/mean"),
    *("load_s/p50", "first_call_s/p50", "peak_rss_bytes/max"),
    *("build_s/total", "original_build_s/total", "artifact_bytes/total"),
)
"""The names under which a `Summary` may hold an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval.

    Attributes:
        value: the point estimate, in `unit`.
        low, high: ends of the interval, or None where n does not allow one.
        level_ratio: confidence of the interval, e.g. 0.95.
        n: how many independent observations stand behind it.
        unit: e.g. ``ms``, ``items_per_s``, ``ratio``.
        method: the estimator's name.
    """

    value: float
    low: float | None
    high: float | None
    level_ratio: float
    n: int
    unit: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A candidate against its baseline.

    Attributes:
        ratio: baseline's time over candidate's time: above 1 the candidate is faster.
        verdict: ``faster``, ``slower``, ``equivalent`` or ``inconclusive``.
        reason: why there is no verdict, or an empty string.
    """

    ratio: Estimate
    verdict: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is derived from one trial's observations; never stored without them.

    Attributes:
        metrics: each `Estimate` by its metric's name, e.g. ``latency_ms/p50``,
            ``latency_ms/p99`` (absent where n does not allow it),
            ``throughput_items_per_s/mean``, ``load_s/p50``, ``first_call_s/p50``,
            ``peak_rss_bytes/max``, ``build_s/total``.
        speedup: against the baseline, or None for a baseline and for a disqualified trial.
        steady: whether every process reached a steady state.
        warnings: doubts, each with the next command to try.
    """

    metrics: Mapping[str, Estimate]
    speedup: Comparison | None
    steady: bool
    warnings: tuple[str, ...] = ()

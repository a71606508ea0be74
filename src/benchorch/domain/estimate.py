"""Numbers that carry their doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_TAILS = ("p50", "p90", "p95", "p99", "p99.9")

METRICS = (
    *(f"latency_ms/{tail}" for tail in _TAILS),
    *("latency_ms/best", "latency_ms/mean", "undisturbed_latency_ms/p50", "cpu_ms/p50"),
    *("device_ms/p50", "issue_ms/p50", "throughput_items_per_s/mean"),
    *(f"response_ms/{tail}" for tail in _TAILS),
    *("queueing_ms/p50", "queueing_ms/p99", "service_ms/p50", "service_ms/p99"),
    *("offered_per_s/mean", "achieved_per_s/mean", "target_rate_per_s/max", "capacity_per_s/mean"),
    *("load_s/p50", "first_call_s/p50", "time_to_steady_s/p50", "break_even_calls/total"),
    *(f"{stage}_ms/p50" for stage in ("prepare", "h2d", "compute", "d2h", "post")),
    *("end_to_end_ms/p50", "stages_sum_ms/p50", "overlap_ratio/p50"),
    *("h2d_bytes_per_s/p50", "d2h_bytes_per_s/p50"),
    *("peak_rss_bytes/max", "start_rss_bytes/p50", "loaded_rss_bytes/p50"),
    *("inference_rss_bytes/max", "after_rss_bytes/p50"),
    *("device_allocated_bytes/max", "device_reserved_bytes/max", "device_process_bytes/max"),
    *("energy_j_per_item/mean", "net_energy_j_per_item/mean", "idle_w/mean"),
    *("utilisation_ratio/mean", "achieved_flops_per_s/mean"),
    *("build_s/total", "original_build_s/total", "artifact_bytes/total"),
    *("cost_usd_per_million_items/on_demand", "cost_usd_per_million_items/spot"),
    *("parameters/total", "macs/total", "flops/total"),
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
        design: ``alternated``, ``adjacent`` or ``sequential``.
        p_value: of no difference at all, by Student's t, as if this were the only comparison and
            the only look; None where there is no test.
        adjusted_p_value: the same after adjustment for all looks and for all comparisons of its
            table: below 0.05 wherever the verdict is ``faster`` or ``slower``.
        sign_flip_p_value: of the same, by exchanging the two within pairs; None without pairs.
        material: whether the whole interval lies beyond the smallest difference that matters,
            with five processes or more behind it.
        effect_ratio: Cliff's delta over process medians: 1 where every one of the candidate's is
            faster than every one of the baseline's, -1 the reverse.
        pairs_needed: further pairs predicted to settle an inconclusive comparison, or None.
    """

    ratio: Estimate
    verdict: str
    reason: str = ""
    design: str = "sequential"
    p_value: float | None = None
    adjusted_p_value: float | None = None
    sign_flip_p_value: float | None = None
    material: bool = False
    effect_ratio: float | None = None
    pairs_needed: int | None = None


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

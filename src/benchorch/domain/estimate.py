"""Estimates and comparisons, each with its uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchorch.domain.bounds import Level, Real

_TAILS = {"p50": "median", "p90": "90 %", "p95": "95 %", "p99": "99 %", "p99.9": "99.9 %"}

METRIC_GROUPS: Mapping[str, Mapping[str, str]] = {
    "Latency and throughput": {
        **{f"latency_ms/{tail}": f"latency of a query, {of}" for tail, of in _TAILS.items()},
        "latency_ms/p01": "the floor: 1 % of a process's queries are shorter",
        "latency_ms/best": "the shortest query",
        "latency_ms/mean": "mean latency, where the tail is light enough for one to exist",
        "undisturbed_latency_ms/p50": "median without the blocks that other work interrupted",
        "unrejected_latency_ms/p50": "median with the rejected repetitions, where there are some",
        "adjusted_latency_ms/p50": "median at the speed the machine usually had during the run",
        "cpu_ms/p50": "processor time of a query, all threads",
        "device_ms/p50": "time of a query between events of the device",
        "issue_ms/p50": "time until the calls of a query had returned",
        "throughput_items_per_s/mean": "items of the steady calls over the time they took",
    },
    "Under load": {
        **{f"response_ms/{tail}": f"from due to done, {of}" for tail, of in _TAILS.items()},
        "queueing_ms/p50": "from due to started, median",
        "queueing_ms/p99": "from due to started, 99 %",
        "service_ms/p50": "from started to done, median",
        "service_ms/p99": "from started to done, 99 %",
        "offered_per_s/mean": "queries per second of the schedule",
        "achieved_per_s/mean": "completed queries per second",
        "missed_ratio/mean": "share of queries without an answer, where there were any",
        "target_rate_per_s/max": "the highest rate at which the target holds",
        "capacity_per_s/mean": "queries per second, each issued as soon as a server is free",
    },
    "Generation": {
        **{f"ttft_ms/{tail}": f"time to first token, {_TAILS[tail]}" for tail in ("p50", "p90")},
        "tpot_ms/p50": "time per output token after the first, median over generations",
        **{
            f"inter_token_latency_ms/{tail}": f"between two tokens, {_TAILS[tail]}"
            for tail in ("p50", "p90", "p99")
        },
        "prefill_tokens_per_s/mean": "tokens of the prompts over the time to first token",
        "decode_tokens_per_s/mean": "tokens after the first over the time they took",
        "goodput_per_s/mean": "queries per second whose tokens all came in time",
        "kv_cache_bytes_per_token/total": "keys and values over the tokens that fit into them",
        "cost_usd_per_million_input_tokens/on_demand": "price of the machine over prefill's rate",
        "cost_usd_per_million_input_tokens/spot": "the same at the spot price",
        "cost_usd_per_million_output_tokens/on_demand": "price of the machine over decode's rate",
        "cost_usd_per_million_output_tokens/spot": "the same at the spot price",
    },
    "Start": {
        "load_s/p50": "importing the runtime and loading the artifact in a fresh process",
        "first_call_s/p50": "the first call of a fresh process",
        "time_to_steady_s/p50": "from loading to the first steady block",
        "break_even_calls/total": "calls after which the time of the build is regained",
    },
    "Transfer breakdown": {
        "prepare_ms/p50": "host arrays to the runtime's tensors",
        "h2d_ms/p50": "copy to the device",
        "compute_ms/p50": "the call",
        "d2h_ms/p50": "copy back to the host",
        "post_ms/p50": "results to host arrays",
        "end_to_end_ms/p50": "all stages of a pass, drained at its end only",
        "stages_sum_ms/p50": "sum of the stages, each drained",
        "overlap_ratio/p50": "1 less end to end over the sum of the stages",
        "h2d_bytes_per_s/p50": "bytes copied to the device over the stage's time",
        "d2h_bytes_per_s/p50": "bytes copied back over the stage's time",
    },
    "Memory": {
        "peak_rss_bytes/max": "peak of a process while loading and calling",
        "start_rss_bytes/p50": "before anything is loaded",
        "loaded_rss_bytes/p50": "with artifact and inputs",
        "inference_rss_bytes/max": "peak from the first call on",
        "after_rss_bytes/p50": "after measuring",
        "device_allocated_bytes/max": "peak of torch's allocator: allocated",
        "device_reserved_bytes/max": "peak of torch's allocator: reserved",
        "device_process_bytes/max": "what the driver reports for the process at the end",
    },
    "Energy and work": {
        "energy_j_per_item/mean": "rise of the energy counter over the items of a window",
        "net_energy_j_per_item/mean": "the same without what the idle machine would have drawn",
        "idle_w/mean": "power of the idle machine",
        "utilisation_ratio/mean": "share of the windows in which the device was busy",
        "achieved_flops_per_s/mean": "FLOPs of a call over the time of the steady calls",
    },
    "Build and cost": {
        "build_s/total": "what this trial built",
        "original_build_s/total": "what the artifact took when it was built",
        "artifact_bytes/total": "size of the artifact's files",
        "cost_usd_per_million_items/on_demand": "price of the machine over its throughput",
        "cost_usd_per_million_items/spot": "the same at the spot price",
    },
    "Model": {
        "parameters/total": "elements of all parameters, shared ones once",
        "macs/total": "multiply-accumulates of one call",
        "flops/total": "floating-point operations of one call",
    },
}
"""Meaning of each estimate of a `Summary`, by name, in the order of reports."""

METRICS = tuple(name for group in METRIC_GROUPS.values() for name in group)
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
        seen: the smallest and the largest of the n values, one a process; None where it is not
            of processes.
        at_least: whether only the lower end is known: the truth may lie far above the value.
    """

    value: Real
    low: Real | None = None
    high: Real | None = None
    level_ratio: Level
    n: int
    unit: str
    method: str
    seen: tuple[float, float] | None = None
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A candidate against its baseline.

    Attributes:
        ratio: baseline's time over candidate's time: above 1 the candidate is faster.
        verdict: ``faster``, ``slower``, ``equivalent`` or ``inconclusive``.
        reason: why there is no verdict, or an empty string.
        design: ``alternated``, ``adjacent`` or ``sequential``.
        p_value: of no difference at all, by Student's t, as if this were the only comparison and
            the only analysis; None where there is no test.
        adjusted_p_value: the same after adjustment for all interim analyses and for all
            comparisons of its table: below 0.05 wherever the verdict is ``faster`` or ``slower``.
        material: practically significant: the whole interval lies beyond the smallest difference
            that matters, with five processes or more behind it.
        pairs_needed: further pairs predicted to settle an inconclusive comparison, or None.
    """

    ratio: Estimate
    verdict: str
    reason: str = ""
    design: str = "sequential"
    p_value: float | None = None
    adjusted_p_value: float | None = None
    material: bool = False
    pairs_needed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Estimates derived from one trial's observations; stored only together with them.

    Attributes:
        metrics: each `Estimate` by its metric's name, e.g. ``latency_ms/p50``,
            ``latency_ms/p99`` (absent where n does not allow it),
            ``throughput_items_per_s/mean``, ``load_s/p50``, ``first_call_s/p50``,
            ``peak_rss_bytes/max``, ``build_s/total``.
        speedup: against the baseline, or None for a baseline and for a disqualified trial.
        best: ids of all trials of its table, the baseline's among them, that cannot be told from
            the fastest one; a single one is the winner. Empty where it was not judged.
        control: of a baseline, against a second copy of itself: 1 within its interval unless the
            comparison itself is biased. None where there was no control.
        steady: whether every process reached a steady state.
        warnings: sentences, each with the next command to try.
    """

    metrics: Mapping[str, Estimate]
    speedup: Comparison | None
    steady: bool
    warnings: tuple[str, ...] = ()
    best: tuple[str, ...] = ()
    control: Comparison | None = None

"""Time to first token, time per token, and tokens a second, of calls that generate them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import Observations, ProcessRecord
from benchorch.results.metrics.load import at_one_rate, is_unstable, quantile_over
from benchorch.stats.between_processes import over_processes
from benchorch.stats.quantiles import minimum_n, sample_quantile, without_interval
from benchorch.units import NS_PER_MS, NS_PER_S

_TTFT = {"p50": 0.5, "p90": 0.9}
_BETWEEN = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Tokens = NDArray[float64]


def generation_metrics(processes: Sequence[ProcessRecord]) -> Mapping[str, Estimate]:
    """Every estimate of generated tokens, by its metric's name; empty where none were.

    Each is the median over processes of a process's own figure: tokens of one process are
    correlated. First tokens under load are estimated as responses are, with which they share the
    queue. An overloaded trial has none.
    """
    measured = [each for each in processes if each.observations.token_ns and token_ns(each).size]
    if not measured or is_unstable(processes):
        return {}
    return {name: estimate for name, estimate in _estimates(measured) if estimate is not None}


def token_ns(process: ProcessRecord) -> Tokens:
    """Time of each token of each steady call, shape (calls, tokens), in nanoseconds.

    The first column is the time to first token, each other one the time since the token before.
    """
    observed = process.observations
    every = np.asarray(observed.token_ns, dtype=np.float64).reshape(-1, observed.tokens_per_call)
    if observed.loads:
        return _under_load(observed, every)
    return every[(process.steady_from or 0) * observed.calls_per_block :]


def _under_load(observed: Observations, every: Tokens) -> Tokens:
    """Tokens at the offered rate, the first counted from its query's due time.

    No rows where several rates were offered.
    """
    mains = at_one_rate([observed])
    if not mains:
        return every[:0]
    (main,) = mains
    settled = main.settled()
    rows = every[main.load.end - settled.due_ns.size : main.load.end].copy()
    rows[:, 0] += settled.queueing_ns
    return rows


def _goodput(process: ProcessRecord) -> float:
    """Queries a second whose tokens were all in time."""
    (main,) = at_one_rate([process.observations])
    rows, load, settled = token_ns(process), main.load, main.settled()
    first, further = rows[:, 0], rows[:, 1:].mean(axis=1) if rows.shape[1] > 1 else 0 * rows[:, 0]
    good = np.ones(len(rows), dtype=bool)
    for times, target_ms in ((first, load.ttft_target_ms), (further, load.tpot_target_ms)):
        good &= times <= (math.inf if target_ms is None else target_ms * NS_PER_MS)
    return (settled.achieved_per_s() or 0.0) * float(good.mean())


def _estimates(processes: Sequence[ProcessRecord]) -> Iterator[tuple[str, Estimate | None]]:
    samples = [token_ns(process) for process in processes]

    def over(figure: Callable[[Tokens], float], unit: str = "ms") -> Estimate | None:
        return over_processes([figure(sample) for sample in samples], unit=unit)

    firsts = [sample[:, 0] / NS_PER_MS for sample in samples]
    closed = not any(process.observations.loads for process in processes)
    first_quantiles = _quantiles(firsts, _TTFT) if closed else _queueing_quantiles(firsts)
    yield from ((f"ttft_ms/{name}", found) for name, found in first_quantiles)
    if not closed and any(map(_has_target, processes)):
        yield "goodput_per_s/mean", over_processes([*map(_goodput, processes)], unit="per_s")
    prompts = [_batch(process) * _prompt_tokens(process) for process in processes]
    if closed and all(prompts):
        rates = [
            tokens * NS_PER_S / float(sample[:, 0].mean())
            for tokens, sample in zip(prompts, samples, strict=True)
        ]
        yield "prefill_tokens_per_s/mean", over_processes(rates, unit="tokens_per_s")
    if samples[0].shape[1] > 1:
        between = [sample[:, 1:].ravel() / NS_PER_MS for sample in samples]
        yield (
            "tpot_ms/p50",
            over(lambda each: float(np.median(each[:, 1:].mean(axis=1))) / NS_PER_MS),
        )
        yield from (
            (f"inter_token_latency_ms/{name}", found)
            for name, found in _quantiles(between, _BETWEEN)
        )
    if closed and samples[0].shape[1] > 1:
        batch = _batch(processes[0])
        yield (
            "decode_tokens_per_s/mean",
            over(lambda each: batch * NS_PER_S / float(each[:, 1:].mean()), "tokens_per_s"),
        )
    yield "kv_cache_bytes_per_token/total", _cache_bytes(processes[0])


def _quantiles(
    samples: Sequence[Tokens], ratios: Mapping[str, float]
) -> Iterator[tuple[str, Estimate | None]]:
    """Each process's own quantile; only the median where one has too few values for more."""
    least = min(sample.size for sample in samples)
    for name, ratio in ratios.items():
        if ratio == 0.5:
            yield name, over_processes([float(np.median(each)) for each in samples], unit="ms")
        elif least >= minimum_n(ratio):
            found = [sample_quantile(each, ratio) for each in samples]
            yield name, over_processes(found, unit="ms")


def _queueing_quantiles(firsts: Sequence[Tokens]) -> Iterator[tuple[str, Estimate | None]]:
    """Quantiles of first tokens that waited for others, as those of responses."""
    for name, ratio in _TTFT.items():
        yield name, quantile_over([[each] for each in firsts], ratio)


def _batch(process: ProcessRecord) -> float:
    return process.observations.items_per_call


def _has_target(process: ProcessRecord) -> bool:
    load = process.observations.loads[-1]
    return load.ttft_target_ms is not None or load.tpot_target_ms is not None


def _prompt_tokens(process: ProcessRecord) -> int:
    return int(str(process.facts.get("prompt_tokens", 0)))


def _cache_bytes(process: ProcessRecord) -> Estimate | None:
    found = process.facts.get("kv_cache_bytes_per_token")
    if not isinstance(found, int | float):
        return None
    return without_interval(found, "bytes", "size of the cache's tensors")

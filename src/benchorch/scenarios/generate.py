"""Tokens of one prompt after the other: time to the first, and time of each further one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.measurement import Calibration, Observations
from benchorch.domain.tensors import Array
from benchorch.interfaces.generation import TokenCall
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Sampling, Scenario, likeliest
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.series import fill, quiet_heap, sized, token_fields, token_times


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Generate(Scenario):
    """One batch of prompts in flight: prefill, then ``workload.new_tokens`` tokens one by one.

    Every sequence has the same length and none ends early, so that each call is the same work.

    Args:
        temperature: 0 takes the likeliest token (greedy); above it scores are divided by it and
            the token is drawn.
        top_k: draw from so many of the likeliest tokens; null for all.
        seed: of the draws, the same for every call.
    """

    temperature: float = 0.0
    top_k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature: at least 0; got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k: at least 1, or null; got {self.top_k}")
        if self.top_k is not None and not self.temperature:
            raise ValueError(f"top_k: needs a temperature above 0; got {self.top_k} with greedy")
        if self.seed < 0:
            raise ValueError(f"seed: at least 0; got {self.seed}")

    @property
    def sampling(self) -> Sampling:
        """Greedy, or as drawn."""
        return self.choose if self.temperature else likeliest

    def choose(self, logits: Array, number: int) -> Array:
        """The likeliest token, or one drawn by the Gumbel-max rule.

        Source: Gumbel, *Statistical theory of extreme values*, 1954: the largest of scores with
        independent Gumbel noise is distributed as their softmax.
        """
        if not self.temperature:
            return likeliest(logits, number)
        import numpy as np

        scores = np.asarray(logits, dtype=np.float64) / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            least = np.partition(scores, -self.top_k, axis=-1)[:, -self.top_k, None]
            scores = np.where(scores >= least, scores, -np.inf)
        noise = np.random.default_rng([self.seed, number]).gumbel(size=scores.shape)
        return np.asarray((scores + noise).argmax(axis=-1))

    def run(
        self,
        calls: Sequence[Callable[[], object]],
        *,
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        items_per_call: float,
        cold_caches: bool = False,
    ) -> Observations:
        """Blocks as in single stream, each call a whole generation, with the time of each token."""
        streams = [call for call in calls if isinstance(call, TokenCall)]
        token_times(streams)  # of calls before this run
        with quiet_heap():
            series = sized(calls, clock, calibration, cold_caches=cold_caches)
            fill(series, stopping)
        observed = series.observations(items_per_call)
        times = token_times(streams)
        # Blocks that were too short are not kept, and were the first ones.
        kept = times[-len(observed.durations_ns) * observed.calls_per_block :]
        return replace(observed, **token_fields(kept))

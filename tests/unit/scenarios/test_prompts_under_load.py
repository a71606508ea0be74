"""Prompts that arrive by a schedule, on a clock that the test controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchorch.errors import ConfigError
from benchorch.interfaces.generation import TokenCall
from benchorch.results.metrics.generation import generation_metrics
from benchorch.results.metrics.load import load_metrics
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.scenarios.server import Server
from support.clocks import VirtualClock
from support.load_runs import QuickClock, process, run

MS = 1_000_000
FIRST_MS, LATER_MS = 6, 2


class Stream(TokenCall):
    """Three tokens after 6, 2 and 2 ms."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.times: list[tuple[int, ...]] = []

    def __call__(self) -> object:
        times = [self.clock.now_ns()]
        for cost_ms in (FIRST_MS, LATER_MS, LATER_MS):
            self.clock.spend(cost_ms * MS)
            times.append(self.clock.now_ns())
        self.times.append(tuple(times))
        return None

    def take_times(self) -> list[tuple[int, ...]]:
        taken, self.times = self.times, []
        return taken


def served(**options: Any) -> Any:
    clock = QuickClock()
    chosen = {"arrivals": "constant", "duration_s": 20, "seed": 1, "generate": True, **options}
    return run(Server(**chosen), Stream(clock), clock)


def metrics(observed: Any) -> Any:
    return {name: each.value for name, each in generation_metrics([process(observed)] * 3).items()}


def test_every_query_has_its_tokens() -> None:
    observed = served(rate_per_s=50)
    assert observed.tokens_per_call == 3
    assert observed.token_ns == (6 * MS, 2 * MS, 2 * MS) * len(observed.durations_ns)


def test_a_first_token_counts_from_the_arrival_of_its_prompt() -> None:
    found = metrics(served(rate_per_s=50))
    assert found["ttft_ms/p50"] == pytest.approx(6, rel=0.01)
    assert found["tpot_ms/p50"] == pytest.approx(2, rel=0.01)
    busy = metrics(served(rate_per_s=80, arrivals="poisson"))
    assert busy["ttft_ms/p50"] > 7  # it has waited for others
    assert busy["tpot_ms/p50"] == pytest.approx(2, rel=0.01)
    assert not {"prefill_tokens_per_s/mean", "decode_tokens_per_s/mean"} & busy.keys()


def test_first_tokens_of_a_long_queue_have_a_lower_limit_as_its_responses_have() -> None:
    """Each process is low in the same way, so their agreement is no interval."""
    load = {"rate_per_s": 80, "arrivals": "poisson", "duration_s": 10}
    busy = [process(served(**load, seed=n)) for n in range(5)]
    first, response = generation_metrics(busy)["ttft_ms/p90"], load_metrics(busy)["response_ms/p90"]
    assert response.at_least
    assert first.at_least
    assert first.high is None
    assert first.value == pytest.approx(response.value - 2 * LATER_MS)


def test_goodput_counts_queries_whose_tokens_are_all_in_time() -> None:
    assert metrics(served(rate_per_s=50, ttft_target_ms=7))["goodput_per_s/mean"] == pytest.approx(
        50, rel=0.01
    )
    assert metrics(served(rate_per_s=50, tpot_target_ms=1))["goodput_per_s/mean"] == 0
    assert "goodput_per_s/mean" not in metrics(served(rate_per_s=50))


def test_an_overloaded_process_leaves_a_trial_without_figures_of_tokens() -> None:
    """Those of the others would be of a queue that the trial did not have."""
    stable = process(served(rate_per_s=50, ttft_target_ms=7))
    overloaded = process(served(rate_per_s=120, ttft_target_ms=7))
    assert "goodput_per_s/mean" in generation_metrics([stable] * 2)
    assert generation_metrics([stable, stable, overloaded]) == {}


def test_without_generate_a_scenario_samples_nothing() -> None:
    assert Server().sampling is None
    assert PeakRate(target_ms=1, generate=True).sampling is not None


@pytest.mark.parametrize(
    "wrong", [{"servers": 2}, {"max_batch": 4}, {"ttft_target_ms": -1.0}, {"tpot_target_ms": 0.0}]
)
def test_what_prompts_cannot_be_served_with_is_refused(wrong: Any) -> None:
    with pytest.raises((ConfigError, ValueError), match=next(iter(wrong))):
        Server(generate=True, **wrong)


def test_targets_of_tokens_need_tokens() -> None:
    with pytest.raises((ConfigError, ValueError), match="ttft_target_ms"):
        Server(ttft_target_ms=10.0)
    assert replace(Server(), generate=True, ttft_target_ms=10.0).sampling is not None

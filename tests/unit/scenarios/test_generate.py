"""Generation on a clock that the test controls."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from benchorch.interfaces.generation import TokenCall
from benchorch.scenarios.generate import Generate
from support.clocks import VirtualClock
from support.fakes import Blocks

TOKENS_NS = (8e6, 2e6, 3e6)


class Stream(TokenCall):
    """Three tokens, each a little later in every further call."""

    def __init__(self, clock: VirtualClock, calls: count[int]) -> None:
        self.clock, self.calls = clock, calls
        self.times: list[tuple[int, ...]] = []

    def __call__(self) -> object:
        number, times = next(self.calls), [self.clock.now_ns()]
        for cost_ns in TOKENS_NS:
            self.clock.spend(cost_ns + 1000 * number)
            times.append(self.clock.now_ns())
        self.times.append(tuple(times))
        return None

    def take_times(self) -> list[tuple[int, ...]]:
        taken, self.times = self.times, []
        return taken


def test_each_token_of_each_kept_call_has_its_time_in_the_order_of_the_calls() -> None:
    clock, calls = VirtualClock(read_ns=0), count()
    streams = [Stream(clock, calls) for _ in range(3)]
    streams[1]()  # a call before the run, as the first call of a process
    observed = Generate().run(
        streams,
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Blocks(7),
        items_per_call=2,
    )
    assert observed.tokens_per_call == 3
    token_ns = observed.token_ns
    per_call = [token_ns[at : at + 3] for at in range(0, len(token_ns), 3)]
    assert len(per_call) == len(observed.durations_ns) >= 7
    for number, tokens in enumerate(per_call, 1):
        assert tokens == tuple(int(cost + 1000 * number) for cost in TOKENS_NS)


def test_greedy_takes_the_likeliest_token_of_each_sequence() -> None:
    scores = np.array([[0.1, 3.0, 2.0], [5.0, -1.0, 4.9]], dtype=np.float32)
    assert Generate().choose(scores, 0).tolist() == [1, 0]


def test_draws_follow_the_softmax_of_the_scores_and_top_k_leaves_others_out() -> None:
    rows = 20_000
    scores = np.log(np.tile([0.6, 0.3, 0.1], (rows, 1)))
    drawn = np.bincount(Generate(temperature=1.0).choose(scores, 0), minlength=3) / rows
    assert np.allclose(drawn, [0.6, 0.3, 0.1], atol=0.02)  # five standard errors
    kept = np.bincount(Generate(temperature=1.0, top_k=2).choose(scores, 1), minlength=3) / rows
    assert np.allclose(kept, [2 / 3, 1 / 3, 0], atol=0.02)
    again = Generate(temperature=1.0).choose(scores, 0)
    assert np.array_equal(again, Generate(temperature=1.0).choose(scores, 0))


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_k": 0}, {"top_k": 5}, {"seed": -1}])
def test_a_rule_that_draws_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Generate(**wrong)

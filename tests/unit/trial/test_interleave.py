"""Two interleaved executables, on a clock that the test controls."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import pytest

from benchorch.domain.measurement import Observations
from benchorch.interfaces.hardware import Counts, TimedBlock
from benchorch.trial.interleave import (
    LEAST_PAIRS,
    WARM_UP_CALLS,
    Interleaved,
    InterleavedSide,
    interleave,
    least_pair_s,
)
from support.clocks import Costs, VirtualClock

MS = 1e6


def run(
    candidate_ms: float, baseline_ms: float, *, seed: int = 0, window_s: float = 1.0
) -> Interleaved:
    clock = VirtualClock()
    return interleave(
        [Costs(clock, candidate_ms * MS)],
        [Costs(clock, baseline_ms * MS)],
        clock=clock,
        window_s=window_s,
        slice_ms=20,
        seed=seed,
    )


def median_ms(observed: Observations, start: int = 0) -> float:
    return statistics.median(observed.durations_ns[start:]) / observed.calls_per_block / MS


def together_ms(side: InterleavedSide) -> float:
    return median_ms(side.together, side.start)


def test_each_side_is_measured_at_its_own_speed() -> None:
    found = run(2.0, 3.0)
    assert together_ms(found.candidate) == pytest.approx(2.0, rel=1e-3)
    assert together_ms(found.baseline) == pytest.approx(3.0, rel=1e-3)


def test_both_get_the_same_share_of_the_time() -> None:
    found = run(0.1, 5.0)
    spent = [sum(side.together.durations_ns) for side in (found.candidate, found.baseline)]
    assert spent[0] == pytest.approx(spent[1], rel=0.1)


def test_a_machine_that_slows_down_for_both_does_not_move_the_ratio() -> None:
    clock = VirtualClock()

    def slowing(cost_ms: float) -> object:
        return lambda: clock.spend(cost_ms * MS * (1 + clock.true_ns / 1e9))

    found = interleave(
        [slowing(2.0)],  # type: ignore[list-item]
        [slowing(3.0)],  # type: ignore[list-item]
        clock=clock,
        window_s=2.0,
        slice_ms=20,
        seed=1,
    )
    ratio = together_ms(found.baseline) / together_ms(found.candidate)
    assert ratio == pytest.approx(1.5, rel=0.02)


def test_who_begins_is_drawn_and_the_same_seed_draws_the_same() -> None:
    beginnings = set()
    for seed in range(6):
        order: list[str] = []
        clock = VirtualClock()

        def call(name: str, clock: VirtualClock = clock, order: list[str] = order) -> object:
            return lambda: (order.append(name), clock.spend(30 * MS))

        for _ in range(2):
            order.clear()
            interleave(
                [call("candidate")],  # type: ignore[list-item]
                [call("baseline")],  # type: ignore[list-item]
                clock=clock,
                window_s=0.1,
                slice_ms=20,
                seed=seed,
            )
            beginnings.add("".join(name[0] for name in order))
    # 5 pairs of slices have 32 orders; 6 seeds twice would show one only if nothing were drawn,
    # and more than 6 if the seed did not decide.
    assert 3 < len(beginnings) <= 6


def test_calls_longer_than_the_window_still_get_their_slices() -> None:
    found = run(400.0, 500.0, window_s=0.5)
    for side in (found.candidate, found.baseline):
        assert len(side.together.durations_ns) - side.start >= LEAST_PAIRS
        assert side.start >= WARM_UP_CALLS


def test_slow_first_calls_of_a_side_that_was_just_loaded_do_not_count() -> None:
    clock = VirtualClock()
    left = [3]

    def warming() -> None:
        left[0] -= 1
        clock.spend(300 * MS if left[0] >= 0 else 2 * MS)

    found = interleave(
        [Costs(clock, 2 * MS)], [warming], clock=clock, window_s=0.2, slice_ms=20, seed=3
    )
    side = found.baseline
    counted = side.together.durations_ns[side.start :]
    assert max(counted) < 3 * MS
    assert not math.isclose(max(side.together.durations_ns), max(counted))


class Crowd:
    """Two sides, each slower by a tenth right after the other has run."""

    def __init__(self, *, slowing_s: float = 0.0) -> None:
        self.clock = VirtualClock()
        self.ran: list[str] = []
        self._slowing_s = slowing_s

    def side(self, name: str, slowed: float = 1.0) -> Callable[[], object]:
        def call() -> None:
            beside = any(other != name for other in self.ran[-12:])
            drift = 1 + self._slowing_s * self.clock.true_ns / 1e9
            self.ran.append(name)
            self.clock.spend(2 * MS * drift * (slowed if beside else 1.0))

        return call

    def run(self, *, candidate_first: bool = True, slowed: float = 1.0) -> Interleaved:
        return interleave(
            [self.side("candidate")],
            [self.side("baseline", slowed)],
            clock=self.clock,
            window_s=2.0,
            slice_ms=20,
            seed=5,
            candidate_first=candidate_first,
        )


def change(side: InterleavedSide) -> float:
    assert side.alone is not None
    half = len(side.alone.durations_ns) // 2
    before, after = (statistics.median(side.alone.durations_ns[i : i + half]) for i in (0, half))
    return together_ms(side) / (math.sqrt(before * after) / side.alone.calls_per_block / MS)


@pytest.mark.parametrize("candidate_first", [True, False])
def test_who_comes_first_is_as_asked(candidate_first: bool) -> None:
    crowd = Crowd()
    crowd.run(candidate_first=candidate_first)
    assert crowd.ran[0] == ("candidate" if candidate_first else "baseline")
    assert len(set(crowd.ran[:5])) == 1


@pytest.mark.parametrize("candidate_first", [True, False])
def test_a_side_that_the_other_slows_down_shows_against_itself_alone(
    candidate_first: bool,
) -> None:
    found = Crowd().run(candidate_first=candidate_first, slowed=1.1)
    assert change(found.baseline) == pytest.approx(1.1, rel=1e-3)
    assert change(found.candidate) == pytest.approx(1.0, rel=1e-3)


def test_a_drift_of_the_machine_is_no_sign_of_interference() -> None:
    found = Crowd(slowing_s=0.1).run()
    # Calls end a third longer than they began; against those before alone it would be 15 %.
    for side in (found.candidate, found.baseline):
        assert change(side) == pytest.approx(1.0, abs=0.02)


def test_calls_far_longer_than_the_window_are_made_six_times_and_no_more() -> None:
    found = run(4000.0, 5000.0, window_s=0.5)
    for side in (found.candidate, found.baseline):
        assert side.alone is not None
        assert len(side.together.durations_ns) - side.start == 2
        assert len(side.together.durations_ns) + len(side.alone.durations_ns) == 6


class CoolingClock(VirtualClock):
    """A clock whose reading of counters between bursts takes caches away."""

    cold = True
    in_burst = False

    def counts(self) -> Counts:
        self.cold = self.cold or not self.in_burst
        return super().counts()

    def time_blocks(
        self,
        calls: Sequence[Callable[[], object]],
        repeats: int,
        *,
        at_once: bool = False,
        for_ns: int = 0,
    ) -> list[TimedBlock]:
        self.in_burst = True
        blocks = super().time_blocks(calls, repeats, at_once=at_once, for_ns=for_ns)
        self.in_burst = False
        return blocks

    def call(self) -> None:
        self.spend((0.11 if self.cold else 0.1) * MS)
        self.cold = False


def test_both_halves_alone_are_measured_in_bursts_as_slices_are() -> None:
    clock = CoolingClock()
    found = interleave([clock.call], [clock.call], clock=clock, window_s=0.5, slice_ms=20, seed=1)
    for side in (found.candidate, found.baseline):
        assert change(side) == pytest.approx(1.0, abs=0.01)


def test_as_many_blocks_are_measured_alone_after_the_slices_as_before() -> None:
    side = run(0.1, 0.3).candidate
    assert side.alone is not None
    starts = side.alone.started_ns
    gap = max(range(1, len(starts)), key=lambda n: starts[n] - starts[n - 1])
    assert 2 * gap == len(starts)


@pytest.mark.parametrize("call_ms", [80.0, 200.0])
def test_slow_calls_take_as_long_as_is_foretold(call_ms: float) -> None:
    clock = VirtualClock()
    side = [Costs(clock, call_ms * MS)]
    for _ in "ab":
        side[0]()  # each side is called once when it is loaded
    interleave(side, side, clock=clock, window_s=0.5, slice_ms=20, seed=0)
    assert least_pair_s(call_ms * MS) == pytest.approx(clock.true_ns / 1e9, rel=0.01)

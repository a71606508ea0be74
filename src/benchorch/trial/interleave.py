"""Two executables measured in alternation, in one process."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchorch.domain.measurement import Observations
from benchorch.interfaces.hardware import Clock
from benchorch.scenarios.series import Series, quiet_heap, sized, window_from
from benchorch.units import ns_to_s, s_to_ns

LEAST_PAIRS = 5
WARM_UP_CALLS = 3
LEAST_ALONE = 2
ALONE_SHARE = 1 / 8

FEWEST = 2
"""Pairs of slices, and blocks to warm up, where a call is so slow that more exceed the window by
`MOST_WINDOWS` times; alone one block is then enough."""

MOST_WINDOWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedSide:
    """Blocks of one side, and the index from which they count.

    Attributes:
        together: in slices between the other's.
        start: index of the first block of `together` after warming up, and after the last
            compilation; there may be none.
        alone: while the other was idle: one half of the blocks before all slices, the other half
            after them; None where something was compiled meanwhile.
    """

    together: Observations
    start: int
    alone: Observations | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """Blocks of both sides of one process."""

    candidate: InterleavedSide
    baseline: InterleavedSide


def interleave(
    candidate: Sequence[Callable[[], object]],
    baseline: Sequence[Callable[[], object]],
    *,
    clock: Clock,
    window_s: float,
    slice_ms: float,
    seed: int,
    items_per_call: float = 1,
    candidate_first: bool = True,
) -> Interleaved:
    """Run slices of the two in random order until the window is over.

    Noise on the machine affects both equally. A slice lasts `slice_ms`, and at least one block;
    which side begins is drawn anew for each pair of slices. Each side first warms up for one slice
    and at least three calls, which are kept and do not count (fewer of calls that would exceed the
    window by far). Before the slices each runs alone for
    an eighth of the window, and for as many blocks after them, so that a steady drift of the
    machine cancels where alone and together are compared.

    Args:
        candidate, baseline: calls bound to different inputs, at least one each.
        seed: of the order of slices.
        window_s: for both together; exceeded where five pairs of slices take longer, and where
            two take longer than eight windows.
        candidate_first: whether it is sized, warms up and runs alone before the baseline does.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.

    Source: Bulej et al., *Duet benchmarking*, 2020, for comparing under shared noise; slices
    rather than both at once, so that neither takes from the other.
    """
    calibration = clock.calibrate()
    order = random.Random(seed)
    slice_ns, alone_ns = slice_ms * 1e6, s_to_ns(window_s * ALONE_SHARE)
    in_turn = 1 if candidate_first else -1
    with quiet_heap():
        given = (candidate, baseline)[::in_turn]
        sides = [_RunningSide(sized(calls, clock, calibration), calls, clock) for calls in given]
        slow_ns = s_to_ns(window_s)
        starts = [_warm_up(side.together, slice_ns, slow_ns) for side in sides]
        for side in sides:
            _run_alone(side.alone, alone_ns, slow_ns)
        ends_ns = clock.now_ns() + s_to_ns(window_s)
        latest_ns = clock.now_ns() + MOST_WINDOWS * s_to_ns(window_s)
        pairs = 0
        while pairs < (LEAST_PAIRS if clock.now_ns() < latest_ns else FEWEST) or (
            clock.now_ns() < ends_ns
        ):
            for index in order.sample((0, 1), 2):
                _run_slice(sides[index].together, slice_ns)
            pairs += 1
        for side in sides:
            _repeat_alone(side.alone)
    found = [side.found(start, items_per_call) for side, start in zip(sides, starts, strict=True)]
    own, other = found[::in_turn]
    return Interleaved(candidate=own, baseline=other)


def least_pair_s(call_ns: float) -> float:
    """Seconds that interleaving two sides takes at least where each call takes so long."""
    calls = 1 + WARM_UP_CALLS + 2 * LEAST_ALONE + LEAST_PAIRS
    return ns_to_s(2 * calls * call_ns)


class _RunningSide:
    """The series of one side: between the other's slices, and alone."""

    def __init__(self, together: Series, calls: Sequence[Callable[[], object]], clock: Clock):
        self.together = together
        self.alone = Series(calls, clock, together.repeats)
        self.alone.floor_ns = together.floor_ns

    def found(self, start: int, items_per_call: float) -> InterleavedSide:
        together = self.together.observations(items_per_call)
        alone = self.alone.observations(items_per_call)
        return InterleavedSide(
            together=together,
            start=max(start, window_from(together)),
            alone=None if window_from(alone) else alone,
        )


def _warm_up(side: Series, slice_ns: float, slow_ns: float) -> int:
    """Run one slice of at least a few calls; returns the number of blocks."""
    _run_slice(side, slice_ns)
    while len(side.durations_ns) * side.repeats < _at_least(WARM_UP_CALLS, FEWEST, side, slow_ns):
        side.add_block()
    return len(side.durations_ns)


def _run_alone(side: Series, alone_ns: float, slow_ns: float) -> None:
    """Run one side alone for a time and at least two blocks: the first shows the other's traces."""
    _run_slice(side, alone_ns)
    while len(side.durations_ns) < _at_least(LEAST_ALONE, 1, side, slow_ns):
        side.add_block()


def _repeat_alone(side: Series) -> None:
    """Run as many blocks once more, in bursts like those of a slice.

    Between single blocks counters are read, which takes caches away: 40 µs of Inductor's calls
    took a tenth longer so, and looked as if interleaving changed them.
    """
    count = 2 * len(side.durations_ns)
    while len(side.durations_ns) < count:
        side.add_blocks(most=count - len(side.durations_ns))


def _at_least(usual: int, fewest: int, side: Series, slow_ns: float) -> int:
    """The usual number of blocks, or fewer where a single one is longer than two windows."""
    return fewest if side.durations_ns[-1] > 2 * slow_ns else usual


def _run_slice(side: Series, slice_ns: float) -> None:
    first, spent_ns = len(side.durations_ns), 0
    while spent_ns < slice_ns:
        side.add_blocks()
        spent_ns = sum(side.durations_ns[first:])

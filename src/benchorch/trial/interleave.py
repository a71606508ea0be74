"""How do two executables compare, in this one process?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchorch.domain.measurement import Observations
from benchorch.interfaces.hardware import Clock
from benchorch.scenarios.series import Series, quiet_heap, sized, window_from
from benchorch.units import s_to_ns

LEAST_TURNS = 5
WARM_UP_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternated:
    """Both sides' blocks, and from which on they count.

    Attributes:
        ours_from, theirs_from: index of the first block after warming up, and after the last
            compilation; there may be none.
    """

    ours: Observations
    theirs: Observations
    ours_from: int
    theirs_from: int


def alternate(
    ours: Sequence[Callable[[], object]],
    theirs: Sequence[Callable[[], object]],
    *,
    clock: Clock,
    window_s: float,
    slice_ms: float,
    seed: int,
    items_per_call: int = 1,
) -> Alternated:
    """Let the two take turns until the window is over.

    Whatever the machine does meanwhile, it does to both. A turn lasts `slice_ms`, and at least
    one block; who begins is drawn anew for each pair of turns. Each side first warms up for one
    turn and at least three calls, which are kept and do not count.

    Args:
        ours, theirs: calls bound to different inputs, at least one each.
        seed: of the order of turns.
        window_s: for both together; exceeded where five pairs of turns take longer.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.

    Source: Bulej et al., *Duet benchmarking*, 2020, for comparing under shared noise; turns rather
    than both at once, so that neither takes from the other.
    """
    calibration = clock.calibrate()
    order = random.Random(seed)
    slice_ns = slice_ms * 1e6
    with quiet_heap():
        sides = [sized(calls, clock, calibration) for calls in (ours, theirs)]
        starts = [_warm_up(side, slice_ns) for side in sides]
        ends_ns = clock.now_ns() + s_to_ns(window_s)
        turns = 0
        while turns < LEAST_TURNS or clock.now_ns() < ends_ns:
            for index in order.sample((0, 1), 2):
                _take_turn(sides[index], slice_ns)
            turns += 1
    mine, other = (side.observations(items_per_call) for side in sides)
    return Alternated(
        ours=mine,
        theirs=other,
        ours_from=max(starts[0], window_from(mine)),
        theirs_from=max(starts[1], window_from(other)),
    )


def _warm_up(side: Series, slice_ns: float) -> int:
    """One turn, and at least a few calls; how many blocks there were."""
    _take_turn(side, slice_ns)
    while len(side.durations_ns) * side.repeats < WARM_UP_CALLS:
        side.add_block()
    return len(side.durations_ns)


def _take_turn(side: Series, slice_ns: float) -> None:
    first, spent_ns = len(side.durations_ns), 0
    while spent_ns < slice_ns:
        side.add_blocks()
        spent_ns = sum(side.durations_ns[first:])

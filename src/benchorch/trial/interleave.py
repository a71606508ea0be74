"""Two executables measured in alternation, in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchorch.domain.measurement import Observations
from benchorch.interfaces.hardware import Clock
from benchorch.scenarios.series import Series, quiet_heap, sized, window_from
from benchorch.units import s_to_ns

LEAST_PAIRS = 5
WARM_UP_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """Both sides' blocks, and from which on they count.

    Attributes:
        candidate_from, baseline_from: index of the first block after warming up, and after the
            last compilation; there may be none.
    """

    candidate: Observations
    baseline: Observations
    candidate_from: int
    baseline_from: int


def interleave(
    candidate: Sequence[Callable[[], object]],
    baseline: Sequence[Callable[[], object]],
    *,
    clock: Clock,
    window_s: float,
    slice_ms: float,
    seed: int,
    items_per_call: int = 1,
) -> Interleaved:
    """Run slices of the two in random order until the window is over.

    Noise on the machine affects both equally. A slice lasts `slice_ms`, and at least one block;
    which side begins is drawn anew for each pair of slices. Each side first warms up for one slice
    and at least three calls, which are kept and do not count.

    Args:
        candidate, baseline: calls bound to different inputs, at least one each.
        seed: of the order of slices.
        window_s: for both together; exceeded where five pairs of slices take longer.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.

    Source: Bulej et al., *Duet benchmarking*, 2020, for comparing under shared noise; slices
    rather than both at once, so that neither takes from the other.
    """
    calibration = clock.calibrate()
    order = random.Random(seed)
    slice_ns = slice_ms * 1e6
    with quiet_heap():
        sides = [sized(calls, clock, calibration) for calls in (candidate, baseline)]
        starts = [_warm_up(side, slice_ns) for side in sides]
        ends_ns = clock.now_ns() + s_to_ns(window_s)
        pairs = 0
        while pairs < LEAST_PAIRS or clock.now_ns() < ends_ns:
            for index in order.sample((0, 1), 2):
                _run_slice(sides[index], slice_ns)
            pairs += 1
    own, other = (side.observations(items_per_call) for side in sides)
    return Interleaved(
        candidate=own,
        baseline=other,
        candidate_from=max(starts[0], window_from(own)),
        baseline_from=max(starts[1], window_from(other)),
    )


def _warm_up(side: Series, slice_ns: float) -> int:
    """One slice, and at least a few calls; how many blocks there were."""
    _run_slice(side, slice_ns)
    while len(side.durations_ns) * side.repeats < WARM_UP_CALLS:
        side.add_block()
    return len(side.durations_ns)


def _run_slice(side: Series, slice_ns: float) -> None:
    first, spent_ns = len(side.durations_ns), 0
    while spent_ns < slice_ns:
        side.add_blocks()
        spent_ns = sum(side.durations_ns[first:])

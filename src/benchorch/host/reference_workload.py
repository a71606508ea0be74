"""Reference workloads: fixed pieces of work whose times show the machine's current speed.

They are compared between processes, so they must not depend on where a process happens to lie in
memory: a loop of the interpreter does (its speed differs by 2 to 7 % between fresh processes of an
unchanged machine), while compiled loops over a few cached kilobytes agree within 1 %. These do not
see what slows memory; copies of 16 MiB do. Their time differs by up to 20 % between fresh processes
of a quiet machine, so they only show large changes (`benchmarks/reference_workload.py`).
"""

import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from benchorch.domain.measurement import Conditions

CHUNKS = 40
"""Pieces of about 0.7 ms, some 30 ms in all: the speed of a shared machine changes within seconds,
and 80 pieces foretold a model's speed no better than 40."""

_SQUARINGS = 2
_PRODUCTS = 100
_SIDE = 48  # small enough for the first cache, and for a matrix library to stay in one thread
_NUMBER = 3**20_000
_COPIES = 12
_COPIED_BYTES = 16 * 2**20  # with its copy as much as a large last-level cache

MEMORY_RATIO = 1.5
"""Copies that took so much longer than others show that something else used the memory."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The machine's speed at one moment, as the time of two reference workloads."""

    arithmetic_ns: float
    memory_ns: float


def speed() -> Speed:
    """The machine's speed now; takes some 40 ms and, for a moment, 32 MiB."""
    return Speed(reference_ns(), memory_ns())


def memory_ns() -> float:
    """Time in which 16 MiB are copied: the lower quartile of a dozen.

    In mappings of its own: freeing so much to the allocator would change how it serves the model.
    """
    with mmap.mmap(-1, _COPIED_BYTES) as source, mmap.mmap(-1, _COPIED_BYTES) as target:
        source[:: mmap.PAGESIZE] = bytes(_COPIED_BYTES // mmap.PAGESIZE)  # else one page of zeros
        with memoryview(source) as read, memoryview(target) as written:

            def copy() -> None:
                written[:] = read

            copy()
            copies_ns = sorted(_time_ns(copy) for _ in range(_COPIES))
    return float(copies_ns[_COPIES // 4])


def reference_ns() -> float:
    """Time of a fixed piece of work: whole numbers, and matrices where numpy is loaded.

    The lower quartile over `CHUNKS` repetitions: being switched out now and then does not count,
    a slower clock or a neighbour on the same core does.
    """
    work = _work()
    chunks_ns = sorted(_time_ns(work) for _ in range(CHUNKS))
    return float(chunks_ns[CHUNKS // 4])


def disturbance(around: Conditions, first: Conditions, tolerance_ratio: float) -> str:
    """Reason to reject the process between two reference workloads; empty where it counts.

    Args:
        around: the process's own.
        first: those of the trial's first process: before it, fixed before any was measured.
        tolerance_ratio: how much slower than that they may be; see `Grade.tolerance_ratio`. Copies
            of memory may be by `MEMORY_RATIO`.
    """
    arithmetic = first.canary_before_ns, around.canary_before_ns, around.canary_after_ns
    memory = first.memory_before_ns, around.memory_before_ns, around.memory_after_ns
    return _slower("", arithmetic, tolerance_ratio) or _slower(
        "'s copy of memory", memory, max(tolerance_ratio, MEMORY_RATIO - 1)
    )


def _slower(what: str, times: Sequence[float | None], tolerance_ratio: float) -> str:
    """How much longer the second and the third time are than the first, where beyond that."""
    first_ns, *around_ns = times
    slower = {
        when: time_ns / first_ns - 1
        for when, time_ns in zip(("before", "after"), around_ns, strict=True)
        if first_ns and time_ns
    }
    late = [f"{ratio:.1%} {when}" for when, ratio in slower.items() if ratio > tolerance_ratio]
    if not late:
        return ""
    return (
        f"The reference workload{what} took longer than before the trial: {' and '.join(late)} "
        f"this process; {tolerance_ratio:.1%} is allowed."
    )


def square() -> int:
    """The work with whole numbers: 0.2 ms in one core's own registers and first cache."""
    return _NUMBER * _NUMBER


def _time_ns(work: Callable[[], None]) -> int:
    started_ns = perf_counter_ns()
    work()
    return perf_counter_ns() - started_ns


def _work() -> Callable[[], None]:
    """Whole numbers and, where numpy is there already, matrices: their units differ in heat."""
    multiply = products()(_PRODUCTS) if "numpy" in sys.modules else None

    def work() -> None:
        for _ in range(_SQUARINGS):
            square()
        if multiply is not None:
            multiply()

    return work


def products() -> Callable[[int], Callable[[], None]]:
    """Makes calls of so many products, all of the same two matrices of 48 by 48."""
    import numpy as np

    left = np.linspace(-1.0, 1.0, _SIDE * _SIDE, dtype=np.float32).reshape(_SIDE, _SIDE)
    product = np.empty_like(left)
    matmul = np.matmul

    def of_count(count: int) -> Callable[[], None]:
        def multiply() -> None:
            for _ in range(count):
                matmul(left, left, product)

        return multiply

    return of_count

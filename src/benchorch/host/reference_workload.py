"""Reference workload: a fixed piece of work whose time shows the machine's current speed.

It is compared between processes, so it must not depend on where a process happens to lie in
memory: a loop of the interpreter does (its speed differs by 2 to 7 % between fresh processes of an
unchanged machine), while compiled loops over a few cached kilobytes agree within 1 %.
"""

import sys
from collections.abc import Callable
from time import perf_counter_ns

CHUNKS = 40
"""Pieces of about 0.7 ms, some 30 ms in all: the speed of a shared machine changes within seconds,
and 80 pieces foretold a model's speed no better than 40."""

_SQUARINGS = 2
_PRODUCTS = 100
_SIDE = 48  # small enough for the first cache, and for a matrix library to stay in one thread
_NUMBER = 3**20_000


def reference_ns() -> float:
    """Time of a fixed piece of work: whole numbers, and matrices where numpy is loaded.

    The lower quartile over `CHUNKS` repetitions: being switched out now and then does not count,
    a slower clock or a neighbour on the same core does.
    """
    work = _work()
    chunks_ns = sorted(_time_ns(work) for _ in range(CHUNKS))
    return float(chunks_ns[CHUNKS // 4])


def disturbance(before_ns: float, after_ns: float, first_ns: float, tolerance_ratio: float) -> str:
    """Reason to reject the process between two reference workloads; empty where it counts.

    Args:
        before_ns, after_ns: the reference workload before and after it.
        first_ns: the one before the first process of the trial: fixed before any was measured.
        tolerance_ratio: how much slower than that they may be; see `Grade.tolerance_ratio`.
    """
    slower = {"before": before_ns / first_ns - 1, "after": after_ns / first_ns - 1}
    late = [f"{ratio:.1%} {when}" for when, ratio in slower.items() if ratio > tolerance_ratio]
    if not late:
        return ""
    return (
        f"The reference workload took longer than before the trial: {' and '.join(late)} this "
        f"process; {tolerance_ratio:.1%} is allowed."
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
    multiply = _products() if "numpy" in sys.modules else None

    def work() -> None:
        for _ in range(_SQUARINGS):
            square()
        if multiply is not None:
            multiply()

    return work


def _products() -> Callable[[], None]:
    import numpy as np

    left = np.linspace(-1.0, 1.0, _SIDE * _SIDE, dtype=np.float32).reshape(_SIDE, _SIDE)
    product = np.empty_like(left)
    matmul = np.matmul

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            matmul(left, left, product)

    return multiply

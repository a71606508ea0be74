"""Plain timing loop: the reference for benchorch's own timing."""

from collections.abc import Callable
from time import perf_counter_ns


def bare_blocks_ns(call: Callable[[], object], repeats: int, slice_ns: float) -> list[int]:
    """Durations of blocks of `repeats` calls, one after the other until the slice is over."""
    blocks_ns: list[int] = []
    ends_ns = perf_counter_ns() + slice_ns
    ended_ns = 0
    while ended_ns < ends_ns:
        started_ns = perf_counter_ns()
        for _ in range(repeats):
            call()
        ended_ns = perf_counter_ns()
        blocks_ns.append(ended_ns - started_ns)
    return blocks_ns

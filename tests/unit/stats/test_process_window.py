from __future__ import annotations

from benchorch.stats.process_window import GROWTH_RATIO, ProcessWindow
from benchorch.stats.sequential_testing import geometric

MS = 1_000_000
LOOKED_AT = [n for n in range(400) if n in geometric(10, GROWTH_RATIO)]


def enough(window: ProcessWindow, durations: list[int], calls_per_block: int = 1) -> list[int]:
    """The counts of blocks at which it would stop."""
    return [
        n for n in range(len(durations) + 1) if window.is_enough(durations[:n], calls_per_block)
    ]


def window(**bounds: float) -> ProcessWindow:
    fields = {"min_s": 0.0, "min_calls": 0, "max_s": 1000.0, "least_blocks": 10, **bounds}
    return ProcessWindow(**fields)  # type: ignore[arg-type]


STEADY = [10 * MS + (n * 7919) % 101 for n in range(300)]
WANDERING = [MS * (10 + n) for n in range(300)]


def test_steady_calls_are_enough_at_geometric_counts() -> None:
    assert LOOKED_AT[:2] == [10, 13]
    found = enough(window(), STEADY)
    assert found
    assert set(found) <= set(LOOKED_AT)
    assert enough(window(least_blocks=50), STEADY)[0] == 50


def test_a_process_measures_for_its_least_time_and_its_least_calls() -> None:
    free = enough(window(), STEADY)
    after_1_s = next(n for n in LOOKED_AT if sum(STEADY[:n]) >= 1000 * MS)
    assert after_1_s > free[0]
    assert enough(window(min_s=1.0), STEADY)[0] == after_1_s
    third = free[2]
    exactly = window(min_s=sum(STEADY[:third]) / 1e9)
    assert enough(exactly, STEADY) == free[2:]
    assert enough(window(min_calls=8 * third), STEADY, 8) == free[2:]
    assert enough(window(min_calls=8 * third + 1), STEADY, 8) == free[3:]


def test_calls_that_wander_end_at_the_longest_time() -> None:
    assert enough(window(), WANDERING) == []
    found = enough(window(max_s=1.0), WANDERING)
    assert found[0] == next(n for n in LOOKED_AT if sum(WANDERING[:n]) >= 1000 * MS)
    assert enough(window(max_s=0.1, min_s=9.0, min_calls=10**6), [10 * MS] * 10) == [10]

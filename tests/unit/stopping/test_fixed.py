from __future__ import annotations

import pytest

from benchorch.stopping.fixed import Fixed


def blocks_taken(stopping: Fixed, duration_ns: int, calls_per_block: int = 1) -> int:
    count = 1
    while not stopping.enough_calls([duration_ns] * count, calls_per_block):
        count += 1
    return count


def test_the_calls_are_made_exactly() -> None:
    assert blocks_taken(Fixed(calls=137), 1000) == 137
    assert blocks_taken(Fixed(calls=137), 1000, calls_per_block=10) == 14


def test_the_window_is_filled_and_hardly_exceeded() -> None:
    taken = blocks_taken(Fixed(calls=5, window_s=0.5), 1_000_000)
    assert 500 <= taken <= 500 * 1.03


def test_a_series_is_added_up_when_its_calls_are_made_and_seldom_after() -> None:
    rule = Fixed(calls=1000, window_s=0.001)
    assert rule.enough_calls((1_000,) * 1000, 1)
    looked = [blocks for blocks in range(1001, 1101) if rule.enough_calls((1_000,) * blocks, 1)]
    assert 0 < len(looked) < 10
    assert looked[0] > 1001


def test_the_processes_are_counted() -> None:
    assert Fixed(processes=3).enough_processes([1.0, 2.0], 1e9) is None
    assert Fixed(processes=3).enough_processes([1.0, 2.0, 3.0], 0) == "fixed"


def test_nobody_looks_before_the_end() -> None:
    assert Fixed().planned_looks() == ()


@pytest.mark.parametrize("wrong", [{"processes": 0}, {"calls": 0}, {"window_s": -1.0}])
def test_counts_below_one_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Fixed(**wrong)  # type: ignore[arg-type]

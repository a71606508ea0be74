"""Lookups where ranks and clocks are far apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.trace.events import NOTHING
from benchorch.trace.lookup import last_elsewhere, latest_so_far


def columns(*values: list[int]) -> list[np.ndarray]:
    return [np.array(one, dtype=np.int64) for one in values]


def test_the_last_point_elsewhere_is_of_the_same_rank() -> None:
    point, lane, time_ns = columns([10, 11, 12, 13], [0, 1, 2, 3], [50, 60, 70, 80])
    asked, until_ns, after_ns = columns([0, 1, 2, 3], [100] * 4, [0] * 4)
    found = last_elsewhere(
        np.array([0, 0, 1, 1]), (point, lane, time_ns), asked, until_ns, after_ns
    )
    assert found.tolist() == [11, 10, 13, 12]


def test_no_point_is_on_no_other_lane() -> None:
    none, on, no_time = columns([], [], [])
    found = last_elsewhere(np.array([0]), (none, on, no_time), *columns([0], [9], [0]))
    assert found.tolist() == [NOTHING]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far_ns", [1, 2**61])
def test_the_latest_so_far_whatever_the_clock(far_ns: int) -> None:
    lane, end_ns = columns(
        [0, 0, 0, 1, 1], [-far_ns - 3, far_ns, -far_ns - 1, -far_ns, -far_ns - 2]
    )
    assert latest_so_far(lane, end_ns * 2).tolist() == [0, 1, 1, 3, 3]

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.operators.flops import ArithmeticWork
from benchorch.trace.operators.roofline import Peaks, least_ns, roofline_position

PEAKS = Peaks(flops_per_s={"float32": 1e12, "bfloat16": 4e12}, bytes_per_s=1e11)
amounts = st.floats(min_value=1, max_value=1e15)


def of(flops: float, moved: float, dtype: str = "float32") -> ArithmeticWork:
    return ArithmeticWork(flops=flops, bytes=moved, dtype=dtype)


def test_arithmetic_or_memory_limits_whichever_takes_longer() -> None:
    assert least_ns(of(1e9, 1e3), PEAKS) == pytest.approx(1e6)
    assert least_ns(of(1e3, 1e9), PEAKS) == pytest.approx(1e7)


def test_a_dtype_has_its_own_peak_and_else_that_of_float32() -> None:
    assert least_ns(of(4e9, 1, "bfloat16"), PEAKS) == pytest.approx(1e6)
    assert least_ns(of(1e9, 1, "int8"), PEAKS) == pytest.approx(1e6)
    assert least_ns(of(1, 1), Peaks(flops_per_s={}, bytes_per_s=1e11)) is None


@given(amounts, amounts, st.floats(min_value=1, max_value=1e12))
def test_efficiency_is_attained_over_ceiling(flops: float, moved: float, took: float) -> None:
    found = roofline_position(of(flops, moved), took, PEAKS)
    assert found is not None
    attained = found.attained_flops_per_s / found.ceiling_flops_per_s
    assert found.efficiency_ratio == pytest.approx(attained)


def test_the_side_of_the_ridge_says_what_limits() -> None:
    compute, memory = (
        roofline_position(of(1e9, 1e3), 2e6, PEAKS),
        roofline_position(of(0, 1e9), 2e7, PEAKS),
    )
    assert compute is not None
    assert memory is not None
    assert (compute.bound, memory.bound) == ("compute", "memory")
    assert compute.efficiency_ratio == pytest.approx(0.5)
    assert memory.efficiency_ratio == pytest.approx(0.5)


def test_a_kernel_near_the_launch_floor_is_limited_by_latency() -> None:
    floored = Peaks(flops_per_s={"float32": 1e12}, bytes_per_s=1e11, launch_floor_ns=2_000)
    short, long = (
        roofline_position(of(1e3, 1e3), 3_999, floored),
        roofline_position(of(1e3, 1e3), 4_000, floored),
    )
    assert short is not None
    assert long is not None
    assert (short.bound, long.bound) == ("latency", "memory")


def test_nothing_stands_anywhere_without_time_or_work() -> None:
    assert roofline_position(of(1, 1), 0, PEAKS) is None
    assert roofline_position(of(0, 0), 10, PEAKS) is None

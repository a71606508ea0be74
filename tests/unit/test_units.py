"""Quantities as text."""

from __future__ import annotations

import pytest

from benchorch.units import format_ms, format_seconds, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.022314, "0.02231"), (25.87, "25.87"), (12345.6, "12346"), (3e-7, "3e-07"), (2e9, "2e+09")],
)
def test_figures_have_four_digits_and_large_ones_no_power_of_ten(value: float, text: str) -> None:
    assert format_ms(value) == text


def test_a_ratio_of_thousands_is_written_out() -> None:
    assert significant(1161.03, 3) == "1161"


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.0004, "0.4 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (3.2, "3.2 s")],
)
def test_almost_a_second_is_one(duration_s: float, text: str) -> None:
    assert format_seconds(duration_s) == text

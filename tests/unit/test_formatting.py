"""Intervals as text."""

from __future__ import annotations

import pytest

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ((0.3, 0.5), "0.4 (0.3 to 0.5 seen, n = 2)"),
        ((0.03, 87.97), "not known yet (0.03 to 87.97 seen, n = 2)"),
    ],
)
def test_the_middle_of_two_distant_values_is_no_figure(
    seen: tuple[float, float], text: str
) -> None:
    estimate = Estimate(
        value=sum(seen) / 2,
        low=None,
        high=None,
        level_ratio=0.95,
        n=2,
        unit="ms",
        method="median",
        seen=seen,
    )
    assert interval_text(estimate) == text

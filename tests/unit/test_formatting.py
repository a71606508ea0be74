"""Intervals as text."""

from __future__ import annotations

import pytest

from benchorch.domain.estimate import Estimate
from benchorch.formatting import cell_name, interval_text, varying_labels


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


def test_a_sum_that_is_not_known_yet_shows_its_interval() -> None:
    total = Estimate(
        value=0.04, low=0.01, high=0.07, level_ratio=0.95, n=3, unit="ms", method="sum"
    )
    assert interval_text(total) == "not known yet (0.01 to 0.07, n = 3)"


@pytest.mark.parametrize(
    ("kinds", "names"), [("ab", ["a eager", "b eager"]), ("xy", ["a x eager", "b y eager"])]
)
def test_a_machine_that_is_called_like_its_kind_is_named_once(kinds: str, names: list[str]) -> None:
    labels = [
        {"conversion": "eager", "hardware": hardware, "hardware_kind": kind}
        for hardware, kind in zip("ab", kinds, strict=True)
    ]
    varying = varying_labels(labels)
    assert [cell_name(each, varying) for each in labels] == names

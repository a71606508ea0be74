from __future__ import annotations

import pytest

from benchorch.host.noise_grade import Grade, grade, judge

MS = 1_000_000


def quanta(rare_ratio: float, share: float = 0.03) -> list[int]:
    """A second of milliseconds of which a share is slower."""
    slow = round(1000 * share)
    return [MS] * (1000 - slow) + [round(rare_ratio * MS)] * slow


@pytest.mark.parametrize(
    ("rare_ratio", "steal", "letter"),
    [
        (1.00, 0.0, "A"),
        (1.02, 0.0049, "A"),
        (1.02, None, "A"),
        (1.03, 0.0, "B"),
        (1.00, 0.005, "B"),
        (1.10, 0.2, "B"),
        (1.11, 0.0, "C"),
        (3.00, None, "C"),
    ],
)
def test_the_grade_follows_the_spread_and_the_stolen_time(rare_ratio, steal, letter) -> None:
    found = judge(quanta(rare_ratio), steal)
    assert found.letter == letter
    assert found.p99_over_p50 == pytest.approx(rare_ratio)
    assert bool(found.reasons) == (letter != "A")


def test_what_is_rarer_than_one_in_a_hundred_does_not_decide() -> None:
    assert judge(quanta(10.0, share=0.009), 0.0).letter == "A"
    assert judge(quanta(10.0, share=0.011), 0.0).letter == "C"


def test_reasons_name_the_values_seen() -> None:
    uneven, stolen = judge(quanta(1.5), 0.031).reasons
    assert "1.50 times" in uneven
    assert "3.1%" in stolen


def tolerance(letter: str, level_spread_ratio: float, asked_ratio: float = 0.02) -> float:
    found = Grade(
        letter=letter,
        p99_over_p50=1.5,
        steal_ratio=None,
        level_spread_ratio=level_spread_ratio,
        reasons=(),
        elapsed_s=1.0,
    )
    return found.tolerance_ratio(asked_ratio)


def test_the_worse_the_machine_the_less_is_asked_of_its_canaries() -> None:
    assert [tolerance(letter, 0.001) for letter in "ABC"] == [0.02, 0.05, 0.10]


def test_never_less_is_tolerated_than_was_asked_for() -> None:
    assert [tolerance(letter, 0.001, asked_ratio=0.15) for letter in "ABC"] == [0.15] * 3


def test_a_machine_that_changes_within_a_second_gets_three_deviations_up_to_a_quarter() -> None:
    assert tolerance("C", 0.05) == pytest.approx(0.15)
    assert tolerance("C", 0.5) == 0.25


def test_the_spread_is_that_of_intervals_as_long_as_the_reference_workload() -> None:
    levels = [1.00, 1.01, 0.99, 1.02, 0.98] * 8
    series = [round(level * MS) for level in levels for _ in range(25)]
    assert judge(series, None).level_spread_ratio == pytest.approx(1.4826 * 0.01, rel=0.02)
    spiky = [value if i % 5 else 8 * value for i, value in enumerate(series)]
    assert judge(spiky, None).level_spread_ratio == pytest.approx(1.4826 * 0.01, rel=0.02)


def test_a_machine_is_looked_at_once() -> None:
    first = grade()
    assert first.letter in "ABC"
    assert first.elapsed_s > 0
    assert grade() is first

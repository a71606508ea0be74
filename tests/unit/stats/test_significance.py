from __future__ import annotations

import pytest

from benchorch.stats.significance import holm, student_p


def test_students_p_is_the_known_one() -> None:
    # t(0.975, 9) = 2.262157.
    assert student_p(2.262157, 1.0, 9) == pytest.approx(0.05, abs=1e-6)
    assert student_p(0.0, 1.0, 9) == 1.0


def test_without_any_spread_a_difference_is_certain_and_none_is_none() -> None:
    assert student_p(1e-9, 0.0, 4) == 0.0
    assert student_p(0.0, 0.0, 4) == 1.0


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_student_s_p_is_the_tables() -> None:
    assert student_p(2.262157 * 3, 3, 9) == pytest.approx(0.05, abs=1e-6)
    assert student_p(-12.7062 * 0.2, 0.2, 1) == pytest.approx(0.05, abs=1e-5)


def test_adjusted_p_values_are_at_most_one() -> None:
    assert holm([0.8, 0.9, 0.7]) == [1.0, 1.0, 1.0]

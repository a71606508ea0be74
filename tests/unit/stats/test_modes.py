from __future__ import annotations

import numpy as np
import pytest

from benchorch.stats.modes import levels


def test_processes_of_two_levels_are_told_apart_and_counted() -> None:
    fast = [0.468, 0.470, 0.475, 0.471, 0.480, 0.473]
    slow = [0.570, 0.572, 0.568, 0.571, 0.575, 0.566, 0.573, 0.569, 0.574]
    found = levels([*slow, *fast])
    assert [level.processes for level in found] == [6, 9]
    assert [level.median for level in found] == pytest.approx([0.472, 0.571])


def test_three_levels_are_found_one_after_the_other() -> None:
    values = [scale * (1 + step / 1000) for scale in (1.0, 1.1, 1.4) for step in range(6)]
    assert [level.processes for level in levels(values)] == [6, 6, 6]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 1.0, 2.0, 1.0], [3.0] * 9])
def test_few_processes_and_equal_ones_have_one_level_at_most(values: list[float]) -> None:
    assert len(levels(values)) == min(len(values), 1)


@pytest.mark.parametrize("n", [10, 20, 40])
def test_processes_of_one_bell_seldom_seem_to_have_two_levels(n: int) -> None:
    rng = np.random.default_rng(n)
    found = [levels(np.exp(0.03 * rng.standard_normal(n)).tolist()) for _ in range(300)]
    assert sum(len(one) > 1 for one in found) <= 0.02 * 300 + 2 * np.sqrt(300 * 0.02 * 0.98)

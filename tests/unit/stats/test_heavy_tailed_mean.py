from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.heavy_tailed_mean import mean_over_processes, tail_index
from support.simulated_samples import heavy, normal


@pytest.mark.parametrize("index", [1.0, 1.5, 4.0])
def test_the_index_of_a_power_tail_is_found(index: float) -> None:
    # Mirrored, so that the median is 0 and what exceeds it is the tail itself.
    drawn = np.random.default_rng(0).pareto(index, 200_000) + 1
    found = tail_index(np.concatenate([-drawn, drawn]))
    assert found == pytest.approx(index, rel=0.03)


def test_a_light_tail_has_a_large_index() -> None:
    found = tail_index(normal(np.random.default_rng(0), (1, 1000))[0])
    assert found is not None
    assert found > 2.5


def test_neither_scale_nor_shift_matters() -> None:
    drawn = np.random.default_rng(0).pareto(2, 500)
    assert tail_index(3 * drawn + 7) == pytest.approx(tail_index(drawn))


@pytest.mark.parametrize("n", [0, 1, 99])
def test_of_few_values_nothing_is_known(n: int) -> None:
    assert tail_index(np.ones(n)) is None


def test_values_without_a_tail_have_an_infinite_index() -> None:
    assert tail_index(np.ones(100)) == math.inf
    assert tail_index([*np.ones(99), 2.0]) == math.inf


def test_the_mean_is_students_over_processes() -> None:
    samples = [np.full(100, level) for level in (1.0, 2.0, 3.0)]
    rng = np.random.default_rng(0)
    noisy = [sample + 1e-9 * rng.standard_normal(100) for sample in samples]
    found = mean_over_processes(noisy, unit="ms")
    assert found is not None
    # t(0.975, 2) = 4.302653, s = 1: an end below 0 is no time.
    assert (found.value, found.n) == (pytest.approx(2.0), 3)
    assert found.low == 0.0
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-6)


def test_one_process_has_a_mean_and_no_interval() -> None:
    found = mean_over_processes([normal(np.random.default_rng(0), (1, 200))[0]], unit="ms")
    assert found is not None
    assert (found.low, found.n) == (None, 1)


def test_a_heavy_tail_has_no_mean() -> None:
    assert mean_over_processes([heavy(np.random.default_rng(0), (1, 500))[0]], unit="ms") is None
    assert mean_over_processes([], unit="ms") is None

"""Quantiles of several processes' calls, against a plain computation of their design effect."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchorch.stats.clustered_quantiles import (
    LEAST_PROCESSES,
    UNKNOWN_ALPHA,
    pooled_quantile,
    worth,
)
from benchorch.stats.quantiles import minimum_n, order_bounds, quantile, sample_quantile

UNIT = "ms"


def processes(count: int, calls: int, shift: float, seed: int = 0) -> list[np.ndarray]:
    """Calls of processes whose levels differ by this much of the calls' own spread."""
    rng = np.random.default_rng(seed)
    return [rng.normal(10 + shift * rng.normal(), 1.0, calls + k) for k in range(count)]


def by_definition(samples: list[np.ndarray], level: float) -> float:
    """The calls over one plus (calls of a process - 1) times the intraclass correlation."""
    total, groups = sum(map(len, samples)), len(samples)
    effects = [1.0]
    for at in (level, max(0.5, 1 - 10 * (1 - level))):
        limit = sample_quantile(np.concatenate(samples), at)
        above = [[float(one > limit) for one in sample] for sample in samples]
        mean = sum(map(sum, above)) / total
        between = sum(len(a) * (np.mean(a) - mean) ** 2 for a in above) / (groups - 1)
        within = sum((x - np.mean(a)) ** 2 for a in above for x in a) / (total - groups)
        least = stats.f.ppf(UNKNOWN_ALPHA, groups - 1, total - groups)
        effects.append(between / within / least)
    return total / max(effects)


@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_calls_are_worth_fewer_the_more_processes_differ(shift: float, level: float) -> None:
    samples = processes(6, 400, shift)
    assert worth(samples, level) == pytest.approx(by_definition(samples, level))


def test_the_more_processes_differ_the_less_their_calls_are_worth() -> None:
    effective = [worth(processes(6, 400, shift), 0.9) for shift in (0.0, 0.3, 2.0)]
    assert effective == sorted(effective, reverse=True)
    assert effective[-1] < 30


def test_the_same_calls_in_every_process_are_worth_all_of_them() -> None:
    sample = np.random.default_rng(1).normal(10, 1, 100)
    samples = [sample] * LEAST_PROCESSES
    assert worth(samples, 0.9) == 500
    found = pooled_quantile(samples, 0.9, unit=UNIT)
    alone = quantile(np.sort(np.concatenate(samples)), 0.9, unit=UNIT)
    assert found is not None
    assert alone is not None
    assert (found.value, found.low, found.high, found.n) == (
        alone.value,
        alone.low,
        alone.high,
        500,
    )
    assert found.unit == UNIT


def test_its_interval_is_that_of_the_effective_number_of_calls() -> None:
    samples = processes(8, 300, 0.2)
    values = np.sort(np.concatenate(samples))
    found = pooled_quantile(samples, 0.9, unit=UNIT)
    assert found is not None
    assert found.n == int(by_definition(samples, 0.9)) < values.size
    bounds = order_bounds(found.n, 0.9)
    assert bounds is not None
    each = values.size / found.n
    assert found.low == values[int(bounds[0] * each)]
    assert found.high == values[int(np.ceil((bounds[1] + 1) * each)) - 1]
    assert found.value == sample_quantile(values, 0.9)
    alone = quantile(values, 0.9, unit=UNIT)
    assert alone is not None
    assert found.low < (alone.low or 0)
    assert found.high > (alone.high or 0)


def test_one_process_does_not_show_how_processes_differ() -> None:
    sample = np.random.default_rng(1).normal(10, 1, 300)
    found = pooled_quantile([sample], 0.9, unit=UNIT)
    assert found is not None
    assert (found.low, found.high, found.n) == (None, None, 300)
    assert found.value == sample_quantile(np.sort(sample), 0.9)
    assert found.method == "quantile of one process"
    assert pooled_quantile([sample[:3]], 0.9, unit=UNIT) is None


def test_few_processes_or_calls_have_no_quantile() -> None:
    assert pooled_quantile(processes(LEAST_PROCESSES - 1, 500, 0.0), 0.9, unit=UNIT) is None
    assert pooled_quantile(processes(LEAST_PROCESSES, 500, 0.0), 0.9, unit=UNIT) is not None
    least = minimum_n(0.9)
    sample = np.arange(float(least))
    parts = [sample[k::LEAST_PROCESSES] for k in range(LEAST_PROCESSES)]
    assert pooled_quantile(parts, 0.9, unit=UNIT) is not None
    assert pooled_quantile([*parts[:-1], parts[-1][1:]], 0.9, unit=UNIT) is None
    assert pooled_quantile(processes(6, 400, 50.0), 0.9, unit=UNIT) is None  # worth too few


def test_processes_that_share_no_level_are_worth_nothing() -> None:
    samples = [np.full(20, float(k)) for k in range(6)]
    assert worth(samples, 0.5) == 0
    assert pooled_quantile(samples, 0.5, unit=UNIT) is None

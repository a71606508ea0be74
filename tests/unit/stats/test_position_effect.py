"""The effect of coming first, told from that of the conversion."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchorch.domain.measurement import ProcessRecord
from benchorch.stats.pairs import log_ratios
from benchorch.stats.position_effect import position_effect
from support.simulated_samples import alternated, process


def pair(ratio: float, first_slower: float, *, candidate_first: bool | None) -> ProcessRecord:
    """One process; the candidate is `ratio` times as fast, whoever is first slower by so much."""
    ours, theirs = 1.0, ratio
    if candidate_first:
        ours *= first_slower
    else:
        theirs *= first_slower
    record = alternated(process(np.ones(4)), np.full(9, ours), np.full(9, theirs))
    assert record.paired is not None
    paired = dataclasses.replace(record.paired, candidate_first=candidate_first)
    return dataclasses.replace(record, paired=paired)


def pairs(first_slower: float, ratio: float = 1.2, noise: float = 0.002) -> list[ProcessRecord]:
    rng = np.random.default_rng(1)
    return [
        pair(ratio * (1 + noise * rng.standard_normal()), first_slower, candidate_first=i % 2 == 0)
        for i in range(16)
    ]


def test_it_is_found_whatever_the_speed_up() -> None:
    found = position_effect(pairs(1.013))
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 1.0 < found.low < 1.013 < found.high
    assert found.n == 16


def test_both_orders_equally_often_leave_nothing_of_it_in_the_speed_up() -> None:
    mean = np.mean(log_ratios(pairs(1.1, noise=0)))
    assert np.exp(mean) == pytest.approx(1.2, abs=1e-6)
    always_first = [pair(1.2, 1.1, candidate_first=True) for _ in range(16)]
    assert np.exp(np.mean(log_ratios(always_first))) == pytest.approx(1.2 / 1.1, abs=1e-6)


def test_where_there_is_none_the_interval_holds_one_in_99_of_100_trials() -> None:
    rng = np.random.default_rng(2)
    trials, missed = 1000, 0
    for _ in range(trials):
        records = [
            pair(1 + 0.01 * rng.standard_normal(), 1.0, candidate_first=i % 2 == 0)
            for i in range(8)
        ]
        found = position_effect(records)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 1 <= found.high
    # Three standard errors at 1000 trials are 0.9 %.
    assert missed / trials <= 0.019


def test_too_few_pairs_in_one_order_and_records_without_an_order_tell_nothing() -> None:
    assert position_effect(pairs(1.1)[:3]) is None
    assert position_effect([pair(1.2, 1.1, candidate_first=None)] * 8) is None
    assert position_effect([]) is None

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchorch.stats.sequential_testing import geometric
from benchorch.stopping.precision import Precision


def blocks_taken(stopping: Precision, series: list[int], calls_per_block: int = 1) -> int:
    """How many blocks a process takes before it has seen enough."""
    for count in range(1, len(series) + 1):
        if stopping.enough_calls(series[:count], calls_per_block):
            return count
    return len(series) + 1


def series(rng: np.random.Generator, call_s: float, n: int) -> list[int]:
    return [int(x) for x in call_s * 1e9 * (1 + 0.01 * rng.standard_normal(n))]


def test_a_steady_process_stops_soon_after_half_a_second() -> None:
    taken = blocks_taken(Precision(), series(np.random.default_rng(0), 0.005, 400))
    assert 100 <= taken <= 100 * 1.3


def test_fifty_calls_are_made_even_if_half_a_second_passes_before() -> None:
    taken = blocks_taken(Precision(), series(np.random.default_rng(0), 0.05, 400))
    assert 50 <= taken <= 64


@pytest.mark.parametrize(("call_s", "least", "most"), [(0.2, 25, 32), (0.6, 10, 11), (6.0, 10, 10)])
def test_slow_calls_get_the_longest_window_but_never_fewer_than_ten(
    call_s: float, least: int, most: int
) -> None:
    taken = blocks_taken(Precision(), series(np.random.default_rng(0), call_s, 100))
    assert least <= taken <= most


def test_a_process_that_warms_up_late_is_given_longer() -> None:
    rng = np.random.default_rng(0)
    warming = series(rng, 0.006, 60) + series(rng, 0.005, 600)
    assert 60 + 50 <= blocks_taken(Precision(), warming) <= 200


def test_a_process_that_never_settles_stops_at_the_longest_window() -> None:
    drifting = [int(5e6 * (1 + i / 300)) for i in range(3000)]
    taken = blocks_taken(Precision(max_window_s=5.0), drifting)
    assert 5.0 <= sum(drifting[:taken]) / 1e9 <= 5.0 * 1.6  # the next look may be a quarter on


def test_calls_within_a_block_count() -> None:
    short = [100_000] * 20_000
    assert 5_000 <= blocks_taken(Precision(), short, 500) <= 5_000 * 1.25


def test_processes_end_when_the_interval_is_narrow_enough() -> None:
    assert Precision().enough_processes(NARROW, 10) == "converged"


def test_processes_go_on_between_looks_however_narrow_the_interval() -> None:
    assert Precision().enough_processes([1e6] * 4, 10) is None
    assert Precision().enough_processes([1e6] * 6, 10) is None
    assert Precision().enough_processes([1e6] * 8, 10) == "converged"


def test_processes_end_when_the_budget_does_but_not_before_three() -> None:
    wide = [1e6, 2e6, 3e6]
    assert Precision(budget_s=60).enough_processes(wide, 59) is None
    assert Precision(budget_s=60).enough_processes(wide, 60) == "budget_exhausted"
    assert Precision(budget_s=60).enough_processes(wide[:2], 600) is None


def test_processes_end_at_their_greatest_number() -> None:
    wide = [1e6 * (1 + i) for i in range(6)]
    assert Precision(max_processes=6).enough_processes(wide, 1) == "budget_exhausted"


def test_what_converged_is_within_its_target() -> None:
    rng = np.random.default_rng(3)
    rule = Precision()
    for _ in range(100):
        medians: list[float] = []
        while not (reason := rule.enough_processes(medians, 0.0)):
            medians.append(float(1e6 * np.exp(0.01 * rng.standard_normal())))
        logs = np.log(medians)
        if reason == "converged":
            assert 1.96 * logs.std(ddof=1) / np.sqrt(logs.size) < 0.015
            assert len(medians) in rule.looks


NARROW = [1e6, 1.001e6, 0.999e6, 1e6, 1.0005e6, 0.9995e6, 1e6, 1e6]


def test_a_known_median_does_not_end_a_comparison_without_a_verdict() -> None:
    unclear = [0.004, -0.03, 0.05, -0.02, 0.06, -0.04, 0.03, 0.02]
    clear = [0.30 + x / 10 for x in unclear]
    equal = [x / 10 for x in unclear]
    rule = Precision()
    assert rule.enough_processes(NARROW, 10, unclear) is None
    assert rule.enough_processes(NARROW, 10, clear) == "converged"
    assert rule.enough_processes(NARROW, 10, equal) == "converged"
    assert rule.enough_processes(NARROW, 60, unclear) == "budget_exhausted"


def test_what_matters_decides_whether_two_are_equivalent() -> None:
    close = [0.006 + x for x in (-0.002, 0.002, 0.001, -0.001, -0.009, 0.009, 0.003, -0.003)]
    rule = Precision()
    assert rule.enough_processes(NARROW, 10, close, delta_ratio=0.01) is None
    assert rule.enough_processes(NARROW, 10, close, delta_ratio=0.03) == "converged"


def test_a_clear_verdict_does_not_end_a_trial_whose_median_is_not_known() -> None:
    wide = [1e6 * (1 + 0.1 * i) for i in range(8)]
    assert Precision().enough_processes(wide, 10, [0.7, 0.71] * 4) is None


def test_no_verdict_is_awaited_on_fewer_than_eight_pairs() -> None:
    clear = [0.70, 0.71, 0.70, 0.71, 0.70, 0.71]
    assert Precision().enough_processes(NARROW, 10, clear) is None
    assert Precision(min_pairs=5).enough_processes(NARROW, 10, clear) == "converged"


def test_five_processes_do_not_end_a_trial_however_alike_they_are() -> None:
    assert Precision().enough_processes([1e6] * 5, 10) is None


@pytest.mark.parametrize("budget_s", [1e-9, 0.001])
def test_a_budget_too_small_for_one_call_still_gives_the_fewest_processes(budget_s: float) -> None:
    rule = Precision(budget_s=budget_s)
    assert rule.enough_processes([1e6] * 2, 100.0) is None
    assert rule.enough_processes([1e6] * 3, 100.0) == "budget_exhausted"


def test_a_process_that_saw_nothing_does_not_stop_a_trial_by_chance() -> None:
    assert Precision().enough_processes([float("nan")] * 5, 1.0) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target_ratio", 0.0),
        ("min_pairs", 2),
        ("min_window_s", 9.0),
        ("min_calls", 0),
        ("looks", [8, 5]),
        ("looks", [1, 5]),
        ("looks", []),
        ("min_processes", 41),
        ("budget_s", 0.0),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_the_value_seen(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        Precision(**{key: value})  # type: ignore[arg-type]


def test_geometric_looks_grow_by_at_least_one_and_by_a_quarter() -> None:
    looks = sorted(geometric(10, 1.25))
    assert looks[:5] == [10, 13, 17, 22, 28]
    assert all(1 < b / a <= 1.34 for a, b in itertools.pairwise(looks))


def test_a_verdict_must_hold_in_the_whole_table_before_a_trial_ends() -> None:
    """What one comparison shows need not hold among ten: the table would call it inconclusive."""
    clear = [0.011, 0.008, 0.022, 0.016, 0.005, 0.019, 0.012, 0.013, 0.009, 0.012, 0.017, 0.010]
    narrow = [1e6 * (1 + 1e-4 * n) for n in range(12)]
    clear = [value - 0.0075 for value in clear]
    rule = Precision(looks=(12,))
    assert rule.enough_processes(narrow, 10, clear, 0.0001, candidates=1) == "converged"
    assert rule.enough_processes(narrow, 10, clear, 0.0001, candidates=200) is None

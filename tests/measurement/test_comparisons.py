"""§2.4: verdicts err as seldom, and miss as little, as they say.

Reduced; ``benchmarks/statistical_power.py`` runs 2500 sessions a cell. Bands are the protocol's,
widened by two standard errors of the share that is counted here, or by three and a half where 27
cells have to pass together. A9, on a live machine, is in ``benchmarks/``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.estimate import Comparison
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.results.metrics.speedup import answered_alone, question
from benchorch.results.metrics.summary import summarise, summarise_all
from benchorch.stats import family, sequential_testing
from benchorch.stats.pairs import Pair
from benchorch.stats.ratio_test import compare_pairs
from benchorch.stats.sequential_testing import USUAL_LOOKS
from benchorch.stopping.precision import Precision
from benchorch.trial.interleave import interleave
from support import statistics_experiments
from support.clocks import VirtualClock
from support.simulated_samples import (
    COMPARED,
    Array,
    Node,
    adjacent_medians,
    alternated,
    call_noise_2,
    pairs_of,
    process,
    process_effects,
)
from support.slices import one_in
from support.statistics_experiments import (
    Verdicts,
    compared,
    false_winners,
    interrupted,
    naive_peeking,
    standard_error,
)

CELLS = [
    Node(calls=calls, process_spread=spread, drift=drift)
    for calls, spread, drift in itertools.product(COMPARED, (0.0, 0.01, 0.03), (0.0, 0.03, 0.1))
]
LOOK_ALPHA = 0.0115


def two_percent(**fields: float) -> Verdicts:
    return compared(Node(**fields), 400, log_ratio=math.log(1.02))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cells", [CELLS[::5], pytest.param(CELLS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_identical_sides_seldom_differ_in_any_cell_with_all_looks_and_a_death_in_five(
    cells: list[Node],
) -> None:
    shares = [compared(node, 200, deaths=True, seed=i).different for i, node in enumerate(cells)]
    assert max(shares) <= 0.05 + 3.5 * standard_error(0.05, 200)
    assert np.mean(shares) <= 0.05 + 2 * standard_error(0.05, 200 * len(cells))


@pytest.mark.parametrize("pairs", one_in(3, [3, 5, 8, 20]))
def test_identical_sides_seldom_differ_in_any_number_of_pairs(pairs: int) -> None:
    share = compared(Node(), 1000, pairs=pairs).different
    assert share <= 0.05 + 2 * standard_error(0.05, 1000)


def test_holds_from_blocks_to_verdict_where_both_drift_in_one_process() -> None:
    rng = np.random.default_rng(0)
    different = sum(whole_session(rng).verdict in ("faster", "slower") for _ in range(200))
    assert different / 200 <= 0.05 + 2 * standard_error(0.05, 200)


def whole_session(rng: np.random.Generator, log_ratio: float = 0.0) -> Comparison:
    """Eight processes, each alone and then in turns with its baseline, and what is said of them."""
    records = []
    for _ in range(8):
        walk = np.exp(np.cumsum(0.03 / math.sqrt(100) * rng.standard_normal(100)))
        alone = process(call_noise_2(rng, (1, 100))[0])
        factors = process_effects(rng, (2, 1), 0.005)
        ours, theirs = call_noise_2(rng, (2, 100)) * walk * factors
        records.append(alternated(alone, ours, theirs * math.exp(log_ratio)))
    asked = question(trial(*records), None)
    assert asked is not None
    found = answered_alone(asked)
    assert found is not None
    return found


def test_nothing_is_called_materially_faster_that_is_not() -> None:
    for pairs in (None, 8, 20):
        assert compared(Node(), 600, pairs=pairs).material <= 0.005


def test_a_difference_that_just_matters_is_seldom_called_none() -> None:
    for pairs in (None, 20, 40):
        found = compared(Node(), 300, pairs=pairs, log_ratio=math.log(1.01))
        assert found.equivalent <= 0.05 + 2 * standard_error(0.05, 300)


def test_ten_pairs_find_two_percent_and_thirty_find_one() -> None:
    ten = compared(Node(), 500, pairs=10, log_ratio=math.log(1.02))
    thirty = compared(Node(), 500, pairs=30, log_ratio=math.log(1.01))
    assert min(ten.faster, thirty.faster) >= 0.9 - 2 * standard_error(0.9, 500)


@pytest.mark.parametrize("spread", [0.0, 0.01])
def test_looks_find_two_percent_in_a_dozen_pairs(spread: float) -> None:
    found = two_percent(process_spread=spread)
    assert found.faster >= 0.99 - 2 * standard_error(0.99, 400)
    assert found.pairs <= 12


def test_looks_find_two_percent_in_forty_pairs_on_a_noisy_machine() -> None:
    assert two_percent(process_spread=0.03).faster >= 0.55 - 2 * standard_error(0.55, 400)


times = st.lists(st.floats(0.1, 1e4), min_size=6, max_size=16)
FLIPPED = {"faster": "slower", "slower": "faster"}


def both(values: Sequence[float]) -> list[Pair]:
    middle = len(values) // 2
    return pairs_of(values[:middle], values[middle : 2 * middle])


@given(times)
def test_swapping_the_two_flips_the_verdict_and_inverts_the_ratio(values: list[float]) -> None:
    one = judged(both(values))
    other = judged([Pair(pair.theirs, pair.ours) for pair in both(values)])
    assert other.verdict == FLIPPED.get(one.verdict, one.verdict)
    for mine, theirs in (
        (one.ratio.value, other.ratio.value),
        (one.ratio.low, other.ratio.high),
        (one.ratio.high, other.ratio.low),
    ):
        # The logarithms are opposite to the last bit; turning them into ratios rounds.
        assert mine * theirs == pytest.approx(1, rel=1e-12)  # type: ignore[operator]
    assert (one.p_value, one.material, one.pairs_needed) == (
        other.p_value, other.material, other.pairs_needed,
    )  # fmt: skip


@given(times, st.randoms())
def test_the_order_of_pairs_changes_nothing(values: list[float], random: object) -> None:
    met = both(values)
    shuffled = list(met)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judged(met) == judged(shuffled)


@given(times, st.integers(-40, 40))
def test_another_unit_changes_nothing(values: list[float], power: int) -> None:
    """Powers of two scale without rounding, so that nothing at all may change."""
    scaled = [Pair(pair.ours * 2.0**power, pair.theirs * 2.0**power) for pair in both(values)]
    one, other = judged(both(values)), judged(scaled)
    assert other.verdict == one.verdict
    assert other.ratio.value == pytest.approx(one.ratio.value, rel=1e-12)


def judged(met: Sequence[Pair]) -> Comparison:
    found = compare_pairs(met, "adjacent")
    assert found is not None
    return found


@pytest.mark.parametrize("looks", [USUAL_LOOKS, pytest.param((), marks=pytest.mark.slow)])
def test_forty_identical_candidates_seldom_have_a_winner(looks: tuple[int, ...]) -> None:
    share = false_winners(100, 40, 8, looks)
    assert share <= 0.05 + 2 * standard_error(0.05, 100)


def test_a_table_of_results_is_read_together() -> None:
    rng = np.random.default_rng(1)
    results = {"baseline": trial(name="baseline")}
    for i in range(10):
        shift = 0.5 if i == 0 else 0.0
        name = f"candidate {i}"
        results[name] = dataclasses.replace(table_trial(rng, shift), trial_id=name)
    together = summarise_all(results)
    assert together["candidate 0"].speedup.verdict == "faster"  # type: ignore[union-attr]
    for name in list(results)[1:]:
        alone, found = summarise(results[name], None).speedup, together[name].speedup
        assert alone is not None
        assert found is not None
        assert found.ratio.value == alone.ratio.value
        assert found.ratio.low < alone.ratio.low  # type: ignore[operator]
        assert found.ratio.high > alone.ratio.high  # type: ignore[operator]
        settled = found.verdict in ("faster", "slower")
        assert settled == (found.adjusted_p_value < 0.05)  # type: ignore[operator]


def table_trial(rng: np.random.Generator, log_ratio: float) -> TrialResult:
    ours, theirs = adjacent_medians(Node(), rng, 1, 8, log_ratio)
    records = [
        alternated(process(np.full(10, mine)), np.full(10, mine), np.full(10, other))
        for mine, other in zip(ours[0], theirs[0], strict=True)
    ]
    return trial(*records)


@pytest.mark.parametrize("log_ratio", one_in(2, [0.02, 0.0]))
@pytest.mark.parametrize("pairs", [8, 20, None])
def test_the_interval_of_the_ratio_holds_the_truth(pairs: int | None, log_ratio: float) -> None:
    share = compared(Node(), 500, pairs=pairs, log_ratio=log_ratio).covered
    assert share >= 0.94 - 2 * standard_error(0.94, 500)


def test_a_verdict_may_be_read_whenever_the_budget_ends() -> None:
    assert interrupted(Node(), 400) <= 0.05 + 2 * standard_error(0.05, 400)
    # One who stops at the first p below 5 % is wrong five times as often: the test can fail.
    assert naive_peeking(Node(), 200) >= 0.15


def test_looks_at_five_percent_each_would_be_wrong_more_often_than_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The two are compared on the same sessions, where all six looks are taken."""
    ours = Precision(target_ratio=0.99, min_pairs=5)
    node = Node(process_spread=0.03)
    with monkeypatch.context() as patch:
        for module in (family, sequential_testing, statistics_experiments):
            patch.setattr(module, "look_alpha", lambda looks, overall=0.05: overall)
        naive = compared(node, 400, rule=ours).different
    kept = compared(node, 400, rule=ours).different
    assert kept <= 0.05 + 2 * standard_error(0.05, 400)
    assert naive >= 0.10


@pytest.mark.parametrize(
    ("turns", "firsts", "middles"),
    # Shares within three standard errors.
    [(10_000, 0.015, 0.003), pytest.param(100_000, 0.005, 0.001, marks=pytest.mark.slow)],
)
def test_who_goes_first_is_balanced(turns: int, firsts: float, middles: float) -> None:
    clock = VirtualClock()
    order: list[int] = []

    def call(side: int) -> None:
        clock.spend(20_100_000)
        order.append(side)

    found = interleave(
        [lambda: call(0)],
        [lambda: call(1)],
        clock=clock,
        window_s=turns * 2 * 0.0201,
        slice_ms=20,
        seed=1,
    )
    sides = found.candidate, found.baseline
    alone = sum(len(side.alone.durations_ns) for side in sides if side.alone) // 2
    first = sum(side.start for side in sides) + alone
    paired = np.array(order[first:-alone]).reshape(-1, 2)
    assert len(paired) == pytest.approx(turns, rel=1e-3)
    assert set(map(tuple, paired.tolist())) == {(0, 1), (1, 0)}
    assert np.mean(paired[:, 0] == 0) == pytest.approx(0.5, abs=firsts)
    # With two sides, balance puts both in the middle on average.
    middle = np.mean(np.flatnonzero(np.ravel(paired) == 0)) / (2 * turns)
    assert middle == pytest.approx(0.5, abs=middles)


def trial(*records: ProcessRecord, name: str = "candidate", **fields: object) -> TrialResult:
    return TrialResult(
        trial_id=name,
        labels={},
        outcome=Outcome.OK,
        processes=records,
        baseline_id=None if name == "baseline" else "baseline",
        **fields,  # type: ignore[arg-type]
    )


def times_of(level: float, slope: float = 0.0, n: int = 200) -> Array:
    noise = 0.001 * np.random.default_rng(int(1e6 * level)).standard_normal(n)
    return level * (1 + noise + slope * np.arange(n) / n)


def twice_as_fast(**fields: object) -> list[ProcessRecord]:
    """What would be faster without any doubt."""
    return [
        dataclasses.replace(
            alternated(process(times_of(1 + i / 1000)), times_of(1 + i / 1001), times_of(2)),
            **fields,  # type: ignore[arg-type]
        )
        for i in range(8)
    ]


def refused(result: TrialResult, baseline: TrialResult | None = None) -> str:
    """Why there is no verdict; the ratio is told all the same."""
    found = summarise(result, baseline).speedup
    assert found is not None
    assert found.verdict == "inconclusive"
    assert (found.ratio.low is None) == (found.ratio.n < sequential_testing.LEAST_PAIRS)
    assert not found.material
    return found.reason


def test_pairs_without_any_fault_have_a_verdict() -> None:
    found = summarise(trial(*twice_as_fast()), None).speedup
    assert found is not None
    assert (found.verdict, found.reason) == ("faster", "")


def test_sides_measured_one_after_the_other_have_none() -> None:
    ours = trial(*twice_as_fast(paired=None))
    baseline = trial(*(process(times_of(2 + i / 1000)) for i in range(8)), name="baseline")
    assert refused(ours, baseline).startswith("not interleaved")


def test_different_threads_have_none() -> None:
    baseline = trial(*twice_as_fast(facts={"threads": 4}, paired=None), name="baseline")
    assert refused(trial(*twice_as_fast()), baseline).startswith("threads differ")


def test_wrong_outputs_have_not_even_a_ratio() -> None:
    wrong = Verdict(passed=False, reasons=("far off",), outputs=(), tolerance_ratio=1e-3)
    assert summarise(trial(*twice_as_fast(), parity=wrong), None).speedup is None
    baseline = trial(*twice_as_fast(), name="baseline", parity=wrong)
    assert summarise(trial(*twice_as_fast()), baseline).speedup is None


@pytest.mark.parametrize("design", ["alternated", "adjacent"])
def test_a_candidate_that_drifts_for_ever_has_none(design: str) -> None:
    """It begins a fifth faster than the baseline and ends a fifth slower."""
    records = []
    for i in range(8):
        drifting = times_of(1 + i / 1000, slope=0.5)
        met = alternated(process(drifting, steady_from=None), drifting, times_of(1.3))
        if design == "adjacent":
            met = dataclasses.replace(
                met, paired=dataclasses.replace(met.paired, design=design, ours=None)
            )
        records.append(met)
    assert refused(trial(*records)).startswith("no steady state")


def test_a_candidate_that_alternating_disturbs_has_none() -> None:
    records = [
        alternated(process(times_of(1 + i / 1000)), times_of(1.3 + i / 1000), times_of(2))
        for i in range(8)
    ]
    assert "changes the candidate's own speed" in refused(trial(*records))


def test_two_pairs_are_too_few() -> None:
    assert "2 of the 3 pairs" in refused(trial(*twice_as_fast()[:2]))

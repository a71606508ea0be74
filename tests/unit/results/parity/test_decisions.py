"""Parts of the comparison, each with the value that its words give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchorch.domain import parity_task
from benchorch.results.parity import decisions, limits
from benchorch.results.parity.figures import Distances, distances
from benchorch.results.parity.limits import DIVERGENCE_FACTOR, FLOAT32_EPSILON, ErrorLimits
from benchorch.results.parity.slices import _without_mean, tenth
from benchorch.results.parity.tasks import divergence_allowed, task_of

LIMITS = ErrorLimits.of(0.01)


def tied(y: list[int], ids: list[int], ordered: list[float]) -> list[bool]:
    rows = np.array([y]), np.array([ids])
    found = decisions._neighbours_tied(*rows, both(np.array([ordered])), LIMITS)
    assert found is not None
    return [bool(one) for one in found[0]]


def both(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A conversion whose scores are the reference's."""
    return scores, scores


def test_only_the_last_id_of_a_row_may_be_one_that_is_not_known() -> None:
    tie = [2.0, 2.0, 1.0, 1.0]
    assert tied([7, 4, 6, 5], [4, 7, 5, 6], tie) == [True, True, True, True]
    assert tied([7, 4, 5, 9], [4, 7, 5, 6], tie) == [True, True, True, True]
    assert tied([9, 4, 5, 6], [4, 7, 5, 6], tie) == [False, True, True, True]
    assert tied([4, 9, 5, 6], [4, 7, 5, 6], [4.0, 3.0, 2.0, 1.0]) == [False, False, False, False]


def test_an_id_of_another_tie_or_a_second_time_has_not_changed_places() -> None:
    tie = [2.0, 2.0, 1.0, 1.0]
    assert tied([5, 7, 4, 6], [4, 7, 5, 6], tie) == [False, True, False, True]
    assert tied([4, 4, 5, 6], [4, 7, 5, 6], tie) == [False, False, True, True]
    assert tied([4, 7, 5, 5], [4, 7, 5, 6], tie) == [True, True, False, False]


MASK = np.repeat([[1.0] * 8 + [0.0] * 4, [1.0] * 12], 4, axis=0)


@pytest.mark.parametrize(
    "beside",
    [
        MASK,
        np.ones_like(MASK),
        MASK / MASK.sum(axis=1, keepdims=True),
        np.where(MASK, 0.0, -10000.0),
    ],
    ids=["padded", "ones", "mean", "added"],
)
@pytest.mark.parametrize("distinct", [False, True])
def test_a_mask_ranks_nothing(beside: np.ndarray, distinct: bool) -> None:
    rng = np.random.default_rng(0)
    shape = MASK.shape
    ids, y = rng.permuted(np.broadcast_to(np.arange(12), (2, *shape)), axis=-1)
    if not distinct:
        ids, y = ids // 3, y // 3
    assert decisions.tied(y, ids, [both(beside)], LIMITS) is None
    first = np.zeros(len(MASK), dtype=int)  # the mask's largest value is its first, too
    assert decisions.tied(first + 1, first, [both(beside)], LIMITS) is None


def test_classes_beside_sorted_values_with_ties_have_no_rank_unless_most_values_differ() -> None:
    classes = np.array([[1, 1, 2, 3]])
    assert decisions._neighbours_tied(classes, classes, both(-classes / 1.0), LIMITS) is not None
    steps = np.array([[3.0, 2.0, 2.0, 2.0]])
    assert decisions._neighbours_tied(classes, classes, both(steps), LIMITS) is None


def test_times_of_classes_are_no_scores_that_change_places() -> None:
    """A low precision's margin of a tie holds many steps of a clock."""
    limits = ErrorLimits.of(0.3)
    times = np.tile(np.arange(100, dtype=np.float32) * np.float32(0.02), (4, 1))
    tags = np.random.default_rng(0).integers(0, 9, times.shape)
    y = np.roll(tags, 1, axis=1)
    same = decisions.tied(y, tags, [both(times)], limits)
    assert same is not None
    assert not same[y != tags].any()
    others = decisions.tied(y, tags, [(times + np.float32(0.01), times)], limits)
    assert others is not None
    assert others[:, 1:].all()  # scores with such errors could have changed places


@pytest.mark.parametrize(("size", "tolerance"), [(1e-6, 1e-4), (3e-3, 5e-3), (2e-2, 3e-2)])
@pytest.mark.parametrize("kinds", [1000, 10])
def test_ranks_of_scores_with_errors_are_excused(size: float, tolerance: float, kinds: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(40, 1000)).astype(np.float32)
    ours = scores + size * rng.normal(size=scores.shape).astype(np.float32)
    ids, y = (np.argsort(-each, axis=1)[:, :20] for each in (scores, ours))
    best = (np.take_along_axis(ours, y, axis=1), np.take_along_axis(scores, ids, axis=1))
    found = decisions.tied(y % kinds, ids % kinds, [best], ErrorLimits.of(tolerance))
    assert found is not None
    beyond = ~(y[:, :, None] == ids[:, None]).any(axis=2)  # was not among the best 20
    assert (~found & (y % kinds != ids % kinds) & ~beyond).mean() <= tolerance / 2


def test_rows_without_an_order_have_no_neighbours() -> None:
    rows = np.array([[1.0, 3.0, 2.0]])
    ids = np.array([[1, 2, 3]])
    assert decisions._neighbours_tied(ids, ids, both(rows), LIMITS) is None


def judged(y: list[int], near: list[list[int]], size: int = 100) -> str:
    """Reference and conversion are these ids and further ones that are equal."""
    ref = np.arange(size)[None]
    others = [np.concatenate([np.array(one), np.arange(size)[len(one) :]])[None] for one in near]
    ours = np.concatenate([np.array(y), np.arange(size)[len(y) :]])[None]
    pairs = [(ours, ref)]
    free = decisions.undecided(pairs, [others])
    return decisions.flipped(pairs, [None], ErrorLimits.of(1e-4), free)


def test_ids_that_the_reference_gives_with_weights_epsilons_away_are_its_own() -> None:
    assert "2 of 100 values" in judged([1, 0], [])
    assert not judged([1, 0], [[0], [1, 0]])
    assert "1 of 100 values" in judged([1, 7], [[1, 0]])  # 7 is in none of them
    assert "2 of 100 values" in judged([0, 1, 3, 2], [[1, 0]])


def test_an_output_that_rounding_decides_excuses_nothing() -> None:
    five, six = ([*range(1, count), 0] for count in (5, 6))
    assert not judged(five, [five])
    assert "6 of 100 values" in judged(six, [six])


def test_a_single_value_may_follow_from_rounding() -> None:
    assert not judged([5], [[5]])
    assert "1 of 100 values" in judged([5], [[6]])


def test_nothing_is_undecided_where_the_reference_gives_the_same_again() -> None:
    ref, other = np.arange(40), np.arange(40) + 1
    assert decisions.undecided([(ref, ref)], [[ref, ref]]) == []
    assert decisions.undecided([(ref, ref)], [[]]) == []
    assert decisions.undecided([(ref, ref)], []) == []
    assert decisions.undecided([(other, ref)], [[other[:1]]]) == []  # of another shape


def test_an_input_without_other_answers_has_nothing_undecided() -> None:
    ref = np.arange(40)
    near = ref.copy()
    near[3] = 7
    pairs = [(near, ref), (ref[:4] + 1, ref[:4])]
    one, other = decisions.undecided(pairs, [[near], []])
    assert one.all()
    assert other.dtype == bool
    assert other.tolist() == [False] * 4
    assert "4 of 44 values" in decisions.flipped(pairs, [None, None], LIMITS, [one, other])
    with pytest.raises(ValueError, match="shorter"):
        decisions.undecided(pairs, [[near]])
    with pytest.raises(ValueError, match="shorter"):
        decisions.flipped(pairs, [None, None], LIMITS, [one])


def moved(y: np.ndarray, ref: np.ndarray, *near: np.ndarray) -> int:
    return decisions.moved_by_one([(y, ref)], [near])


def test_quantities_are_whole_numbers_that_rounding_moves_to_the_next() -> None:
    ref = np.random.default_rng(0).integers(1, 200, (4, 100)).astype(np.uint8)
    at = np.arange(ref.size).reshape(ref.shape)
    down = np.where(at < 5, ref - 1, ref)
    up = np.where((at > 1) & (at < 8), ref + 1, ref)
    assert moved(ref, ref, down, ref, up) == 8
    assert moved(up, ref, down, ref, up) == 8
    assert decisions.moved_by_one([(ref, ref), (ref[:1], ref[:1])], [[down, up], []]) == 8


def test_ids_are_no_quantities() -> None:
    ref = np.random.default_rng(0).integers(0, 200, (4, 100))
    at = np.arange(ref.size).reshape(ref.shape)
    near = ref + (at < 8)
    assert moved(ref + (at < 200), ref, near) == 8
    assert moved(ref + (at < 201), ref, near) == 0  # more than half
    halves = [(ref + 1, ref), (ref, ref), (ref, ref)]
    assert decisions.moved_by_one(halves, [[near]] * 3) == 0  # of one input
    assert moved(ref + 2 * (at < 1), ref, near) == 0  # by two
    assert moved(ref, ref, near + (at < 1)) == 0  # the reference by two
    assert moved(ref, ref, ref + (at < 7)) == 0  # too few
    assert moved(ref, ref, ref) == 0
    assert moved(ref, ref, near[:2]) == 0  # of another shape
    assert decisions.moved_by_one([(ref, ref)], []) == 0
    assert moved(ref % 31, ref % 31, ref % 31 + (at < 8)) == 0  # classes
    assert moved(ref % 32, ref % 32, ref % 32 + (at < 8)) == 8
    assert moved(ref > 9, ref > 9, ref > 9) == 0
    ranks = np.random.default_rng(1).permuted(np.tile(np.arange(100), (4, 1)), axis=1)
    assert moved(ranks, ranks, ranks + (at < 8)) == 0


def test_the_longest_row_whose_neighbours_are_looked_at() -> None:
    most = decisions._LONGEST_ORDER
    for size in (most, most + 1):
        ids, scores = np.arange(size)[None], -np.arange(size, dtype=float)[None]
        found = decisions._neighbours_tied(ids, ids, both(scores), LIMITS)
        assert (found is None) == (size > most)


def test_a_single_id_has_the_scores_of_its_classes_and_no_rank() -> None:
    scalar = np.array(1), np.array(0)
    assert decisions.tied(*scalar, [both(np.array(7.0))], LIMITS) is None
    assert decisions.tied(np.array([1]), np.array([0]), [both(np.array([[7.0]]))], LIMITS) is None
    found = decisions.tied(*scalar, [both(np.array([2.0, 2.0]))], LIMITS)
    assert found is not None
    assert found.tolist() is True


def test_ids_of_one_row_may_rank_its_scores() -> None:
    scores = np.array([1.0, 5.0, 5.0, 0.0])
    found = decisions.tied(np.array([2, 1]), np.array([1, 2]), [both(scores)], LIMITS)
    assert found is not None
    assert found.tolist() == [True, True]


def test_what_is_empty_differs_in_nothing() -> None:
    nothing = np.zeros((0, 3), np.float32)
    assert distances(nothing, nothing) == Distances(size=0)
    assert distances(nothing, nothing).max_abs == 0
    assert tenth(np.zeros(0)) == 0
    assert tenth(np.array([1.0, 5.0])) == 5


def test_a_slice_of_one_value_has_no_spread() -> None:
    one = np.array([3.0])
    assert _without_mean(one, one**2, 1).tolist() == [0.0]
    assert _without_mean(np.array([4.0]), np.array([10.0]), 2).tolist() == [2.0]


@pytest.mark.parametrize(
    ("shape", "task"), [((2, 5, 9), parity_task.LANGUAGE_MODEL), ((2, 9), parity_task.NONE)]
)
def test_scores_of_a_sequence_alone_are_a_language_models(
    shape: tuple[int, ...], task: str
) -> None:
    reference = np.zeros(shape, np.float32)
    assert task_of(parity_task.LANGUAGE_MODEL, "0", reference, {}, "m") == task


@pytest.mark.parametrize("spread", [0.1, 10.0])
def test_the_divergence_allowed_grows_with_the_spread_of_the_scores(spread: float) -> None:
    scores = spread * np.array([[1.0, -1.0, 1.0, -1.0]])
    rounding = divergence_allowed(scores, ErrorLimits.of(0.0))[0] - FLOAT32_EPSILON
    allowed = divergence_allowed(scores, LIMITS)[0] - FLOAT32_EPSILON
    expected = (DIVERGENCE_FACTOR * 0.01 * spread + np.sqrt(2 * rounding)) ** 2 / 2
    assert allowed == pytest.approx(expected)


PUBLISHED = (
    f"`{limits.CENTRED_FACTOR:g} t`, at most {limits.CENTRED_MOST:g}",
    f"`{limits.SURVIVING_FACTOR:g} t`, at most {limits.SURVIVING_MOST:g}",
    f"at most {limits.WORST_MOST:g}, or {limits.LOST_FACTOR:g} times the usual channel's",
    f"`{limits.TENTH_FACTOR:g} t`, at most {limits.TENTH_MOST:g}",
    f"`{limits.WORST_FACTOR:g} t`, at most {limits.WORST_MOST:g}; for channels of single rows "
    f"{limits.WORST_MOST_OF_MANY:g}",
    f"channels that are {limits.GROUP_GAP:g} times smaller or larger",
    f"by more than {limits.SAME_ROUNDING_RATIO:.0e}".replace("e-05", "e-5"),
    f"at most {limits.SPREAD_EPSILONS:g} epsilons of the output's usual magnitude, and none "
    f"by more than {limits.SPREAD_FACTOR:g} times the usual difference",
)


@pytest.mark.parametrize("text", PUBLISHED)
def test_the_limits_are_those_that_are_published(text: str) -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "measuring" / "parity.md"
    assert text in page.read_text()

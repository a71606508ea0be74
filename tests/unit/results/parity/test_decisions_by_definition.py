"""Decisions against what their words say, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.results.parity import decisions
from benchorch.results.parity.limits import (
    DISAGREEING_RATIO,
    FEW_ROWS,
    FLIPPED_PLACE_MOST,
    FLOAT32_EPSILON,
    MOVED_SCORE_FACTOR,
    NEAR_TIE_FACTOR,
    ROUNDING_EPSILONS,
    ErrorLimits,
)

TOLERANCE = 0.02
LIMITS = ErrorLimits.of(TOLERANCE)


def margin(row: np.ndarray, tolerance: float = TOLERANCE) -> float:
    spread = NEAR_TIE_FACTOR * tolerance * float(np.std(row))
    return spread + ROUNDING_EPSILONS * FLOAT32_EPSILON * max(abs(float(x)) for x in row)


@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_a_margin_is_of_its_rows_spread_and_its_largest_score(scale: float) -> None:
    scores = scale * np.array([[1.0, -5.0, 2.0], [100.0, 101.0, 99.0]])
    expected = [margin(row) for row in scores]
    assert decisions.margins(scores, LIMITS) == pytest.approx(expected, rel=1e-12)
    assert decisions.margins(scores, ErrorLimits.of(0.0)) == pytest.approx(
        [margin(row, 0.0) for row in scores], rel=1e-12
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_row_is_outvoted_by_a_class_clearly_below_the_references_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, classes = 40, int(rng.integers(2, 7))
    ref = rng.normal(size=(rows, classes)) * 10.0 ** rng.integers(-2, 3, size=(rows, 1))
    # Errors from far below a margin to far above it, so that both outcomes occur near it.
    size = 10.0 ** rng.uniform(-2.5, 0.5, size=(rows, 1)) * ref.std(axis=1, keepdims=True)
    y = ref + size * rng.normal(size=ref.shape)
    for k in range(1, classes + 2):
        best = min(k, classes)
        expected = []
        for ours, theirs in zip(y, ref, strict=True):
            chosen = sorted(range(classes), key=lambda at, row=ours: -row[at])[:best]
            least = sorted(theirs, reverse=True)[best - 1]
            expected.append(min(theirs[at] for at in chosen) < least - margin(theirs))
        assert decisions.outvoted(y, ref, k, LIMITS).tolist() == expected


def test_as_many_rows_as_allowed_may_decide_otherwise() -> None:
    rows = round(3 / DISAGREEING_RATIO)
    wrong = np.zeros(rows, dtype=bool)
    wrong[[7, 20, 21]] = True
    assert decisions.disagreement(wrong, "the class") == ""
    wrong[9] = True
    found = decisions.disagreement(wrong, "the class")
    assert found.startswith(f"the class is another one in 4 of {rows} (first in number 7)")
    assert f"{100 * DISAGREEING_RATIO:g} % may differ" in found


def flips(shape: tuple[int, ...], rows: int, place: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(shape, dtype=bool)
    found[(slice(rows), *place)] = True
    return found


def test_a_place_that_is_wrong_in_most_rows_is_named() -> None:
    half = round(FLIPPED_PLACE_MOST * 10)
    assert decisions._flipped_place([flips((10, 3, 4), half, (1, 2))]) == ""
    found = decisions._flipped_place([flips((10, 3, 4), half + 1, (1, 2))])
    assert found.startswith("the value at position [1, 2] is another one in 60 % of 10 rows")
    assert f"{100 * FLIPPED_PLACE_MOST:g} % may" in found
    # Of two inputs together: neither is enough alone.
    two = [flips((5, 4), 5, (3,)), flips((5, 4), 1, (3,))]
    assert decisions._flipped_place(two).startswith("the value at position [3]")


@pytest.mark.parametrize(
    "inputs",
    [
        [flips((FEW_ROWS - 1, 4), FEW_ROWS - 1, (0,))],
        [np.ones(20, dtype=bool)],
        [np.ones((10, 4), dtype=bool), np.ones((10, 5), dtype=bool)],
        [np.ones((10, 4), dtype=bool), np.ones(10, dtype=bool)],
        [np.ones((10, 0), dtype=bool)],
        [],
    ],
)
def test_no_place_is_judged_of_few_rows_or_of_inputs_of_several_shapes(
    inputs: list[np.ndarray],
) -> None:
    assert not inputs or decisions._flipped_place(inputs) == ""


def test_the_fewest_rows_are_enough() -> None:
    assert decisions._flipped_place([flips((FEW_ROWS, 4), FEW_ROWS, (0,))]) != ""


def scores_of(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Scores with near-ties on both sides of the margin."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, size=shape).astype(float)
    return base + rng.choice([0.0, 0.01, 0.05, 0.2], size=shape) * rng.normal(size=shape)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("lead", [(6,), (2, 3)])
def test_an_id_is_as_good_where_its_score_is_within_the_margin_of_the_best(
    seed: int, lead: tuple[int, ...]
) -> None:
    classes = 4
    scores = scores_of(seed, (*lead, classes))
    ids = scores.argmax(axis=-1)
    y = np.random.default_rng(seed + 100).integers(-1, classes + 1, size=lead)
    found = decisions.tied(y, ids, [(scores, scores)], LIMITS)
    assert found is not None
    assert found.shape == ids.shape
    for place in np.ndindex(*lead):
        row, one = scores[place], int(y[place])
        good = 0 <= one < classes and row[one] >= row.max() - margin(row)
        assert bool(found[place]) == good, (place, row, one)


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("lead", [(7,), (2, 3)])
def test_other_ids_of_a_rank_may_score_nearly_the_same(
    rising: bool, k: int, lead: tuple[int, ...]
) -> None:
    classes = 5
    scores = scores_of(k, (*lead, classes))
    order = np.argsort(scores if rising else -scores, axis=-1, kind="stable")
    ids = order[..., :k]
    rng = np.random.default_rng(k)
    y = np.stack([rng.permutation(classes) for _ in range(int(np.prod(lead)))])
    y = y.reshape(*lead, classes)[..., :k]
    found = decisions._ranked_alike(y, ids, scores, LIMITS)
    assert found is not None
    for place in np.ndindex(*ids.shape):
        row = scores[place[:-1]]
        near = abs(row[y[place]] - row[ids[place]]) <= margin(row)
        assert bool(found[place]) == near, place


def test_ids_that_rank_nothing_have_no_ties() -> None:
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    ids = np.array([[0, 1], [2, 1]])
    ranked = decisions._ranked_alike
    assert ranked(ids, np.array([[0, 2], [2, 0]]), scores, LIMITS) is None  # a rank left out
    assert ranked(ids, np.array([[0, 0], [2, 2]]), scores, LIMITS) is None
    assert ranked(ids, np.array([[0, 1, 2, 3]] * 2), scores, LIMITS) is None  # more than classes
    assert ranked(ids, ids.astype(float), scores, LIMITS) is None
    for odd in ([[0, 3], [2, 1]], [[0, -1], [2, 1]], [[1, 1], [2, 1]]):
        found = ranked(np.array(odd), ids, scores, LIMITS)
        assert found is not None
        assert not found.any()


@pytest.mark.parametrize("rising", [False, True])
def test_neighbours_in_a_sorted_row_may_change_places(rising: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        scores = np.sort(scores_of(int(rng.integers(1 << 30)), (3, 5)), axis=1)
        scores = scores if rising else -np.sort(-scores, axis=1)
        ids = np.stack([rng.permutation(9)[:5] for _ in range(3)])
        y = np.stack([rng.permutation(9)[:5] for _ in range(3)])
        error = float(rng.choice([0.0, 0.002, 0.02]))
        found = decisions._neighbours_tied(y, ids, (scores + error, scores), LIMITS)
        assert found is not None
        reach = MOVED_SCORE_FACTOR * error + ROUNDING_EPSILONS * FLOAT32_EPSILON * scores.max()
        for row in range(3):
            for at in range(5):
                apart = np.abs(scores[row] - scores[row, at])
                beside = [other for other in (at - 1, at + 1) if 0 <= other < 5]
                near = (apart[beside] <= margin(scores[row])).any()
                places = ids[row] == y[row, at]
                known = (apart[places] <= reach + 1e-12).any() or (at == 4 and not places.any())
                assert bool(found[row, at]) == (near and known)


def test_ties_are_found_by_whichever_of_the_other_outputs_tells_them() -> None:
    scores = np.array([[5.0, 5.0, 1.0], [1.0, 4.0, 2.0]])
    arrays = [np.array([["a"]]), np.zeros((2, 0)), np.full((2, 3), np.nan), np.array(7.0)]
    others = [(each, each) for each in arrays]
    found = decisions.tied(np.array([1, 0]), np.array([0, 1]), [*others, (scores, scores)], LIMITS)
    assert found is not None
    assert found.tolist() == [True, False]
    ids, y = np.array([[4, 7, 5]]), np.array([[7, 4, 5]])
    ordered = np.array([[2.0, 2.0, 1.0]])
    swapped = decisions.tied(y, ids, [*others, (ordered, ordered)], LIMITS)
    assert swapped is not None
    assert swapped.tolist() == [[True, True, True]] or swapped.tolist() == [[True, True, False]]
    assert decisions.tied(y, ids, others, LIMITS) is None


def test_two_classes_and_ranks_of_two_are_enough() -> None:
    """In single precision, as outputs are."""
    scores = np.array([[1.0, 1.0], [0.0, 1.0], [3.0, 1.0]], np.float32)
    found = decisions.tied(np.array([1, 0, 0]), np.array([0, 1, 0]), [(scores, scores)], LIMITS)
    assert found is not None
    assert found.tolist() == [True, False, True]
    ids = np.array([[5, 3], [3, 5], [5, 3]])
    found = decisions.tied(ids[:, ::-1], ids, [(scores[:, ::-1], scores[:, ::-1])], LIMITS)
    assert found is None  # neither all rising nor all falling
    ordered = np.array([[2.0, 2.0], [2.0, 1.0], [2.0, 0.0]], np.float32)
    found = decisions.tied(ids[:, ::-1], ids, [(ordered, ordered)], LIMITS)
    assert found is not None
    assert found.tolist() == [[True, True], [False, False], [False, False]]


def test_the_share_that_may_differ_is_named_only_where_there_is_one() -> None:
    pairs = [(np.array([1, 2, 3]), np.array([1, 2, 4]))]
    exact = decisions.flipped(pairs, [None], ErrorLimits.of(0.0))
    assert exact is not None
    assert exact.startswith("1 of 3 values are not equal (first at [2] of input 0); all must be")
    with pytest.raises(ValueError, match="shorter"):
        decisions.flipped(pairs * 2, [None], LIMITS)

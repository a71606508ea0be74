"""What outputs are for decides too: classes, next tokens, embeddings, ids, targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchorch.domain import parity_task
from benchorch.domain.verdict import Verdict
from benchorch.results.parity.judge import parity
from benchorch.results.parity.limits import ErrorLimits
from benchorch.results.parity.tasks import divergence, rank_correlation, task_of, violations

Array = NDArray[np.generic]

RNG = np.random.default_rng(0)
TOKENS = {"ids": RNG.integers(2, 50, (2, 16))}


def normal(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def judged(y: Array, ref: Array, tolerance_ratio: float, task: str = "auto") -> Verdict:
    return parity([{"0": y}], [{"0": ref}], tolerance_ratio, task=task)


@pytest.mark.parametrize(
    ("reference", "name", "model", "inputs", "task"),
    [
        (normal(2, 16, 50), "0", "", TOKENS, parity_task.LANGUAGE_MODEL),
        (normal(2, 5), "logits", "", {}, parity_task.CLASSIFICATION),
        (normal(2, 5), "0", "ViTForImageClassification", {}, parity_task.CLASSIFICATION),
        (np.full((2, 4), 0.25), "0", "", {}, parity_task.CLASSIFICATION),
        (normal(2, 5), "text_embeds", "", {}, parity_task.EMBEDDING),
        (np.arange(4), "0", "", {}, parity_task.IDS),
        (normal(2, 5), "0", "", {}, parity_task.NONE),
        (normal(5), "logits", "", {}, parity_task.NONE),
    ],
)
def test_tasks_are_inferred(
    reference: Array, name: str, model: str, inputs: dict[str, Array], task: str
) -> None:
    assert task_of("auto", name, reference, inputs, model) == task
    assert task_of("none", name, reference, inputs, model) == parity_task.NONE


def test_another_class_is_told_with_how_often() -> None:
    ref = normal(50, 10)
    y = ref.copy()
    rows = np.arange(5)
    y[rows, ref[:5].argmin(1)] = ref[:5].max(1) + 1
    (said, *_) = violations("classification", [(y, ref)], ErrorLimits.of(5e-2))
    assert said.startswith("the likeliest class is another one in 5 of 50")


def test_near_ties_may_change_places_and_clear_decisions_may_not() -> None:
    ref = np.tile(np.linspace(0, 1, 10, dtype=np.float32), (8, 1))
    ref[:, 8] = ref[:, 9] - 0.01
    y = ref.copy()
    y[:, 8] += 0.02
    assert judged(y, ref, 5e-2, "classification").passed
    y = ref.copy()
    y[:, 7], y[:, 9] = 1.1, 0.7
    assert not list(violations("classification", [(ref, ref)], ErrorLimits.of(5e-2)))
    assert list(violations("classification", [(y, ref)], ErrorLimits.of(5e-2)))


def test_the_last_token_decides_as_well() -> None:
    ref = normal(4, 64, 30)
    y = ref.copy()
    y[:, -1] = -y[:, -1]
    said = " ".join(violations("language_model", [(y, ref)], ErrorLimits.of(0.15)))
    assert "the likeliest token after the last one" in said
    assert "nats after the last token" in said


def test_divergence_is_that_of_the_hand() -> None:
    ref, y = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert divergence(y, ref)[0] == pytest.approx(expected)


def test_embeddings_keep_their_angle_and_order() -> None:
    ref = normal(12, 32)
    assert judged(ref + 0.01 * normal(12, 32), ref, 5e-2, "embedding").passed
    turned = ref.copy()
    turned[3] = -turned[3]
    (said, *_) = violations("embedding", [(turned, ref)], ErrorLimits.of(5e-2))
    assert "row 3 has a cosine of -1" in said


def test_rank_correlation_is_one_for_the_same_order_and_minus_one_for_the_opposite() -> None:
    values = normal(20).astype(np.float64)
    assert rank_correlation(values, np.exp(values)) == pytest.approx(1)
    assert rank_correlation(values, -values) == pytest.approx(-1)


def test_a_target_is_judged_against_its_own_spread() -> None:
    ref = np.stack([1000 * normal(40), 0.1 * normal(40)], axis=1)
    y = ref.copy()
    y[:, 1] += 0.08
    (said,) = violations("regression", [(y, ref)], ErrorLimits.of(5e-2))
    assert said.startswith("target 1 is off by 0.08")


def test_a_task_that_no_output_fits_is_told() -> None:
    verdict = judged(np.arange(3), np.arange(3), 1e-4, "classification")
    assert verdict.reasons == (
        "parity.task=classification needs an output of shape (rows, at least 2), and there is "
        "none.",
    )


def test_few_ids_may_flip_in_low_precision_and_none_in_float32() -> None:
    ids = RNG.integers(0, 50, (1000, 10))
    y = ids.copy()
    y[3, 3] += 1
    assert judged(y, ids, 5e-2).passed
    assert not judged(y, ids, 1e-4).passed
    assert not judged(RNG.permutation(ids), ids, 0.2).passed


def test_ids_that_come_from_ties_may_flip() -> None:
    scores = np.tile(np.linspace(0, 1, 10, dtype=np.float32), (8, 1))
    scores[:, 8] = scores[:, 9] - 0.01
    ids = scores.argmax(-1)
    flipped = np.where(np.arange(8) < 4, 8, ids)
    sides = {"scores": scores, "ids": ids}
    assert parity([{**sides, "ids": flipped}], [sides], 5e-2).passed
    assert not parity([{**sides, "ids": flipped}], [sides], 1e-4).passed
    assert not parity([{**sides, "ids": np.zeros_like(ids)}], [sides], 5e-2).passed


def test_ids_of_the_best_classes_may_change_places_where_their_scores_tie() -> None:
    scores = np.tile(np.float32([3, 2, 2, 1, 1, 0]), (8, 1))
    ids = np.tile([0, 1, 2, 3], (8, 1))
    sides = {"scores": scores, "ids": ids}

    def passes(other: list[int]) -> bool:
        return parity([{**sides, "ids": np.tile(other, (8, 1))}], [sides], 1e-4).passed

    assert passes([0, 2, 1, 4])
    assert not passes([1, 0, 2, 3])  # 3 is more than 2
    assert not passes([0, 1, 2, 5])
    assert not passes([0, 1, 1, 3])  # one class twice
    assert not passes([0, 1, 2, 6])  # no class


@pytest.mark.parametrize("tolerance", [1e-4, 3e-2])
def test_other_classes_beside_a_mask_or_times_are_no_ties(tolerance: float) -> None:
    tags, others = RNG.integers(0, 9, (2, 4, 64))
    for beside in (np.ones((4, 64), np.float32), np.tile(np.float32(0.02) * np.arange(64), (4, 1))):
        sides = {"tags": tags, "beside": beside.astype(np.float32)}
        assert not parity([{**sides, "tags": others}], [sides], tolerance).passed


def pixels(error: float, scale: float = 255.0) -> np.ndarray:
    """Values of 8 bits, rounded from the same numbers with an error of so many of them."""
    rng = np.random.default_rng(3)
    values = rng.uniform(0.1, 0.9, (8, 3, 32, 32)) * scale
    return np.round(values + error * rng.normal(size=values.shape)).astype(np.int16)


def judged_pixels(y: np.ndarray, tolerance: float, **more: Any) -> Verdict:
    near = [[{"y": pixels(1e-2)}, {"y": pixels(-1e-2)}]]
    return parity([{"y": y}], [{"y": pixels(0)}], tolerance, near=near, **more)


def test_whole_numbers_that_rounding_moves_to_the_next_are_quantities() -> None:
    assert (pixels(0.1) != pixels(0)).mean() > 0.05
    found = judged_pixels(pixels(0.1), 5e-3)
    assert found.passed
    assert found.notes == ("output y holds whole numbers, which were judged as quantities are",)
    assert judged_pixels(pixels(5e-3), 1e-4).passed  # fewer than the baseline's own rounding moves
    assert not judged_pixels(pixels(0.1), 1e-4).passed
    assert not judged_pixels(pixels(0.1), 5e-3, task="ids").passed


@pytest.mark.parametrize("tolerance", [1e-4, 3e-2])
def test_whole_numbers_that_rounding_does_not_explain_are_ids(tolerance: float) -> None:
    right = pixels(0)
    for wrong in (right + 1, right[::-1], right * 0, np.roll(right, 1, axis=-1)):
        reasons = judged_pixels(wrong, tolerance).reasons
        assert "If they are quantities, such as pixels, use parity.task=regression." in reasons[0]


def test_a_regression_may_be_of_whole_numbers_alone() -> None:
    y, ref = pixels(1, 3e4), pixels(0, 3e4)
    assert not judged(y, ref, 1e-4).passed
    found = judged(y, ref, 1e-4, "regression")
    assert found.passed
    assert found.task == "regression"
    assert not judged(ref[::-1], ref, 1e-4, "regression").passed
    floats = ref.astype(np.float32)
    sides = {"y": y, "floats": floats}, {"y": ref, "floats": floats}
    beside = parity([sides[0]], [sides[1]], 1e-4, task="regression")
    assert "use parity.metric" not in beside.reasons[0]
    assert "use parity.metric" in parity([sides[0]], [sides[1]], 1e-4).reasons[0]

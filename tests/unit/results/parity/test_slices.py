"""No average hides a failure: rows, channels, tokens and groups of them, at every precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchorch.domain.verdict import Kind, Verdict
from benchorch.results.parity.judge import parity

Array = NDArray[np.float32]

LOW = pytest.mark.parametrize("tolerance_ratio", [5e-3, 3e-2, 8e-2, 0.15, 0.2])


@pytest.fixture
def normal() -> Callable[..., Array]:
    rng = np.random.default_rng(0)
    return lambda *shape: rng.standard_normal(shape).astype(np.float32)


def judged(outputs: list[Array], references: list[Array], tolerance_ratio: float) -> Verdict:
    sides = ([{"0": each} for each in side] for side in (outputs, references))
    return parity(*sides, tolerance_ratio)


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True), dtype=np.float32)


def with_noise(normal: Callable[..., Array], ref: Array, tolerance_ratio: float) -> Array:
    """As far away as a sound conversion may well be."""
    return ref + np.float32(0.4 * tolerance_ratio) * normal(*ref.shape)


@LOW
def test_what_a_sound_conversion_does_agrees(
    normal: Callable[..., Array], tolerance_ratio: float
) -> None:
    for shape in [(4, 10), (1, 10), (2, 16, 64), (2, 8, 6, 6), (32,)]:
        refs = [normal(*shape) for _ in range(8)]
        ours = [with_noise(normal, ref, tolerance_ratio) for ref in refs]
        assert judged(ours, refs, tolerance_ratio).kind is Kind.AGREES


@LOW
def test_softmax_of_an_unrelated_model_differs(
    normal: Callable[..., Array], tolerance_ratio: float
) -> None:
    refs, ours = ([softmax(0.1 * normal(4, 1000)) for _ in range(8)] for _ in range(2))
    assert judged(ours, refs, tolerance_ratio).kind is Kind.DIFFERS


@LOW
@pytest.mark.parametrize("size", [0.01, 0.1, 1.0])
def test_a_small_signal_on_a_large_offset_must_survive(
    normal: Callable[..., Array], tolerance_ratio: float, size: float
) -> None:
    refs = [100 + size * normal(4, 10) for _ in range(8)]
    gone = [np.full_like(ref, 100) for ref in refs]
    verdict = judged(gone, refs, tolerance_ratio)
    assert verdict.kind is Kind.DIFFERS
    assert "in common" in verdict.explanation


@LOW
def test_one_negated_row_of_a_thousand_is_named(
    normal: Callable[..., Array], tolerance_ratio: float
) -> None:
    ref = normal(1000, 32)
    ours = with_noise(normal, ref, tolerance_ratio)
    ours[17] *= -1
    assert "row 17 of input 0" in judged([ours], [ref], tolerance_ratio).explanation


@LOW
def test_one_random_token_of_128_differs(
    normal: Callable[..., Array], tolerance_ratio: float
) -> None:
    refs = [normal(1, 128, 200) for _ in range(2)]
    ours = [with_noise(normal, ref, tolerance_ratio) for ref in refs]
    for each in ours:
        each[0, -1] = normal(200)
    assert judged(ours, refs, tolerance_ratio).kind is Kind.DIFFERS


@LOW
@pytest.mark.parametrize(
    ("shape", "channel"),
    [((2, 64), np.s_[:, 5]), ((2, 3, 512, 2, 2), np.s_[:, :, 5]), ((2, 3, 512, 4), np.s_[:, :, 5])],
)
def test_one_channel_of_garbage_differs(
    normal: Callable[..., Array],
    tolerance_ratio: float,
    shape: tuple[int, ...],
    channel: tuple[Any, ...],
) -> None:
    refs = [normal(*shape) for _ in range(8)]
    ours = [with_noise(normal, ref, tolerance_ratio) for ref in refs]
    for each in ours:
        each[channel] = normal(*each[channel].shape)
    assert judged(ours, refs, tolerance_ratio).kind is Kind.DIFFERS


@LOW
@pytest.mark.parametrize("classes", [1, 20])
@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1)])
def test_class_scores_of_zero_beside_large_boxes_differ(
    normal: Callable[..., Array], tolerance_ratio: float, classes: int, axes: tuple[int, ...]
) -> None:
    refs, ours = [], []
    for _ in range(8):
        boxes, scores = (
            300 * np.abs(normal(1, 4, 100)),
            1 / (1 + np.exp(3 - normal(1, classes, 100))),
        )
        refs.append(np.concatenate([boxes, scores], axis=1).transpose(axes))
        ours.append(np.concatenate([boxes, 0 * scores], axis=1).transpose(axes))
    verdict = judged(ours, refs, tolerance_ratio)
    assert verdict.outputs[0].relative_l2_ratio < 0.005
    assert verdict.kind is Kind.DIFFERS
    noisy = [ref * (1 + np.float32(0.4 * tolerance_ratio) * normal(*ref.shape)) for ref in refs]
    assert judged(noisy, refs, tolerance_ratio).kind is Kind.AGREES


@LOW
@pytest.mark.parametrize(
    "wrong",
    [np.zeros_like, lambda a: np.full_like(a, a.mean()), np.flipud, np.fliplr, np.negative],
    ids=["zeros", "constant", "shuffled rows", "shuffled channels", "negated"],
)
def test_outputs_that_are_another_models_differ(
    normal: Callable[..., Array], tolerance_ratio: float, wrong: Callable[[Array], Array]
) -> None:
    refs = [normal(4, 10) for _ in range(8)]
    assert judged([wrong(ref) for ref in refs], refs, tolerance_ratio).kind is Kind.DIFFERS


def test_an_output_that_ignores_its_input_differs_however_alike_all_of_them_are(
    normal: Callable[..., Array],
) -> None:
    offset = normal(1, 50)
    refs = [offset + 0.02 * normal(1, 50) for _ in range(8)]
    verdict = judged([refs[0]] * 8, refs, 5e-2)
    assert max(each.relative_l2_ratio for each in verdict.outputs) < 5e-2
    assert "varies over rows and inputs" in verdict.explanation


def test_rounding_in_float32_is_never_a_reason(normal: Callable[..., Array]) -> None:
    live = [normal(4, 64) for _ in range(8)]
    for each in live:
        each[:, 3], each[:, 4] = 0, 1e-9 * normal(4)  # dead channels
    assert judged([each + 1e-7 * normal(4, 64) for each in live], live, 1e-4).passed
    ones = [np.ones((4, 3), dtype=np.float32)] * 8
    assert judged([each - np.float32(6e-8) for each in ones], ones, 1e-4).passed
    zeros = [np.zeros((4, 3), dtype=np.float32)] * 8
    assert judged([each + np.float32(1e-9) for each in zeros], zeros, 1e-4).passed


def test_a_constant_has_no_signal_that_half_precision_could_lose() -> None:
    refs = [np.full((4, 30), 0.3, dtype=np.float32)] * 8
    assert judged([each + np.float32(7e-4) for each in refs], refs, 3e-2).passed


def test_the_excuse_of_float64_is_bounded(normal: Callable[..., Array]) -> None:
    """A model whose float64 run goes another way excuses nothing but ten tolerances."""
    ref, right = normal(4, 10), normal(4, 10)
    wrong = parity([{"0": normal(4, 10)}], [{"0": ref}], 1e-4, referees=[{"0": right}])
    assert wrong.kind is Kind.DIFFERS
    near = ref * np.float32(1 + 5e-4)
    assert parity([{"0": near}], [{"0": ref}], 1e-4, referees=[{"0": right}]).referee == ("0",)
    zeros = parity([{"0": 0 * ref}], [{"0": ref}], 0.15, referees=[{"0": right}])
    assert zeros.kind is Kind.DIFFERS


def test_large_outputs_are_judged_by_array_operations(normal: Callable[..., Array]) -> None:
    """A hundred thousand slices: a loop over them would take minutes."""
    ref = normal(2, 50_000, 4)
    ours = ref + 1e-6 * normal(2, 50_000, 4)
    ours[1, 40_000] *= -1
    verdict = judged([ours], [ref], 1e-4)
    assert "40000" in verdict.explanation

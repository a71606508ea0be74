from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchorch.domain.codec import encode
from benchorch.domain.verdict import OutputParity, Verdict
from benchorch.results.parity.figures import distances, ulp_distances
from benchorch.results.parity.judge import parity
from benchorch.trial.verify import verify

Array = NDArray[np.generic]


def judge(y: Array, ref: Array, tolerance_ratio: float = 1e-3) -> Verdict:
    return parity([{"0": y}], [{"0": ref}], tolerance_ratio)


def floats(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def test_equal_outputs_pass_with_no_error() -> None:
    ref = floats(1, 2, 3)
    verdict = judge(ref, ref)
    assert verdict.passed
    assert verdict.reasons == ()
    (figures,) = verdict.outputs
    assert figures.slices[0].worst_ratio == 0
    assert (dataclasses.replace(figures, slices=(), centred_ratio=None),) == (
        OutputParity(
            name="0",
            shape=(3,),
            dtype="float32",
            max_abs=0.0,
            relative_l2_ratio=0.0,
            cosine_ratio=1.0,
            argmax_agreement_ratio=1.0,
            ulp_p50=0.0,
            ulp_p99=0.0,
        ),
    )


def test_the_figures_are_those_of_the_hand() -> None:
    verdict = judge(floats(3, 5), floats(3, 4), tolerance_ratio=0.3)
    (figures,) = verdict.outputs
    assert verdict.passed
    assert figures.max_abs == 1.0
    assert figures.relative_l2_ratio == pytest.approx(1 / 5)
    assert figures.cosine_ratio == pytest.approx((9 + 20) / (5 * math.sqrt(34)))
    assert figures.argmax_agreement_ratio == 1.0
    assert figures.signal_to_noise_db == pytest.approx(20 * math.log10(5))


def test_an_error_beyond_the_tolerance_fails_with_both_numbers() -> None:
    verdict = judge(floats(3, 5), floats(3, 4), tolerance_ratio=0.1)
    assert not verdict.passed
    assert verdict.reasons == ("output 0: relative L2 error 0.2 exceeds 0.1 on input 0.",)


def test_an_error_equal_to_the_tolerance_passes() -> None:
    assert judge(np.array([1.5]), np.array([1.0]), tolerance_ratio=0.5).passed


def test_the_worst_input_decides() -> None:
    right, wrong = floats(1, 0), floats(0, 1)
    verdict = parity([{"a": right}, {"a": wrong}], [{"a": right}, {"a": right}], 0.5)
    (figures,) = verdict.outputs
    assert not verdict.passed
    assert figures.relative_l2_ratio == pytest.approx(math.sqrt(2))
    assert figures.cosine_ratio == 0.0
    assert figures.argmax_agreement_ratio == 0.5


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_fails_however_large_the_tolerance(wrong: float) -> None:
    verdict = judge(floats(1, wrong, 3), floats(1, 2, 3), tolerance_ratio=1e9)
    assert not verdict.passed
    assert verdict.reasons == (
        "output 0: 1 of 3 values are NaN or infinite on one side only, or not the same infinity.",
    )


def test_nan_at_the_same_place_is_equal_and_elsewhere_it_is_not() -> None:
    assert judge(floats(1, math.nan), floats(1, math.nan)).passed
    assert not judge(floats(math.nan, 1), floats(1, math.nan)).passed
    assert not judge(floats(1, 2), floats(1, math.nan)).passed


def test_the_same_infinity_is_a_mask_and_passes() -> None:
    masked = floats(1, -math.inf)
    assert judge(masked, masked).passed
    assert not judge(-masked, masked).passed


def test_another_shape_fails_even_where_it_would_broadcast() -> None:
    verdict = judge(np.ones((1, 3)), np.ones((3,)))
    assert verdict.reasons == ("output 0 has shape (1, 3); the reference has (3,).",)
    assert verdict.outputs == ()


def test_another_kind_of_number_fails_and_another_width_does_not() -> None:
    assert not judge(np.ones(3, dtype=np.int64), np.ones(3, dtype=np.float32)).passed
    assert not judge(np.ones(3, dtype=np.bool_), np.ones(3, dtype=np.int64)).passed
    assert judge(np.ones(3, dtype=np.float64), np.ones(3, dtype=np.float32)).passed
    assert judge(np.ones(3, dtype=np.int32), np.ones(3, dtype=np.int64)).passed


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_whole_numbers_and_booleans_must_be_equal(dtype: type) -> None:
    ref = np.array([0, 1, 1], dtype=dtype)
    assert judge(ref, ref).passed
    verdict = judge(np.array([0, 1, 0], dtype=dtype), ref, tolerance_ratio=10)
    (reason,) = verdict.reasons
    assert "1 of 3 values are not equal (first at [2] of input 0); 5 % may differ" in reason
    assert ("near-ties of scores" in reason) == (dtype is not np.bool_)
    assert verdict.outputs[0].argmax_agreement_ratio is None


def test_missing_and_further_outputs_are_named() -> None:
    one = floats(1)
    verdict = parity([{"0": one, "2": one}], [{"0": one, "1": one}], 1e-3)
    assert not verdict.passed
    assert verdict.reasons == (
        "output 1 is missing; there are: 0, 2.",
        "output 2 is not among the reference's: 0, 1.",
    )
    assert [figures.name for figures in verdict.outputs] == ["0"]


@pytest.mark.parametrize(
    ("outputs", "references"),
    [([], []), ([{}], [{}]), ([{"0": floats(1)}], []), ([], [{"0": floats(1)}])],
)
def test_nothing_to_compare_does_not_pass(
    outputs: list[dict[str, Array]], references: list[dict[str, Array]]
) -> None:
    verdict = verify(outputs, references, 1e-3)
    assert not verdict.passed
    assert verdict.reasons


def test_an_output_missing_for_a_later_input_only_is_found() -> None:
    one = floats(1)
    verdict = parity([{"0": one}, {}], [{"0": one}, {"0": one}], 1e-3)
    assert not verdict.passed
    assert "missing" in verdict.reasons[0]


def test_against_zeros_rounding_passes_and_values_fail() -> None:
    zeros = np.zeros(100, dtype=np.float32)
    assert judge(zeros, zeros).passed
    assert judge(zeros + np.float32(1e-12), zeros).passed
    assert not judge(zeros + np.float32(1e-6), zeros).passed


def test_empty_outputs_are_equal_with_a_note() -> None:
    empty = np.zeros((0, 4), dtype=np.float32)
    verdict = judge(empty, empty)
    assert verdict.passed
    assert verdict.outputs[0].argmax_agreement_ratio is None
    assert verdict.notes == ("output 0 has no value for any input: nothing of it was compared",)


def test_a_scalar_output_has_no_argmax() -> None:
    verdict = judge(np.array(1.0), np.array(1.0))
    assert verdict.passed
    assert verdict.outputs[0].argmax_agreement_ratio is None


@pytest.mark.parametrize("shape", [(4, 1), (3, 0)])
def test_a_single_class_has_no_argmax(shape: tuple[int, ...]) -> None:
    assert judge(np.ones(shape), np.ones(shape)).outputs[0].argmax_agreement_ratio is None


def test_every_number_of_a_verdict_can_be_stored() -> None:
    strange = [math.nan, math.inf, 0.0, 3e38, -3e38]
    verdict = judge(floats(*strange), floats(*reversed(strange)))
    json.dumps(encode(verdict), allow_nan=False)
    for figures in verdict.outputs:
        numbers = [v for v in dataclasses.astuple(figures) if isinstance(v, float)]
        assert all(math.isfinite(v) for v in numbers)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_next_representable_number_is_one_ulp_away(dtype: type) -> None:
    ref = np.array([1.0, -1.0, 1e-3, 0.0], dtype=dtype)
    following = np.nextafter(ref, dtype(10))
    assert ulp_distances(following, ref).tolist() == [1, 1, 1, 1]
    assert ulp_distances(-ref, ref)[3] == 0  # both zeros are one number


def test_ulps_are_counted_across_zero_and_not_between_dtypes() -> None:
    smallest = np.nextafter(np.float32(0), np.float32(1))
    assert ulp_distances(np.array([smallest]), np.array([-smallest])).tolist() == [2]
    figures = judge(np.ones(3, dtype=np.float64), floats(1, 1, 1)).outputs[0]
    assert figures.ulp_p50 is None
    assert judge(np.arange(3), np.arange(3)).outputs[0].ulp_p99 is None


def test_half_precision_has_the_ulps_that_its_mantissa_lacks() -> None:
    ref = np.linspace(1, 2, 1000, dtype=np.float32)
    figures = judge(ref.astype(np.float16).astype(np.float32), ref).outputs[0]
    assert figures.ulp_p99 is not None
    assert 1000 < figures.ulp_p99 <= 2**12  # 13 bits fewer, rounded


def test_float64_excuses_what_is_as_near_to_it_as_the_baseline() -> None:
    right, ref, y = floats(1, 1), floats(1, 1.0004), floats(1.0004, 1)
    doubtful = parity([{"0": y}], [{"0": ref}], 1e-4, referees=[{"0": right}])
    assert doubtful.passed
    assert doubtful.referee == ("0",)
    assert doubtful.outputs[0].referee_error_ratio == pytest.approx(0.0004 / math.sqrt(2), rel=1e-3)
    wrong = parity([{"0": floats(1.01, 1)}], [{"0": ref}], 1e-4, referees=[{"0": right}])
    assert not wrong.passed
    assert not judge(y, ref, 1e-4).passed  # nobody to ask


def test_a_referee_is_not_asked_where_the_tolerance_is_kept_or_shapes_differ() -> None:
    ref = floats(1, 2)
    assert parity([{"0": ref}], [{"0": ref}], 1e-4, referees=[{"0": ref}]).referee == ()
    other = parity([{"0": ref}], [{"0": ref}], 1e-4, referees=[{"0": floats(1)}])
    assert other.outputs[0].baseline_error_ratio is None


def test_a_language_model_is_judged_by_the_token_it_would_say_next() -> None:
    ids = np.array([[3, 7]])
    ref = np.zeros((1, 2, 10), dtype=np.float32)
    ref[0, 0, 1] = ref[0, 1, 2] = 1.0
    y = ref.copy()
    y[0, 1, 4] = 2.0
    inputs = [{"ids": ids, "mask": np.ones((1, 2), dtype=np.int64)}]
    (same,) = parity([{"0": ref}], [{"0": ref}], 1.0, inputs=inputs).outputs
    (other,) = parity([{"0": y}], [{"0": ref}], 9.0, inputs=inputs).outputs
    assert (same.next_token_agreement_ratio, same.top_k_overlap_ratio) == (1.0, 1.0)
    assert other.next_token_agreement_ratio == 0.0
    assert other.argmax_agreement_ratio == 0.5


@pytest.mark.parametrize("ids", [np.array([[3, 70]]), np.array([[1, 1]]), np.array([3, 7])])
def test_hidden_states_and_masks_say_no_token(ids: Array) -> None:
    hidden = np.ones((1, 2, 10), dtype=np.float32)
    verdict = parity([{"0": hidden}], [{"0": hidden}], 1.0, inputs=[{"x": ids}])
    assert verdict.outputs[0].next_token_agreement_ratio is None


def test_without_judging_only_what_cannot_be_compared_fails() -> None:
    ref = floats(1, 2)
    assert parity([{"0": ref * 3}], [{"0": ref}], 1e-4, judged=False).passed
    assert not parity([{"0": ref * math.nan}], [{"0": ref}], 1e-4, judged=False).passed
    assert not parity([{"0": ref[:1]}], [{"0": ref}], 1e-4, judged=False).passed


arrays = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20).map(np.array)


@given(arrays, st.floats(1e-3, 1e3), st.integers(0, 99))
def test_error_and_angle_do_not_depend_on_scale_or_order(
    ref: NDArray[np.float64], factor: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    y = ref + rng.normal(0, 1, ref.size)
    order = rng.permutation(ref.size)
    if np.linalg.norm(ref) < 1e-3:
        return
    error, angle = distances(y, ref).relative_l2_ratio, distances(y, ref).cosine_ratio
    assert distances(y * factor, ref * factor).relative_l2_ratio == pytest.approx(error, rel=1e-9)
    assert distances(y[order], ref[order]).relative_l2_ratio == pytest.approx(error, rel=1e-9)
    assert distances(y * factor, ref).cosine_ratio == pytest.approx(angle, abs=1e-9)
    assert -1 <= angle <= 1


RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(64, 12)).astype(np.float32)


@pytest.mark.parametrize("fill", [np.finfo(np.float32).min, -1e9, -1e4])
def test_what_fills_masked_places_hides_no_scores(fill: float) -> None:
    masked = RNG.random(SCORES.shape) < 0.4

    def filled(scores: Array) -> Array:
        return np.where(masked, np.float32(fill), scores)

    assert judge(filled(SCORES * np.float32(1 + 1e-6)), filled(SCORES)).passed
    assert not judge(filled(-SCORES), filled(SCORES)).passed
    other = np.where(masked ^ (RNG.random(SCORES.shape) < 0.01), np.float32(fill), SCORES)
    assert not judge(other, filled(SCORES)).passed


def test_a_mask_in_float64_is_the_masks_of_float32() -> None:
    masked = RNG.random(SCORES.shape) < 0.4
    ref = np.where(masked, np.finfo(np.float32).min, SCORES)
    exact = np.where(masked, np.finfo(np.float64).min, SCORES.astype(np.float64))
    verdict = parity(
        [{"0": np.where(masked, ref, -SCORES)}], [{"0": ref}], 1e-4, referees=[{"0": exact}]
    )
    assert not verdict.passed


def test_saturated_outputs_are_no_fill() -> None:
    ref = np.array([[1, 1, 1e-9, 1], [1, 2e-9, 1, 1]], dtype=np.float32)
    assert judge(np.where(ref < 1, 2 * ref, ref), ref).passed


def test_float64_is_judged_by_its_own_rounding() -> None:
    minutes = 600 * RNG.normal(size=(64, 12))
    exact = 1.7e9 + minutes
    ref = 1.7e9 + minutes * (1 + 1e-7)
    right, wrong = 1.7e9 + minutes * (1 - 1e-7), 1.7e9 - minutes

    def found(y: Array) -> bool:
        return parity([{"0": y}], [{"0": ref}], 1e-4, referees=[{"0": exact}]).passed

    assert found(right)
    assert not found(wrong)


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_many_rows_of_another_size_are_judged_by_themselves(share: float) -> None:
    sales = np.exp(RNG.normal(size=(64, 1)))
    slow = (np.arange(64) < share * 64)[:, None]
    ref = np.where(slow, 0.01 * sales, 1000 * sales).astype(np.float32)
    verdict = judge(np.where(slow, -ref, ref), ref, 1e-4)
    assert "rows of another size than the rest, the first of them row 0" in str(verdict.reasons)
    near = (ref * (1 + 1e-3 * RNG.normal(size=ref.shape))).astype(np.float32)
    assert judge(near, ref, 5e-3).passed


def test_few_rows_near_zero_are_no_group() -> None:
    ref = RNG.normal(size=(64, 1)).astype(np.float32)
    ref[:5] *= 1e-3
    assert judge(ref + np.float32(1e-3), ref, 3e-2).passed


def test_ids_among_measured_values_may_not_be_other_ones() -> None:
    ids = RNG.integers(300, 5000, size=(32, 1)).astype(np.float32)
    ref = np.hstack([SCORES[:32, :4] * 100, ids]).astype(np.float32)
    rounded = np.hstack([ref[:, :4], np.round(ids / 16) * 16]).astype(np.float32)
    assert "channel 4 holds whole numbers" in str(judge(rounded, ref, 3e-2).reasons)
    assert judge(ref, ref, 3e-2).passed
    regression = parity([{"0": rounded}], [{"0": ref}], 3e-2, task="regression")
    assert "whole numbers" not in str(regression.reasons)


def test_an_output_that_only_some_inputs_have_is_compared_where_it_is() -> None:
    refs = [{"cat": floats(0.7), "dog": floats(0.3)}, {"fox": floats(0.6), "dog": floats(0.4)}]
    wrong = [refs[0], {"fox": floats(0.4), "dog": floats(0.6)}]
    assert parity(refs, refs, 1e-3).passed
    assert "output fox" in str(parity(wrong, refs, 1e-3).reasons)


SHAPES = ((), (0,), (1,), (3,), (2, 3), (0, 3), (3, 0), (2, 1), (2, 0, 3), (9, 4), (2, 3, 5))
DTYPES = ("f2", "f4", "f8", "i8", "u1", "?", "U3", "c8")


def drawn(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    if dtype[0] in "iu?U":
        return np.array(rng.integers(0, 3, shape)).astype(dtype)
    scale = data.draw(st.sampled_from([1.0, 0.0, 1e30]))
    with np.errstate(over="ignore"):
        array = np.array(scale * rng.normal(size=shape)).astype(dtype)
    array[...] = np.where(rng.random(shape) < 0.1, data.draw(st.sampled_from(ODD)), array)
    return array


ODD = (0.0, 1.0, math.nan, math.inf)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(data=st.data())
def test_outputs_of_any_shapes_and_types_have_a_verdict(data: st.DataObject) -> None:
    kinds = data.draw(
        st.lists(
            st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES)), min_size=1, max_size=3
        )
    )
    references = [
        {str(at): drawn(data, *kind) for at, kind in enumerate(kinds)}
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    outputs = [
        {
            name: drawn(data, *kinds[int(name)]) if data.draw(st.booleans()) else array
            for name, array in each.items()
        }
        for each in references
    ]
    verdict = parity(outputs, references, data.draw(st.sampled_from([0.0, 1e-3, 0.3])))
    assert verdict.passed == (not verdict.reasons)


def test_numbers_without_a_shape_are_judged_beside_each_other() -> None:
    reference = {"loss": np.array(1.5, np.float32), "count": np.array(3), "flag": np.array(True)}
    assert parity([reference], [reference], 1e-3).passed
    (reason,) = parity([{**reference, "count": np.array(4)}], [reference], 1e-3).reasons
    assert reason.startswith("output count: 1 of 1 values are not equal")


@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_numbers_without_channels_vary_over_rows_and_inputs(shape: tuple[int, ...]) -> None:
    """As a price does that a model returns without a further axis, for a few rows."""
    refs = [{"0": np.asarray(1000 + 0.02 * RNG.normal(size=shape), np.float32)} for _ in range(8)]
    frozen = [{"0": np.full(shape, 1000, np.float32)}] * 8
    assert "varies over rows and inputs is lost" in str(parity(frozen, refs, 1e-4).reasons)
    rounded = [{"0": ref["0"] + np.float32(6e-5)} for ref in refs]
    assert parity(rounded, refs, 1e-4).passed


def test_what_is_rarely_found_may_not_be_lost() -> None:
    ref = RNG.random((64, 50)) < 0.01
    assert "where the reference has True, 100 % of" in str(judge(ref & False, ref, 3e-2).reasons)
    assert not judge(ref | (RNG.random(ref.shape) < 0.025), ref, 3e-2).passed
    near = ref.copy()
    near[tuple(np.argwhere(ref)[0])] = False
    assert judge(near, ref, 3e-2).passed


def test_no_class_may_vanish() -> None:
    ref = np.where(RNG.random((64, 50)) < 0.01, 7, RNG.integers(0, 5, (64, 50)))
    assert "where the reference has 7" in str(judge(np.minimum(ref, 4), ref, 3e-2).reasons)
    assert "where the conversion has 9" in (
        str(judge(np.where(RNG.random(ref.shape) < 0.01, 9, ref), ref, 3e-2).reasons)
    )
    some = np.where((ref == 7) & (RNG.random(ref.shape) < 0.5), 4, ref)
    assert judge(some, ref, 3e-2).passed


@pytest.mark.parametrize(
    ("added", "tolerance_ratio"), [(-10000, 1e-4), (-10000, 3e-2), (-100, 3e-2)]
)
def test_what_a_mask_adds_hides_no_scores(added: int, tolerance_ratio: float) -> None:
    scores = 0.3 * RNG.normal(size=(64, 12)).astype(np.float32)
    mask = np.where(RNG.random(scores.shape) < 0.4, np.float32(added), np.float32(0))
    verdict = judge(mask - scores, mask + scores, tolerance_ratio)
    assert "beside values that are far larger" in str(verdict.reasons)
    rounded = mask + scores * np.float32(1 + tolerance_ratio / 8)
    assert judge(rounded, mask + scores, tolerance_ratio).passed
    right = scores * np.float32(1 + 1e-6)
    assert judge(mask + right, mask + scores, tolerance_ratio).passed

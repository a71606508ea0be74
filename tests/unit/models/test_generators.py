"""Generated inputs: their values lie where they were asked to lie, and mistakes are told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.models.inputs import input_set

shapes = st.lists(st.integers(1, 6), min_size=0, max_size=4)
seeds = st.integers(-(2**40), 2**70)
WORKLOAD = Workload(symbols={"batch_size": 2, "seq_len": 16})


def one(seed: int, **tensor: Json) -> np.ndarray:
    inputs = input_set({"x": tensor})
    assert inputs.problems(WORKLOAD) == []
    return inputs.batch(WORKLOAD, seed)["x"]


def problems(workload: Workload = WORKLOAD, **tensor: Json) -> list[str]:
    return input_set({"x": tensor}).problems(workload)


@given(
    shape=shapes,
    seed=seeds,
    low=st.integers(-(2**31), 2**31 - 2),
    width=st.integers(1, 2**20),
    dtype=st.sampled_from(["int32", "int64"]),
)
def test_integers_lie_from_low_up_to_but_not_including_high(shape, seed, low, width, dtype) -> None:
    high = min(low + width, 2**31 - 1)
    array = one(seed, shape=shape, dtype=dtype, generator="integers", low=low, high=high)
    assert array.dtype == dtype
    assert array.shape == tuple(shape)
    assert (array >= low).all()
    assert (array < high).all()


@given(shape=shapes, seed=seeds, mean=st.floats(-100, 100), std=st.floats(0, 10))
def test_normal_numbers_stay_within_ten_deviations(shape, seed, mean, std) -> None:
    array = one(seed, shape=shape, dtype="float64", generator="normal", mean=mean, std=std)
    assert (np.abs(array - mean) <= 10 * std + 1e-9).all()


@given(
    rows=st.integers(1, 8),
    length=st.integers(1, 32),
    seed=seeds,
    ratio=st.floats(0, 1),
    dtype=st.sampled_from(["int64", "bool", "float32", "uint8"]),
)
def test_a_mask_is_ones_then_at_most_the_share_of_padding(rows, length, seed, ratio, dtype) -> None:
    shape = [rows, length]
    array = one(seed, shape=shape, dtype=dtype, generator="mask", padding_ratio=ratio)
    ones = array.astype(int)
    assert (np.diff(ones, axis=1) <= 0).all(), "padding ends a row"
    assert (ones[:, 0] == 1).all(), "a row keeps at least one 1"
    assert (length - ones.sum(axis=1) <= ratio * length).all()


@given(shape=shapes, seed=seeds)
def test_a_mask_has_no_padding_unless_asked(shape, seed) -> None:
    assert one(seed, shape=shape, dtype="int64", generator="mask").all()


@given(shape=shapes, seed=seeds, value=st.integers(-128, 127))
def test_a_constant_is_that_value_everywhere(shape, seed, value) -> None:
    array = one(seed, shape=shape, dtype="int8", generator="constant", value=value)
    assert (array == value).all()


@given(seed=seeds)
def test_a_tensors_values_do_not_depend_on_the_others(seed) -> None:
    x: Json = {"shape": [5], "generator": "normal"}
    alone = input_set({"x": x}).batch(WORKLOAD, seed)
    beside = input_set({"w": x, "x": x}).batch(WORKLOAD, seed)
    assert np.array_equal(alone["x"], beside["x"])
    assert not np.array_equal(beside["w"], beside["x"])


def test_padding_really_varies_between_rows() -> None:
    shape = [64, 32]
    array = one(0, shape=shape, dtype="int64", generator="mask", padding_ratio=0.5)
    assert len(set(array.sum(axis=1))) > 5


def test_a_precision_rounds_the_same_numbers() -> None:
    wide = one(7, shape=[100], dtype="float64", generator="normal")
    narrow = one(7, shape=[100], dtype="float16", generator="normal")
    assert np.array_equal(wide.astype("float16"), narrow)


def test_an_unstated_dtype_is_the_workloads() -> None:
    inputs = input_set({"x": {"shape": [2], "generator": "normal"}})
    double = Workload(symbols={}, dtype="float64")
    assert inputs.batch(double, 0)["x"].dtype == np.float64


@pytest.mark.parametrize("dtype", [None, "float64", "bfloat16"])
def test_floats_are_normal_where_no_generator_is_named(dtype: str | None) -> None:
    tensor = {} if dtype is None else {"dtype": dtype}
    named = one(5, shape=[64], generator="normal", **tensor)
    assert (one(5, shape=[64], **tensor) == named).all()
    wide = one(5, shape=[64], std=3.0, **tensor).astype("float64")
    assert np.allclose(wide, 3 * named.astype("float64"), rtol=0.02)


def test_booleans_are_true_and_false_where_no_generator_is_named() -> None:
    assert set(one(5, shape=[64], dtype="bool").tolist()) == {True, False}


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        ({"generator": "intgers", "high": 3}, "unknown generator 'intgers'. Did you mean 'integ"),
        (
            {"dtype": "int64"},
            "model.inputs.x.generator: is missing; set +model.inputs.x.generator=integers",
        ),
        ({"low": 1}, "model.inputs.x.low: unknown option."),
        (
            {"generator": "integers"},
            "model.inputs.x.high: is missing; set +",
        ),
        (
            {"generator": "constant"},
            "model.inputs.x.value: is missing; set +",
        ),
        (
            {"generator": "normal", "sdt": 2},
            "model.inputs.x.sdt: unknown option. Did you mean 'std'?",
        ),
        ({"generator": "normal", "low": 2}, "model.inputs.x.low: unknown option."),
        (
            {"generator": "normal", "std": "wide"},
            "model.inputs.x.std: expected a number, got 'wide'.",
        ),
        (
            {"generator": "normal", "std": -1.0},
            "model.inputs.x.std: must be a number of at least 0",
        ),
        ({"generator": "normal", "std": float("nan")}, "model.inputs.x.std: must be a number"),
        ({"generator": "normal", "mean": float("inf")}, "model.inputs.x.mean: must be finite"),
        ({"generator": "normal", "dtype": "int64"}, "normal gives no int64"),
        ({"generator": "integers", "low": 5, "high": 5}, "model.inputs.x.low: must be below high"),
        ({"generator": "integers", "high": 1.5}, "model.inputs.x.high: expected a whole number"),
        ({"generator": "integers", "high": 300, "dtype": "uint8"}, "uint8 holds 0 to 255"),
        ({"generator": "integers", "low": -200, "high": 1, "dtype": "int8"}, "-128 to 127"),
        ({"generator": "integers", "high": 3, "dtype": "bool"}, "bool holds 0 to 1"),
        ({"generator": "integers", "high": 5000, "dtype": "float16"}, "float16 holds"),
        ({"generator": "mask", "padding_ratio": 1.5}, "must lie between 0 and 1, got 1.5"),
        ({"generator": "constant", "value": 0.5, "dtype": "int64"}, "int64 cannot hold 0.5"),
        ({"generator": "constant", "value": 2, "dtype": "bool"}, "bool cannot hold 2"),
        ({"generator": "normal", "dtype": "flot32"}, "'flot32'. Did you mean 'float32'?"),
        ({"generator": "integers", "high": 300, "dtype": "bfloat16"}, "bfloat16 holds"),
    ],
)
def test_a_mistake_in_a_generator_is_told(tensor: dict[str, Json], sentence: str) -> None:
    (problem,) = problems(shape=[2], **tensor)
    assert sentence in problem


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "2*seq_len", None])
def test_a_size_that_is_no_size_is_told(size: Json) -> None:
    (problem,) = problems(shape=[size], generator="normal")
    assert f"{size!r} is neither a whole number above 0 nor the name of a symbol" in problem


@pytest.mark.parametrize("shape", ["batch_size", 3, None])
def test_a_shape_that_is_no_list_is_told(shape: Json) -> None:
    assert "must be a list such as" in problems(shape=shape, generator="normal")[0]


def test_a_missing_shape_is_told() -> None:
    assert "model.inputs.x.shape: is missing" in problems(generator="normal")[0]


def test_a_symbol_that_several_tensors_lack_is_told_once() -> None:
    tensor: Json = {"shape": ["batch_size", "seq_len"], "generator": "normal"}
    found = input_set({"a": tensor, "b": tensor}).problems(Workload(symbols={"batch_size": 1}))
    assert found == ["symbol 'seq_len' has no value; set +workload.seq_len=..."]


def test_a_misspelt_symbol_is_guessed() -> None:
    (problem,) = problems(shape=["seq_length"], generator="normal")
    assert "Did you mean 'seq_len'?" in problem


@pytest.mark.parametrize("value", [0, -4, 1.5, True, "8"])
def test_a_symbol_whose_value_is_no_size_is_told(value: int) -> None:
    (problem,) = problems(Workload(symbols={"n": value}), shape=["n"], generator="normal")
    assert f"symbol 'n' is {value!r}" in problem


def test_all_mistakes_are_told_at_once() -> None:
    found = input_set(
        {
            "a": {"shape": [0], "generator": "normal"},
            "b": {"shape": ["n"], "generator": "gaussian"},
            "c": 3,
            "not a name": {"shape": [1], "generator": "normal"},
        }
    ).problems(WORKLOAD)
    assert len(found) == 5


def test_values_in_bfloat16_are_those_of_float64_rounded() -> None:
    half, whole = (
        one(0, shape=[50], dtype=dtype, generator="normal") for dtype in ("bfloat16", "float64")
    )
    assert half.dtype.name == "bfloat16"
    np.testing.assert_array_equal(half, whole.astype(half.dtype))


def test_a_model_without_inputs_is_told() -> None:
    assert "is empty" in input_set({}).problems(WORKLOAD)[0]

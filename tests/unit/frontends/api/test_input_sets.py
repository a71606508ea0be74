"""From Python as many inputs are judged as are timed: several examples, and rows in turn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.domain.tensors import Workload
from benchorch.errors import ConfigError
from benchorch.frameworks.torch_call import tensors_of
from benchorch.frontends.api import benchmark, live_model
from benchorch.frontends.api.input_shapes import InputShapes
from benchorch.models.file_inputs import FileInputs
from benchorch.models.inputs import input_set

X = np.arange(24, dtype=np.float32).reshape(8, 3)


def test_a_list_of_mappings_is_several_examples() -> None:
    sets = live_model.input_sets([{"x": X}, {"x": X + 1}], ("x",))
    assert [each["x"][0, 0] for each in sets] == [0, 1]
    assert len(live_model.input_sets({"x": X}, ("x",))) == 1
    assert len(live_model.input_sets((X,), ("x",))) == 1


def test_examples_that_are_not_alike_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        live_model.input_sets([{"x": X}, {"x": X[0]}], ("x",))
    assert "inputs[1]: holds x [3] float32" in str(caught.value)


def test_sizes_in_which_examples_differ_have_symbols(tmp_path: Path) -> None:
    sets = live_model.input_sets(
        [{"x": X[:4], "mask": X[:4, 0]}, {"x": X[:2, :2], "mask": X[:2, 0]}], ("x", "mask")
    )
    shapes = InputShapes.of(sets)
    assert [spec.shape for spec in shapes.specs] == [("batch_size", "size_1"), ("batch_size",)]
    assert shapes.largest == {"batch_size": 4, "size_1": 3}
    assert shapes.open == ("batch_size", "size_1")


def test_rows_are_taken_in_turn_where_there_are_more_than_the_batch_size() -> None:
    sets = benchmark._rotated([{"x": X}], ["workload.batch_size=2"])
    assert [each["x"].tolist() for each in sets[:4]] == [
        X[i : i + 2].tolist() for i in (0, 2, 4, 6)
    ]
    assert len(sets) == 8
    assert len({each["x"].tobytes() for each in sets}) == 8


def test_too_few_rows_are_told() -> None:
    (said,) = benchmark._row_problems([{"x": X}], ["workload.batch_size=16"])
    assert said == "workload.batch_size: is 16, but the inputs have 8 rows; give at least as many."
    assert benchmark._row_problems([{"x": X}], ["workload.batch_size=4"]) == []


def test_inputs_are_divided_into_batches_of_one_size() -> None:
    (said,) = benchmark._row_problems([{"x": X}], ["workload.batch_size=[1,8]"])
    assert said.startswith("workload.batch_size: expected one size, got [1,8]")


def test_an_example_without_rows_is_not_left_out_of_batches() -> None:
    sets = [{"x": X, "mask": X[:, 0]}, {"x": X, "mask": X[:4, 0]}]
    (said,) = benchmark._row_problems(sets, ["workload.batch_size=2"])
    assert "workload.batch_size: is 2, but inputs[1] cannot be split" in said
    assert benchmark._row_problems(sets, ["workload.batch_size=8"]) == []


def test_a_batch_size_that_inputs_without_common_rows_cannot_take_is_told() -> None:
    sets = [{"x": X, "state": X[:2]}]
    (said,) = benchmark._row_problems(sets, ["workload.batch_size=8"])
    assert said == (
        "workload.batch_size: is 8, but the inputs have no first size in common, so a call "
        "counts as one item; leave it out."
    )
    assert benchmark._row_problems(sets, []) == []
    assert benchmark._row_problems([], ["workload.batch_size=8"]) == []


def test_files_are_taken_in_turn(tmp_path: Path) -> None:
    node = live_model.write_inputs([{"x": X}, {"x": X + 1}], tmp_path)
    inputs, workload = FileInputs(node=node), Workload(symbols={"batch_size": 8})
    assert inputs.problems(workload) == []
    firsts = [inputs.batch(workload, seed)["x"].ravel()[0] for seed in range(3)]
    assert firsts == [0, 1, 0]


def test_a_further_file_of_other_tensors_is_told(tmp_path: Path) -> None:
    node = live_model.write_inputs([{"x": X}, {"x": X[:2]}], tmp_path)
    workload = Workload(symbols={"batch_size": 8})
    assert "holds another 'x'" in FileInputs(node=node).problems(workload)[0]
    gone = {**node, "further": ["nowhere.npz"]}
    assert "is no file" in FileInputs(node=gone).problems(workload)[0]
    assert "must be a list" in FileInputs(node={**node, "further": 3}).problems(workload)[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_reaches_a_trial_as_it_was_given(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(3, 4).to(dtype)
    (arrays,) = live_model.input_sets({"x": x}, ["x"])
    node = live_model.write_inputs([arrays], tmp_path)
    workload = Workload(symbols={"batch_size": 3})
    read = input_set(node)
    assert read.problems(workload) == []
    placed = tensors_of(read.batch(workload, 0), "cpu", ())["x"]
    assert placed.dtype is dtype
    assert torch.equal(placed, x)

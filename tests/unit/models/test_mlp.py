"""The multilayer perceptron."""

from __future__ import annotations

import importlib.metadata

import pytest
import torch

from benchorch.config.components import make
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import ConfigError
from benchorch.host.environment import release
from benchorch.interfaces.model import Model
from benchorch.models.mlp import Mlp

WORKLOAD = Workload(symbols={"batch_size": 2})


def rows(width: int, name: str = "input") -> dict[str, Json]:
    return {name: {"shape": ["batch_size", width], "generator": "normal"}}


def test_widths_become_linear_layers_with_relu_between() -> None:
    module = Mlp(widths=(5, 7, 2), inputs=rows(5)).load(0)
    assert [type(layer).__name__ for layer in module] == ["Linear", "ReLU", "Linear"]
    assert module(torch.ones(3, 5)).shape == (3, 2)


@pytest.mark.parametrize("widths", [[], [3], [3, 0], [3, -1, 2]])
def test_widths_that_make_no_layers_are_refused(widths: list[int]) -> None:
    node = {"_target_": "benchorch.models.mlp.Mlp", "widths": widths, "inputs": rows(3)}
    with pytest.raises(ConfigError, match="at least two whole numbers above 0"):
        make(node, Model, "model")


def test_rows_that_do_not_fit_the_first_layer_are_told() -> None:
    (problem,) = Mlp(widths=(5, 2), inputs=rows(4)).problems(WORKLOAD)
    assert "must be widths[0], which is 5" in problem
    (problem,) = Mlp(widths=(5, 2), inputs=rows(5, "x")).problems(WORKLOAD)
    assert "takes one tensor named 'input', got x" in problem


def test_widths_and_checkpoint_are_the_identity_and_inputs_are_not() -> None:
    wide = Mlp(widths=(5, 2), inputs=rows(5)).identity()
    assert wide == Mlp(widths=(5, 2), inputs={}).identity()
    assert wide != Mlp(widths=(5, 3), inputs=rows(5)).identity()
    assert wide is not None
    assert [*wide["packages"]] == ["torch"]
    assert wide["packages"]["torch"].startswith(release(importlib.metadata.version("torch")))

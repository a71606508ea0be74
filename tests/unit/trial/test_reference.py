"""What eager answers, and what becomes of inputs that it does not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.domain.outputs import Outputs
from benchorch.errors import ConfigError
from benchorch.frameworks.numpy_files import saved
from benchorch.trial.reference import _counted, _tolerant, _unstable, _write_referee, referee_file
from benchorch.trial.worker import failure_of
from support import conversions as lab


def refusing(error: Exception, width: int) -> Any:
    """A model that raises for every width but one."""

    def bind(arrays: Mapping[str, np.ndarray]) -> Callable[[], Mapping[str, np.ndarray]]:
        def call() -> Mapping[str, np.ndarray]:
            if arrays["x"].shape[1] != width:
                raise error
            return {"0": arrays["x"]}

        return call

    return SimpleNamespace(
        bind=bind, answer=lambda arrays: None, outputs=dict, returned=lambda raw: None
    )


def of_width(width: int) -> Mapping[str, np.ndarray]:
    return {"x": np.zeros((1, width), np.float32)}


def test_a_model_that_takes_no_input_fails_with_the_shapes_of_the_call() -> None:
    model = refusing(RuntimeError("mat1 and mat2\ncannot be multiplied"), 16)
    with pytest.raises(Exception, match="float32") as raised:
        _tolerant(model, [of_width(17)])
    failure = failure_of("build", raised.value)
    assert failure.kind == "raised:RuntimeError"
    assert failure.message == (
        "The model raised RuntimeError: mat1 and mat2 when it was called with x float32[1, 17]"
    )
    assert failure.remedy.startswith("model.inputs that fit")
    assert "cannot be multiplied" in failure.detail


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "oom"),
        (RuntimeError("CUDA out of memory"), "oom"),
        (ModuleNotFoundError("No module named 'timm'", name="timm"), "missing_package"),
        (ConfigError(["no"]), "config"),
    ],
)
def test_what_has_a_class_of_its_own_keeps_it(error: Exception, kind: str) -> None:
    with pytest.raises(Exception, match=r".*") as raised:
        _tolerant(refusing(error, 16), [of_width(17)])
    assert failure_of("build", raised.value).kind == kind


def test_further_inputs_that_it_does_not_take_are_left_out_with_the_reason() -> None:
    first, refused = _tolerant(refusing(ValueError("too wide"), 16), [of_width(16), of_width(17)])
    assert [*first] == [0]
    assert refused == {"1": "ValueError: too wide"}


def test_a_number_that_changes_is_left_out_and_a_tensor_that_another_input_has_is_not() -> None:
    outputs = Outputs(tensors=("y",), constants={"took_s": 0.5, "found": None})
    first: list[Any] = [
        {"y": np.zeros(3), "took_s": np.array(0.5)},
        {"y": np.zeros(3), "took_s": np.array(0.6), "found": np.zeros(3)},
    ]
    again = [{**one, "took_s": one["took_s"] + 1} for one in first]
    again[1]["found"] = np.ones(3)
    assert _unstable(outputs, first, again) == ("took_s",)


class Turning(torch.nn.Module):
    """Multiplies by complex weights."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = torch.nn.Parameter(torch.tensor([1 / 3 + 2j / 3], dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.turn * x


def test_the_referee_of_a_complex_model_is_complex_in_float64(tmp_path: Path) -> None:
    setup = replace(lab.chain_of("export"), steps=())
    given = {0: {"x": np.full((2, 16), 1 / 7, np.float32)}}
    module = Turning()
    _write_referee(setup, module, tmp_path, given, threads=1)
    (found,) = saved(referee_file(tmp_path, 0)).values()
    assert found.dtype == np.complex128
    expected = module.turn.detach().to(torch.complex128).numpy() * given[0]["x"]
    assert np.allclose(found, expected, rtol=1e-12)


def test_work_is_the_mean_over_the_sizes_that_are_timed() -> None:
    sizes = {"batch_size": (1, 2)}
    setup = lab.chain_of("export")
    workload = replace(
        setup.workload, symbols={"batch_size": 4}, dynamic=("batch_size",), sizes=sizes
    )
    setup = replace(setup, workload=workload)
    module = setup.model.load(0)
    alone = _counted(replace(setup, workload=replace(workload, dynamic=(), sizes={})), module)
    whole, without = _counted(setup, module), _counted(setup, module, {"0"})
    assert (whole.macs, whole.flops) == (
        alone.macs * (4 + 4 * 1 + 3 * 2) / (4 * 8),
        alone.flops * (4 + 4 * 1 + 3 * 2) / (4 * 8),
    )
    assert without.macs == round(alone.macs * (4 * 1 + 3 * 2) / (4 * 7))


def test_work_that_is_not_known_for_one_size_is_not_known() -> None:
    class Only(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) == 1:
                raise ValueError("one row")
            return super().forward(x)

    setup = lab.chain_of("export")
    workload = replace(setup.workload, dynamic=("batch_size",), sizes={"batch_size": (1,)})
    found = _counted(replace(setup, workload=workload), Only(16, 2))
    assert found.flops is None
    assert "one row" in found.unavailable

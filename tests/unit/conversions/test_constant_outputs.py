"""Strings, numbers and None among a model's outputs survive what no format has a type for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.conversions.export import Export
from benchorch.conversions.onnx_export import OnnxExport
from benchorch.conversions.torchscript import TorchScript
from benchorch.domain.artifact import Format
from benchorch.domain.outputs import Outputs
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.frameworks.program_outputs import carry_outputs, output_facts, read_outputs
from benchorch.frameworks.torch_call import arrays_in
from benchorch.frameworks.torch_program import load_program
from benchorch.interfaces.conversion import BuildRequest


class Nested(torch.nn.Module):
    """Tensors between strings, numbers, None and a size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.linear(x)
        about = {"name": "mine", "n": 3, "nothing": None, "ok": True, "share": 0.5}
        return {"about": about, "logits": y, "a": [y + 1, [y * 2, "s"]], "rows": x.shape[0]}


CONSTANTS = {
    "about.name": "mine",
    "about.n": 3,
    "about.nothing": None,
    "about.ok": True,
    "about.share": 0.5,
    "a.1.1": "s",
}
X = np.random.default_rng(0).standard_normal((2, 4), dtype=np.float32)


@pytest.fixture(scope="module")
def module() -> torch.nn.Module:
    return Nested().eval().requires_grad_(False)


def request(module: torch.nn.Module, out: Path, dynamic: tuple[str, ...] = ()) -> BuildRequest:
    spec = TensorSpec(name="x", shape=("rows", 4), dtype="float32")
    return BuildRequest(
        module=lambda: module,
        source=None,
        sources={},
        example=Example(arrays={"x": X}, keywords={}, specs=(spec,), dynamic=dynamic),
        calibration=lambda _: {"x": X},
        out_dir=out,
        scratch_dir=out,
        device="cpu",
    )


def assert_tensors_alone(found: list[Any], module: torch.nn.Module) -> None:
    expected = list(arrays_in(module(torch.from_numpy(X))).values())
    assert len(found) == len(expected) == 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_keeps_tensors_and_records_the_rest(
    strict: bool, module: torch.nn.Module, tmp_path: Path
) -> None:
    Export(strict=strict).build(request(module, tmp_path))
    found = load_program(tmp_path).module()(x=torch.from_numpy(X))
    assert_tensors_alone([each.numpy() for each in found], module)
    found_outputs = read_outputs(tmp_path)
    assert found_outputs is not None
    assert found_outputs.tensors == ("logits", "a.0", "a.1.0")
    assert found_outputs.constants == {**CONSTANTS, "rows": 2}


def test_a_size_that_is_open_is_no_constant(module: torch.nn.Module, tmp_path: Path) -> None:
    Export().build(request(module, tmp_path, ("rows",)))
    found = read_outputs(tmp_path)
    assert found is not None
    assert found.constants == {**CONSTANTS, "rows": None}
    assert found.unknown == ("rows",)


def test_what_runs_later_reports_names_and_constants(
    module: torch.nn.Module, tmp_path: Path
) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    for each in (first, last):
        each.mkdir()
    Export().build(request(module, first))
    carry_outputs(first, last)  # as after each step of a chain
    assert output_facts({Format.EXPORTED_PROGRAM: first, Format.AOTI_PACKAGE: last}) == {
        "outputs": ["logits", "a.0", "a.1.0"],
        "constant_outputs": {**CONSTANTS, "rows": 2},
        "executed_dtypes": {"float32": 3},  # a product, a sum, a multiplication
        "casts": 0,
    }
    assert output_facts({Format.ONNX: tmp_path}) == {}


@pytest.fixture(scope="module")
def graph(module: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module as an ONNX file."""
    out = tmp_path_factory.mktemp("graph")
    OnnxExport().build(request(module, out))
    return out / "model.onnx"


def output_names(graph: Path) -> list[str]:
    import onnxruntime

    return [each.name for each in onnxruntime.InferenceSession(str(graph)).get_outputs()]


def test_an_onnx_file_has_the_models_names(graph: Path) -> None:
    assert output_names(graph) == ["logits", "a.0", "a.1.0"]


def test_an_onnx_file_of_an_exported_program_has_them_too(
    module: torch.nn.Module, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    Export().build(request(module, program))
    sources = {Format.EXPORTED_PROGRAM: program}
    OnnxExport().build(replace(request(module, tmp_path), sources=sources, source=program))
    assert output_names(tmp_path / "model.onnx") == ["logits", "a.0", "a.1.0"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("",), []),
        (("0", "1.0"), []),
        (("0.logits", "1"), ["output_0.logits", "output_1"]),
        (("x", "x", "y"), ["x_out", "x_out_out", "y"]),
    ],
)
def test_outputs_of_a_file_have_unique_names(paths: tuple[str, ...], names: list[str]) -> None:
    assert Outputs(tensors=paths).file_names(["x"]) == names


def test_an_onnx_graph_keeps_the_tensors(graph: Path, module: torch.nn.Module) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(graph))
    assert_tensors_alone(session.run(None, {"x": X}), module)


def test_a_trace_keeps_the_tensors_and_makes_none_of_a_size(
    module: torch.nn.Module, tmp_path: Path
) -> None:
    TorchScript().build(request(module, tmp_path))
    script = torch.jit.load(str(tmp_path / "model.pt"))  # type: ignore[no-untyped-call]
    assert_tensors_alone([each.numpy() for each in script(torch.from_numpy(X))], module)

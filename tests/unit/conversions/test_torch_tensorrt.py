"""Torch-TensorRT ahead of time, in front of a module with its signatures: no GPU is needed.

The fake follows torch_tensorrt-2.13.0 from PyPI: ``_compile.py`` (``save`` raises TypeError for
arguments that are neither tensors nor `Input`, by its ``_extract_tensor``, and ValueError for
None),
``dynamo/_compiler.py`` (``compile``, whose bounds of open sizes are those of the program, by
``dynamo/utils.py``'s ``extract_var_range_info``), ``dynamo/_exporter.py`` (``export``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.conversions.export import Export
from benchorch.conversions.torch_tensorrt_compile import TorchTensorRtCompile
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError
from benchorch.frameworks.torch_program import load_program
from benchorch.interfaces.conversion import BuildRequest


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor, double: bool = True, mode: Any = None) -> torch.Tensor:
        return x * 2 if double else x


class FakeTorchTensorRt(ModuleType):
    """Compiles nothing; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("torch_tensorrt")
        self.options: dict[str, Any] = {}
        self.ranges: list[tuple[int, int]] = []
        self.best: list[int] = []
        self.dynamo = SimpleNamespace(compile=self._compile, export=self._export)

    def _compile(
        self,
        exported_program: torch.export.ExportedProgram,
        inputs: Any = None,
        *,
        arg_inputs: Any = None,
        kwarg_inputs: dict[str, Any] | None = None,
        disable_tf32: bool = False,
        min_block_size: int = 5,
        immutable_weights: bool = True,
    ) -> torch.fx.GraphModule:
        assert all(isinstance(each, torch.Tensor) for each in (kwarg_inputs or {}).values())
        self.options = {"disable_tf32": disable_tf32, "immutable_weights": immutable_weights}
        ranges = exported_program.range_constraints.values()
        self.ranges = [(int(each.lower), int(each.upper)) for each in ranges]
        self.best = [each.shape[0] for each in (kwarg_inputs or {}).values()]
        return exported_program.module()  # type: ignore[return-value]

    @staticmethod
    def _export(
        gm: torch.fx.GraphModule,
        *,
        arg_inputs: Any = None,
        kwarg_inputs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        cross_compile_module: bool | None = False,
        use_legacy_exporter: bool | None = False,
    ) -> torch.export.ExportedProgram:
        return torch.export.export(
            gm, arg_inputs, kwargs=kwarg_inputs, dynamic_shapes=dynamic_shapes
        )

    @staticmethod
    def save(
        module: Any,
        file_path: str = "",
        *,
        extra_files: dict[str, str] | None = None,
        output_format: str = "exported_program",
        inputs: Any = None,
        arg_inputs: Any = None,
        kwarg_inputs: dict[str, Any] | None = None,
        retrace: bool = True,
    ) -> None:
        for each in (kwarg_inputs or {}).values():
            if each is None:
                raise ValueError("kwargs should not include None.")
            if not isinstance(each, torch.Tensor):
                raise TypeError(f"Unsupported input type: {type(each)}.")
        if not isinstance(module, torch.export.ExportedProgram):
            module = torch.export.export(module, tuple(arg_inputs), kwargs=kwarg_inputs)
        torch.export.save(module, file_path)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTorchTensorRt:
    made = FakeTorchTensorRt()
    monkeypatch.setitem(sys.modules, "torch_tensorrt", made)
    return made


def request(
    directory: Path,
    *,
    keywords: dict[str, Json] | None = None,
    dynamic: tuple[str, ...] = (),
    tf32: bool = False,
) -> BuildRequest:
    """What follows an export; the device is the processor, for want of another."""
    example = Example(
        arrays={"x": np.ones((2, 3), np.float32)},
        keywords=keywords or {},
        specs=(TensorSpec(name="x", shape=("batch_size", 3), dtype="float32"),),
        dynamic=dynamic,
    )
    made = BuildRequest(
        module=lambda: Doubled().eval(),
        source=directory,
        sources={Format.EXPORTED_PROGRAM: directory / "export"},
        example=example,
        calibration=lambda _: example.arrays,
        out_dir=directory / "export",
        scratch_dir=directory,
        device="cpu",
        tf32=tf32,
    )
    (directory / "export").mkdir()
    Export().build(made)
    (directory / "out").mkdir()
    return BuildRequest(
        **{name: getattr(made, name) for name in BuildRequest.__slots__}
        | {"out_dir": directory / "out"}
    )


@pytest.mark.parametrize("keywords", [{}, {"double": False}, {"double": True, "mode": None}])
def test_arguments_that_are_no_tensors_are_saved_with_the_program(
    keywords: dict[str, Json], fake: FakeTorchTensorRt, tmp_path: Path
) -> None:
    TorchTensorRtCompile().build(request(tmp_path, keywords=keywords))
    program = load_program(tmp_path / "out").module()
    (found,) = program(x=torch.ones(2, 3), **keywords)
    assert found[0, 0] == (1 if keywords.get("double") is False else 2)


@pytest.mark.parametrize("tf32", [False, True])
def test_it_rounds_products_only_where_the_protocol_lets_it(
    fake: FakeTorchTensorRt, tmp_path: Path, *, tf32: bool
) -> None:
    TorchTensorRtCompile().build(request(tmp_path, tf32=tf32))
    assert fake.options["disable_tf32"] is not tf32


def test_engines_cannot_be_refitted_unless_asked(fake: FakeTorchTensorRt, tmp_path: Path) -> None:
    asked = request(tmp_path)
    TorchTensorRtCompile().build(asked)
    assert fake.options["immutable_weights"] is True
    TorchTensorRtCompile(refittable=True).build(asked)
    assert fake.options["immutable_weights"] is False


def test_bounds_reach_the_program_that_is_compiled(fake: FakeTorchTensorRt, tmp_path: Path) -> None:
    asked = request(tmp_path, keywords={"double": True}, dynamic=("batch_size",))
    TorchTensorRtCompile(profile={"batch_size": [1, 4, 8]}).build(asked)
    assert fake.best == [4]
    assert fake.ranges == [(1, 8)]
    program = load_program(tmp_path / "out").module()
    for rows in (1, 3, 8):
        (found,) = program(x=torch.ones(rows, 3), double=True)
        assert found.shape == (rows, 3)


def test_an_open_size_without_bounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="bounds for the open size 'batch_size'") as caught:
        TorchTensorRtCompile().build(request(tmp_path, dynamic=("batch_size",)))
    assert "conversion.steps.torch_tensorrt.profile" in caught.value.remedy

"""Programs with Torch-TensorRT's engines in them: saved by torch, around an engine of this test.

As torch_tensorrt-2.13.0 from PyPI stores them: `_compile.py` (`save` turns each engine into a
Python object of an opaque type), ``dynamo/runtime/_TRTEngine.py`` (its pickle makes the engine;
``tensorrt::execute_engine`` takes tensors and the engine, and returns a list of tensors).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.torch_program import PROGRAM_FILE, load_program
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.runtimes.torch_tensorrt import TorchTensorRt
from benchorch.stores.signing import DATA

opaque_object = pytest.importorskip("torch._library.opaque_object", reason="torch is too old")
opaque_base = pytest.importorskip("torch._opaque_base", reason="torch is too old")

PROGRAM = Format("torch_tensorrt_program")


class Engine(opaque_base.OpaqueBase):  # type: ignore[misc, name-defined]
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __reduce__(self) -> tuple[type[Engine], tuple[float]]:
        return Engine, (self.factor,)


class Scaled(torch.nn.Module):
    def __init__(self, engine: Engine | None) -> None:
        super().__init__()
        self.engine = engine

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.engine is None:
            return x + 1
        (scaled,) = torch.ops.tensorrt.execute_engine([x], self.engine)
        return scaled + 1


@pytest.fixture(autouse=True)
def operators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What importing torch_tensorrt registers."""
    monkeypatch.setitem(sys.modules, "torch_tensorrt", ModuleType("torch_tensorrt"))
    if not opaque_object.is_opaque_type(Engine):
        opaque_object.register_opaque_type(Engine, typ="reference")
    kind = opaque_object.get_opaque_type_name(Engine)
    with torch.library._scoped_library("tensorrt", "FRAGMENT") as library:
        library.define(f"execute_engine(Tensor[] input_tensors, {kind} engine) -> Tensor[]")
        library.impl("execute_engine", run, "CompositeExplicitAutograd")
        torch.library.register_fake(
            "tensorrt::execute_engine",
            lambda tensors, engine: [torch.empty_like(tensors[0])],
            lib=library,
        )
        yield


def run(tensors: list[torch.Tensor], engine: Engine) -> list[torch.Tensor]:
    return [tensors[0] * engine.factor]


def saved(directory: Path, engine: Engine | None) -> Path:
    program = torch.export.export(Scaled(engine), (), kwargs={"x": torch.ones(2, 3)}, strict=False)
    torch.export.save(program, directory / PROGRAM_FILE)
    return directory


def load(directory: Path, given: Example) -> Executable:
    return TorchTensorRt().load(
        LoadRequest(
            module=torch.nn.Identity,
            source=None,
            sources={Format.EXPORTED_PROGRAM: directory, PROGRAM: directory},
            example=given,
            device="cpu",
            threads=1,
            scratch_dir=directory,
        )
    )


def example() -> Example:
    return Example(
        arrays={"x": np.ones((2, 3), np.float32)},
        keywords={},
        specs=(TensorSpec(name="x", shape=("batch_size", 3), dtype="float32"),),
        dynamic=(),
    )


def test_a_program_with_an_engine_in_it_is_loaded_and_called(tmp_path: Path) -> None:
    executable = load(saved(tmp_path, Engine(3.0)), example())
    found: Any = executable.outputs(executable.bind(example().arrays)())
    np.testing.assert_array_equal(found["0"], np.full((2, 3), 4.0))
    assert executable.facts()["engines"] == 1
    assert executable.facts()["fallback_nodes"] == 1


def test_such_a_program_is_code_to_every_other_reader(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="may not be loaded") as caught:
        load_program(saved(tmp_path, Engine(3.0)))
    assert caught.value.kind == "user_code"


def test_a_store_hands_it_out_only_with_a_trusted_signature() -> None:
    assert PROGRAM not in DATA


def test_a_program_without_an_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="TensorRT runs no part of the model"):
        load(saved(tmp_path, None), example())


def test_a_damaged_program_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / PROGRAM_FILE).write_bytes(b"no archive")
    with pytest.raises(MeasureError, match="The Torch-TensorRT program cannot be loaded"):
        load(tmp_path, example())

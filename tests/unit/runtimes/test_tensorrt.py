"""TensorRT's engines, built and called through a module with its signatures: no GPU is needed.

The fake follows NVIDIA/TensorRT's Python bindings; support/fake_tensorrt.py names the files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.conversions.tensorrt_build import TensorRtBuild
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.torch_call import tensors_of
from benchorch.interfaces.conversion import BuildRequest
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.runtimes import tensorrt as member
from benchorch.runtimes.tensorrt import TensorRt
from support.fake_tensorrt import BuilderFlag, DataType, FakeTensorRt, Network, Tensor

PROFILE = {"batch_size": [1, 4, 8]}


def network(rows: int = 2, called: str = "x", dtype: str = "FLOAT") -> Network:
    return Network(
        inputs=[Tensor(called, (rows, 3))], outputs=[Tensor("y", (rows, 3), DataType[dtype])]
    )


def example(rows: int = 2, dynamic: tuple[str, ...] = ()) -> Example:
    return Example(
        arrays={"x": np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)},
        keywords={},
        specs=(TensorSpec(name="x", shape=("batch_size", 3), dtype="float32"),),
        dynamic=dynamic,
    )


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Network], FakeTensorRt]:
    """Puts TensorRT there, and a GPU whose memory is the processor's."""

    def put(made: Network) -> FakeTensorRt:
        fake, empty = FakeTensorRt(made), torch.empty
        stream = SimpleNamespace(wait_stream=lambda _: None, cuda_stream=0)
        monkeypatch.setitem(sys.modules, "tensorrt", fake)
        monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
        monkeypatch.setattr(torch, "empty", lambda *size, device, **kw: empty(*size, **kw))
        monkeypatch.setattr(
            member, "tensors_of", lambda arrays, device, dtypes: tensors_of(arrays, "cpu", dtypes)
        )
        return fake

    return put


def build(
    directory: Path, step: TensorRtBuild, given: Example, *, tf32: bool = False
) -> dict[Format, Path]:
    step.build(
        BuildRequest(
            module=torch.nn.Identity,
            source=directory,
            sources={Format.ONNX: directory},
            example=given,
            calibration=lambda _: given.arrays,
            out_dir=directory,
            scratch_dir=directory,
            device="cuda",
            tf32=tf32,
        )
    )
    return {Format.TENSORRT_ENGINE: directory}


def load(sources: dict[Format, Path], given: Example) -> Executable:
    return TensorRt().load(
        LoadRequest(
            module=torch.nn.Identity,
            source=None,
            sources=sources,
            example=given,
            device="cuda",
            threads=1,
            scratch_dir=Path(),
        )
    )


def call(executable: Executable, given: Example) -> Any:
    return executable.outputs(executable.bind(given.arrays)())["0"]


def test_an_engine_is_built_and_called(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network())
    found = call(load(build(tmp_path, TensorRtBuild(), example()), example()), example())
    np.testing.assert_array_equal(found, 2 * example().arrays["x"])


@pytest.mark.parametrize("tf32", [False, True])
def test_the_builder_rounds_products_only_where_the_protocol_lets_it(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path, *, tf32: bool
) -> None:
    fake = install(network())
    build(tmp_path, TensorRtBuild(), example(), tf32=tf32)
    assert (BuilderFlag.TF32 in fake.configs[0].flags) is tf32


def test_an_input_that_the_exporter_renamed_is_found(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network(called="x_orig"))
    found = call(load(build(tmp_path, TensorRtBuild(), example()), example()), example())
    np.testing.assert_array_equal(found, 2 * example().arrays["x"])


def test_an_input_that_the_model_has_not_is_a_failure_in_a_sentence(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network(called="z"))
    executable = load(build(tmp_path, TensorRtBuild(), example()), example())
    with pytest.raises(MeasureError, match="an input 'z'; the model's are x"):
        executable.bind(example().arrays)


def test_memory_that_tensorrt_refuses_is_a_failure(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network()).refused = ("y",)
    executable = load(build(tmp_path, TensorRtBuild(), example()), example())
    with pytest.raises(MeasureError, match="refused the memory of y"):
        executable.bind(example().arrays)


def test_one_engine_with_a_profile_serves_all_its_sizes(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    fake = install(network(rows=-1, called="x_orig"))
    step = TensorRtBuild(profile=PROFILE)
    sources = build(tmp_path, step, example(dynamic=("batch_size",)))
    assert fake.configs[0].profiles[0].shapes == {"x_orig": ((1, 3), (4, 3), (8, 3))}

    for rows in (1, 5, 8):
        found = call(load(sources, example(rows)), example(rows))
        np.testing.assert_array_equal(found, 2 * example(rows).arrays["x"])
    with pytest.raises(MeasureError, match=r"from \(1, 3\) to \(8, 3\), not \(9, 3\)"):
        load(sources, example(9)).bind(example(9).arrays)


def test_an_open_size_without_bounds_is_refused_before_tensorrt_is_imported(
    tmp_path: Path,
) -> None:
    with pytest.raises(BuildError, match="bounds for the open size 'batch_size'") as caught:
        build(tmp_path, TensorRtBuild(), example(dynamic=("batch_size",)))
    assert "profile='{batch_size: [1, 8, 32]}'" in caught.value.remedy


def test_bounds_of_what_is_not_open_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="bounds 'batch_size', which is not open") as caught:
        build(tmp_path, TensorRtBuild(profile=PROFILE), example())
    assert caught.value.remedy == "workload.dynamic=[batch_size]"


@pytest.mark.parametrize("sizes", [[8, 4, 1], [1, 2], [0, 1, 2], [1, 2.5, 3], 7, "1"])
def test_bounds_that_are_none_are_refused_with_an_example(sizes: object) -> None:
    with pytest.raises(ValueError, match=r"profile.batch_size: got .* e.g. \[1, 8, 32\]"):
        TensorRtBuild(profile={"batch_size": sizes})


def test_a_byte_wide_float_comes_back_as_float32(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network(dtype="FP8"))
    executable = load(build(tmp_path, TensorRtBuild(), example()), example())
    assert call(executable, example()).dtype == np.float32


def test_a_type_that_torch_has_not_is_named(
    install: Callable[[Network], FakeTensorRt], tmp_path: Path
) -> None:
    install(network(dtype="INT4"))
    executable = load(build(tmp_path, TensorRtBuild(), example()), example())
    with pytest.raises(MeasureError, match="has y in INT4") as caught:
        executable.bind(example().arrays)
    assert "cast to float16" in caught.value.remedy

"""A step that cannot convert a model says so in one sentence, with upstream's error behind it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.cast import Cast
from benchorch.conversions.export import Export
from benchorch.conversions.inductor_cache import InductorCompile
from benchorch.conversions.memory_format import ChannelsLast
from benchorch.conversions.onnx_export import OnnxExport
from benchorch.conversions.torchscript import TorchScript
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError
from benchorch.interfaces.conversion import BuildRequest, FileStep


class BranchesOnData(torch.nn.Module):
    """What no tracer can follow: its path depends on its input's values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("this model always fails")


def example(size: int = 4) -> Example:
    spec = TensorSpec(name="x", shape=("batch_size", size), dtype="float32")
    arrays = {"x": np.ones((2, size), np.float32)}
    return Example(arrays=arrays, keywords={}, specs=(spec,))


def request(module: torch.nn.Module, directory: Path) -> BuildRequest:
    return BuildRequest(
        module=lambda: module.eval(),
        source=None,
        example=example(),
        out_dir=directory,
        scratch_dir=directory,
        device="cpu",
    )


@pytest.mark.parametrize(
    ("step", "module", "who"),
    [
        (Export(), BranchesOnData(), "torch.export"),
        (Export(strict=True), BranchesOnData(), "torch.export"),
        (OnnxExport(), BranchesOnData(), "torch.onnx.export"),
        (InductorCompile(fullgraph=True), BranchesOnData(), "torch.compile"),
        (TorchScript(), Raises(), "torch.jit.trace"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_a_model_that_cannot_be_traced_is_refused(
    step: FileStep, module: torch.nn.Module, who: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildError) as caught:
        step.build(request(module, tmp_path))
    message = str(caught.value)
    assert message.startswith(f"{who} refused the model: ")
    assert len(message) > len(f"{who} refused the model: ")
    assert "\n" not in message
    assert "\x1b" not in message
    assert caught.value.kind == "build_refused"
    assert caught.value.__cause__ is not None


def test_the_models_own_sentence_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="this model always fails"):
        Export().build(request(Raises(), tmp_path))


def test_a_factory_that_fails_is_not_a_refusal(tmp_path: Path) -> None:
    def broken() -> torch.nn.Module:
        raise RuntimeError("no such checkpoint")

    job = BuildRequest(
        module=broken,
        source=None,
        example=example(),
        out_dir=tmp_path,
        scratch_dir=tmp_path,
        device="cpu",
    )
    with pytest.raises(RuntimeError, match="no such checkpoint"):
        Export().build(job)


def test_channels_last_is_refused_where_no_weight_has_channels() -> None:
    with pytest.raises(BuildError, match="4-D weights"):
        ChannelsLast().transform(torch.nn.Linear(4, 4), example())


def test_an_opset_that_the_exporter_cannot_write_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"at least 18.*got 9"):
        OnnxExport(opset=9)


def test_a_cast_reaches_parameters_and_buffers_but_not_whole_numbers() -> None:
    module = Cast(dtype="float16").transform(torch.nn.BatchNorm2d(3), example())
    assert module.weight.dtype == torch.float16
    assert module.running_mean.dtype == torch.float16
    assert module.num_batches_tracked.dtype == torch.int64

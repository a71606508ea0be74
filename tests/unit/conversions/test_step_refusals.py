"""A step that cannot convert a model says so in one sentence, with upstream's error behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.cast import Cast
from benchorch.conversions.export import Export
from benchorch.conversions.inductor_cache import InductorCompile
from benchorch.conversions.mkldnn import Mkldnn
from benchorch.conversions.onnx_export import OnnxExport
from benchorch.conversions.torchscript import TorchScript
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import BuildError, MeasureError
from benchorch.interfaces.conversion import BuildRequest, FileStep
from support import conversions as lab


class BranchesOnData(torch.nn.Module):
    """What no tracer can follow: its path depends on its input's values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Unscriptable(torch.nn.Module):
    def forward(self, x: torch.Tensor, **more: int) -> torch.Tensor:
        return x


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("this model always fails")


def example(size: int = 4, rows: int = 2) -> Example:
    spec = TensorSpec(name="x", shape=("batch_size", size), dtype="float32")
    arrays = {"x": np.ones((rows, size), np.float32)}
    return Example(arrays=arrays, keywords={}, specs=(spec,))


def request(module: torch.nn.Module, directory: Path) -> BuildRequest:
    return BuildRequest(
        module=lambda: module.eval(),
        source=None,
        sources={},
        example=example(),
        calibration=lambda _: example().arrays,
        out_dir=directory,
        scratch_dir=directory,
        device="cpu",
    )


@pytest.mark.parametrize(
    ("step", "module", "who"),
    [
        (Export(), BranchesOnData(), "torch.export"),
        (Export(strict=True), BranchesOnData(), "torch.export"),
        (TorchScript(method="script"), Unscriptable(), "torch.jit.script"),
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


@pytest.mark.parametrize("step", [Export(), Export(strict=True), InductorCompile(fullgraph=True)])
def test_a_branch_on_data_is_refused_with_its_line(step: FileStep, tmp_path: Path) -> None:
    module = BranchesOnData()
    line = module.forward.__code__.co_firstlineno + 1
    with pytest.raises(BuildError, match=r"(?i)data-dependent") as caught:
        step.build(request(module, tmp_path))
    assert f"({Path(__file__).name}:{line} in forward)" in str(caught.value)
    assert "refused the model: it branches on a tensor's value" in str(caught.value)


def test_an_open_size_is_refused_where_no_size_may_change(tmp_path: Path) -> None:
    job = request(Doubles(), tmp_path)
    job = replace(job, example=replace(job.example, dynamic=("batch_size",)))
    with pytest.raises(BuildError, match=r"dynamic=false leaves no size open.*batch_size"):
        InductorCompile(dynamic=False).build(job)


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class FixesItsSize(torch.nn.Module):
    """A trace takes the number of rows for a constant."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(x)


def test_a_trace_that_fixed_an_open_size_is_refused(tmp_path: Path) -> None:
    job = request(FixesItsSize(), tmp_path)
    TorchScript().build(job)
    job = replace(job, example=replace(job.example, dynamic=("batch_size",)))
    with pytest.raises(BuildError, match=r"has fixed a size.*batch_size"):
        TorchScript().build(job)


class TakesNoMoreRows(torch.nn.Module):
    """The workload's size is its largest, as with learnt positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.eye(4)[: x.shape[0]]


class TakesNoFewerRows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.unfold(0, 3, 1).sum(-1).mean(0)


class ChangesItsInput(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x *= 2
        return x + 1


class Undefined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sub(x).log().log()


@pytest.mark.parametrize(
    "kind", [Doubles, TakesNoMoreRows, TakesNoFewerRows, ChangesItsInput, Undefined]
)
def test_a_trace_of_any_size_keeps_it_open(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    job = request(kind(), tmp_path)
    job = replace(job, example=example(rows=4))
    TorchScript().build(replace(job, example=replace(job.example, dynamic=("batch_size",))))
    assert (tmp_path / "model.pt").exists()


def test_a_script_that_torch_cannot_read_back_is_refused(tmp_path: Path) -> None:
    kernel = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    spec = TensorSpec(name="input", shape=(2, 3, 8, 8), dtype="float32")
    images = Example(
        arrays={"input": np.ones((2, 3, 8, 8), np.float32)}, keywords={}, specs=(spec,)
    )
    job = replace(request(kernel, tmp_path), example=images)
    with pytest.raises(BuildError, match="cannot load again"):
        TorchScript(optimize="inference").build(job)


def test_fullgraph_and_eager_fallback_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="choose one"):
        InductorCompile(fullgraph=True, eager_fallback=True)


def test_mkldnn_is_refused_where_an_operator_cannot_read_its_layout() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.Softplus())
    spec = TensorSpec(name="input", shape=(2, 1, 4, 4), dtype="float32")
    images = Example(
        arrays={"input": np.ones((2, 1, 4, 4), np.float32)}, keywords={}, specs=(spec,)
    )
    with pytest.raises(BuildError, match="oneDNN refused the model"):
        Mkldnn().transform(module, images)
    assert Mkldnn().unavailable("cuda")


class MaskedAttention(torch.nn.Module):
    """Its mask has four axes, as an image has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = self.inner(x)
        return torch.softmax(found @ found.mT + mask[:, 0], -1) @ found


def test_mkldnn_leaves_a_mask_as_it_is_where_no_layer_takes_images() -> None:
    arrays = {"x": np.ones((2, 5, 8), np.float32), "mask": np.zeros((2, 1, 5, 5), np.float32)}
    specs = [
        TensorSpec(name=name, shape=each.shape, dtype="float32") for name, each in arrays.items()
    ]
    module = MaskedAttention().eval().requires_grad_(False)
    inputs = {name: torch.from_numpy(each) for name, each in arrays.items()}
    expected = module(**inputs)
    packed = Mkldnn().transform(module, Example(arrays=arrays, keywords={}, specs=tuple(specs)))
    assert torch.allclose(packed(**inputs), expected, atol=1e-5)


def test_the_models_own_sentence_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="this model always fails"):
        Export().build(request(Raises(), tmp_path))


def test_a_factory_that_fails_is_not_a_refusal(tmp_path: Path) -> None:
    def broken() -> torch.nn.Module:
        raise RuntimeError("no such checkpoint")

    job = BuildRequest(
        module=broken,
        source=None,
        sources={},
        example=example(),
        calibration=lambda _: example().arrays,
        out_dir=tmp_path,
        scratch_dir=tmp_path,
        device="cpu",
    )
    with pytest.raises(RuntimeError, match="no such checkpoint"):
        Export().build(job)


def test_an_opset_that_the_exporter_cannot_write_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"at least 18.*got 9"):
        OnnxExport(opset=9)


def test_a_cast_reaches_parameters_and_buffers_but_not_whole_numbers() -> None:
    module = Cast(dtype="float16").transform(torch.nn.BatchNorm2d(3), example())
    assert module.weight.dtype == torch.float16
    assert module.running_mean.dtype == torch.float16
    assert module.num_batches_tracked.dtype == torch.int64


def test_a_cast_leaves_complex_tensors_complex() -> None:
    module = torch.nn.Linear(2, 2)
    module.register_buffer("turn", torch.tensor(1 + 2j))
    assert Cast(dtype="bfloat16").transform(module, example()).turn == 1 + 2j
    assert module.weight.dtype == torch.bfloat16


def test_a_dtype_that_a_backend_cannot_compute_in_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises((BuildError, MeasureError), match="bfloat16") as caught:
        lab.converted(lab.chain_of("bf16+onnxruntime", "Convolution"), tmp_path)
    assert "\n" not in str(caught.value)

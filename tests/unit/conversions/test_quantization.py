"""Quantised models: what is kept, what is restored, what is calibrated, what is refused.

Each is built by the build stage and loaded again by a process that does nothing else.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.conversions.dynamic_quantization import DynamicQuantization
from benchorch.conversions.fx_quantization import FxQuantization
from benchorch.conversions.pt2e import Pt2e
from benchorch.conversions.quanto import Quanto
from benchorch.conversions.torchao import TorchAo
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.torch_program import load_program
from benchorch.host.packages import install_command
from benchorch.interfaces.conversion import BuildRequest, FileStep, Step
from benchorch.trial.build_keys import Keys
from support import conversions as lab

CASES = [
    ("dynamic_int8", "Transformer"),
    ("torchao_int8_weight_only", "Transformer"),
    ("pt2e_int8", "Convolution"),
]
MORE = [
    ("fx_int8", "Convolution"),
    ("quanto_int8_activations", "Transformer"),
    ("dynamic_fp16", "Masked"),
    ("fx_fake_int8", "Transformer"),
    ("torchao_int8_dynamic", "Masked"),
    ("torchao_int4_weight_only", "Wide"),
    ("torchao_int8_dynamic_int4", "Wide"),
    ("torchao_float8_weight_only", "Transformer"),
    ("quanto_int8", "Convolution"),
    ("quanto_int4", "Wide"),
    ("quanto_int4_activations", "Convolution"),
    ("quanto_int2", "Convolution"),
    ("quanto_float8_e4m3fn", "Transformer"),
    ("quanto_float8_e4m3fnuz", "Masked"),
    ("quanto_float8_e5m2", "Wide"),
    ("pt2e_int8_dynamic", "Wide"),
    ("pt2e_fake_int8", "Masked"),
    ("export+pt2e_int8", "Convolution"),
    ("bf16+torchao_int4_weight_only", "Wide"),
    ("pt2e_int8+decompositions", "Transformer"),
]
"""Their imports and their fresh processes take minutes together."""


def runnable(name: str, model: str) -> lab.TrialSetup:
    chain = lab.chain_of(name, model)
    reason = lab.cannot_run(chain)
    if reason:
        pytest.skip(f"{name}: {reason}")
    return chain


@pytest.mark.parametrize(
    ("name", "model"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_a_fresh_process_computes_exactly_what_was_built(
    name: str, model: str, tmp_path: Path
) -> None:
    chain = runnable(name, model)
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    here = lab.outputs_of(chain, executable)
    executable.close()

    there, facts, modules = lab.in_fresh_process(name, model, made, tmp_path)

    lab.assert_same(there, lab.reference_of(made), chain.tolerance_ratio)
    for output, values in here.items():
        np.testing.assert_array_equal(there[output], values)
    assert sum(facts["quantised"].values()) > 0
    assert "torch._inductor.compile_fx" not in modules
    if "pt2e" in name:
        assert "torchao" not in modules


@pytest.mark.slow
@pytest.mark.parametrize("part", ["aot_inductor_freezing", "inductor_freezing"])
def test_a_compiler_takes_what_pt2e_marked(part: str, tmp_path: Path) -> None:
    chain = runnable(f"pt2e_int8+{part}", "Convolution")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    found = lab.outputs_of(chain, executable)
    executable.close()
    lab.assert_same(found, lab.reference_of(made), chain.tolerance_ratio)


def request_of(
    chain: lab.TrialSetup, out: Path, *, scale: float = 1, module: torch.nn.Module | None = None
) -> BuildRequest:
    """A step's request, its calibration inputs that much larger than the model's own."""

    def calibration(number: int) -> Mapping[str, Any]:
        arrays = chain.calibration(number)
        return {k: v * v.dtype.type(scale) for k, v in arrays.items()}

    out.mkdir(parents=True, exist_ok=True)
    return BuildRequest(
        module=lambda: module or chain.model.load(0),
        source=None,
        sources={},
        example=chain.example(0),
        calibration=calibration,
        out_dir=out,
        scratch_dir=out,
        device="cpu",
        threads=1,
    )


def exported(request: BuildRequest, name: str = "export_strict") -> BuildRequest:
    """The same request after an export."""
    export = dict(lab.chain_of(name).steps)["export"]
    assert isinstance(export, FileStep)
    out = request.out_dir.parent / "exported"
    out.mkdir(exist_ok=True)
    export.build(replace(request, out_dir=out))
    return replace(request, source=out, sources={Format.EXPORTED_PROGRAM: out})


def quanto_scale(tmp_path: Path, scale: float) -> float:
    from safetensors.torch import load_file

    chain = lab.chain_of("eager", "Wide")
    Quanto(weights="int8", activations="int8").build(request_of(chain, tmp_path, scale=scale))
    return float(load_file(tmp_path / "state.safetensors")["first.input_scale"])


def fx_scale(tmp_path: Path, scale: float) -> float:
    chain = lab.chain_of("eager", "Wide")
    FxQuantization().build(request_of(chain, tmp_path, scale=scale))
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    return float(state["x_scale_0"] if "x_scale_0" in state else state["first_input_scale_0"])


def pt2e_scale(tmp_path: Path, scale: float) -> float:
    chain = lab.chain_of("eager", "Wide")
    Pt2e().build(exported(request_of(chain, tmp_path / "out", scale=scale)))
    graph = load_program(tmp_path / "out").graph
    first = next(n for n in graph.nodes if "quantize_per_tensor" in str(n.target))
    return float(first.args[1])


@pytest.mark.parametrize("scale_of", [quanto_scale, fx_scale, pt2e_scale])
def test_activations_take_their_scale_from_the_calibration_inputs(
    scale_of: Any, tmp_path: Path
) -> None:
    package = {"quanto_scale": "optimum.quanto", "pt2e_scale": "torchao"}.get(scale_of.__name__)
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    own, larger = scale_of(tmp_path / "1", 1), scale_of(tmp_path / "8", 8)
    assert larger / own == pytest.approx(8, rel=0.1)


class Routed(torch.nn.Module):
    """One of two experts for the whole call."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Linear(64, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.experts[int(x.mean() > 0)](x)


def test_an_input_that_does_not_reach_a_layer_leaves_its_scale_alone(tmp_path: Path) -> None:
    pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")
    from safetensors.torch import load_file

    request = request_of(lab.chain_of("eager", "Wide"), tmp_path, module=Routed().eval())
    inputs = [np.full((2, 64), value, np.float32) for value in (-0.5, 0.25)]
    request = replace(request, calibration=lambda number: {"x": inputs[number]})
    Quanto(weights="int8", activations="int8", samples=2).build(request)

    state = load_file(tmp_path / "state.safetensors")
    found = [float(state[f"experts.{expert}.input_scale"]) for expert in range(2)]
    assert found == pytest.approx([0.5 / 127, 0.25 / 127])


def test_torchao_keeps_int8_weights_and_no_float_ones(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    chain = lab.chain_of("torchao_int8_weight_only", "Wide")
    made = lab.built(chain, tmp_path)
    module = lab.module_of(chain, made.states)()

    weights = [module.first.weight, module.second.weight]
    assert {weight.qdata.dtype for weight in weights} == {torch.int8}
    floats = sum(4 * weight.numel() for weight in weights)
    # A quarter of them, and some 4 kB that every such file has.
    assert made.record.artifact_bytes < floats / 2


def test_quanto_keeps_int8_weights_and_no_float_ones(tmp_path: Path) -> None:
    pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")
    from safetensors.torch import load_file

    chain = lab.chain_of("eager", "Wide")
    Quanto(weights="int8").build(request_of(chain, tmp_path))
    state = load_file(tmp_path / "state.safetensors")

    assert state["first.weight._data"].dtype == torch.int8
    matrices = [each for each in state.values() if each.dim() == 2 and each.shape[1] > 1]
    assert {each.dtype for each in matrices} == {torch.int8}


def test_pt2e_keeps_int8_weights_and_no_float_ones(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    Pt2e().build(exported(request_of(lab.chain_of("eager", "Wide"), tmp_path / "out")))
    state = load_program(tmp_path / "out").state_dict
    matrices = [each.dtype for each in state.values() if each.dim() == 2]
    assert matrices == [torch.int8, torch.int8]


def test_fake_quantisation_keeps_float_weights(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    step = Pt2e(fold_weights=False)
    step.build(exported(request_of(lab.chain_of("eager", "Wide"), tmp_path / "out")))
    state = load_program(tmp_path / "out").state_dict
    assert [each.dtype for each in state.values() if each.dim() == 2] == [torch.float32] * 2


def test_an_open_size_stays_open_through_pt2e(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    request = request_of(lab.chain_of("eager", "Wide"), tmp_path / "out")
    Pt2e().build(exported(request, "export_dynamic"))
    module = load_program(tmp_path / "out").module()
    assert module(x=torch.zeros(5, 64))[0].shape == (5, 32)


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.forget = torch.nn.LSTM(64, 16)
        self.gate = torch.nn.GRU(16, 16)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gate(self.forget(x)[0])[0])


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_recurrent_layers_come_back_as_they_were(dtype: Any, tmp_path: Path) -> None:
    def fresh() -> torch.nn.Module:
        torch.manual_seed(0)
        return Recurrent().eval().requires_grad_(False)

    step, chain, changed = DynamicQuantization(dtype=dtype), lab.chain_of("eager", "Wide"), fresh()
    step.build(request_of(chain, tmp_path, module=changed))
    restored = step.restore(fresh(), tmp_path, chain.example(0))

    x = torch.randn(3, 5, 64)
    assert torch.equal(restored(x), changed(x))
    assert not torch.equal(restored(x), fresh()(x))
    assert type(restored.forget).__module__.startswith("torch.ao.nn.quantized.dynamic")


@pytest.mark.parametrize("kind", [torch.nn.Linear, torch.nn.GRU])
def test_a_layer_with_two_names_comes_back_as_torch_left_it(
    kind: type[torch.nn.Module], tmp_path: Path
) -> None:
    def fresh() -> torch.nn.Module:
        torch.manual_seed(0)
        made = torch.nn.Module()
        made.first = made.second = kind(64, 64)
        return made.eval().requires_grad_(False)

    step, chain, changed = DynamicQuantization(), lab.chain_of("eager", "Wide"), fresh()
    step.build(request_of(chain, tmp_path, module=changed))
    restored = step.restore(fresh(), tmp_path, chain.example(0))

    x = torch.randn(3, 5, 64)
    assert torch.equal(restored.first(x)[0], changed.first(x)[0])
    assert torch.equal(restored.second(x)[0], changed.second(x)[0])


class TrainsOtherwise(torch.nn.Module):
    """Dropout and an auxiliary output while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> Any:
        found = torch.nn.functional.dropout(self.body(x), 0.5, self.training)
        return (self.head(found), found) if self.training else self.head(found)


def test_fake_quantisation_has_the_branches_of_evaluation(tmp_path: Path) -> None:
    step, chain = FxQuantization(fake=True), lab.chain_of("eager", "Wide")
    step.build(request_of(chain, tmp_path, module=TrainsOtherwise().eval()))
    restored = step.restore(TrainsOtherwise().eval(), tmp_path, chain.example(0))

    x = torch.ones(2, 64)
    assert torch.equal(restored(x), restored(x))


class Attentive(torch.nn.Module):
    """Attention, whose own projection is a Linear that torch never quantises."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        self.head = torch.nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.attention(x, x, x, need_weights=False)[0])


def test_the_projection_of_attention_is_left_as_torch_leaves_it(tmp_path: Path) -> None:
    def fresh() -> torch.nn.Module:
        torch.manual_seed(0)
        return Attentive().eval().requires_grad_(False)

    step, chain, changed = DynamicQuantization(dtype="int8"), lab.chain_of("eager", "Wide"), fresh()
    step.build(request_of(chain, tmp_path, module=changed))
    restored = step.restore(fresh(), tmp_path, chain.example(0))

    x = torch.randn(3, 5, 64)
    assert torch.equal(restored(x), changed(x))
    assert type(restored.head).__module__.startswith("torch.ao.nn.quantized.dynamic")


def test_other_calibration_inputs_are_another_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(name: str) -> str:
        chain = lab.chain_of(name)
        load = lambda: chain.model.load(0)  # noqa: E731
        keys = Keys(chain, threads=1, directory=tmp_path, load=load)
        return keys.after(len(chain.steps)).digest

    names = ("fx_int8", "export", "torchscript", "openvino", "torchscript_script")
    calibrated, plain, traced, exported, scripted = map(digest, names)
    own = lab.TinyModel.batch

    def louder(self: Any, workload: Any, seed: int) -> Any:
        return {name: array * 8 for name, array in own(self, workload, seed).items()}

    monkeypatch.setattr(lab.TinyModel, "batch", louder)
    assert digest("fx_int8") != calibrated
    assert digest("export") == plain
    assert digest("torchscript") != traced  # it has the branches that its example took
    assert digest("openvino") == exported
    assert digest("torchscript_script") == scripted


class Copies(torch.nn.Module):
    """Nothing to quantise."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.embed.weight.sum()


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (TorchAo(scheme="int8_weight_only"), "quantises torch.nn.Linear, and the model has none"),
        (Quanto(weights="int8"), "Linear and Conv2d layers; this model has none"),
        (DynamicQuantization(), "Linear, LSTM and GRU, and the model has none"),
        (FxQuantization(), "found no layer in the model"),
        (Pt2e(), "found nothing in the model"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Step) else "",
)
def test_a_model_with_nothing_to_quantise_is_refused(
    step: FileStep, sentence: str, tmp_path: Path
) -> None:
    for package in set(type(step).requires) - {"torch"}:
        pytest.importorskip(package.replace("-", "."), reason=f"{package} is not installed")
    chain = lab.chain_of("eager", "Wide")
    request = request_of(chain, tmp_path / "out", module=Copies().eval())
    if isinstance(step, Pt2e):
        request = exported(request)
    with pytest.raises(BuildError, match=sentence):
        step.build(request)


def test_sizes_that_no_kernel_takes_are_named(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    module = torch.nn.Linear(24, 8).eval()
    request = request_of(lab.chain_of("eager", "Wide"), tmp_path / "out", module=module)
    with pytest.raises(BuildError, match="that 16 divides, and the model has none among its 1"):
        TorchAo(scheme="int4_weight_only").build(request)


def test_a_model_that_symbolic_tracing_cannot_follow_is_refused(tmp_path: Path) -> None:
    chain = lab.chain_of("eager", "Masked")
    with pytest.raises(BuildError, match="FX quantisation refused the model: symbolically"):
        FxQuantization().build(request_of(chain, tmp_path))


def test_a_decomposed_program_is_not_quantised(tmp_path: Path) -> None:
    chain = runnable("decompositions+pt2e_int8", "Wide")
    with pytest.raises(BuildError, match="decomposed already"):
        lab.built(chain, tmp_path)


def test_no_step_calibrates_on_nothing() -> None:
    for make in (Pt2e, FxQuantization):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            make(samples=0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Quanto(weights="int8", activations="int8", samples=0)


def test_devices_without_kernels_are_told_apart_from_missing_packages() -> None:
    dynamic = TorchAo(scheme="float8_dynamic").unavailable("cpu")
    assert dynamic is not None
    assert "8.9" in dynamic
    for step in (Pt2e(), DynamicQuantization(), FxQuantization()):
        assert "CPU" in str(step.unavailable("cuda"))


def test_packages_are_looked_for_by_what_a_step_requires() -> None:
    for step in (TorchAo(scheme="int8_dynamic"), Quanto(weights="int8"), Pt2e()):
        assert install_command(step.requires[1:]) == "pip install 'benchorch[quantization]'"
        assert step.unavailable("cpu") is None


class Command:
    """What a hostile pickle would run."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    "step", [DynamicQuantization(), FxQuantization(), TorchAo(scheme="int8_dynamic")]
)
def test_a_state_that_would_run_code_is_not_loaded(
    step: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(step, TorchAo):
        pytest.importorskip("torchao", reason="torchao is not installed")
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Command()}, tmp_path / "state.pt", pickle_module=pickle)
    chain = lab.chain_of("eager", "Wide")
    with pytest.raises(MeasureError, match="cannot be loaded"):
        step.restore(chain.model.load(0), tmp_path, chain.example(0))
    assert not (tmp_path / "ran").exists()


def test_the_state_of_another_model_is_not_taken(tmp_path: Path) -> None:
    pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")
    Quanto(weights="int8").build(request_of(lab.chain_of("eager", "Wide"), tmp_path))
    other = lab.chain_of("eager", "Convolution")
    example: Example = other.example(0)
    with pytest.raises(MeasureError, match=r"belongs to another model|cannot be loaded"):
        Quanto(weights="int8").restore(other.model.load(0), tmp_path, example)


QUIET = """
from benchorch.conversions.quantization import quietly
with quietly():
    import torchao.quantization.pt2e.quantize_pt2e
    import optimum.quanto
"""


@pytest.mark.slow
def test_importing_the_packages_prints_nothing() -> None:
    for package in ("torchao", "optimum.quanto"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    finished = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, text=True, check=True
    )
    assert finished.stdout + finished.stderr == ""


@pytest.mark.slow
def test_what_unpacks_4_bits_is_compiled_while_building_and_kept_with_the_weights(
    tmp_path: Path,
) -> None:
    quanto = pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")
    package = Path(quanto.__file__).parent
    before = sorted(package.rglob("*.so"))
    Quanto(weights="int4").build(request_of(lab.chain_of("eager", "Wide"), tmp_path))
    assert (tmp_path / "quanto_cpp.so").exists()
    assert sorted(package.rglob("*.so")) == before
    assert json.loads((tmp_path / "layers.json").read_text())["first"]["weights"] == "qint4"

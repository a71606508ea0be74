"""What torch.compile leaves for another process, and what it does to this one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.inductor_cache import InductorCompile
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.interfaces.conversion import BuildRequest
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.runtimes.inductor import Inductor

# All tests compile into one cache, which makes this quick.
SCRATCH = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])


class Splits(torch.nn.Module):
    """Dynamo breaks its graph at the branch and compiles both parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1


def example(rows: int = 2) -> Example:
    spec = TensorSpec(name="x", shape=("batch_size", 4), dtype="float32")
    return Example(arrays={"x": np.ones((rows, 4), np.float32)}, keywords={}, specs=(spec,))


def built(step: InductorCompile, module: torch.nn.Module, directory: Path) -> None:
    step.build(
        BuildRequest(
            module=lambda: module.eval(),
            source=None,
            sources={},
            example=example(),
            calibration=lambda _: example().arrays,
            out_dir=directory,
            scratch_dir=SCRATCH,
            device="cpu",
        )
    )


def loaded(module: torch.nn.Module, directory: Path, *, comes_again: bool = False) -> Executable:
    return Inductor().load(
        LoadRequest(
            module=lambda: module.eval(),
            source=directory,
            sources={Format.INDUCTOR_CACHE: directory},
            example=example(),
            device="cpu",
            threads=1,
            scratch_dir=SCRATCH,
            comes_again=comes_again,
        )
    )


def surroundings() -> list[object]:
    names = sorted(name for name in os.environ if "CACHE_DIR" in name)
    return [
        {name: os.environ[name] for name in names},
        torch._inductor.config.freezing,
        torch._dynamo.config.suppress_errors,
    ]


def test_options_travel_and_the_process_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
    before = surroundings()

    built(InductorCompile(freezing=True, dynamic=False), Splits(), tmp_path)
    options = json.loads((tmp_path / "options.json").read_text())
    executable = loaded(Splits(), tmp_path)
    outputs = executable.outputs(executable.bind(example().arrays)())
    facts = dict(executable.facts())
    executable.close()

    assert options["compile"] == {"mode": "default", "fullgraph": False, "dynamic": False}
    assert options["inductor"]["freezing"] is True
    np.testing.assert_array_equal(outputs["0"], example().arrays["x"] * 2)
    assert facts["compiled_graphs"] == 2
    assert facts["graph_breaks"] == 1
    assert facts["graph_break_reasons"] == ["Data-dependent branching"]
    line = Splits.forward.__code__.co_firstlineno + 1
    assert facts["graph_break_lines"] == [f"{Path(__file__).name}:{line}"]
    assert facts["uncompiled_frames"] == 0
    assert facts["recompiles"] == 0
    assert facts["fused_kernels"] == 2
    assert surroundings() == before
    assert not [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_another_size_is_a_recompilation_that_is_told(tmp_path: Path) -> None:
    built(InductorCompile(mode="lite"), Doubles(), tmp_path)
    executable = loaded(Doubles(), tmp_path)
    for rows in (2, 3):
        arrays = example(rows).arrays
        outputs = executable.outputs(executable.bind(arrays)())
        np.testing.assert_array_equal(outputs["0"], arrays["x"] * 2)
    facts = dict(executable.facts())
    executable.close()

    assert facts["recompiles"] == 1
    assert "size mismatch" in str(facts["recompile_reasons"])


class Weighs(torch.nn.Module):
    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), weight), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


@pytest.mark.parametrize(("freezing", "graphs"), [(False, 0), (True, 1)])
def test_a_model_that_comes_again_is_traced_again_only_where_weights_are_in_the_code(
    tmp_path: Path, *, freezing: bool, graphs: int
) -> None:
    built(InductorCompile(freezing=freezing), Weighs(2.0), tmp_path)
    first = loaded(Weighs(2.0), tmp_path, comes_again=True)
    first.bind(example().arrays)()
    first.close()

    again = loaded(Weighs(5.0), tmp_path)
    outputs = again.outputs(again.bind(example().arrays)())
    facts = again.facts()
    again.close()

    assert facts["compiled_graphs"] == graphs
    np.testing.assert_array_equal(outputs["0"], example().arrays["x"] * 5)

    last = loaded(Weighs(5.0), tmp_path)
    last.bind(example().arrays)()
    assert last.facts()["compiled_graphs"] == 1  # closing has undone everything
    last.close()


class Triples(torch.nn.Module):
    """Compiled nowhere else, so that no cache has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def test_what_cannot_be_compiled_runs_eagerly_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler today")

    monkeypatch.setattr("torch._inductor.compile_fx._compile_fx_inner", refuse)
    built(InductorCompile(eager_fallback=True), Triples(), tmp_path)
    executable = loaded(Triples(), tmp_path)
    outputs = executable.outputs(executable.bind(example().arrays)())
    facts = dict(executable.facts())
    executable.close()

    np.testing.assert_array_equal(outputs["0"], example().arrays["x"] * 3)
    assert facts["uncompiled_frames"] == 1
    assert "no compiler today" in str(facts["compile_errors"])


@dataclass(frozen=True)
class Mode:
    name: str
    told: bool


@pytest.mark.parametrize(
    "mode", [Mode("reduce-overhead", True), Mode("default", False)], ids=lambda mode: mode.name
)
def test_a_mode_that_does_nothing_on_a_cpu_says_so(mode: Mode, tmp_path: Path) -> None:
    built(InductorCompile(mode=mode.name), Doubles(), tmp_path)  # type: ignore[arg-type]
    facts = dict(loaded(Doubles(), tmp_path).facts())
    assert ("a CPU has no CUDA graphs" in str(facts.get("cuda_graphs"))) is mode.told

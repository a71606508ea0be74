"""What every YAML under conf/conversion promises: it binds, it joins, it computes the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from numpy.typing import NDArray
from omegaconf import OmegaConf

from benchorch.components import make
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.interfaces.conversion import BuildRequest, FileStep, ModuleStep, Step
from benchorch.interfaces.runtime import LoadRequest, Runtime

CONF = Path(__file__).resolve().parents[2] / "conf"
NAMES = sorted(path.stem for path in (CONF / "conversion").glob("*.yaml"))
THREADS = 1
COMPILED = (Format.AOTI_PACKAGE, Format.INDUCTOR_CACHE)
COMPILED_BY_DEFAULT = ("inductor",)
"""A compilation takes 10 to 20 CPU seconds; the others run with ``-m slow``.

AOTInductor's default one is compiled below, for a fresh process.
"""


@cache
def conversion(name: str) -> dict[str, Any]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = OmegaConf.to_container(compose(overrides=[f"+conversion={name}"]))
    assert isinstance(composed, dict)
    return dict(composed["conversion"])


@dataclass(frozen=True)
class Chain:
    steps: tuple[Step, ...]
    runtime: Runtime

    @classmethod
    def of(cls, name: str) -> Chain:
        node = conversion(name)
        steps = [make(step, Step, f"{name}.{key}") for key, step in node["steps"].items()]  # type: ignore[type-abstract]
        return cls(tuple(steps), make(node["runtime"], Runtime, f"{name}.runtime"))  # type: ignore[type-abstract]


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Masked(torch.nn.Module):
    """Two inputs, a keyword that is no tensor, and a nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.head = torch.nn.Linear(8, 4)

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, double: bool = False
    ) -> dict[str, object]:
        hidden = self.embed(ids) * mask.unsqueeze(-1)
        logits = self.head(hidden) * (2 if double else 1)
        return {"logits": logits, "more": (hidden.sum(1), logits.argmax(-1))}


class Convolution(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)


def seeded(model: type[torch.nn.Module]) -> Callable[[], torch.nn.Module]:
    def load() -> torch.nn.Module:
        torch.manual_seed(0)
        return model().eval()

    return load


def example_of(
    model: type[torch.nn.Module], batch_size: int = 2, *, open_batch: bool = False
) -> Example:
    rng = np.random.default_rng(0)
    keywords: Mapping[str, bool] = {}
    if model is Masked:
        specs = (
            TensorSpec(name="ids", shape=("batch_size", 5), dtype="int64"),
            TensorSpec(name="mask", shape=("batch_size", 5), dtype="float32"),
        )
        keywords = {"double": True}
    elif model is Convolution:
        specs = (TensorSpec(name="image", shape=("batch_size", 3, 8, 8), dtype="float32"),)
    else:
        specs = (TensorSpec(name="x", shape=("batch_size", 16), dtype="float32"),)
    shapes = {spec.name: spec.resolve({"batch_size": batch_size}) for spec in specs}
    arrays = {
        spec.name: rng.integers(0, 11, shapes[spec.name])
        if spec.dtype == "int64"
        else rng.standard_normal(shapes[spec.name], dtype=np.float32)
        for spec in specs
    }
    dynamic = ("batch_size",) if open_batch else ()
    return Example(arrays=arrays, keywords=keywords, specs=specs, dynamic=dynamic)


def prepared(
    chain: Chain, load: Callable[[], torch.nn.Module], example: Example, directory: Path
) -> LoadRequest:
    """The chain's file steps really run, and what its runtime is given then."""

    def module() -> torch.nn.Module:
        changed = load()
        for step in chain.steps:
            changed = step.transform(changed, example) if isinstance(step, ModuleStep) else changed
        return changed

    source = None
    scratch = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])  # of all tests, which saves minutes
    for index, step in enumerate(each for each in chain.steps if isinstance(each, FileStep)):
        out = directory / str(index)
        out.mkdir()
        step.build(
            BuildRequest(
                module=module,
                source=source,
                example=example,
                out_dir=out,
                scratch_dir=scratch,
                device="cpu",
            )
        )
        source = out
    return LoadRequest(
        module=module,
        source=source,
        example=example,
        device="cpu",
        threads=THREADS,
        scratch_dir=scratch,
    )


def reference(load: Callable[[], torch.nn.Module], example: Example) -> list[NDArray[np.generic]]:
    inputs = {name: torch.tensor(array) for name, array in example.arrays.items()}
    with torch.no_grad():
        raw = load()(**inputs, **example.keywords)
    return [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(raw)]


def relative_l2(found: NDArray[np.generic], expected: NDArray[np.generic]) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))  # type: ignore[operator]


def assert_same(
    outputs: Mapping[str, NDArray[np.generic]],
    expected: list[NDArray[np.generic]],
    tolerance_ratio: float,
) -> None:
    assert list(outputs) == [str(index) for index in range(len(expected))]
    for found, wanted in zip(outputs.values(), expected, strict=True):
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        assert relative_l2(found, wanted) <= tolerance_ratio


def cases() -> list[Any]:
    def is_slow(name: str) -> bool:
        compiled = type(Chain.of(name).runtime).consumes in COMPILED
        return compiled and name not in COMPILED_BY_DEFAULT

    return [pytest.param(name, marks=[pytest.mark.slow] * is_slow(name)) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is_and_how_wrong_it_may_be(name: str) -> None:
    node = conversion(name)
    assert set(node) == {"description", "tolerance_ratio", "steps", "runtime"}
    assert node["description"].endswith(".")
    assert 0 < node["tolerance_ratio"] < 0.2


@pytest.mark.parametrize("name", NAMES)
def test_its_links_join(name: str) -> None:
    chain = Chain.of(name)
    have = Format.MODULE
    for link in chain.steps:
        assert type(link).consumes is have
        have = type(link).produces
    assert type(chain.runtime).consumes is have


@pytest.mark.parametrize("name", NAMES)
def test_its_links_declare_what_enters_a_build_key(name: str) -> None:
    chain = Chain.of(name)
    for link in (*chain.steps, chain.runtime):
        assert type(link).version >= 1
        assert type(link).requires
    for step in chain.steps:
        assert isinstance(step, ModuleStep | FileStep)
        assert isinstance(type(step).depends_on, tuple)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_available_on_a_cpu(name: str) -> None:
    assert Chain.of(name).runtime.unavailable("cpu") is None


@pytest.mark.parametrize("name", cases())
def test_it_computes_what_eager_computes(name: str, tmp_path: Path) -> None:
    model = Convolution if "channels_last" in conversion(name)["steps"] else Mlp
    load, example, chain = seeded(model), example_of(model), Chain.of(name)

    executable = chain.runtime.load(prepared(chain, load, example, tmp_path))
    outputs = executable.outputs(executable.bind(example.arrays)())
    facts = executable.facts()
    executable.close()

    assert_same(outputs, reference(load, example), conversion(name)["tolerance_ratio"])
    assert facts["threads"] == THREADS
    assert facts["device"] == "cpu"
    assert facts["dtype"] == ("bfloat16" if "cast" in conversion(name)["steps"] else "float32")
    assert facts["provider"]


CHEAP = [
    name
    for name in NAMES
    if type(Chain.of(name).runtime).consumes not in COMPILED
    and "channels_last" not in conversion(name)["steps"]
]


@pytest.mark.parametrize("name", [*CHEAP, pytest.param("aot_inductor", marks=pytest.mark.slow)])
def test_two_inputs_a_constant_and_a_nested_result_survive(name: str, tmp_path: Path) -> None:
    load, example, chain = seeded(Masked), example_of(Masked), Chain.of(name)
    executable = chain.runtime.load(prepared(chain, load, example, tmp_path))

    shuffled = dict(reversed(list(example.arrays.items())))
    outputs = executable.outputs(executable.bind(shuffled)())

    expected = reference(load, example)
    # bfloat16 may choose another class where two are close; positions are compared elsewhere.
    assert_same({k: outputs[k] for k in "01"}, expected[:2], conversion(name)["tolerance_ratio"])
    assert outputs["2"].dtype == expected[2].dtype


@pytest.mark.parametrize(
    "name",
    ["exported_program", "onnxruntime", pytest.param("aot_inductor", marks=pytest.mark.slow)],
)
def test_an_open_batch_of_one_is_not_taken_for_a_constant(name: str, tmp_path: Path) -> None:
    load, chain = seeded(Masked), Chain.of(name)
    example = example_of(Masked, batch_size=1, open_batch=True)
    executable = chain.runtime.load(prepared(chain, load, example, tmp_path))

    for batch_size in (1, 3):
        other = example_of(Masked, batch_size=batch_size)
        outputs = executable.outputs(executable.bind(other.arrays)())
        assert_same(outputs, reference(load, other), conversion(name)["tolerance_ratio"])


FRESH_PROCESS = """
import json, sys
from pathlib import Path
import numpy as np
from benchorch.components import make
from benchorch.domain.tensors import Example
from benchorch.interfaces.runtime import LoadRequest, Runtime

def module():
    raise AssertionError("the artifact is enough")

request = json.loads(sys.argv[1])
arrays = dict(np.load(request["arrays"]))
runtime = make(request["runtime"], Runtime, "runtime")
executable = runtime.load(LoadRequest(
    module=module, source=Path(request["source"]), device="cpu", threads=1,
    example=Example(arrays=arrays, keywords=request["keywords"], specs=()),
    scratch_dir=Path(request["source"]),
))
outputs = executable.outputs(executable.bind(arrays)())
np.savez(request["outputs"], **outputs)
executable.close()
print(json.dumps(sorted(sys.modules)))
"""


def in_fresh_process(
    name: str, source: Path, example: Example, directory: Path
) -> tuple[dict[str, NDArray[np.generic]], set[str]]:
    """The outputs of a process that has the artifact alone, and the modules it imported."""
    np.savez(directory / "arrays.npz", **example.arrays)  # type: ignore[arg-type]
    request = {
        "runtime": conversion(name)["runtime"],
        "source": str(source),
        "arrays": str(directory / "arrays.npz"),
        "outputs": str(directory / "outputs.npz"),
        "keywords": dict(example.keywords),
    }
    command = [sys.executable, "-c", FRESH_PROCESS, json.dumps(request)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return dict(np.load(directory / "outputs.npz")), set(json.loads(finished.stdout))


ABSENT = {
    "onnxruntime": {"torch", "onnx"},
    "aot_inductor": {"torch._dynamo", "torch._inductor.compile_fx"},
    "torchscript": {"torch._inductor.compile_fx"},
    "exported_program": {"torch._inductor.compile_fx"},
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_fresh_process_needs_the_artifact_and_no_compiler(name: str, tmp_path: Path) -> None:
    load, example = seeded(Masked), example_of(Masked)
    source = prepared(Chain.of(name), load, example, tmp_path).source
    assert source is not None

    outputs, modules = in_fresh_process(name, source, example, tmp_path)

    assert_same(outputs, reference(load, example), conversion(name)["tolerance_ratio"])
    assert modules.isdisjoint(ABSENT[name])

"""What every runtime named under conf/conversion promises, whatever it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from benchorch.components import TARGET, make
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import MeasureError
from benchorch.interfaces.conversion import BuildRequest, FileStep
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

CONF = Path(__file__).resolve().parents[2] / "conf" / "conversion"
DOCUMENTS = [yaml.safe_load(path.read_text()) for path in sorted(CONF.glob("*.yaml"))]
RUNTIMES = sorted({each["runtime"][TARGET] for each in DOCUMENTS if "runtime" in each})
STEPS: dict[Format, Any] = {
    Format.EXPORTED_PROGRAM: "benchorch.conversions.export.Export",
    Format.ONNX: "benchorch.conversions.onnx_export.OnnxExport",
    Format.TORCHSCRIPT: "benchorch.conversions.torchscript.TorchScript",
}
"""How an artifact of each format is made cheaply; the compiled ones are in the other suite."""

Artifact = Callable[[Format], Path]
HEAVY = ("torch", "numpy", "onnx", "onnxruntime")
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def runtime(target: str) -> Runtime:
    return make({TARGET: target}, Runtime, target)  # type: ignore[type-abstract]


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval()


def example() -> Example:
    spec = TensorSpec(name="input", shape=(2, 4), dtype="float32")
    return Example(arrays={"input": X}, keywords={}, specs=(spec,))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """An artifact of a format, built once."""

    @cache
    def of(consumed: Format) -> Path:
        directory = tmp_path_factory.mktemp(consumed.value)
        return directory if consumed is Format.MODULE else built(consumed, directory)

    return of


def built(consumed: Format, directory: Path) -> Path:
    step = make({TARGET: STEPS[consumed]}, FileStep, "step")  # type: ignore[type-abstract]
    job = BuildRequest(
        module=module,
        source=None,
        example=example(),
        out_dir=directory,
        scratch_dir=directory,
        device="cpu",
    )
    step.build(job)
    return directory


def asked(source: Path, threads: int = 1) -> LoadRequest:
    return LoadRequest(
        module=module,
        source=source,
        example=example(),
        device="cpu",
        threads=threads,
        scratch_dir=source,
    )


def needs_no_compiler(target: str) -> bool:
    return runtime(target).consumes in (Format.MODULE, *STEPS)


@pytest.fixture(params=filter(needs_no_compiler, RUNTIMES))
def loaded(request: pytest.FixtureRequest, artifact: Artifact) -> Iterator[Executable]:
    chosen = runtime(request.param)
    executable = chosen.load(asked(artifact(chosen.consumes)))
    yield executable
    executable.close()


@pytest.mark.parametrize("target", RUNTIMES)
def test_it_says_what_it_loads_and_which_packages_it_imports(target: str) -> None:
    chosen = runtime(target)
    assert isinstance(chosen.consumes, Format)
    assert chosen.requires
    assert chosen.version >= 1


@pytest.mark.parametrize("target", RUNTIMES)
def test_asking_whether_it_is_available_imports_nothing_heavy(target: str) -> None:
    code = (
        "import json, sys\n"
        "from benchorch.components import make\n"
        "from benchorch.interfaces.runtime import Runtime\n"
        f"chosen = make({{'_target_': {target!r}}}, Runtime, 'runtime')\n"
        "answers = [chosen.unavailable('cpu'), chosen.unavailable('cuda')]\n"
        f"print(json.dumps([answers, [n for n in {HEAVY!r} if n in sys.modules]]))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    (on_cpu, on_cuda), imported = json.loads(finished.stdout)
    assert imported == []
    assert on_cpu is None
    assert on_cuda is None or "pip install" in on_cuda


def test_a_bound_call_needs_no_arguments_and_gives_the_same_every_time(loaded: Executable) -> None:
    call = loaded.bind({"input": X})
    first = loaded.outputs(call())["0"].copy()
    np.testing.assert_array_equal(loaded.outputs(call())["0"], first)


def test_calls_made_in_its_own_surroundings_give_what_others_give(loaded: Executable) -> None:
    call = loaded.bind({"input": X})
    alone = loaded.outputs(call())["0"].copy()
    with loaded.calling(), loaded.calling():
        np.testing.assert_array_equal(loaded.outputs(call())["0"], alone)


def test_a_bound_call_keeps_its_inputs_when_the_arrays_change(loaded: Executable) -> None:
    mine = X.copy()
    call = loaded.bind({"input": mine})
    before = loaded.outputs(call())["0"].copy()
    mine[:] = 7
    np.testing.assert_array_equal(loaded.outputs(call())["0"], before)


def test_calls_bound_to_other_inputs_do_not_mix(loaded: Executable) -> None:
    zeros, ones = loaded.bind({"input": X * 0}), loaded.bind({"input": X})
    of_zeros = loaded.outputs(zeros())["0"].copy()
    ones()
    np.testing.assert_array_equal(loaded.outputs(zeros())["0"], of_zeros)


def test_it_reports_what_really_runs(loaded: Executable) -> None:
    facts = dict(loaded.facts())
    assert facts["dtype"] == "float32"
    assert facts["threads"] == 1
    assert facts["device"] == "cpu"
    assert facts["provider"]
    json.dumps(facts)


@pytest.mark.parametrize("target", filter(needs_no_compiler, RUNTIMES))
def test_the_threads_asked_for_are_the_threads_reported(target: str, artifact: Artifact) -> None:
    chosen = runtime(target)
    source = artifact(chosen.consumes)
    try:
        assert chosen.load(asked(source, threads=2)).facts()["threads"] == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("target", [t for t in RUNTIMES if runtime(t).consumes in STEPS])
def test_a_damaged_artifact_is_a_failed_measurement(
    target: str, artifact: Artifact, tmp_path: Path
) -> None:
    for sound in artifact(runtime(target).consumes).iterdir():
        (tmp_path / sound.name).write_bytes(b"not an artifact")
    with pytest.raises(MeasureError, match="cann") as caught:
        runtime(target).load(asked(tmp_path))
    assert caught.value.__cause__ is not None

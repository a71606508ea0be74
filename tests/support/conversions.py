"""Chains of conf/conversion around tiny models, built and loaded as the stages do it.

Imports no torch: what runs without it is measured without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, final
from unittest import mock

import numpy as np
import yaml
from numpy.typing import NDArray

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.session import Session
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.domain.trial import ConfigNode
from benchorch.frameworks.numpy_files import saved
from benchorch.hardware.host import cpu_isa
from benchorch.host.environment import package_versions
from benchorch.interfaces.model import Model
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.models.seeding import frozen
from benchorch.stores.local import LocalStore
from benchorch.trial import reference
from benchorch.trial.build import BuildJob, Built
from benchorch.trial.live_module import module_of
from benchorch.trial.reference import outputs_file, read_reference

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, NDArray[np.generic]]

TESTS = Path(__file__).resolve().parents[1]
CONF = TESTS.parent / "conf"
NAMES = sorted(
    path.stem for path in (CONF / "conversion").glob("*.yaml") if not path.stem.startswith("_")
)
"""Every conversion that a file spells out; joined ones are made of them."""

THREADS = 1
INPUTS = 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel(Model):
    """One of tiny_models.py.

    Attributes:
        name: its class.
    """

    name: str

    requires = ("torch",)
    version = 1

    def load(self, seed: int) -> torch.nn.Module:
        import torch

        from support import models as tiny_models

        torch.manual_seed(seed)
        made: torch.nn.Module = getattr(tiny_models, self.name)()
        return frozen(made)

    def specs(self) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(name=name, shape=("batch_size", *sizes), dtype=dtype)
            for name, sizes, dtype in _INPUTS.get(self.name, (("x", (4,), "float32"),))
        )

    def batch(self, workload: Workload, seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        shapes = {spec.name: spec.resolve(workload.symbols) for spec in self.specs()}
        return {
            spec.name: rng.integers(0, 11, shapes[spec.name])
            if spec.dtype == "int64"
            else rng.standard_normal(shapes[spec.name], dtype=np.float32)
            for spec in self.specs()
        }

    def keywords(self) -> Mapping[str, Json]:
        return {"double": True} if self.name == "Masked" else {}

    def identity(self) -> None:
        return None

    def problems(self, workload: Workload) -> list[str]:
        return []


_INPUTS: Mapping[str, Any] = {
    "Mlp": (("x", (16,), "float32"),),
    "Nested": (("x", (16,), "float32"),),
    "Masked": (("ids", (5,), "int64"), ("mask", (5,), "float32")),
    "Convolution": (("image", (3, 8, 8), "float32"),),
    "Transformer": (("ids", (6,), "int64"),),
    "Wide": (("x", (64,), "float32"),),
    "Bounded": (("x", (64,), "float32"),),
}


@cache
def _composer() -> Composer:
    return Composer(config_loader())


@cache
def spec_of(name: str) -> ConfigNode:
    """A trial's spec around a conversion, joined ones and other tools' names too."""
    return _composer().cells(["model=mlp", f"conversion={name}"])[0].config


def conversion(name: str) -> dict[str, Any]:
    """The conversion's node."""
    node = spec_of(name)["conversion"]
    assert isinstance(node, dict)
    return dict(node)


@cache
def own_text(name: str) -> dict[str, Any]:
    """What the YAML itself says, without those that it extends."""
    content = yaml.safe_load((CONF / "conversion" / f"{name}.yaml").read_text())
    assert isinstance(content, dict)
    return content


def chain_of(
    name: str,
    model: str = "Mlp",
    *,
    batch_size: int = 2,
    dynamic: tuple[str, ...] = (),
    changes: Mapping[str, Mapping[str, Json]] | None = None,
) -> TrialSetup:
    """A conversion's chain around a tiny model.

    Args:
        name: as after ``conversion=``.
        model: a class of tiny_models.py.
        batch_size: rows of every input.
        dynamic: symbols that an export leaves open.
        changes: other parameters of steps, by the step's name.
    """
    workload = Workload(symbols={"batch_size": batch_size}, dynamic=dynamic)
    return chain_around(TinyModel(name=model), name, workload, changes=changes)[1]


def chain_around(
    model: Model,
    name: str,
    workload: Workload,
    *,
    changes: Mapping[str, Mapping[str, Json]] | None = None,
) -> tuple[dict[str, Any], TrialSetup]:
    """A conversion's chain around any model, and the spec that it was opened from."""
    spec = json.loads(json.dumps(spec_of(name)))
    if not any("vnni" in flag for flag in cpu_isa()):
        # Without VNNI, int8 products of ONNX Runtime saturate unless weights use one bit less.
        for step in (spec["conversion"].get("steps") or {}).values():
            step.update({"reduce_range": True} if "reduce_range" in step else {})
    for part, parameters in (changes or {}).items():
        parts = spec["conversion"] if part == "runtime" else spec["conversion"]["steps"]
        parts[part].update(parameters)
    return spec, replace(open_trial(spec), model=model, workload=workload)


def cannot_run(chain: TrialSetup) -> str | None:
    """Why the chain cannot run on this machine, or None."""
    missing = set(chain.requires) - set(package_versions(chain.requires))
    return chain.unavailable or (f"pip install {' '.join(sorted(missing))}" if missing else None)


def built(chain: TrialSetup, directory: Path) -> Built:
    """What the build stage leaves; compilers share one cache, which saves minutes.

    The tiny models answer the same each time, so a few calls for the reference are enough; nor is
    it found out by their content what they are, which takes as long as the build of one.
    """
    scratch = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    directory.mkdir(parents=True, exist_ok=True)
    with (
        mock.patch.object(LocalStore, "scratch", return_value=scratch),
        mock.patch.object(TinyModel, "identity", lambda model: {"name": model.name}),
        mock.patch.object(reference, "_BETWEEN", 2 * INPUTS),
        mock.patch.object(reference, "_FIRST_CALLS", 1),
    ):
        job = BuildJob(
            setup=chain,
            name="test",
            store=LocalStore(root=str(directory / "store")),
            session=Session(plan_id="p", directory=directory, store={}, rebuild="if_needed"),
            inputs=INPUTS,
            threads=THREADS,
        )
        return job.build(lambda _: None)


def loaded(
    chain: TrialSetup, made: Built, threads: int = THREADS, profile_dir: Path | None = None
) -> Executable:
    """What a measuring process loads; with a directory, what a profiling one does."""
    return chain.runtime.load(
        LoadRequest(
            module=module_of(chain, made.states),
            source=made.source,
            sources=made.sources,
            example=chain.example(chain.workload.seed),
            device="cpu",
            threads=threads,
            scratch_dir=made.scratch,
            profile_dir=profile_dir,
        )
    )


def converted(chain: TrialSetup, directory: Path) -> Executable:
    """Built and loaded."""
    return loaded(chain, built(chain, directory))


def inputs_of(chain: TrialSetup, index: int = 0) -> Arrays:
    """The inputs that the reference's outputs of that index belong to."""
    return chain.example(chain.workload.seed + index).arrays


def outputs_of(chain: TrialSetup, executable: Executable, index: int = 0) -> Arrays:
    """What one call computes."""
    return executable.outputs(executable.bind(inputs_of(chain, index))())


def reference_of(made: Built, index: int = 0) -> Arrays:
    """What eager computes in float32, numbered as every runtime numbers its outputs."""
    outputs = saved(outputs_file(made.reference, index))
    paths = read_reference(made.reference).outputs.tensors
    return {str(number): outputs[path or "0"] for number, path in enumerate(paths)}


def relative_l2(found: NDArray[np.generic], expected: NDArray[np.generic]) -> float:
    """The relative L2 error, the measure of all tolerances here."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))  # type: ignore[operator]


def assert_same(found: Arrays, expected: Arrays, tolerance_ratio: float) -> None:
    """The same outputs, floats within the tolerance, whole numbers of the same type."""
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        assert found[name].shape == wanted.shape
        assert found[name].dtype == wanted.dtype
        error = relative_l2(found[name], wanted) if wanted.dtype.kind == "f" else 0
        assert error <= tolerance_ratio, f"output {name}: {error:.2e} > {tolerance_ratio:.0e}"


_FRESH_PROCESS = """
import json, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
from support import conversions as lab
for line in sys.stdin:
    asked = json.loads(line)
    chain = lab.chain_of(asked["name"], asked["model"])
    executable = lab.loaded(chain, lab.decode(lab.Built, asked["built"]))
    np.savez(asked["outputs"], **lab.outputs_of(chain, executable))
    facts = dict(executable.facts())
    executable.close()
    print(json.dumps({"facts": facts, "modules": sorted(sys.modules)}), flush=True)
"""


@final
class FreshProcess:
    """A process that only loads what others built, one artifact after another.

    An import of torch costs more than loading a tiny model: tests that do not look at what a load
    imports share one.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-c", _FRESH_PROCESS, str(TESTS)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # A file: a pipe that is not read would fill up.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(command, text=True, stderr=self._errors, **pipes)

    def load(
        self, name: str, model: str, made: Built, directory: Path
    ) -> tuple[Arrays, Mapping[str, Any], set[str]]:
        """Outputs, facts and the modules imported so far."""
        asked = {
            "name": name,
            "model": model,
            "built": encode(made),
            "outputs": str(directory / "fresh.npz"),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"facts"'):  # libraries print, too
                told = json.loads(line)
                return dict(np.load(directory / "fresh.npz")), told["facts"], set(told["modules"])
        self._errors.seek(0)
        raise AssertionError(self._errors.read())

    def close(self) -> None:
        self._process.communicate()
        self._errors.close()


def in_fresh_process(
    name: str, model: str, made: Built, directory: Path
) -> tuple[Arrays, Mapping[str, Any], set[str]]:
    """Outputs, facts and imported modules of a process that only loads what was built."""
    process = FreshProcess()
    try:
        return process.load(name, model, made, directory)
    finally:
        process.close()


__all__ = ["Built", "decode"]

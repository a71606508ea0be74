"""A folder that serves a measured model without benchorch, checked as it is written."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, final

from benchorch.config.components import make
from benchorch.config.parity_setup import parity_setup
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Estimate
from benchorch.domain.session import Session
from benchorch.domain.tensors import Arrays
from benchorch.domain.trial import node_of
from benchorch.errors import BuildError, ConfigError
from benchorch.files import read_json
from benchorch.formatting import interval_text, is_known, printable
from benchorch.frameworks.numpy_files import save_arrays, saved
from benchorch.frameworks.onnx_files import runtime_distribution
from benchorch.host.environment import ONNX_RUNTIMES
from benchorch.host.packages import TORCH_WHEELS
from benchorch.interfaces.conversion import BuildRequest, ModuleStep, StateStep
from benchorch.interfaces.store import Store
from benchorch.models.trust import look_in, session_of
from benchorch.pages.markup import markdown_text, shortened
from benchorch.progress import Say, silent
from benchorch.results.metrics.latency import median_ms
from benchorch.run.export.winner import Chosen
from benchorch.runtimes.onnx_session import PROVIDERS
from benchorch.stats.prediction import repetition_interval
from benchorch.trial.build import BuildJob
from benchorch.trial.build_keys import INVOCATION, NOTES
from benchorch.trial.live_module import module_of
from benchorch.trial.reference import model_inputs, outputs_file, read_reference, without
from benchorch.trial.stages import Built

_FILES = Path(__file__).parent / "files"
_CHECK_S = 300
_SERVER = ("fastapi", "uvicorn")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
# As PEP 440 spells them. Of anything else a line of the Dockerfile could be made.
_VERSION = re.compile(
    r"v?([0-9]+!)?[0-9]+(\.[0-9]+)*"
    r"([-_.]?(alpha|beta|preview|pre|post|rev|dev|rc|a|b|c|r)([-_.]?[0-9]+)?){0,3}"
    r"(\+([a-z0-9]+([-_.][a-z0-9]+)*)?)?",
    re.IGNORECASE,
)
_LONGEST_VERSION, _LONGEST_NAME = 64, 120


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How the files of a format are loaded.

    Attributes:
        runtime: the class of benchorch that measured them.
        loader: template files, one after the other.
        requires: distributions that `model.py` imports.
        says: what the files are.
    """

    runtime: str
    loader: tuple[str, ...]
    requires: tuple[str, ...]
    says: str


_TORCH = ("torch", "numpy")
_KINDS: Mapping[Format, _Kind] = {
    Format.ONNX: _Kind(
        runtime="OnnxRuntime",
        loader=("onnxruntime.py.txt",),
        requires=("onnxruntime", "numpy"),
        says="an ONNX model",
    ),
    Format.AOTI_PACKAGE: _Kind(
        runtime="Aoti",
        loader=("torch.py.txt", "aoti_package.txt"),
        requires=_TORCH,
        says="an AOTInductor package, for processors like the one it was compiled on",
    ),
    Format.TORCHSCRIPT: _Kind(
        runtime="TorchScript",
        loader=("torch.py.txt", "torchscript.txt"),
        requires=_TORCH,
        says="a TorchScript file",
    ),
    Format.EXPORTED_PROGRAM: _Kind(
        runtime="Eager",
        loader=("torch.py.txt", "exported_program.txt"),
        requires=_TORCH,
        says="an exported program: the weights and the operators, without the model's Python",
    ),
}


def export(chosen: Chosen, out: Path, say: Say = silent) -> str:
    """Fill an empty folder and run its check in a process of its own; what that printed.

    Raises:
        ConfigError: the trial is of a kind that has no loader.
        BuildError: the artifact is gone, or the check found other outputs.
    """
    session = session_of(chosen.run.plan, chosen.run.directory)
    look_in(session.search_path if session.trusted else ())
    setup = open_trial(chosen.trial.spec)
    steps = [step for _, step in setup.steps if not isinstance(step, ModuleStep | StateStep)]
    kind_of = steps[-1].produces if steps else Format.EXPORTED_PROGRAM
    kind = _KINDS.get(kind_of)
    if kind is None or type(setup.runtime).__name__ != kind.runtime:
        _refuse(chosen, setup)
    with TemporaryDirectory() as own:
        built = _built(chosen, setup, _for_export(session, Path(own)), say)
    for name in ("python", *_packages(kind, chosen)):
        _measured_version(name, chosen)
    out.mkdir(parents=True, exist_ok=True)
    source = built.sources.get(kind_of)
    if source is None:
        _export_module(setup, built, out / "artifact", threads=_threads(chosen))
    else:
        shutil.copytree(source, out / "artifact", copy_function=shutil.copyfile)
    _write(chosen, setup, kind, built, out)
    return _checked(out)


def _for_export(session: Session, own: Path) -> Session:
    """Session that builds what is not there, and believes nothing that the run noted but its id.

    Its other notes are of the model as it was. Keys of what no other invocation can identify have
    the id.
    """
    (own / NOTES).mkdir()
    for note in (session.directory / NOTES).glob(f"{INVOCATION}-*.json"):
        shutil.copy(note, own / NOTES)
    rebuild = "if_needed" if session.rebuild == "always" else session.rebuild
    return replace(session, directory=own, rebuild=rebuild)


def _refuse(chosen: Chosen, setup: TrialSetup) -> NoReturn:
    runtime = type(setup.runtime).__name__
    instead = "aot_inductor" if runtime in ("Inductor", "Compiled") else "onnxruntime"
    problem = (
        f"{chosen.trial.labels['conversion']} cannot be exported: {runtime} needs more than files "
        "that run without benchorch. Exported are eager, export, torchscript, aot_inductor and "
        f"onnxruntime conversions: try conversion={instead}, then benchorch export RUN:{instead}."
    )
    raise ConfigError([problem])


def _built(chosen: Chosen, setup: TrialSetup, session: Session, say: Say) -> Built:
    """The trial's files from the store, built again where they are gone.

    Raises:
        BuildError: what would be built is not what was measured.
    """
    parity, labels = parity_setup(chosen.trial.spec), chosen.trial.labels
    job = BuildJob(
        setup=setup,
        name=f"{labels['model']} {labels['conversion']}",
        store=make(session.store, Store, "store"),
        session=session,
        inputs=parity.inputs,
        threads=_threads(chosen),
        data=parity.data,
    )
    found = job.build(say)
    measured = chosen.result.build
    if measured is not None and not measured.is_same(found.record):
        raise BuildError(
            f"{labels['conversion']}: the model or the packages have changed since it was "
            "measured, or it cannot be identified and its run was opened again, so a build now "
            "would be another artifact. Measure it again, then export.",
            kind="changed",
        )
    return found


def _threads(chosen: Chosen) -> int:
    threads = chosen.result.valid[0].facts.get("threads")
    return threads if isinstance(threads, int) else 1


def _export_module(setup: TrialSetup, built: Built, out: Path, *, threads: int) -> None:
    """An eager model as an exported program."""
    from benchorch.conversions.export import Export

    out.mkdir()
    request = BuildRequest(
        module=module_of(setup, built.states),
        source=None,
        sources={},
        example=setup.example(setup.workload.seed),
        calibration=setup.calibration,
        out_dir=out,
        scratch_dir=out,
        device="cpu",
        threads=threads,
    )
    Export().build(request)


def _write(chosen: Chosen, setup: TrialSetup, kind: _Kind, built: Built, out: Path) -> None:
    """Everything beside the artifact."""
    import numpy as np

    inputs = dict(model_inputs(setup, setup.example(setup.workload.seed).arrays))
    np.savez(out / "inputs.npz", **inputs)  # type: ignore[arg-type]
    save_arrays(out / "expected.npz", _expected(built))
    _json(out / "settings.json", _settings(chosen, setup, inputs, out))
    _json(out / "certificate.json", _certificate(chosen))
    loader = "".join((_FILES / name).read_text(encoding="utf-8") for name in kind.loader)
    (out / "model.py").write_text(loader, encoding="utf-8")
    for name in ("check.py", "server.py"):
        (out / name).write_text(
            (_FILES / f"{name}.txt").read_text(encoding="utf-8"), encoding="utf-8"
        )
    pins = [_pin(name, chosen) for name in _packages(kind, chosen)]
    on_cpu = "torch" in kind.requires and not setup.on_gpu
    index = [f"--extra-index-url {TORCH_WHEELS}/cpu"] if on_cpu else []
    (out / "requirements.txt").write_text("\n".join([*index, *pins]) + "\n", encoding="utf-8")
    python = ".".join(str(_measured_version("python", chosen)).split(".")[:2])
    docker = (_FILES / "Dockerfile.txt").read_text(encoding="utf-8").format(python=python)
    (out / "Dockerfile").write_text(docker, encoding="utf-8")
    (out / ".dockerignore").write_text("**/__pycache__\n", encoding="utf-8")
    (out / "README.md").write_text(_readme(chosen, kind, inputs), encoding="utf-8")


def _expected(built: Built) -> Arrays:
    """The tensors of the original's first outputs; of other values files hold none."""
    constants = read_reference(built.reference).outputs.constants
    (tensors,) = without([saved(outputs_file(built.reference, 0))], constants)
    return tensors


def _settings(chosen: Chosen, setup: TrialSetup, inputs: Arrays, out: Path) -> dict[str, Json]:
    facts = chosen.result.valid[0].facts
    call = out / "artifact" / "call.json"
    traced = call.exists() and read_json(call)["method"] == "trace"
    return {
        "inputs": {name: str(array.dtype) for name, array in inputs.items()},
        "keywords": dict(setup.model.keywords()),
        "dtype": facts.get("dtype") if facts.get("dtype") in _FLOATS else None,
        "threads": _threads(chosen),
        "device": type(setup.hardware).device,
        "providers": _providers(chosen, setup),
        "tf32": setup.protocol.tf32 if setup.on_gpu else None,
        "spinning": facts.get("spinning", True),
        "by_position": traced,
    }


def _providers(chosen: Chosen, setup: TrialSetup) -> list[Json]:
    """ONNX Runtime's, with their options as they were measured; empty for other runtimes."""
    name = chosen.result.valid[0].facts.get("provider")
    provider = next((each for each in PROVIDERS.values() if each.name == name), None)
    if provider is None:
        return []
    options = provider.with_options(_threads(chosen), None, tf32=setup.protocol.tf32)
    return [[*pair] for pair in options]


def _certificate(chosen: Chosen) -> dict[str, Json]:
    """Parity, figures with intervals, and the machine they were measured on."""
    trial, result = chosen.trial, chosen.result
    summary = chosen.run.summaries[trial.trial_id]
    return {
        "plan_id": chosen.run.plan.plan_id,
        "trial_id": trial.trial_id,
        "labels": dict(trial.labels),
        "measured_at": result.started_at,
        "parity": encode(result.parity),
        "metrics": encode(dict(summary.metrics)),
        "one_process_ms": encode(_of_one_process(chosen)),
        "speedup": encode(summary.speedup),
        "warnings": list(summary.warnings),
        "machine": dict(result.environment),
        "model_digest": result.build.model_digest if result.build else "",
    }


def _of_one_process(chosen: Chosen) -> Estimate | None:
    """Where the median of a further process lies: wider than the interval of the trial's.

    None where too few processes ran to know, and where what was measured is not one call with warm
    caches, which `check.py` times: a query of several calls, a generation, a call after a flush.
    """
    observed = chosen.result.valid[0].observations
    is_cold = node_of(chosen.trial.spec, "protocol").get("cold_caches")
    if is_cold or observed.calls_per_query > 1 or observed.tokens_per_call:
        return None
    if "latency_ms/p50" not in chosen.run.summaries[chosen.trial.trial_id].metrics:
        return None
    found = repetition_interval(median_ms(chosen.result.valid), 1, unit="ms")
    return found if found is not None and is_known(found) else None


def _packages(kind: _Kind, chosen: Chosen) -> tuple[str, ...]:
    """What the folder imports; of ONNX Runtime's distributions the one that was measured."""
    measured = _versions(chosen)
    known = next((name for name in ONNX_RUNTIMES if name in measured), runtime_distribution())
    requires = (known if name in ONNX_RUNTIMES else name for name in kind.requires)
    return (*requires, *_SERVER)


def _pin(name: str, chosen: Chosen) -> str:
    """The version that was measured; of the server's packages the installed one, if any."""
    version = _measured_version(name, chosen)
    if version is None:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return name
    return f"{name}=={version.partition('+')[0]}"


def _measured_version(name: str, chosen: Chosen) -> str | None:
    """Of a package, or of Python, in the run's own record; ConfigError where it is none."""
    version = _fact(chosen, "python") if name == "python" else _versions(chosen).get(name)
    if version is None and name != "python":
        return None
    text = str(version)
    if len(text) > _LONGEST_VERSION or not _VERSION.fullmatch(text):
        raise ConfigError(
            [
                f"the run records {name} {shortened(text, 40)!r}, which is no version (as 2.13.0 "
                "is), so that no Dockerfile can be written: measure again, then export."
            ]
        )
    return text


def _versions(chosen: Chosen) -> Mapping[str, Json]:
    packages = _fact(chosen, "packages")
    return packages if isinstance(packages, Mapping) else {}


def _fact(chosen: Chosen, name: str) -> Json:
    return chosen.result.environment.get(name)


def _readme(chosen: Chosen, kind: _Kind, inputs: Arrays) -> str:
    labels, summary = chosen.trial.labels, chosen.run.summaries[chosen.trial.trial_id]
    latency = summary.metrics.get("latency_ms/p50")
    figures = [f"Median latency {interval_text(latency)} ms."] if latency else []
    if summary.speedup is not None:
        figures.append(
            f"{interval_text(summary.speedup.ratio, '{:.3g}'.format)} times as fast as its "
            f"baseline ({summary.speedup.verdict})."
        )
    parity = chosen.result.parity
    if parity is not None and parity.outputs:
        worst = max(one.relative_l2_ratio for one in parity.outputs)
        figures.append(f"Relative L2 error of its outputs at most {worst:.2g}.")
    cores = _fact(chosen, "cpu_physical_count")
    machine = f"{_fact(chosen, 'cpu_model')}, {cores} cores"
    name = " ".join(filter(None, (labels["model"], labels["conversion"], labels["workload"])))
    return (
        (_FILES / "README.md.txt")
        .read_text(encoding="utf-8")
        .format(
            name=markdown_text(name, _LONGEST_NAME),
            figures=" ".join(figures),
            machine=markdown_text(machine, _LONGEST_NAME),
            call=", ".join(f"{_code(each)}=array" for each in inputs),
            artifact=kind.says,
        )
    )


def _code(text: str) -> str:
    """Text for a span of code, which it cannot end."""
    return shortened(printable(text), _LONGEST_NAME).replace("`", "'")


def _json(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _checked(out: Path) -> str:
    """What the folder's own check prints; BuildError where it fails."""
    command = [sys.executable, "-B", "check.py"]
    try:
        done = subprocess.run(
            command, cwd=out, capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{out}: its check did not end within {_CHECK_S} s.") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise BuildError(f"{out}: its check failed: {lines[-1]}", kind="check_failed")
    return done.stdout.strip()

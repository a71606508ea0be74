"""What is exported gives the original's outputs in an environment without benchorch."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchorch.cli.commands import export as export_command
from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import open_trial
from benchorch.domain.codec import Json
from benchorch.domain.trial import Trial, node_of
from benchorch.errors import BuildError, ConfigError
from benchorch.journal import run_directory
from benchorch.journal.registry import remember_plan
from benchorch.models.trust import session_of
from benchorch.run.export import bundle
from benchorch.run.export.winner import choose
from benchorch.run.planner import plan_jobs
from benchorch.stores.local import LocalStore
from benchorch.trial.build import BuildJob
from support.bare_python import bare_python
from support.slices import only
from support.synthetic_runs import failed, result, write_run
from support.synthetic_runs import trial as synthetic

Array = NDArray[np.float32]
KINDS = ["eager", "export", "torchscript", "onnxruntime"]
WORDS = ["model=mlp", "model.widths=[8,16,4]", "model.inputs.input.shape=[batch_size,8]"]
MIXED_KINDS = [*KINDS, "torchscript_script", "aot_inductor"]
MIXED = """
import torch


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 1.0):
        y = self.layer(x) * scale
        masked = torch.where(y > 0.0, y, torch.full_like(y, float("-inf")))
        return {"x": x, "scale": scale, "masked": masked}


def make():
    torch.manual_seed(0)
    return Mixed().eval()
"""
# TorchScript knows no dict of tensors and numbers, and a tuple of both only where it is traced.
SCRIPTED = MIXED.replace('{"x": x, "scale": scale, "masked": masked}', "x, scale, masked")


def measured(directory: Path, model: list[str], *conversions: str) -> Path:
    """A run whose artifacts are real, and whose durations are drawn."""
    words = [*model, f"conversion=[{','.join(conversions)}]", f"store.root={directory}/store"]
    words += ["hardware=local", "stopping=quick"]
    composer = Composer(config_loader())
    plan = plan_jobs(composer, composer.jobs(words, sweep=False), "p").plan
    run = directory / "run"
    run.mkdir(parents=True)
    run_directory.write_plan(run, plan)
    remember_plan(plan.plan_id, run)
    for trial in plan.trials:
        speed = {"eager": 1e6, "inductor": 2e5}.get(trial.labels["conversion"], 5e5)
        found = result(trial, speed, threads=1, **_against(trial))
        facts = {**found.processes[0].facts, "provider": "CPUExecutionProvider"}
        record = None
        if trial.labels["conversion"] != "inductor":
            record = _build(trial, plan, run)
        ran = tuple(replace(each, facts=facts) for each in found.processes)
        run_directory.append_result(run, replace(found, processes=ran, build=record), {})
    return run


def _against(trial: Trial) -> dict[str, float]:
    return {} if trial.baseline_id is None else {"baseline_ns": 1e6}


def _build(trial, plan, run):
    job = BuildJob(
        setup=open_trial(trial.spec),
        name="n",
        store=LocalStore(root=f"{run.parent}/store"),
        session=session_of(plan, run),
        inputs=8,
        threads=1,
    )
    return job.build(lambda _: None).record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        yield measured(tmp_path_factory.mktemp("export"), WORDS, *KINDS, "inductor")


class Exported(NamedTuple):
    folder: Path
    said: str


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """The export of a conversion of the run: one for all tests that only look at it."""

    @cache
    def exported(kind: str) -> Exported:
        out = tmp_path_factory.mktemp("exported") / "out"
        return Exported(out, export_command.run.reply([f"{run}:{kind}", "--output", str(out)]).text)

    return exported


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = bare_python(tmp_path_factory.mktemp("bare") / "venv")
    command = [python, "-c", "import benchorch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in done.stderr
    return python


# Of eager, too, an exported program is written; what is in the store is copied alike.
@pytest.mark.parametrize("kind", only(["eager", "onnxruntime"], KINDS))
def test_the_outputs_are_the_originals_where_benchorch_is_not(
    exported: Callable[[str], Exported], bare: Path, kind: str
) -> None:
    out, said = exported(kind)
    assert "relative L2 error" in said
    done = subprocess.run([bare, "check.py"], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "relative L2 error" in done.stdout


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Export of a model with an argument that is no tensor, and with outputs of several kinds."""

    @cache
    def exported(kind: str) -> Path:
        place = tmp_path_factory.mktemp("mixed")
        patch.chdir(place)
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        code = SCRIPTED if kind == "torchscript_script" else MIXED
        (place / "mixed.py").write_text(code)
        model = ["model=factory", "model.factory=mixed.py:make", "+model.kwargs.scale=3.0"]
        model.append("model.inputs={x:{shape:[batch_size,4]}}")
        run = measured(place / "measured", model, "eager", kind)
        export_command.run.reply([f"{run}:{kind}", "--output", str(place / "out")])
        patch.undo()
        return place / "out"

    with pytest.MonkeyPatch.context() as patch:
        yield exported


@pytest.mark.parametrize("kind", only(["eager", "onnxruntime"], MIXED_KINDS))
def test_arguments_and_outputs_need_not_be_tensors(mixed: Callable[[str], Path], kind: str) -> None:
    expected = np.load(mixed(kind) / "expected.npz")
    assert [each.shape for each in expected.values()] == [(1, 4), (1, 4)]


def of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, *conversions: str) -> Path:
    """A run of a model from a file of that code."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.py").write_text(code)
    model = ["model=factory", "model.factory=mixed.py:make"]
    model.append("model.inputs={x:{shape:[batch_size,4]}}")
    return measured(tmp_path / "measured", model, *conversions)


def test_a_model_that_only_its_own_invocation_can_identify_is_exported_as_it_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = MIXED.replace("super().__init__()", "super().__init__(); self.it = (i for i in (1, 2))")
    run = of_code(tmp_path, monkeypatch, code, "eager", "torchscript")
    reply = export_command.run.reply([f"{run}:torchscript", "--output", str(tmp_path / "out")])
    assert "relative L2 error" in reply.text


def test_code_that_was_not_measured_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = of_code(tmp_path, monkeypatch, MIXED, "eager")
    (tmp_path / "mixed.py").write_text(MIXED.replace("* scale", "* scale + 1"))
    with pytest.raises(BuildError, match="have changed since it was measured"):
        export_command.run.reply([f"{run}:eager", "--output", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


ASKED = """
import json, numpy, server
from fastapi.responses import JSONResponse

given = {name: array.tolist() for name, array in numpy.load("inputs.npz").items()}
reply = server.predict(server.Query(inputs=given))
print(JSONResponse(reply).body.decode())
"""


def test_the_server_answers_with_text_for_what_is_not_finite(
    mixed: Callable[[str], Path], bare: Path
) -> None:
    command = [bare, "-c", ASKED]
    out = mixed("onnxruntime")
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=True)
    answer = [np.asarray(each, float) for each in json.loads(done.stdout)["outputs"]]
    expected = [*np.load(out / "expected.npz").values()]
    assert '"-Infinity"' in done.stdout
    for each, original in zip(answer, expected, strict=True):
        np.testing.assert_allclose(each, original, rtol=1e-4)


def test_other_outputs_are_noticed(
    exported: Callable[[str], Exported], bare: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(exported("onnxruntime").folder, tmp_path / "out")
    expected = dict(np.load(out / "expected.npz"))
    np.savez(out / "expected.npz", **{name: 1.01 * array for name, array in expected.items()})
    done = subprocess.run([bare, "check.py"], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "The outputs differ" in done.stderr


def changed(folder: Path, change: Callable[[Array], Array], measured_ratio: float = 0.0) -> int:
    """The check's exit code where a model gives changed outputs, and what was measured so far."""
    (folder / "certificate.json").write_text(
        json.dumps(
            {
                "parity": {
                    "tolerance_ratio": 1e-4,
                    "outputs": [{"relative_l2_ratio": measured_ratio}],
                },
                "one_process_ms": None,
            }
        )
    )
    expected = np.array([[1.0, -np.inf, np.nan], [2.0, 3.0, np.inf]], np.float32)
    np.savez(folder / "inputs.npz", x=expected)
    np.savez(folder / "expected.npz", y=expected)
    np.savez(folder / "given.npz", y=change(expected))
    (folder / "model.py").write_text(
        "import numpy\ndef load():\n    given = numpy.load('given.npz')['y']\n"
        "    return lambda x: [given]\n"
    )
    check = (Path(bundle.__file__).parent / "files" / "check.py.txt").read_text()
    (folder / "check.py").write_text(check.replace("0.5, 1.0, 10", "0.0, 0.0, 1"))
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=folder, capture_output=True, check=False
    )
    return done.returncode


def test_masks_agree_where_they_are_the_same(tmp_path: Path) -> None:
    assert changed(tmp_path, lambda same: same) == 0
    assert changed(tmp_path, lambda given: given * np.float32(1.00001)) == 0
    assert changed(tmp_path, lambda given: given * np.float32(1.001)) == 1
    assert changed(tmp_path, lambda given: -given) == 1
    assert changed(tmp_path, lambda given: np.nan_to_num(given)) == 1


def test_what_was_accepted_beyond_the_tolerance_may_differ_as_much_again(tmp_path: Path) -> None:
    assert changed(tmp_path, lambda given: given * np.float32(1.01), 0.008) == 0
    assert changed(tmp_path, lambda given: given * np.float32(1.02), 0.008) == 1


def test_the_folder_says_what_was_measured_where_and_pins_its_packages(
    exported: Callable[[str], Exported],
) -> None:
    out, _ = exported("onnxruntime")
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["parity"]["passed"] is True
    assert certificate["machine"]["cpu_model"] == "Some CPU"
    assert certificate["metrics"]["latency_ms/p50"]["value"] == pytest.approx(0.5, rel=0.01)
    pins = (out / "requirements.txt").read_text().split()
    assert f"onnxruntime=={importlib.metadata.version('onnxruntime')}" in pins
    assert [pin.partition("==")[0] for pin in pins] == [
        *("onnxruntime", "numpy", "fastapi", "uvicorn")
    ]
    assert "benchorch" not in (out / "model.py").read_text().partition('"""\n')[2]
    assert len((out / "model.py").read_text().splitlines()) < 50
    assert "Some CPU" in (out / "README.md").read_text()


def test_the_certificate_has_the_range_of_a_further_process(
    exported: Callable[[str], Exported],
) -> None:
    out, said = exported("onnxruntime")
    certificate = json.loads((out / "certificate.json").read_text())
    median, one = certificate["metrics"]["latency_ms/p50"], certificate["one_process_ms"]
    assert one["low"] < median["low"] < median["high"] < one["high"]
    assert f"takes {one['low']:.4g} to {one['high']:.4g} ms a call" in said


@pytest.mark.parametrize(
    ("cold_caches", "calls", "tokens"), [(True, 1, 0), (False, 8, 0), (False, 1, 8)]
)
def test_what_was_measured_otherwise_than_the_check_does_has_no_range(
    run: Path, cold_caches: bool, calls: int, tokens: int
) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    assert bundle._of_one_process(chosen) is not None
    protocol = {**node_of(chosen.trial.spec, "protocol"), "cold_caches": cold_caches}
    trial = replace(chosen.trial, spec={**chosen.trial.spec, "protocol": protocol})
    (process, *others) = chosen.result.processes
    observed = replace(process.observations, calls_per_query=calls, tokens_per_call=tokens)
    processes = (replace(process, observations=observed), *others)
    other = chosen._replace(trial=trial, result=replace(chosen.result, processes=processes))
    assert bundle._of_one_process(other) is None


def test_a_session_waits_as_it_did_when_it_was_measured(run: Path, tmp_path: Path) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    (process, *others) = chosen.result.processes
    asleep = replace(process, facts={**process.facts, "spinning": False})
    measured_so = replace(chosen.result, processes=(asleep, *others))
    bundle.export(chosen._replace(result=measured_so), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "settings.json").read_text())["spinning"] is False
    assert "session.intra_op.allow_spinning" in (tmp_path / "out" / "model.py").read_text()


@pytest.mark.parametrize(
    ("distribution", "providers"),
    [
        ("onnxruntime-gpu", [["CUDAExecutionProvider", {"use_tf32": "0"}]]),
        (
            "onnxruntime-gpu",
            [["TensorrtExecutionProvider", {}], ["CUDAExecutionProvider", {"use_tf32": "0"}]],
        ),
        (
            "onnxruntime-openvino",
            [
                [
                    "OpenVINOExecutionProvider",
                    {"device_type": "CPU", "precision": "FP32", "num_of_threads": "1"},
                ]
            ],
        ),
    ],
)
def test_a_provider_that_was_measured_is_asked_for_as_it_was_and_no_other_will_do(
    run: Path, tmp_path: Path, distribution: str, providers: list[list[Json]]
) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    (process, *others) = chosen.result.processes
    there = replace(process, facts={**process.facts, "provider": providers[0][0]})
    environment = {**chosen.result.environment, "packages": {distribution: "1.31.1"}}
    elsewhere = replace(chosen.result, processes=(there, *others), environment=environment)
    with pytest.raises(BuildError, match=f"CPUExecutionProvider instead of {providers[0][0]}"):
        bundle.export(chosen._replace(result=elsewhere), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "settings.json").read_text())["providers"] == providers
    assert f"{distribution}==1.31.1" in (tmp_path / "out" / "requirements.txt").read_text()


ON_ONNX_RUNTIME = """
import os, onnxruntime
onnxruntime.preload_dlls = lambda: print("preloaded", end=" ")
import model
model.load()
print(os.environ["NVIDIA_TF32_OVERRIDE"])
"""
IN_TORCH = """
import model, torch
model.load()
print(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
"""


@pytest.mark.parametrize(
    ("kind", "code", "printed"),
    [("onnxruntime", ON_ONNX_RUNTIME, "preloaded 0"), ("eager", IN_TORCH, "False False")],
)
def test_float32_is_rounded_on_a_gpu_as_it_was_measured(
    exported: Callable[[str], Exported], tmp_path: Path, kind: str, code: str, printed: str
) -> None:
    out = shutil.copytree(exported(kind).folder, tmp_path / "out")
    settings = json.loads((out / "settings.json").read_text())
    assert settings["tf32"] is None
    (out / "settings.json").write_text(json.dumps({**settings, "device": "cuda", "tf32": False}))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("python", text) for text in ("3.11 AS x\nRUN touch /tmp/x\n#.1", "latest", "")),
        *(("numpy", text) for text in ("2.1\n--index-url http://127.0.0.1:1", "2.1; touch x", [1])),
        *(("onnxruntime", text) for text in ("1.22 @ http://127.0.0.1:1/x.whl", "1" * 65, "-1")),
        ("fastapi", "1.0$(touch x)"),
    ],
)
def test_what_is_no_version_goes_into_no_dockerfile(
    run: Path, tmp_path: Path, name: str, version: Json
) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    known = chosen.result.environment
    packages = {**known["packages"], name: version}  # type: ignore[dict-item]
    said = {"python": version} if name == "python" else {"packages": packages}
    foreign = replace(chosen.result, environment={**known, **said})
    with pytest.raises(
        ConfigError, match=f"the run records {name} .*which is no version"
    ) as refused:
        bundle.export(chosen._replace(result=foreign), tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", ["3.13.0rc1", "3.14.0a2+", "3.9.25"])
def test_pythons_own_versions_are_versions(run: Path, version: str) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    environment = {**chosen.result.environment, "python": version}
    result = replace(chosen.result, environment=environment)
    assert bundle._measured_version("python", chosen._replace(result=result)) == version


def test_a_name_is_no_markdown_in_the_folders_page(run: Path, tmp_path: Path) -> None:
    chosen = choose(f"{run}:onnxruntime", lambda _: None)
    evil = "<img src=x>\n# [a](javascript:1) `b`\x1b[2J" + "n" * 20_000
    labels = {**chosen.trial.labels, "model": evil}
    environment = {**chosen.result.environment, "cpu_model": evil}
    foreign = chosen._replace(
        trial=replace(chosen.trial, labels=labels),
        result=replace(chosen.result, environment=environment),
    )
    bundle.export(foreign, tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert not [one for one in ("<img", "\n# [", "\x1b") if one in page]
    assert "](" not in page.replace("\\]", "")
    assert page.count("\n# ") == 0
    assert len(page) < 3000


def test_what_needs_a_compiler_in_each_process_is_refused_with_a_way_on(
    run: Path, tmp_path: Path
) -> None:
    assert choose(str(run), lambda _: None).trial.labels["conversion"] == "inductor"
    with pytest.raises(ConfigError, match="try conversion=aot_inductor"):
        export_command.run.reply([str(run), "--output", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_of_a_run_that_failed_the_next_line_measures_again(tmp_path: Path) -> None:
    eager = synthetic()
    directory = write_run(tmp_path / "run", (eager, failed(eager)))
    with pytest.raises(ConfigError, match="No trial of this run can be exported") as refused:
        choose(str(directory), lambda _: None)
    assert refused.value.next == f"benchorch rerun {directory} --failed"


def test_an_unknown_trial_and_a_full_folder_are_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'export'"):
        export_command.run.reply([f"{run}:exprt", "--output", str(tmp_path / "out")])
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        export_command.run.reply([f"{run}:export", "--output", str(tmp_path)])

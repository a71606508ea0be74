"""The template of a round, and what takes the place of a process that forks badly."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.result import Failure
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ExecutorError
from benchorch.frameworks.identity.links import link_code
from benchorch.host.processes.run_child import ChildLimits, ChildReply, run_child
from benchorch.host.processes.spawn import started
from benchorch.host.processes.template import is_possible
from benchorch.trial import stage_runner, stages, supervisor
from benchorch.trial import templates as templates_module
from benchorch.trial.stage_runner import StageRunner
from benchorch.trial.stages import StageFailed
from benchorch.trial.supervisor import TrialRun
from benchorch.trial.templates import Templates

SESSION: Any = {"plan_id": "p", "directory": Path(), "store": {}, "rebuild": "if_needed"}
LIMITS = {"memory_gib": None, "build_timeout_s": 60, "measure_timeout_s": 60}


@pytest.mark.skipif(not is_possible(), reason="needs Linux")
def test_a_round_has_one_template_and_the_next_round_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates_module, "_READY_S", 500.0)
    templates = Templates([])
    templates.renew(processes=2)
    try:
        assert not templates.is_running("torch", {})
        first = templates.of("torch", {}, tmp_path / "log.txt")
        assert first is not None
        assert templates.is_running("torch", {})
        assert templates.of("torch", {}, tmp_path / "log.txt") is first
        answered = run_child(
            "no_such_stage",
            {},
            int,
            log=tmp_path / "log.txt",
            limits=ChildLimits(timeout_s=400, memory_bytes=None),
            environment={},
            on_message=lambda _: None,
            template=first,
        )
        assert answered.failure is not None
        assert answered.failure.kind == "raised:KeyError"  # the worker's own words
        templates.renew(processes=1)
        assert templates.of("torch", {}, tmp_path / "log.txt") is None
        with pytest.raises(ExecutorError):
            first.fork([0, 1, 2], [], os.environ)
    finally:
        templates.renew()


@pytest.mark.skipif(not is_possible(), reason="needs Linux")
def test_the_templates_of_certain_rounds_import_together_and_serve_one_round_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates_module, "_READY_S", 500.0)
    monkeypatch.setattr(templates_module, "physical_cores", lambda: 2)
    starts = []
    monkeypatch.setattr(
        templates_module, "started", lambda *a, **k: starts.append(a) or started(*a, **k)
    )
    templates = Templates([])
    log = tmp_path / "log.txt"
    try:
        templates.renew(processes=1, rounds=4)
        first = templates.of("onnxruntime", {}, log)
        assert first is not None
        assert len(starts) == 2  # one a core
        templates.renew(processes=1, rounds=3)
        second = templates.of("onnxruntime", {}, log)
        assert second is not None
        assert second is not first
        assert len(starts) == 2
        with pytest.raises(ExecutorError):
            first.fork([0, 1, 2], [], os.environ)
    finally:
        templates.renew()
    with pytest.raises(ExecutorError):
        second.fork([0, 1, 2], [], os.environ)


@pytest.mark.parametrize(
    ("rounds", "cores", "count"), [(3, 2, 3), (5, 2, 2), (2, 1, 0), (5, 4, 4), (4, 3, 4)]
)
def test_no_template_of_a_certain_round_is_left_to_import_alone(
    monkeypatch: pytest.MonkeyPatch, rounds: int, cores: int, count: int
) -> None:
    counts = []
    monkeypatch.setattr(templates_module, "physical_cores", lambda: cores)
    templates = Templates([])
    monkeypatch.setattr(templates, "_started", lambda *given: counts.append(given[-1]) or [])
    templates.renew(processes=1, rounds=rounds)
    templates.of("torch", {}, Path("log.txt"))
    assert counts == ([count] if count else [])


def test_a_template_of_what_is_measured_without_torch_has_not_imported_it() -> None:
    code = (
        "import sys; from benchorch.trial.templates import _Imports, _preload;"
        "_preload(_Imports(package='onnxruntime', specs=()));"
        "print([name in sys.modules for name in ('onnxruntime', 'torch')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[True, False]"


def test_a_template_imports_what_models_and_runtimes_need(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []

    def opened(spec: dict[str, str]) -> SimpleNamespace:
        of = {kind: partial(imported.append, spec[kind]) for kind in ("model", "conversion")}
        return SimpleNamespace(
            model=SimpleNamespace(preload=of["model"]),
            runtime=SimpleNamespace(preload=of["conversion"]),
            steps=(),
        )

    monkeypatch.setattr(templates_module, "open_trial", opened)
    specs = [{"model": "mlp", "conversion": name} for name in ("eager", "inductor", "eager")]
    kept = Templates(specs)._specs
    templates_module._preload(templates_module._Imports(package="torch", specs=kept))
    assert imported == ["mlp", "eager", "mlp", "inductor"]


def test_a_template_without_torch_imports_the_classes_of_trials_and_preloads_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    setup = SimpleNamespace(steps=())
    monkeypatch.setattr(templates_module, "open_trial", lambda spec: opened.append(spec) or setup)
    specs = ({"model": "mlp"}, {"model": "bert"})
    templates_module._preload(templates_module._Imports(package="onnxruntime", specs=specs))
    assert opened == [*specs]


@pytest.mark.parametrize(
    ("builds", "models", "imported"), [(True, 2, ["onnx"]), (True, 1, []), (False, 2, [])]
)
def test_a_template_of_builds_imports_what_several_of_them_build_with(
    monkeypatch: pytest.MonkeyPatch, builds: bool, models: int, imported: list[str]
) -> None:
    found: list[str] = []
    nothing = SimpleNamespace(preload=lambda: None)

    class Onnx:
        def preload(self) -> None:
            found.append("onnx")

    def opened(spec: dict[str, int]) -> SimpleNamespace:
        return SimpleNamespace(model=nothing, runtime=nothing, steps=(("onnx", Onnx()),))

    monkeypatch.setattr(templates_module, "open_trial", opened)
    # Of a step of these tests it would read every file of theirs; the next test has what it is for.
    monkeypatch.setattr(templates_module, "link_code", lambda kind: None)
    specs = tuple({"model": number} for number in range(models))
    imports = templates_module._Imports(package="torch", specs=specs, builds=builds)
    templates_module._preload(imports)
    assert found == imported


@pytest.mark.parametrize("package", ["torch", "onnxruntime"])
def test_forks_of_a_template_key_builds_by_the_code_of_steps_that_it_has_imported(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"step_of_{package}.py"
    file.write_text("class Halved:\n    share = 0.5\n    def preload(self): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module(file.stem).Halved
    code = link_code.__wrapped__(kind)
    nothing = SimpleNamespace(preload=lambda: None)
    setup = SimpleNamespace(model=nothing, runtime=nothing, steps=(("halved", kind()),))
    monkeypatch.setattr(templates_module, "open_trial", lambda spec: setup)
    templates_module._preload(templates_module._Imports(package=package, specs=({},)))
    file.write_text("class Halved:\n    share = 0.25\n    def preload(self): pass\n")
    assert link_code(kind) == code != link_code.__wrapped__(kind)
    del sys.modules[file.stem]


@pytest.mark.parametrize("loads", [3, 0])
def test_a_template_loads_models_for_its_processes_only_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, loads: int
) -> None:
    kept: list[object] = []
    nothing = SimpleNamespace(preload=lambda: None)
    setup = SimpleNamespace(model=nothing, runtime=nothing, steps=())
    monkeypatch.setattr(templates_module, "open_trial", lambda spec: setup)
    monkeypatch.setattr(templates_module, "keep", lambda *given: kept.append(given))
    imports = templates_module._Imports(package="torch", specs=({},), loads=loads)
    templates_module._preload(imports)
    assert kept == ([(setup, loads)] if loads else [])


def test_inductor_is_imported_without_a_thread() -> None:
    code = (
        "import sys; from benchorch.runtimes.inductor import Inductor; Inductor().preload();"
        "from benchorch.host.processes.template import _is_alone;"
        "print('torch._inductor.compile_fx' in sys.modules, _is_alone())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "True True"


def test_a_template_collects_no_garbage_while_it_imports_and_its_forks_do_again() -> None:
    code = """
import gc, socket, sys
from benchorch.host.processes import child_channel, template
from benchorch.trial import templates, worker
states = []
child_channel.die_with_parent = child_channel.prefer_to_die = child_channel.Channel = lambda: None
child_channel.read_request = lambda _: None
templates._preload = lambda _: states.append(gc.isenabled())
template.serve = lambda *_: states.append(gc.isenabled())
sys.argv = ["", "0"]
templates.main()
print(states)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[False, True]"


class Playing:
    """Templates, and children whose ends are given in order."""

    def __init__(self, *ends: Failure | ExecutorError | None, usable: bool = True) -> None:
        self.is_usable = usable
        self.forked: list[bool] = []
        self._ends = iter(ends)

    def of(self, package: str, environment: object, log: Path) -> Playing:
        return self

    def child(self, *_: object, template: object = None, **__: object) -> ChildReply[Any]:
        self.forked.append(template is not None)
        end = next(self._ends)
        if isinstance(end, ExecutorError):
            raise end
        answer = None if end else "reply"
        return ChildReply(reply=answer, failure=end, partial=None, elapsed_s=1.0)


def failing(kind: str) -> Failure:
    return Failure(stage="measure", kind=kind, message="no")


def runner(playing: Playing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageRunner:
    monkeypatch.setattr(stage_runner, "run_child", playing.child)
    session = Session(plan_id="p", directory=tmp_path, store={}, rebuild="if_needed")
    trial = Trial(trial_id="one", labels={}, spec={"limits": json.loads(json.dumps(LIMITS))})
    return StageRunner(
        trial,
        session,
        isolated=True,
        on_message=lambda *_: None,
        templates=playing,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("end", "usable"),
    [
        (failing("crash:SIGSEGV"), True),
        (failing("oom"), False),
        (ExecutorError("the template has ended"), False),
    ],
)
def test_what_is_lost_by_forking_is_executed_afresh(
    end: Failure | ExecutorError, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing = Playing(end, None, usable=usable)
    run = runner(playing, tmp_path, monkeypatch)
    assert run.run(stages.MEASURE, None, template="torch") == "reply"  # type: ignore[arg-type,comparison-overlap]
    assert playing.forked == [True, False]
    assert not run.forked


def test_a_failure_that_a_forked_process_reports_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing = Playing(failing("raised:ValueError"))
    with pytest.raises(StageFailed, match="no"):
        runner(playing, tmp_path, monkeypatch).run(stages.MEASURE, None, template="torch")  # type: ignore[arg-type]
    assert playing.forked == [True]


@pytest.mark.parametrize("package", ["torch", ""])
def test_what_may_be_forked_is(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing = Playing(None)
    run = runner(playing, tmp_path, monkeypatch)
    run.run(stages.MEASURE, None, template=package)  # type: ignore[arg-type]
    assert playing.forked == [bool(package)] == [run.forked]


@pytest.mark.parametrize(("running", "names"), [(False, ["find", "build"]), (True, ["build"])])
def test_a_process_that_only_looks_in_the_store_is_started_where_no_template_runs(
    running: bool, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(stage: object, request: Any, template: str = "") -> SimpleNamespace:
        ran.append("find" if request.only_find else "build")
        return SimpleNamespace(built=None)

    stage_runs = SimpleNamespace(
        threads=1, add_time=lambda *_: None, run=run, has_template=lambda package: running
    )
    trial = Trial(trial_id="one", labels={}, spec={})
    of_trial: Any = SimpleNamespace(
        _stages=stage_runs, _store=None, _session=Session(**SESSION), trial=trial
    )
    setup: Any = SimpleNamespace(requires=("torch",))
    job = SimpleNamespace(find=lambda: None)
    monkeypatch.setattr(supervisor, "BuildJob", SimpleNamespace(of=lambda *_: job))
    monkeypatch.setattr(supervisor, "template_for", lambda *_: "torch")
    TrialRun._build(of_trial, setup, {}, "one")
    assert ran == names

"""`make test-gpu`'s own logic, with pieces that need no GPU: fail, hang, resume, and the page."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands.conversion_catalog import Catalog
from benchorch.config.composer import Composer, config_loader
from benchorch.config.directories import builtin_directory
from benchorch.config.trial_setup import open_trial
from support.synthetic_runs import AGREES, result, trial, write_run
from support.waiting import until

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test_gpu.py"


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("test_gpu_script_under_test", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "no_gpu", lambda: None)
    return module


def piece(script, name, code, *words):
    return script.Piece(
        name=name,
        command=lambda folder: [sys.executable, "-c", code, folder, *words],
        read=lambda _, said: script._verdict(json.loads(said)),
    )


def says(script, name, told):
    return piece(script, name, f"print({json.dumps(told)!r})")


def run(script, work, pieces, *words):
    return script.main(["--work", str(work), *words], pieces)


def states(work):
    told = json.loads((work / "report.json").read_text())
    return {name: each and each["state"] for name, each in told.items()}


def test_without_a_gpu_it_says_so_and_claims_nothing(tmp_path):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, SCRIPT, "--work", tmp_path / "work"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing was tried, and nothing is claimed: ")
    assert len(done.stdout.splitlines()) == 1
    assert not (tmp_path / "work").exists()


HANGS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
(pathlib.Path(sys.argv[1]) / 'child').write_text(str(child.pid))
time.sleep(60)
"""


def test_every_end_of_a_piece_is_told_apart_and_on_the_page(script, tmp_path):
    """One that hangs is ended with the process that it started."""

    class Missing(script.Piece):
        pass

    def nothing_there(*_):
        raise script.Skipped("needs tensorrt")

    pieces = [
        says(script, "good", {"relative_l2": 2e-5}),
        says(script, "bad", {"broke": "a | b\nc"}),
        piece(script, "dies", "raise SystemExit('no such device')"),
        piece(script, "sleeps", HANGS),
        script.Piece(name="absent", command=says(script, "", {}).command, read=nothing_there),
    ]
    assert run(script, tmp_path, pieces, "--limit-s", "15") == 1
    assert list(states(tmp_path).values()) == ["held", "broke", "broke", "hung", "skipped"]
    page = (tmp_path / "report.md").read_text()
    assert "1 held, 2 broke, 1 hung, 1 skipped." in page
    assert "| 2.0e-05 |" in page
    assert "| a / b c |" in page
    assert "last line: no such device" in page
    assert "needs tensorrt" in page
    child = Path("/proc", (tmp_path / "sleeps" / "child").read_text(), "stat")
    gone = lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"  # noqa: E731
    assert until(gone, 300), "the process that it started is still there"


def test_what_skips_and_holds_is_no_failure(script, tmp_path):
    assert run(script, tmp_path, [says(script, "good", {})]) == 0


def test_what_is_done_is_not_done_again_unless_asked(script, tmp_path):
    count = "import pathlib, sys; f = pathlib.Path(sys.argv[1]) / 'n'; "
    count += "f.write_text((f.read_text() if f.exists() else '') + 'x'); print('{}')"
    pieces = [piece(script, name, count) for name in ("one", "two")]
    ran = lambda: [len((tmp_path / name / "n").read_text()) for name in ("one", "two")]  # noqa: E731

    run(script, tmp_path, pieces, "--only", "one")
    assert states(tmp_path) == {"one": "held", "two": None}
    run(script, tmp_path, pieces)
    assert ran() == [1, 1]
    run(script, tmp_path, pieces, "--only", "two", "--again")
    assert ran() == [1, 2]
    # Ended in the middle of writing what came of it.
    (tmp_path / "done" / "one.json").write_text('{"state": "he')
    run(script, tmp_path, pieces)
    assert ran() == [2, 2]


@pytest.mark.parametrize("limit", ["0", "601", "-1"])
def test_a_limit_that_is_none_is_refused(script, tmp_path, capsys, limit):
    with pytest.raises(SystemExit) as caught:
        run(script, tmp_path, [], "--limit-s", limit)
    assert caught.value.code == 2
    assert "it must be above 0, at most 600" in capsys.readouterr().err


def test_every_conversion_that_needs_a_gpu_is_tried(script):
    catalog = Catalog([builtin_directory("conf")])
    needs = set()
    for name in catalog.names:
        opened = catalog.open(name)
        reason = None if opened.retired or opened.problems else opened.unavailable("cpu")
        if reason and "NVIDIA" in reason:
            needs.add(name)
    assert {"tensorrt", "onnxruntime_cuda"} <= needs
    assert needs <= set(script.CONVERSIONS)


def test_every_piece_is_one_that_composes(script, tmp_path):
    composer, seen = Composer(config_loader()), set()
    for each in script.every_piece():
        command = each.command(tmp_path)
        repeated = "/tf32=" in each.name and not each.name.endswith("/eager")
        if "benchorch" in command and not (repeated and "mlp/tf32=false" not in each.name):
            words = [word for word in command[3:] if not word.startswith(("store.root", "hydra."))]
            cells = composer.cells(words)
            setup = open_trial(cells[0].config)
            assert setup.on_gpu
            seen.add((cells[0].choices["model"], setup.protocol.tf32))
    assert len(seen) == 6, "three models under both settings"


def test_nothing_agrees_with_a_baseline_that_is_not_deterministic(script, tmp_path):
    eager = trial()
    random = replace(result(eager), parity=AGREES.not_deterministic("it draws"))
    fast = trial("fast", baseline=eager)
    place = write_run(tmp_path / "run", (fast, result(fast)), (eager, random))
    with pytest.raises(script.Broke, match="it draws"):
        script._agrees(script._result(place, "fast"), place)


@pytest.mark.slow
def test_results_and_traces_are_read_where_benchorch_leaves_them(script, tmp_path, monkeypatch):
    here = [word for word in script.SETTINGS if not word.startswith("hardware")]
    monkeypatch.setattr(script, "SETTINGS", (*here, "hardware=local", "hardware.threads=1"))
    names = ["conversion=eager", "profiler=torch"]
    pieces = [
        script._run("events", "mlp", names, lambda *found: {"n": len(script._events(*found))}),
        script._run("kernels", "mlp", names, script._has_kernels),
        script._run("parity", "mlp", names, script._agrees),
        script._run("gone", "mlp", ["conversion=tensorrt", "profiler=none"], script._agrees),
    ]
    assert run(script, tmp_path, pieces) == 1
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["events"]["found"]["n"] > 0
    assert told["events"]["found"]["relative_l2"] is not None
    assert told["kernels"]["why"].startswith("the trace has no kernels")
    assert "processes report {None}" in told["parity"]["why"], "no TF32 on a processor"
    assert told["gone"]["state"] == "skipped"

"""A folder that was downloaded: standing in it runs nothing of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from support.ports import free_port
from support.synthetic_runs import write_run

PLANT = "import pathlib; pathlib.Path({marker!r}).touch()\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BENCHORCH_CACHE_DIR", str(tmp_path / "store"))
    return tmp_path


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchorch", *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("words", [["plan", "model=mlp", "conversion=eager"], ["--help"]])
def test_neither_plugins_nor_look_alikes_of_packages_are_imported(
    place: Path, words: list[str]
) -> None:
    plant = PLANT.format(marker=str(place / "marker"))
    (place / "hydra_plugins" / "evil").mkdir(parents=True)
    (place / "hydra_plugins" / "evil" / "__init__.py").write_text(plant)
    for name in ("yaml", "hydra", "omegaconf", "torch", "numpy", "onnxruntime", "sitecustomize"):
        (place / f"{name}.py").write_text(plant)
    done = run(place, *words)
    assert done.returncode == 0, done.stderr
    assert not (place / "marker").exists()


def test_a_trial_imports_no_look_alike_of_a_package(place: Path) -> None:
    plant = PLANT.format(marker=str(place / "marker"))
    for name in ("torch", "numpy", "scipy", "psutil"):
        (place / f"{name}.py").write_text(plant)
    words = ("model=mlp", "conversion=eager", "recorder=none", "profiler=none", "stopping=fixed")
    words += ("stopping.processes=1", "stopping.window_s=0.05", "protocol.pairing=none")
    words += ("protocol.canary_tolerance_ratio=null",)
    done = run(place, *words, "baseline=null", "hydra.run.dir=out")
    assert not (place / "marker").exists()
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_trackers_server_imports_nothing_of_the_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow runs ``python -m uvicorn`` in the folder that `benchorch ui` is given in."""
    from benchorch.cli.commands.ui import prepare
    from benchorch.recorders.mlflow import create_store

    monkeypatch.chdir(place)
    launch = prepare(free_port())
    create_store(launch.store)
    for name in ("uvicorn", "mlflow", "fastapi", "json"):
        (place / f"{name}.py").write_text(PLANT.format(marker=str(place / "marker")))
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            launch.argv,
            env=dict(launch.environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as server,
    ):
        try:
            deadline = time.monotonic() + 240
            while not _answers(f"{launch.url}/health"):
                assert server.poll() is None, (place / "log").read_text()
                assert time.monotonic() < deadline, (place / "log").read_text()
                time.sleep(0.2)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert not (place / "marker").exists()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def test_a_duel_of_environments_imports_nothing_of_the_folder(place: Path) -> None:
    from benchorch.journal.run_directory import read_plan, write_plan
    from benchorch.run.duel.contender import CodeVersion, started

    run = write_run(place / "run")
    session = {**read_plan(run).session, "cwd": str(place), "rebuild": "if_needed"}
    write_plan(run, replace(read_plan(run), session=session))
    for name in ("msgspec", "json", "benchorch"):
        (place / f"{name}.py").write_text(PLANT.format(marker=str(place / "marker")))
    side = CodeVersion(
        name="old", what="", python=sys.executable, folder=place, search=(), directory=run
    )
    with started(side, modules=()) as contender:
        assert contender.origin.executable == sys.executable
    assert not (place / "marker").exists()


@pytest.mark.parametrize(
    ("name", "unknown", "is_noted"),
    [
        ("evil", None, True),
        ("a=b", None, True),
        ("a.b", None, True),
        ("a\u2028b", None, True),
        ("\udcff", None, True),
        ("evil", "--config-env", True),
        ("a=b", "--config-env", False),
        ("evil", "--show-scope", False),
    ],
    ids=["evil", "sign", "dot", "line", "byte", "git 2.30", "sign and git 2.30", "git 2.25"],
)
def test_a_repositorys_own_commands_are_not_run(
    place: Path, name: str, unknown: str | None, is_noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchorch.host.environment import git_revision

    marker, repository = place / "marker", place / "repository"
    repository.mkdir()

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", repository, *words], check=True, capture_output=True)

    git("init", "-q")
    (repository / "file").write_text("1")
    (repository / ".gitattributes").write_bytes(os.fsencode(f'"file" filter={name}\n'))
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one")
    git("config", f"filter.{name}.required", "true")
    keys = ("core.fsmonitor", f"filter.{name}.clean", f"filter.{name}.process", "core.pager")
    for key in keys:
        git("config", key, f"touch {marker}; cat")
    (repository / "file").write_text("2")
    if unknown:  # to an older git
        older, real = place / "git", shutil.which("git")
        older.write_text(f'#!/bin/sh\ncase "$*" in *{unknown}*) exit 129; esac\nexec {real} "$@"\n')
        older.chmod(0o755)
        monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    revision = git_revision(repository)
    assert not marker.exists()
    assert (revision or "").endswith("-dirty") is is_noted

"""A stranger's run: links and pipes in it are neither read, written through nor waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_lines import Commands
from support.slices import one_in
from support.synthetic_runs import result, trial, write_run

COMMANDS = {
    "status": "status @D",
    "report": "report @D",
    "a page": "report @D --output page.html",
    "its results": "report @D/results.jsonl",
    "check": "check @D",
    "logs": "logs @D",
    "record": "record @D --uri sqlite:///own.db",
    "compare": "compare @D @D",
    "history": "history @D --output site",
    "export": "export @D --output exported",
    "a bundle": "reproduce @D --bundle b.zip",
    "open": "open @D --no-browser",
    "rerun": "rerun @D --trust @D",
    "resume": "resume @D --trust @D",
    "cancel": "cancel @D --yes",
}


def link_to_a_secret(run: Path, secret: Path) -> None:
    log = next((run / "trials").iterdir()) / "log.txt"
    log.unlink(missing_ok=True)
    log.symlink_to(secret)


def page_elsewhere(run: Path, secret: Path) -> None:
    (run / "report.html").symlink_to(secret)


def second_name(run: Path, secret: Path) -> None:
    (run / "recorded.jsonl").hardlink_to(secret)


def folder_elsewhere(run: Path, secret: Path) -> None:
    (run / "notes").symlink_to(secret.parent)


def pipe_for_results(run: Path, secret: Path) -> None:
    (run / "results.jsonl").unlink()
    os.mkfifo(run / "results.jsonl")


def endless_plan(run: Path, secret: Path) -> None:
    (run / "plan.json").unlink()
    (run / "plan.json").symlink_to("/dev/zero")


CHANGES = (
    *(link_to_a_secret, page_elsewhere, second_name, folder_elsewhere),
    *(pipe_for_results, endless_plan),
)


@pytest.mark.parametrize("command", one_in(3, COMMANDS))
def test_a_run_of_others_with_links_is_refused_by_every_command(
    command: str, commands: Commands, tmp_path: Path
) -> None:
    secret = tmp_path / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("hunter2\n")
    number = list(COMMANDS).index(command)
    change: Callable[[Path, Path], None]
    for change in (CHANGES[number % len(CHANGES)], CHANGES[(number + 2) % len(CHANGES)]):
        eager = trial()
        run = write_run(tmp_path / change.__name__, (eager, result(eager)))
        change(run, secret)
        words = COMMANDS[command].replace("@D", str(run)).split()
        done = commands.run(tmp_path, words, cpu_s=10)
        assert done.code == 2, done.output
        assert "remove it first" in done.output, done.output
        assert "hunter2" not in done.output
    assert secret.read_text() == "hunter2\n"
    assert list(secret.parent.iterdir()) == [secret]


def test_a_tracker_that_a_plan_of_others_names_is_sent_nothing(
    commands: Commands, tmp_path: Path
) -> None:
    eager = trial()
    run = write_run(tmp_path / "run", (eager, result(eager)))
    plan = json.loads((run / "plan.json").read_text())
    plan["session"] = {
        **plan["session"],
        "tracking": {"_target_": "benchorch.recorders.mlflow.Mlflow", "uri": "http://127.0.0.1:1"},
    }
    (run / "plan.json").write_text(json.dumps(plan))
    refused = commands.run(tmp_path, ["record", str(run)])
    assert refused.code == 2
    assert f"--trust {run}" in refused.output
    tried = commands.run(tmp_path, ["record", str(run), "--trust", str(run)], cpu_s=60)
    assert "127.0.0.1:1" in tried.output
    assert "made elsewhere" not in tried.output

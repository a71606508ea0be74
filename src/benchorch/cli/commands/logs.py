"""``benchorch logs RUN [TRIAL]``: the output of a trial's processes, or of the coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.remote_head import HeadCommand
from benchorch.cli.commands.status import A_RUN
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.files import open_regular, read_bytes
from benchorch.journal import run_directory
from benchorch.journal.lock import LOG, is_running
from benchorch.journal.registry import find_invocation
from benchorch.run.selection import named
from benchorch.run.sidecar import schedule_idle
from benchorch.trial.supervisor import LOG as TRIAL_LOG

_LOOK_S = 1.0


@command(
    "logs",
    cls=HeadCommand,
    help=f"""The output of a trial's processes, or of the coordinator.

    RUN is {A_RUN}; TRIAL the beginning of a trial's id, or its name.
    """,
)
@run_argument()
@click.argument("trial", metavar="[TRIAL]", required=False)
@click.option("--follow", "-f", is_flag=True, help="continue until the run has ended")
def run(terminal: Terminal, run: str, trial: str | None, follow: bool) -> Reply:
    """The log; with ``--follow`` also what is added, until the run has ended.

    For a file and for programs, that is one answer at the end of the run.
    """
    directory = find_invocation(run, "logs")
    path = _path(directory, trial, following=follow)
    if follow:
        at_once = not (terminal.as_json or terminal.output)
        for added in _follow(directory, path):
            if at_once:
                terminal.part(added)
        if at_once:
            return Reply(text="", data={"log": str(path)})
        if not path.exists():
            raise _no_log(directory, trial)
    text = read_bytes(path).decode(errors="replace")
    so_far = " so far" if is_running(directory) else ""
    shown = text.rstrip("\n") or f"{path} is empty{so_far}."
    return Reply(text=shown, data={"log": str(path), "text": text}, verbatim=True)


def _path(directory: Path, trial: str | None, *, following: bool) -> Path:
    """The requested file; ConfigError where there is none and none will come."""
    plan = run_directory.read_plan(directory)
    path = directory / LOG
    if trial is not None:
        logs = {path.parent.name: path for path in _trial_logs(directory)}
        if trial in logs:  # a shared pre-build is in no plan
            return logs[trial]
        path = directory / "trials" / named(plan.trials, trial).trial_id / TRIAL_LOG
    if path.exists() or (following and trial is not None and is_running(directory)):
        return path
    raise _no_log(directory, trial)


def _no_log(directory: Path, trial: str | None) -> ConfigError:
    """Why there is no log, and what there is."""
    plan_id = run_directory.read_plan(directory).plan_id
    names = [path.parent.name for path in _trial_logs(directory)]
    problem = f"{trial}: no output yet. See benchorch status {plan_id}."
    if trial is None:
        problem = (
            f"{directory} has no {LOG}: the run wrote to the terminal that started it; `benchorch "
            f"submit` writes a log. Trials with a log: {', '.join(names) or 'none so far'}."
        )
    line = f"logs {plan_id} {names[0]}" if names else f"status {plan_id}"
    return ConfigError([problem], next=f"benchorch {line}")


def _trial_logs(directory: Path) -> list[Path]:
    return sorted((directory / "trials").glob(f"*/{TRIAL_LOG}"))


def _follow(directory: Path, path: Path) -> Iterator[str]:
    """The log and what is added, as it comes, and the rest once the run has ended."""
    schedule_idle()  # measurements on this machine come first
    printed = 0
    goes_on = True
    while goes_on:
        goes_on = is_running(directory)
        added = _added(path, printed, whole_lines=goes_on)
        if added:
            yield added.decode(errors="replace").rstrip("\n")
            printed += len(added)
        elif goes_on:
            time.sleep(_LOOK_S)


def _added(path: Path, start: int, *, whole_lines: bool) -> bytes:
    """A file from a byte on, or only whole lines; nothing where it does not exist yet."""
    lines = b""
    with suppress(FileNotFoundError), open_regular(path) as file:
        file.seek(start)
        lines = file.read()
    return lines[: lines.rfind(b"\n") + 1] if whole_lines else lines

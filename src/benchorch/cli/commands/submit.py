"""``benchorch submit WORDS``: start a run that outlives the terminal, here or on a head."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.journal import run_directory
from benchorch.journal.lock import LOG, read_driver
from benchorch.journal.registry import find_invocation, new_directory

RESUME_HELP = """usage: python -m benchorch resume RUN [key=value ...]

Goes on with a run that was ended before its plan was: what has a result keeps it. RUN is the run's
directory or the last part of its path, its plan's id or its MLflow run's id."""
PLACES = ("hydra.run.dir", "hydra.sweep.dir")
HEADS_CLUSTER = Path("/etc/benchorch/cluster.yaml")
"""What a head of the stack on AWS may hire, where its start script has put it."""

_START_S = 120.0
_LOOK_S = 0.1
_TAIL_LINES = 30

Foresee = Callable[[Sequence[str]], None]
"""Raises ConfigError for words that no run would take; starts nothing."""


def parser() -> argparse.ArgumentParser:
    """The flags of its own; every other word is the run's."""
    asked = argparse.ArgumentParser(
        prog="benchorch submit",
        description=__doc__,
        usage="benchorch submit [--head URL | --here] [--working-dir DIR] WORDS ...",
        epilog="WORDS are those of a run: a recipe, key=value, -m, or resume RUN.",
        allow_abbrev=False,
    )
    # These two are taken out before; here they are only told.
    asked.add_argument("--head", metavar="URL", help="a Ray head's dashboard, this end of a tunnel")
    asked.add_argument("--here", action="store_true", help="on this machine, whatever is set")
    asked.add_argument(
        "--working-dir", metavar="DIR", type=Path, help="recipes and code that travel to the head"
    )
    asked.add_argument("--json", action="store_true", help="for programs")
    asked.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    asked.add_argument("--with-code", action="store_true", help=argparse.SUPPRESS)
    return asked


def run_here(words: Sequence[str], foresee: Foresee) -> Reply:
    """Start a driver in a session of its own; answers once it has taken the run up.

    Args:
        words: the run's.
        foresee: looks at them first, while somebody reads what it says.
    """
    foresee(words)
    directory = _directory(words)
    directory.mkdir(parents=True, exist_ok=True)
    before = read_driver(directory)
    process = _detached([*words, *_placed(words, directory)], directory / LOG)
    until_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until_s:
        driver = read_driver(directory)
        if driver is not None and driver != before and driver.pid == process.pid:
            return _started(directory)
        time.sleep(_LOOK_S)
    code = process.poll()
    if code == 0:
        return _started(directory)  # there was nothing left to do
    if code is None:
        text = f"Process {process.pid} is still getting ready; it writes to {directory / LOG}."
        return Reply(text=text, data={"directory": str(directory), "pid": process.pid})
    text = f"The run did not start:\n{_tail(directory / LOG)}"
    return Reply(text=text, data={"directory": str(directory), "pid": None}, exit_code=code)


def resumed(words: Sequence[str]) -> list[str]:
    """``resume RUN`` as the word of the configuration that it is."""
    if words and words[0] == "resume":
        if len(words) < 2:
            raise ConfigError(["resume needs to know which: benchorch submit resume RUN."])
        return [f"resume={words[1]}", *words[2:]]
    if not words:
        raise ConfigError(["submit needs a run's words, such as: benchorch submit model=bert"])
    return list(words)


def _directory(words: Sequence[str]) -> Path:
    """Where the run is kept: the one it goes on in, one that is named, or a new one."""
    for word in words:
        key, _, value = word.partition("=")
        if key == "resume":
            return find_invocation(value).resolve()
        if key in PLACES:
            if "$" in value:
                raise ConfigError([f"{word}: submit must know the directory now; name it whole."])
            return Path(value).resolve()
    return new_directory().resolve()


def _placed(words: Sequence[str], directory: Path) -> list[str]:
    if any(word.startswith("resume=") for word in words):
        return []
    return [f"{place}={directory}" for place in PLACES if not _names(words, place)]


def _names(words: Sequence[str], key: str) -> bool:
    return any(word.startswith(f"{key}=") for word in words)


def _detached(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A driver that no terminal ends: a session of its own, its output in a file."""
    _hear_interrupts()
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "benchorch", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _hear_interrupts() -> None:
    """Lest `cancel` ends nothing: a script's background jobs ignore SIGINT, and Ray's block it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _started(directory: Path) -> Reply:
    plan = run_directory.read_plan(directory)
    driver = read_driver(directory)
    pid = driver.pid if driver else None
    text = (
        f"{plan.name} plan {plan.plan_id}: {len(plan.trials)} trials, driven by process {pid}.\n"
        f"{next_words(plan.plan_id, '')}\n  results   {directory}"
    )
    return Reply(text=text, data={"directory": str(directory), "plan_id": plan.plan_id, "pid": pid})


def next_words(reference: str, flags: str) -> str:
    """How to find the run again."""
    words = (
        ("status", f"status {reference} --watch"),
        ("log", f"logs {reference} --follow"),
        ("end", f"cancel {reference}"),
    )
    return "\n".join(f"  {title:9} python -m benchorch {word}{flags}" for title, word in words)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])


def settle(name: str, words: Sequence[str], *, with_code: bool) -> list[str]:
    """Make this process the driver of a run in the user's own state; the words of that run.

    What the submitter's code was unpacked to is Ray's, and gone when the job ends.

    Args:
        name: of the run's directory.
        words: the run's.
        with_code: whether the working directory is the submitter's.
    """
    import shutil

    from benchorch.journal.registry import state_directory

    directory = state_directory() / "runs" / name
    code = directory / "code"
    if with_code:
        shutil.copytree(Path.cwd(), code, dirs_exist_ok=True)
    code.mkdir(parents=True, exist_ok=True)
    _hear_interrupts()
    os.chdir(code)
    _note_log(directory / LOG)
    return [*words, *_on_its_cluster(words), *_placed(words, directory)]


def _on_its_cluster(words: Sequence[str]) -> Sequence[str]:
    """The head's own machines, unless the words name an executor or have named one before."""
    if _names(words, "executor") or _names(words, "resume"):
        return ()
    if HEADS_CLUSTER.exists():
        return ("executor=ec2",)
    return ("executor=ray", "executor.address=auto")


def _note_log(link: Path) -> None:
    """Let `logs` find the file that this process writes to, where the system tells which it is."""
    try:
        written = Path("/proc/self/fd/1").readlink()
        if written.is_file():
            link.symlink_to(written)
    except OSError:
        return

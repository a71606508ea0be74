"""``benchorch submit ARGUMENTS``: start a run that outlives the terminal, here or on a head."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from benchorch.cli.arguments import parse
from benchorch.cli.catalog import COMMANDS
from benchorch.cli.command import Words, command, words_argument
from benchorch.cli.commands import remote_head
from benchorch.cli.commands.plan import check
from benchorch.cli.commands.remote_head import next_words
from benchorch.cli.run import benchmark
from benchorch.cli.terminal import Terminal
from benchorch.config.overrides import spelled
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.executors.ray_jobs import RayJobs, default_head
from benchorch.journal import run_directory
from benchorch.journal.lock import LOG, read_coordinator
from benchorch.journal.registry import find_invocation, new_directory
from benchorch.models import trust

PLACES = ("hydra.run.dir", "hydra.sweep.dir")
HEADS_CLUSTER = Path("/etc/benchorch/cluster.yaml")
"""The node types of an AWS stack's head, written by its start script."""

_START_S = 120.0
_LOOK_S = 0.1
_TAIL_LINES = 30

Check = Callable[[Sequence[str]], None]
"""Raises ConfigError where the arguments are wrong; starts nothing."""


@command(
    "submit",
    cls=Words,
    help="""Start a run that outlives the terminal, here or on a head.

    WORDS are those of a run: a recipe, key=value, -m, or resume RUN.
    """,
)
@words_argument("WORDS ...")
@click.option("--head", metavar="URL", help="a Ray head's dashboard, this end of a tunnel")
@click.option("--here", is_flag=True, help="on this machine, whatever BENCHORCH_HEAD is")
@click.option(
    "--working-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="recipes and code to copy to the head",
)
@click.option("--as", "name", hidden=True)
@click.option("--with-code", is_flag=True, hidden=True)
def run(
    terminal: Terminal,
    words: Sequence[str],
    head: str | None,
    here: bool,
    working_dir: Path | None,
    name: str | None,
    with_code: bool,
) -> Reply | int:
    """The run's id and the commands that follow it."""
    words = resumed(words)
    if name:  # on the head: this process is the coordinator
        words = settle(name, words, with_code=with_code)
        with trust.declared(words):  # anew, in the folder of the run's code
            return benchmark(parse(words), terminal)
    url = None if here else head or default_head()
    if url is None:
        return run_here(words, check)
    if working_dir and trust.trusts(working_dir):
        words = [*words, trust.FLAG, "."]  # its copy on the head is in no work tree
    return remote_head.submit(RayJobs(url), url, words, working_dir)


def run_here(words: Sequence[str], check: Check) -> Reply:
    """Start a coordinator in a session of its own; returns once it runs the plan.

    Args:
        words: the run's arguments.
        check: plans them first, while a person can read what is wrong.
    """
    check(words)
    directory = _directory(words)
    directory.mkdir(parents=True, exist_ok=True)
    before = read_coordinator(directory)
    process = _detached([*words, *_placed(words, directory)], directory / LOG)
    until_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until_s:
        status = read_coordinator(directory)
        if status is not None and status != before and status.pid == process.pid:
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
    """The run's arguments, with ``resume RUN`` as the key that it is."""
    rest = [*words[1:]] if words[:1] in (["run"], ("run",)) else [*words]
    if rest and rest[0] in COMMANDS and rest[0] != "resume":
        raise ConfigError(
            [f"{rest[0]!r} is not a valid argument for a run: submit takes a recipe or key=value."]
        )
    if not rest:
        problem = "submit needs a run's arguments, such as: benchorch submit model=bert"
        raise ConfigError([problem], next="benchorch submit model=bert")
    if rest[0] != "resume":
        return rest
    if len(rest) < 2:
        raise ConfigError(["resume needs a run: benchorch submit resume RUN."])
    return [f"resume={rest[1]}", *rest[2:]]


def _directory(words: Sequence[str]) -> Path:
    """The run's directory: the resumed one, the named one, or a new one."""
    for word in words:
        key, _, value = word.partition("=")
        if key == "resume":
            return find_invocation(value).resolve()
        if key in PLACES:
            if "$" in value:
                raise ConfigError([f"{word}: submit needs a directory without interpolations."])
            return Path(value).resolve()
    return new_directory().resolve()


def _placed(words: Sequence[str], directory: Path) -> list[str]:
    if any(word.startswith("resume=") for word in words):
        return []
    return [f"{place}={spelled(str(directory))}" for place in PLACES if not _names(words, place)]


def _names(words: Sequence[str], key: str) -> bool:
    return any(word.startswith(f"{key}=") for word in words)


def _detached(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A coordinator that no terminal ends: a session of its own, its output in a file."""
    _accept_interrupts()
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "benchorch", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _accept_interrupts() -> None:
    """Let `cancel` work: a script's background jobs ignore SIGINT, and Ray's block it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _started(directory: Path) -> Reply:
    plan = run_directory.read_plan(directory)
    coordinator = read_coordinator(directory)
    pid = coordinator.pid if coordinator else None
    text = (
        f"{plan.name} plan {plan.plan_id}: {len(plan.trials)} trials, process {pid}.\n"
        f"{next_words(plan.plan_id, '')}\n  results   {directory}"
    )
    return Reply(text=text, data={"directory": str(directory), "plan_id": plan.plan_id, "pid": pid})


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])


def settle(name: str, words: Sequence[str], *, with_code: bool) -> list[str]:
    """Make this process a run's coordinator, with a directory in the user's state; its arguments.

    Ray deletes the directory of a job's code when the job ends, so the code is copied.

    Args:
        name: of the run's directory.
        words: the run's arguments.
        with_code: whether the working directory is the submitter's.
    """
    import shutil

    from benchorch.journal.registry import state_directory

    directory = state_directory() / "runs" / name
    code = directory / "code"
    if with_code:
        shutil.copytree(Path.cwd(), code, dirs_exist_ok=True)
    code.mkdir(parents=True, exist_ok=True)
    _accept_interrupts()
    os.chdir(code)
    _note_log(directory / LOG)
    return [*words, *_on_its_cluster(words), *_placed(words, directory)]


def _on_its_cluster(words: Sequence[str]) -> Sequence[str]:
    """The executor of the head's cluster, unless the run names one or is resumed."""
    if _names(words, "executor") or _names(words, "resume"):
        return ()
    if HEADS_CLUSTER.exists():
        return ("executor=ec2",)
    return ("executor=ray", "executor.address=auto")


def _note_log(link: Path) -> None:
    """Link the file that this process writes to, where the system has its name, for `logs`."""
    try:
        written = Path("/proc/self/fd/1").readlink()
        if written.is_file():
            link.symlink_to(written)
    except OSError:
        return

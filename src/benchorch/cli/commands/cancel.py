"""``benchorch cancel RUN``: end a run as Ctrl-C would, from any terminal; results are kept."""

import contextlib
import math
import os
import signal
import socket
import time
from pathlib import Path

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.remote_head import UNCHANGED, HeadCommand
from benchorch.cli.commands.status import A_RUN, facts
from benchorch.cli.commands.sweep_status import SweepState, SweepStatus, read_sweep
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.journal.lock import is_coordinator_process, is_running
from benchorch.journal.registry import find_invocation

_PAST = {
    SweepState.ENDED: "has ended",
    SweepState.INTERRUPTED: "was interrupted",
    SweepState.DEAD: "died",
}
_LOOK_S = 0.2
_WAIT_S = 120.0


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise click.BadParameter(f"{text!r} is not a number of seconds, 0 or more")
    return value


@command(
    "cancel",
    cls=HeadCommand,
    help=f"""End a run as Ctrl-C would, from any terminal; results are kept.

    RUN is {A_RUN}. It requires a confirmation, which --yes gives.
    """,
)
@run_argument()
@click.option(
    "--wait",
    type=_seconds,
    default=_WAIT_S,
    metavar="S",
    help="wait at most so many seconds for its end (120)",
)
def run(terminal: Terminal, run: str, wait: float) -> Reply:
    """What was ended, what is kept and how to resume."""
    sweep = read_sweep(find_invocation(run, "cancel"))
    if not sweep.running:
        ended = _PAST[sweep.state]
        return Reply(text=f"{sweep.directory} is not running; it {ended}.", data=facts(sweep))
    problem = _not_ours(sweep)
    if problem:
        raise ConfigError([problem])
    if not terminal.confirm(_question(sweep)):
        return UNCHANGED
    _interrupt(sweep)
    terminal.say("interrupted its coordinator; a measuring process gets a moment to end ...")
    if not _ended(sweep.directory, wait):
        text = (
            f"{sweep.directory} is still ending after {wait:g} s: its coordinator may be "
            "waiting for the tracker. A second interrupt ends that wait, and nothing is lost:\n"
            f"  python -m benchorch cancel {sweep.plan.plan_id} --yes"
        )
        return Reply(text=text, data=facts(read_sweep(sweep.directory)), exit_code=1)
    after = read_sweep(sweep.directory)
    return Reply(text=_after(after), data=facts(after))


def _not_ours(sweep: SweepStatus) -> str:
    """Why no process may be signalled, or nothing: process numbers are reused."""
    coordinator = sweep.coordinator
    if coordinator is None:
        return f"{sweep.directory} is running, but its coordinator has not written its status yet."
    if coordinator.host != socket.gethostname():
        return f"{sweep.directory} is coordinated on {coordinator.host}: cancel it there."
    if not is_coordinator_process(coordinator, sweep.directory):
        return (
            f"{sweep.directory} is running, but process {coordinator.pid} is not its coordinator, "
            "or is another user's; nothing was ended."
        )
    return ""


def _question(sweep: SweepStatus) -> str:
    count = len(sweep.busy)
    lost = f" {count} running now will start again when it is resumed." if count else ""
    return (
        f"End {sweep.plan.name} plan {sweep.plan.plan_id}? {sweep.done} of "
        f"{len(sweep.plan.trials)} trials are done and kept.{lost} [yes/no] "
    )


def _interrupt(sweep: SweepStatus) -> None:
    assert sweep.coordinator is not None  # _not_ours has checked it
    try:
        os.kill(sweep.coordinator.pid, _interrupt_of(sweep.coordinator.pid))
    except ProcessLookupError:
        return  # ended by itself meanwhile
    except PermissionError as error:
        raise ConfigError(
            [f"Process {sweep.coordinator.pid} is another user's: ask them, or use their account."]
        ) from error


def _interrupt_of(pid: int) -> signal.Signals:
    """The signal that interrupts a coordinator: SIGTERM where it ignores SIGINT.

    Jobs that a script starts with ``&`` ignore it, so that Ctrl-C leaves them running.
    """
    if not _has_signal(pid, "SigIgn", signal.SIGINT):
        return signal.SIGINT
    if not _has_signal(pid, "SigCgt", signal.SIGTERM):
        problem = (
            f"Process {pid} ignores interrupts, as a script's background jobs do; nothing was "
            f"ended. `kill {pid}` ends it, and what was measured is kept."
        )
        raise ConfigError([problem])
    return signal.SIGTERM


def _has_signal(pid: int, mask: str, number: signal.Signals) -> bool:
    """Whether a process has a signal in a mask of proc_pid_status(5); False without /proc."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{mask}:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _ended(directory: Path, wait_s: float) -> bool:
    until_s = time.monotonic() + wait_s
    while is_running(directory):
        if time.monotonic() >= until_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _after(sweep: SweepStatus) -> str:
    kept = f"{sweep.done} of {len(sweep.plan.trials)} trials are kept in {sweep.directory}."
    if not sweep.left:
        return f"It had just ended: {kept}"
    return f"Ended. {kept}\nResume with: python -m benchorch resume {sweep.plan.plan_id}"

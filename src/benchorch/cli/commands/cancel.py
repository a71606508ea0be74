"""``benchorch cancel RUN``: end a run as Ctrl-C would, from any terminal; results are kept."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchorch.cli.commands.status import facts, run_parser
from benchorch.cli.commands.sweep_status import State, SweepStatus, read_sweep
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.journal.lock import is_coordinator_process, is_running
from benchorch.journal.registry import find_invocation

YES = ("y", "yes")
UNCHANGED = Reply(text="Nothing was changed.", data={"changed": False}, exit_code=1)
_PAST = {State.ENDED: "has ended", State.INTERRUPTED: "was interrupted", State.DEAD: "died"}
_LOOK_S = 0.2
_WAIT_S = 120.0


def run(arguments: Sequence[str], ask: Callable[[str], str], say: Callable[[str], None]) -> Reply:
    """What was ended, what is kept and how to resume.

    Args:
        arguments: those after ``cancel``.
        ask: asks a person; returns the answer.
        say: receives what is waited for.
    """
    parser = run_parser("cancel", __doc__)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--wait", type=float, default=_WAIT_S, metavar="S", help="seconds to wait for its end"
    )
    options = parser.parse_args(list(arguments))
    sweep = read_sweep(find_invocation(options.run, "cancel"))
    if not sweep.running:
        state = {"ended": "has ended", "interrupted": "was interrupted", "dead": "died"}[
            sweep.state
        ]
        return Reply(text=f"{sweep.directory} is not running; it {state}.", data=facts(sweep))
    problem = _not_ours(sweep)
    if problem:
        raise ConfigError([problem])
    if not options.yes and ask(_question(sweep)).lower() not in YES:
        return UNCHANGED
    _interrupt(sweep)
    say("interrupted its coordinator; a measuring process gets a moment to end ...")
    if not _ended(sweep.directory, options.wait):
        text = (
            f"{sweep.directory} is still ending after {options.wait:g} s: its coordinator may be "
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
        os.kill(sweep.coordinator.pid, signal.SIGINT)
    except ProcessLookupError:
        return  # ended by itself meanwhile
    except PermissionError as error:
        raise ConfigError(
            [f"Process {sweep.coordinator.pid} is another user's: ask them, or use their account."]
        ) from error


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
        return f"It had just come to its end: {kept}"
    return f"Ended. {kept}\nResume with: python -m benchorch resume {sweep.plan.plan_id}"

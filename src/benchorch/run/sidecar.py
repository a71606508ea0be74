"""Processes that bring what a run writes to somewhere else while its trials run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from benchorch.domain.trial import ConfigNode

Wait = Callable[[float], bool | None]
"""Sleeps up to so many seconds; None, or whether the run was complete once it has ended."""

LONGEST_WAIT_S = 300.0
_SILENT_S = 2.0


def recording(directory: Path, session: ConfigNode) -> Sidecar | None:
    """Copies the journal to the tracker; None where nothing is to be recorded."""
    if str(cast(ConfigNode, session["tracking"]).get("_target_", "")).endswith(".Nowhere"):
        return None
    return Sidecar.start("record", str(directory), "--follow")


def keeping(directory: Path, session: ConfigNode) -> Sidecar | None:
    """Copies the whole directory to a bucket; None where none is named."""
    place = session.get("keep_at")  # older plans have none
    return Sidecar.start("keep", str(directory), "--follow", "--at", str(place)) if place else None


def leave_interrupts_to_the_run() -> None:
    """In such a process: Ctrl-C reaches the whole process group; the run's own says when to end."""
    if not sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def follow(once: Callable[[], bool], wait: Wait, *, poll_s: float, longest_s: float) -> bool:
    """Do something until the run has ended, less often while it fails; what `wait` then says.

    Args:
        once: brings what is new; whether nothing failed.
        wait: listens to the run.
        poll_s: the pause after a success, in seconds.
        longest_s: the longest one after failures.
    """
    pause_s = poll_s
    while True:
        pause_s = poll_s if once() else min(2 * pause_s, longest_s)
        complete = wait(pause_s)
        if complete is not None:
            return complete


@dataclass(slots=True)
class Sidecar:
    """One of our commands that goes along with a run.

    It runs only when a core has nothing else to do, so it cannot disturb a measurement, and a
    service that is away blocks nobody but it.
    """

    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, *words: str) -> Sidecar:
        """Begin to follow."""
        command = [sys.executable, "-m", "benchorch", *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        _schedule(process.pid, "SCHED_IDLE")
        return cls(process)

    def finish(self, *, complete: bool, waiting: Callable[[], None]) -> bool:
        """Say that no more will come and wait; False if it could not bring everything.

        Args:
            complete: whether every trial of the plan ran.
            waiting: called once where it takes longer than a moment.
        """
        _schedule(self.process.pid, "SCHED_OTHER")
        try:
            stdin = cast(IO[bytes], self.process.stdin)
            stdin.write(json.dumps({"complete": complete}).encode() + b"\n")
            stdin.close()
        except BrokenPipeError:
            pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout=_SILENT_S) == 0
        waiting()
        try:
            return self.process.wait(timeout=LONGEST_WAIT_S) == 0
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.terminate()
            return False


def schedule_idle() -> None:
    """Let this process run only when a core has nothing else to do."""
    _schedule(os.getpid(), "SCHED_IDLE")


def _schedule(pid: int, policy: str) -> None:
    number = getattr(os, policy, None)  # only Linux has them
    if number is not None:
        try:
            os.sched_setscheduler(pid, number, os.sched_param(0))
        except OSError:  # gone already, or not permitted: then it competes like anyone
            return

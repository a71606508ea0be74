"""Sidecar processes: they copy what a run writes to a tracker or a bucket while its trials run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchorch.domain.trial import Plan
from benchorch.units import ns_to_s

Wait = Callable[[float], bool | None]
"""Sleeps up to so many seconds; None while the run goes on, then whether it was complete."""

LONGEST_WAIT_S = 300.0
_SILENT_S, _IDLE_S = 2.0, 30.0
_STARVED_RATIO = 0.5


def recording(directory: Path, plan: Plan) -> Sidecar | None:
    """Start the copy of results to the tracker; None where nothing is recorded."""
    if str(plan.recorder.get("_target_", "")).endswith(".Nowhere"):
        return None
    return Sidecar.start("record", str(directory), "--follow")


def archiving(directory: Path, plan: Plan) -> Sidecar | None:
    """Start the copy of the directory to a bucket; None where none is configured."""
    place = plan.session.get("keep_at")  # older plans have none
    return Sidecar.start("keep", str(directory), "--follow", "--at", str(place)) if place else None


def ignore_interrupts() -> None:
    """In a sidecar: leave Ctrl-C, which reaches the whole process group, to the coordinator."""
    if not sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def follow(once: Callable[[], bool], wait: Wait, *, poll_s: float, longest_s: float) -> bool:
    """Repeat a copy until the run has ended, less often while it fails; whether it was complete.

    Args:
        once: copies what is new; whether the service took it.
        wait: waits for the end of the run.
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
    """A benchorch command that runs beside a coordinator.

    It runs only when a core is idle, so it does not disturb a measurement, and a service that is
    down blocks nothing else.

    Attributes:
        reason: why not everything could be copied, once it has ended; empty where all was.
    """

    process: subprocess.Popen[bytes]
    reason: str = ""

    @classmethod
    def start(cls, *arguments: str) -> Sidecar:
        """Start the command."""
        process = _started([sys.executable, "-P", "-m", "benchorch", *arguments])
        _schedule(process.pid, "SCHED_IDLE")
        return cls(process)

    def finish(self, *, complete: bool, waiting: Callable[[], None]) -> bool:
        """Send the end of the run and wait; False where not everything could be copied.

        Args:
            complete: whether every trial of the plan ran.
            waiting: called once where it takes longer than a moment.
        """
        may_compete = _schedule(self.process.pid, "SCHED_OTHER")
        end = json.dumps({"complete": complete}).encode() + b"\n"
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._ended(self.process.communicate(end, timeout=_SILENT_S)[0])
            waiting()
            if not may_compete and self._is_starved():
                self._start_again()
                return self._ended(self.process.communicate(end, timeout=LONGEST_WAIT_S)[0])
            return self._ended(self.process.communicate(timeout=LONGEST_WAIT_S)[0])
        except subprocess.TimeoutExpired:
            self.reason = f"it did not end within {LONGEST_WAIT_S:.0f} s"
        except KeyboardInterrupt:
            self.reason = "the wait for it was interrupted"
        self.process.terminate()
        return False

    def _is_starved(self) -> bool:
        """Whether it waits for a core most of the next half minute, and does not end."""
        before_s = _waited_s(self.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_IDLE_S)
            return False
        return _waited_s(self.process.pid) - before_s >= _STARVED_RATIO * _IDLE_S

    def _start_again(self) -> None:
        """Replace a process that gets no core by one that competes for it and copies the rest.

        Without a privilege an idle process cannot become an ordinary one.
        """
        self.process.kill()
        self.process.communicate(timeout=LONGEST_WAIT_S)
        self.process = _started(cast("list[str]", self.process.args))

    def _ended(self, output: bytes) -> bool:
        if self.process.returncode == 0:
            return True
        lines = output.decode(errors="replace").strip().splitlines()
        self.reason = lines[-1] if lines else f"its process ended with {self.process.returncode}"
        return False


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


def schedule_idle() -> None:
    """Run this process only when a core is idle."""
    _schedule(os.getpid(), "SCHED_IDLE")


def _schedule(pid: int, policy: str) -> bool:
    """Whether a process has this policy now, or the system has no choice of them."""
    number = getattr(os, policy, None)  # only Linux has them
    if number is not None:
        try:
            os.sched_setscheduler(pid, number, os.sched_param(0))
        except OSError:  # it has ended, or this is not permitted: it keeps the one that it has
            return False
    return True


def _waited_s(pid: int) -> float:
    """How long a process has waited for a core; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return ns_to_s(int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[1]))
    return 0.0

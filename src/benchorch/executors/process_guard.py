"""A command of which nothing is left once whoever started it is gone, however that happened.

``python -m benchorch.executors.guard FOLDER COMMAND...`` runs the command until it ends or until
its own standard input is closed, which a killed parent's is. Then every descendant is ended, also
those that left their session, and the folder is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

GRACE_S = 3.0
GIVE_UP_S = 20.0
_LOOK_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code, or 0 where it was ended on request."""
    folder, *command = arguments
    _adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        code = _wait(process.pid)
    except SystemExit:
        code = None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_descendants()
        shutil.rmtree(folder, ignore_errors=True)
    return code or 0


def end_descendants() -> None:
    """Ask every process below this one to end, then make them."""
    _signal_all(signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    while _reap() is not None and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S / 4)
    deadline_s = time.monotonic() + GIVE_UP_S
    while _signal_all(signal.SIGKILL) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S / 4)
        _reap()


def _wait(pid: int) -> int | None:
    """The child's exit code; None where this process's standard input was closed first."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK_S)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return None
        ended = _reap()
        if ended and pid in ended:
            return ended[pid]


def _reap() -> dict[int, int] | None:
    """Exit codes of children that have ended; None where there is no child."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _signal_all(number: int) -> bool:
    """Whether there was anybody to signal."""
    below = [p for p in psutil.Process().children(recursive=True) if _is_alive(p)]
    for process in below:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
    return bool(below)


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children, so that they are found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Parent-death watchdog: runs a command of which nothing is left once the parent is gone.

``python -m benchorch.executors.process_guard FOLDER COMMAND...`` runs the command until it ends or
until the watchdog's standard input is closed, which happens even when the parent is killed. Then
every descendant is ended, including those in sessions of their own, and the folder is removed.
"""

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
KILL_S = 20.0
_POLL_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit code, or 0 if it was ended on request."""
    folder, *command = arguments
    if sys.platform == "linux":  # orphaned descendants become children, so that they are found
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _exit)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    code = None
    try:
        code = _wait(process.pid)
    except SystemExit:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_descendants()
        shutil.rmtree(folder, ignore_errors=True)
    return code or 0


def end_descendants() -> None:
    """Terminate every process below this one, then kill those that are left."""
    _signal_all(signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    while _reap() is not None and time.monotonic() < deadline_s:
        time.sleep(_POLL_S / 4)
    deadline_s = time.monotonic() + KILL_S
    while _signal_all(signal.SIGKILL) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S / 4)
        _reap()


def _wait(pid: int) -> int | None:
    """The child's exit code; None if this process's standard input was closed first."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_S)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return None
        ended = _reap()
        if ended and pid in ended:
            return ended[pid]


def _reap() -> dict[int, int] | None:
    """Exit codes of children that have ended; None if there are no children."""
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
    """Whether there was any living descendant to signal."""
    signalled = False
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                process.send_signal(number)
                signalled = True
    return signalled


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

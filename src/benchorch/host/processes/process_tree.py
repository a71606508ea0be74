"""Process tree of a child: who belongs to it, how much memory it holds, how to end all of it.

A process belongs if it is in the child's group or session, if it was observed below the child while
its parent lived, or if its environment carries the child's mark: a descendant that opens a
session of its own and loses its parent is still found.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

_PROC = Path("/proc")
_POLL_S = 0.02
_EXECUTION_POLL_S = 0.001
_GIVE_UP_S = 10.0  # a process stuck in a driver outlives even SIGKILL; do not wait for it
_GONE = ("Z", "X")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    state: str
    group: int
    session: int
    started: int


@final
class ProcessTree:
    """A child that leads its own session, and everything it started."""

    def __init__(self, pid: int, mark: str) -> None:
        """The tree of a child.

        Args:
            pid: the child's, which is also its group and session; not yet reaped.
            mark: a ``NAME=value`` that only its environment contains.
        """
        self._pid = pid
        self._mark = mark.encode()
        self._observed: dict[int, int] = {}

    def scan(self) -> None:
        """Remember everything that is below the child now."""
        waiting = [self._pid]
        while waiting:
            pid = waiting.pop()
            status = _status(pid)
            if status is not None:
                self._observed[pid] = status.started
                waiting.extend(child for child in _children(pid) if child not in waiting)

    def resident_bytes(self) -> int:
        """Memory that the observed processes hold; pages that several share count in each."""
        return sum(map(_resident_bytes, self._still_observed()))

    def proportional_bytes(self) -> int:
        """Memory they hold with shared pages counted once; exact, but slow to read."""
        return sum(map(_proportional_bytes, self._still_observed()))

    def living(self) -> list[int]:
        """Every process that belongs and has not ended."""
        if not _PROC.is_dir():
            return []
        pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        return [pid for pid in pids if self._belongs(pid)]

    def end(self, grace_s: float) -> None:
        """Ask them to end, then make them; afterwards none is left.

        Args:
            grace_s: how long they may take after SIGTERM; 0 means SIGKILL at once.
        """
        if grace_s > 0:
            self._signal(signal.SIGTERM)
            _wait_until(lambda: not self.living(), grace_s)
        _wait_until(lambda: not self._signal(signal.SIGKILL), _GIVE_UP_S)

    def _signal(self, number: int) -> list[int]:
        """Send a signal to all that live; returns whom."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)
        living = self.living()
        for pid in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return living

    def _still_observed(self) -> list[int]:
        """The observed processes, without numbers that others have been given since."""
        if not self._observed:
            return [self._pid]
        found = ((pid, started, _status(pid)) for pid, started in self._observed.items())
        return [pid for pid, started, status in found if status and status.started == started]

    def _belongs(self, pid: int) -> bool:
        status = _status(pid)
        if status is None or status.state in _GONE:
            return False
        return (
            self._pid in (status.group, status.session)
            or self._observed.get(pid) == status.started
            or self._mark in _environment(pid).split(b"\0")
        )


def _wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _environment(pid: int) -> bytes:
    """A process's environment; empty if it is gone or another user's.

    A program that is being executed shows none until the kernel has set up its stack. Whoever
    started it may have gone on by then, so it is waited for: nothing else tells whose it is.
    """
    deadline = time.monotonic() + _GIVE_UP_S
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            environment = (_PROC / str(pid) / "environ").read_bytes()
            if environment or not _is_being_executed(pid):
                return environment
            time.sleep(_EXECUTION_POLL_S)
    return b""


def _is_being_executed(pid: int) -> bool:
    """Whether it has memory, as no kernel thread has, but no place for an environment yet."""
    fields = _stat_fields(pid)  # proc_pid_stat(5): vsize, env_start
    return len(fields) > 47 and fields[20] != b"0" and fields[47] == b"0"


def _read(pid: int, name: str) -> bytes:
    """A file under /proc; empty if the process is gone or another user's."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _stat_fields(pid: int) -> list[bytes]:
    """What follows the name, which stands in parentheses and may itself contain some."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _status(pid: int) -> _Status | None:
    fields = _stat_fields(pid)
    if len(fields) < 20:
        return None
    return _Status(
        state=fields[0].decode(),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def _children(pid: int) -> Iterator[int]:
    """Direct children of a process, whichever of its threads started them."""
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            yield from map(int, _read(pid, f"task/{thread.name}/children").split())


def _resident_bytes(pid: int) -> int:
    if not _PROC.is_dir():
        return _resident_bytes_elsewhere(pid)
    fields = _read(pid, "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _proportional_bytes(pid: int) -> int:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _resident_bytes(pid)


def _resident_bytes_elsewhere(pid: int) -> int:
    """Without /proc, as on macOS."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0

"""Who drives a run now, and with what is it busy? Of a lock, and of ``driver.json``.

The lock tells whether anybody does: the system gives it back when its holder dies. The file says
who that is and what it does, for whoever asks from another terminal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, final

from benchorch.domain.codec import decode, encode
from benchorch.domain.session import Event
from benchorch.errors import ConfigError

FILE = "driver.json"
LOG = "driver.log"
LOCK = "lock"

SAME_START_S = 2.0
"""Two readings of when a process started differ by no more, unless the clock was set."""

_TELL_S = 1.0
_LOCK_TRIES, _LOCK_PAUSE_S = 5, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """What becomes of one trial at this moment.

    Attributes:
        since: when it began to wait or to run, ISO 8601 in UTC.
        text: the stage and a short phrase.
        waits: it has no machine yet.
    """

    since: str
    text: str
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """A process that runs a plan, or ran it.

    Attributes:
        pid: its number on its host.
        begun_s: when that process started, in seconds since 1970: numbers are used again.
        host: its machine.
        started_at, ended_at: of the run, ISO 8601 in UTC; a process that was killed told no end.
        complete: whether it came to the end of its plan.
        busy: the trials that run, by their ids.
    """

    pid: int
    begun_s: float
    host: str
    started_at: str
    ended_at: str | None = None
    complete: bool = False
    busy: Mapping[str, TrialStatus] = field(default_factory=dict)


def acquire_lock(directory: Path) -> IO[str]:
    """The lock of a run's directory, which keeps a second driver out for as long as it is open.

    Raises ConfigError where another process has it. Tried for a quarter of a second, for somebody
    who only looks (`is_driven`) has it for a moment.
    """
    lock = (directory / LOCK).open("a")
    for tries_left in reversed(range(_LOCK_TRIES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if tries_left:
                time.sleep(_LOCK_PAUSE_S)
                continue
            lock.close()
            raise ConfigError([f"{directory} belongs to a run that is still going on."]) from error
        break
    return lock


def is_driven(directory: Path) -> bool:
    """Whether a living process has the lock."""
    try:
        with (directory / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # none was ever taken
        return False
    return False


def read_driver(directory: Path) -> Coordinator | None:
    """The last driver of a run; None for one that told nothing."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = decode(Coordinator, json.loads((directory / FILE).read_text()))
        return found if isinstance(found, Coordinator) else None
    return None


def is_that_process(driver: Coordinator, directory: Path) -> bool:
    """Whether the process with its number is itself: it began then, and has the run's lock open."""
    import psutil

    if driver.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(driver.pid)
        same = abs(process.create_time() - driver.begun_s) < SAME_START_S
        opened = {Path(file.path) for file in process.open_files()}
    except psutil.Error:
        return False
    return same and (directory / LOCK).resolve() in opened


@final
class StatusFile:
    """Keeps ``driver.json`` true while a run goes on; no trouble with it ever costs the run.

    Args:
        directory: the run's.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._driver: Coordinator | None = None
        self._told_s = float("-inf")

    def begin(self) -> None:
        """From now on this process drives; said again, nothing changes."""
        if self._driver is None:
            self._driver = Coordinator(
                pid=os.getpid(), begun_s=_begun_s(), host=socket.gethostname(), started_at=_now()
            )
            self._tell()

    def event(self, event: Event) -> None:
        """A trial is busy; written down at most once a second, for trials are being measured."""
        if self._driver is None:
            return
        before = self._driver.busy.get(event.trial_id)
        waits = event.stage == "wait"
        goes_on = before is not None and before.waits == waits
        doing = TrialStatus(
            since=before.since if before and goes_on else _now(),
            text=f"{event.stage} {event.message}".rstrip(),
            waits=waits,
        )
        self._change(busy={**self._driver.busy, event.trial_id: doing})
        if before is None or time.monotonic() - self._told_s >= _TELL_S:
            self._tell()

    def result(self, trial_id: str) -> None:
        """A trial has ended."""
        if self._driver is not None:
            self._change(busy={k: v for k, v in self._driver.busy.items() if k != trial_id})
            self._tell()

    def end(self, *, complete: bool) -> None:
        """The run is over, or was ended before its plan was."""
        if self._driver is not None:
            self._change(busy={}, ended_at=_now(), complete=complete)
            self._tell()

    def _change(self, **fields: object) -> None:
        assert self._driver is not None  # begin was called
        self._driver = replace(self._driver, **fields)  # type: ignore[arg-type]  # its own fields

    def _tell(self) -> None:
        """Whole or not at all, and not waiting for the disk."""
        self._told_s = time.monotonic()
        unfinished = self._path.with_name(f".{FILE}")
        with contextlib.suppress(OSError):
            unfinished.write_text(json.dumps(encode(self._driver)))
            unfinished.replace(self._path)


def _begun_s() -> float:
    import psutil

    return float(psutil.Process().create_time())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

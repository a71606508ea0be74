"""Lock and status file of a run: which process coordinates it, and which trials run now.

The system releases the lock when its holder dies. The status file, ``driver.json``, has the process
and its trials, for commands in other terminals.
"""

import contextlib
import json
import os
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, final

from benchorch.domain.codec import decode, encode
from benchorch.domain.session import Event
from benchorch.domain.spending import Spending
from benchorch.errors import ConfigError
from benchorch.files import open_regular, read_json
from benchorch.journal.chain import UNREADABLE
from benchorch.locks import flock, lock_file

FILE = "driver.json"
LOG = "driver.log"
LOCK = "lock"

_SAME_START_S = 2.0
"""Two readings of when a process started differ by no more, unless the clock was set."""

_WRITE_S = 1.0
_LOCK_TRIES, _LOCK_PAUSE_S = 5, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """Current activity of a started trial.

    Attributes:
        since: when it began to wait or to run, ISO 8601 in UTC.
        text: the stage and a short phrase.
        waits: whether it has no machine yet.
    """

    since: str
    text: str
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The process that runs a plan, or ran it.

    Attributes:
        pid: its number on its host.
        begun_s: when that process started, in seconds since 1970, as numbers are reused.
        host: its machine.
        started_at, ended_at: of the run, ISO 8601 in UTC; a killed process leaves no end.
        complete: whether it reached the end of its plan.
        expected_end: of a run that measures in rounds, ISO 8601 in UTC; None where it is unknown.
        busy: the trials that wait or run, by their ids.
        spending: on launched machines, with that of earlier coordinators; None without any.
    """

    pid: int
    begun_s: float
    host: str
    started_at: str
    ended_at: str | None = None
    complete: bool = False
    expected_end: str | None = None
    busy: Mapping[str, TrialStatus] = field(default_factory=dict)
    spending: Spending | None = None


def acquire_lock(directory: Path) -> IO[str]:
    """Lock a run's directory against a second coordinator for as long as the file is open.

    Raises ConfigError where another process has it. Tried for a quarter of a second, because a
    check (`is_running`) has it for a moment.
    """
    lock = lock_file(directory / LOCK)
    for tries_left in reversed(range(_LOCK_TRIES)):
        if flock(lock, wait=False):
            return lock
        if tries_left:
            time.sleep(_LOCK_PAUSE_S)
    lock.close()
    problem = f"{directory} belongs to a run that is still going on."
    raise ConfigError([problem], next=f"benchorch status {shlex.quote(str(directory))}")


def is_running(directory: Path) -> bool:
    """Whether a living process has the lock."""
    try:
        with open_regular(directory / LOCK) as lock:
            return not flock(lock.fileno(), wait=False, shared=True)
    except (OSError, ConfigError):  # there never was one, or no run can be on this system
        return False


def read_coordinator(directory: Path) -> Coordinator | None:
    """The last coordinator of a run; None where it left no status."""
    with contextlib.suppress(OSError, *UNREADABLE):
        found = decode(Coordinator, read_json(directory / FILE))
        return found if isinstance(found, Coordinator) else None
    return None


def is_coordinator_process(coordinator: Coordinator, directory: Path) -> bool:
    """Whether its number is still that process's: started then, with the run's lock open."""
    opened = (directory / LOCK).resolve()
    return is_still(coordinator.pid, coordinator.begun_s, coordinator.host, opened)


def is_still(pid: int, begun_s: float, host: str, opened: Path) -> bool:
    """Whether a process of this machine still is the one noted: begun then, with a file open."""
    import psutil

    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - begun_s) < _SAME_START_S
        return same and opened in {Path(file.path) for file in process.open_files()}
    except (psutil.Error, ValueError, OverflowError):  # the latter two of a number that is none
        return False


@final
class StatusFile:
    """``driver.json`` while a run goes on; failing to write it never fails the run.

    Args:
        directory: the run's.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._coordinator: Coordinator | None = None
        self._written_s = float("-inf")

    def begin(self) -> None:
        """Note this process as the coordinator; a second call changes nothing."""
        if self._coordinator is None:
            before = read_coordinator(self._path.parent)
            self._coordinator = Coordinator(
                pid=os.getpid(),
                begun_s=_begun_s(),
                host=socket.gethostname(),
                started_at=_now(),
                spending=_without_machines(before),
            )
            self._write()

    @property
    def spending(self) -> Spending | None:
        """Spending on launched machines so far, earlier coordinators included; None without any."""
        return self._coordinator.spending if self._coordinator else None

    @property
    def spent_usd(self) -> float:
        """The dollars of `spending`."""
        return self.spending.usd if self.spending else 0.0

    def event(self, event: Event) -> None:
        """Note what a trial does; written at most once a second, as trials are being measured."""
        if self._coordinator is None:
            return
        if event.spending is not None:
            self._change(spending=event.spending)
            self._write()
            return
        before = self._coordinator.busy.get(event.trial_id)
        waits = event.stage == "wait"
        goes_on = before is not None and before.waits == waits
        status = TrialStatus(
            since=before.since if before and goes_on else _now(),
            text=f"{event.stage} {event.message}".rstrip(),
            waits=waits,
        )
        self._change(busy={**self._coordinator.busy, event.trial_id: status})
        if before is None or time.monotonic() - self._written_s >= _WRITE_S:
            self._write()

    def expect(self, left_s: float) -> None:
        """Note in how many seconds the run is expected to end."""
        if self._coordinator is not None:
            end = datetime.now(UTC) + timedelta(seconds=left_s)
            self._change(expected_end=end.isoformat(timespec="seconds"))

    def round(self, trial_id: str, *, processes: int) -> None:
        """Note that a trial has measured so many processes and waits for its next one."""
        message = f"for its next process, {processes} measured"
        self.event(Event(trial_id=trial_id, stage="wait", message=message))

    def result(self, trial_id: str) -> None:
        """Note the end of a trial."""
        if self._coordinator is not None:
            self._change(busy={k: v for k, v in self._coordinator.busy.items() if k != trial_id})
            self._write()

    def end(self, *, complete: bool) -> None:
        """Note the end of the run, complete or not."""
        if self._coordinator is not None:
            self._change(busy={}, ended_at=_now(), complete=complete)
            self._write()

    def _change(self, **fields: object) -> None:
        assert self._coordinator is not None  # begin was called
        self._coordinator = replace(self._coordinator, **fields)  # type: ignore[arg-type]  # its own fields

    def _write(self) -> None:
        """Replace the file atomically, without waiting for the disk."""
        self._written_s = time.monotonic()
        unfinished = self._path.with_name(f".{FILE}")
        with contextlib.suppress(OSError):
            unfinished.write_text(json.dumps(encode(self._coordinator)), encoding="utf-8")
            unfinished.replace(self._path)


def _without_machines(before: Coordinator | None) -> Spending | None:
    """Spending of an earlier coordinator, whose machines may be gone."""
    spending = before.spending if before else None
    return None if spending is None else replace(spending, machines={})


def _begun_s() -> float:
    import psutil

    return float(psutil.Process().create_time())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""The lease of a run's recorder: one process records a directory, and a new run's takes it over.

The recorder of a killed run lives on for a while: it waits for an idle core, or for a tracker. It
can be ended at any point, so the next run's recorder ends it in place of giving up.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchorch.domain.codec import decode, encode
from benchorch.errors import RecordError
from benchorch.files import read_json, write_json
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.lock import is_still
from benchorch.journal.record_cursor import CURSOR
from benchorch.locks import flock, lock_file

HOLDER = "recorder.json"

_GRACE_S, _GIVE_UP_S, _PAUSE_S = 5.0, 10.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that records a directory.

    Attributes:
        pid: its number on its host.
        begun_s: when it started, in seconds since 1970, as numbers are reused.
        host: its machine.
    """

    pid: int
    begun_s: float
    host: str


@contextlib.contextmanager
def lease(directory: Path, *, take_over: bool) -> Iterator[None]:
    """Record a directory alone; RecordError, with who does, where another process goes on.

    Args:
        directory: the run's.
        take_over: whether the other process is ended, as where a run begins to follow itself:
            only a dead run's can be there then.
    """
    with lock_file(directory / CURSOR) as lock:
        if not flock(lock, wait=False):
            holder = _holder(directory)
            if not (take_over and holder and _end(holder, directory, lock)):
                raise RecordError(_busy(directory, holder))
        _note(directory)
        yield


def _end(holder: Holder, directory: Path, lock: IO[str]) -> bool:
    """End another recorder and take its lock; False where it is not there to be ended."""
    for number, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GIVE_UP_S)):
        if is_still(holder.pid, holder.begun_s, holder.host, (directory / CURSOR).resolve()):
            with contextlib.suppress(OSError):
                os.kill(holder.pid, number)
        deadline_s = time.monotonic() + wait_s
        while time.monotonic() < deadline_s:
            if flock(lock, wait=False):
                return True
            time.sleep(_PAUSE_S)
    return False


def _note(directory: Path) -> None:
    import psutil

    own = Holder(pid=os.getpid(), begun_s=psutil.Process().create_time(), host=socket.gethostname())
    with contextlib.suppress(OSError):  # whoever comes next then cannot end this process
        write_json(directory / HOLDER, encode(own))


def _holder(directory: Path) -> Holder | None:
    with contextlib.suppress(OSError, *UNREADABLE):
        return decode(Holder, read_json(directory / HOLDER))
    return None


def _busy(directory: Path, holder: Holder | None) -> str:
    who = f"process {holder.pid} on {holder.host}" if holder else "another process"
    return f"{directory} is being recorded by {who}"

"""Reports of the processes that a script starts, in the pipe of the script's own process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from benchorch.domain.codec import encode, from_json, to_json
from benchorch.host.processes.child_channel import REPLY_FD, ChildMessage
from benchorch.locks import flock

_VARIABLE = "BENCHORCH_SCRIPT_WATCH"
_HOOK = Path(__file__).parent / "in_children"


@contextmanager
def in_turn(script: Path) -> Iterator[None]:
    """One report at a time: processes that share a pipe would mix theirs."""
    with script.open("rb") as file:  # a lock needs no write access
        flock(file.fileno())
        yield


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReports:
    """The way of a script's child processes to the process that waits for its models.

    Attributes:
        request: of the script's own process, as JSON.
        pipe: its pipe, which other processes of this user can open.
    """

    script: Path
    request: str
    pipe: str

    @classmethod
    def announced(cls, script: Path, request: bytes) -> Self:
        """Put it in the environment, where child processes find it, forked or not."""
        pipe = f"/proc/{os.getpid()}/fd/{os.environ[REPLY_FD]}"
        reports = cls(script=script, request=request.decode(), pipe=pipe)
        os.environ[_VARIABLE] = to_json(reports).decode()
        paths = (str(_HOOK), os.environ.get("PYTHONPATH"))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return reports

    @classmethod
    def inherited(cls) -> Self:
        """What the script's process announced."""
        return from_json(cls, os.environ[_VARIABLE].encode())

    def send(self, reply: object) -> None:
        """Send a partial reply; OSError where the script's process is gone."""
        message = ChildMessage(kind="partial", reply=encode(reply))
        with in_turn(self.script), Path(self.pipe).open("wb") as pipe:
            pipe.write(to_json(message) + b"\n")

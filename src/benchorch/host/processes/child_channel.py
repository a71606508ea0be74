"""A child process's side: its request, its replies, and how it makes sure to end.

The parent's side is `run_child`; this half imports little, because every measurement pays for it.
"""

import contextlib
import ctypes
import errno
import faulthandler
import os
import select
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, final

from benchorch.domain.codec import Json, encode, from_json, to_json
from benchorch.domain.result import Failure

REPLY_FD = "BENCHORCH_REPLY_FD"
"""The variable with the number of the child's pipe to its parent."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildMessage:
    """Message of a child to its parent, one line of JSON.

    Attributes:
        kind: ``message``, ``partial`` (a reply so far), ``reply`` or ``failure``; the last two
            end the conversation.
        message: a short phrase for people.
        reply: a value of the type that the parent requested.
        failure: why there is no reply.
    """

    kind: Literal["message", "partial", "reply", "failure"]
    message: str = ""
    reply: Json = None
    failure: Failure | None = None


def read_request(kind: type[T]) -> T:
    """The parent's request."""
    return from_json(kind, sys.stdin.buffer.read())


@final
class Channel:
    """The child's way to its parent; threads may share it."""

    def __init__(self) -> None:
        self._descriptor = int(os.environ[REPLY_FD])
        self._pipe = _file(os.fstat(self._descriptor))
        self._lock = threading.Lock()
        os.set_inheritable(self._descriptor, False)

    def send_message(self, message: str) -> None:
        """Report what happens now."""
        self._send(ChildMessage(kind="message", message=message))

    def send_partial(self, reply: object) -> None:
        """Report an intermediate reply, which counts if this process ends early."""
        self._send(ChildMessage(kind="partial", reply=encode(reply)))

    def send_reply(self, reply: object) -> None:
        """Reply; the parent reads nothing after it."""
        self._send(ChildMessage(kind="reply", reply=encode(reply)))

    def send_failure(self, failure: Failure) -> None:
        """Report why there is no reply; the parent reads nothing after it."""
        self._send(ChildMessage(kind="failure", failure=failure))

    def _send(self, message: ChildMessage) -> None:
        data = memoryview(to_json(message) + b"\n")
        with self._lock:
            if not self._is_open():
                self._descriptor = _reopened(self._pipe)
            while data:
                data = data[os.write(self._descriptor, data) :]

    def _is_open(self) -> bool:
        """Whether the descriptor still is the pipe: a user's code may close all, as daemons do."""
        try:
            return _file(os.fstat(self._descriptor)) == self._pipe
        except OSError:
            return False


def _file(status: os.stat_result) -> tuple[int, int]:
    """Device and inode, which identify an open file."""
    return status.st_dev, status.st_ino


def _reopened(pipe: tuple[int, int]) -> int:
    """A new descriptor of a pipe whose other end the parent holds; OSError without one."""
    held = Path(f"/proc/{os.getppid()}/fd")
    for path in held.iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if _file(path.stat()) == pipe:
                return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    raise OSError(errno.EBADF, "the pipe to the parent is closed")


def prefer_to_die() -> None:
    """Offer this process to the kernel first when memory runs out: better it than its parent."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")


def die_with_parent() -> None:
    """End when the thread that started this process ends, even by SIGKILL; Linux only."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if _parent_is_gone():  # before the signal was requested
        os.kill(os.getpid(), signal.SIGKILL)


def _parent_is_gone() -> bool:
    """Whether the reading end of the pipe is closed."""
    if REPLY_FD not in os.environ:
        return False
    poller = select.poll()
    poller.register(int(os.environ[REPLY_FD]), 0)
    return any(state & select.POLLERR for _, state in poller.poll(0))


def show_where_it_hangs() -> None:
    """Write every thread's traceback to the log when the time limit ends this process."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        faulthandler.register(signal.SIGTERM, chain=True)

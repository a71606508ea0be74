"""A template: a process that has imported what others need, each of which is forked from it.

A forked process skips the imports and is in all else a child like those that `spawn` executes: a
session, environment, input, log and pipe of its own. What it inherits is the template's memory
layout, so a template serves processes whose layouts need not be independent.

The two talk over a pair of sockets: ``fork`` with four descriptors, answered by a process id, then
``reap``, answered by an exit code. The template forks only while it has no other thread.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, final

from benchorch.errors import ExecutorError
from benchorch.host.processes.child_channel import REPLY_FD

_READY, _FORK, _REAP = b"ready", b"fork", b"reap"
_MOST_BYTES = 64
_ANSWER_S = 30.0
_TASKS = Path("/proc/self/task")


class _Process:
    """Facts of this process."""

    is_forked = False


def is_forked() -> bool:
    """Whether this process was forked from a template, so that its start is no result."""
    return _Process.is_forked


def is_possible() -> bool:
    """Whether this system has what a template needs, which kernels and containers may refuse."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


@final
class Template:
    """A running template; after an error or a process that does not end it forks no more.

    Args:
        link: this side of the pair of sockets.
        ready_s: how long its imports may take.
    """

    def __init__(self, link: socket.socket, ready_s: float) -> None:
        self._link = link
        self.is_usable = self._answer(ready_s) == _READY

    def fork(
        self, descriptors: Sequence[int], argv: Sequence[str], variables: Mapping[str, str]
    ) -> ForkedProcess:
        """A new process of the template; ExecutorError where the template has ended.

        Args:
            descriptors: of its input, its output, and its pipe to this process.
            argv: its `sys.argv`.
            variables: its whole environment.
        """
        with os.fdopen(os.memfd_create("start"), "w+b") as start:
            start.write(json.dumps([list(argv), dict(variables)]).encode())
            start.seek(0)
            with contextlib.suppress(OSError):
                socket.send_fds(self._link, [_FORK], [*descriptors, start.fileno()])
        answer = self._answer(_ANSWER_S)
        with contextlib.suppress(OSError):
            if answer:
                return ForkedProcess(int(answer), self)
        self.is_usable = False
        self._link.close()  # it ends, and with it whatever it has forked too late
        raise ExecutorError("The template of a child process has ended.")

    def reap(self, timeout_s: float | None) -> int | None:
        """The exit code of the process forked last; None where it does not end in time."""
        with contextlib.suppress(OSError):
            self._link.sendall(_REAP)
        answer = self._answer(timeout_s)
        if answer is None:
            self.is_usable = False  # it waits for a process that does not end
            return None
        self.is_usable = bool(answer)
        return int(answer) if answer else -signal.SIGKILL  # with the template its child was ended

    def _answer(self, timeout_s: float | None) -> bytes | None:
        """The template's next message: empty where it has ended, None where none came in time."""
        try:
            self._link.settimeout(timeout_s)
            return self._link.recv(_MOST_BYTES)
        except TimeoutError:
            return None
        except OSError:
            return b""


@final
class ForkedProcess:
    """A process forked from a template, with what `spawn` uses of a `subprocess.Popen`.

    Raises OSError where there is no process of that number.
    """

    def __init__(self, pid: int, template: Template) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._template = template
        self._descriptor = os.pidfd_open(pid)

    def ended(self) -> bool:
        """Whether it has ended; leaves it unreaped."""
        return self._ends_within(0)

    def _ends_within(self, seconds: float | None) -> bool:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._descriptor, selectors.EVENT_READ)
            return bool(waiting.select(seconds))

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; subprocess.TimeoutExpired."""
        code = self._template.reap(timeout) if self._ends_within(timeout) else None
        if code is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        os.close(self._descriptor)
        self.returncode = code
        return code


def serve(descriptor: int, entry: Callable[[], None]) -> None:
    """Be a template until the other side closes its socket; only then return.

    Args:
        descriptor: of this side's socket.
        entry: what each forked process runs.
    """
    gc.collect()
    gc.freeze()  # collections of forked processes leave shared pages alone
    with socket.socket(fileno=descriptor) as link:
        if not _is_alone():
            return
        link.sendall(_READY)
        while True:
            message, descriptors, _, _ = socket.recv_fds(link, _MOST_BYTES, 4)
            if not message:
                return
            child = os.fork()
            if not child:
                link.close()
                _become(descriptors, entry)
            for each in descriptors:
                os.close(each)
            link.sendall(str(child).encode())
            if not link.recv(_MOST_BYTES):
                return
            _, status = os.waitpid(child, 0)
            link.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _is_alone() -> bool:
    """Whether no other thread runs, whose work a forked process would lack.

    Threads of numpy's arithmetic do not count: its library ends them before each fork.
    """
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return len(list(_TASKS.iterdir())) == 1


def _become(descriptors: Sequence[int], entry: Callable[[], None]) -> NoReturn:
    """Run `entry` as if `spawn` had executed it; an exception ends the process as any other."""
    _Process.is_forked = True
    os.setsid()
    request, log, writer, start = descriptors
    with os.fdopen(start, "rb") as file:
        sys.argv[:], variables = json.loads(file.read())
    os.environ.clear()
    os.environ.update({**variables, REPLY_FD: str(writer)})
    for number, place in ((request, 0), (log, 1), (log, 2)):
        os.dup2(number, place)
    os.close(request)
    os.close(log)
    entry()
    sys.exit()

"""A child process executed afresh in a session of its own, of which nothing is left afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchorch.channel import REPLY_FD
from benchorch.errors import ExecutorError
from benchorch.offspring import Offspring

_MARK = "BENCHORCH_CHILD"
_REAP_S = 2.0

# Reads a line, which says that all is well, or else the end of who should have written it.
_GUARD = """
read -r _ && exit
kill -9 -- "-$1"
for place in $(grep -ls "$2" /proc/[0-9]*/environ); do
  pid=${place%/environ}
  kill -9 "${pid#/proc/}"
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A running child.

    Attributes:
        process: itself; not reaped before `reap`, so that its number is not used again.
        offspring: it and everything it started.
        pipe: where it can be heard.
    """

    process: subprocess.Popen[bytes]
    offspring: Offspring
    pipe: int

    def ended(self) -> bool:
        """Whether it has ended; leaves it unreaped."""
        if hasattr(os, "waitid"):
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        return self.process.poll() is not None

    def reap(self) -> int | None:
        """The exit code, negative for a signal; None if not even SIGKILL could end it."""
        try:
            return self.process.wait(timeout=_REAP_S)
        except subprocess.TimeoutExpired:
            return None


@contextlib.contextmanager
def started(
    argv: Sequence[str], request: bytes, log: Path, variables: Mapping[str, str]
) -> Iterator[Child]:
    """A running child; on the way out, however that is, it and its offspring end.

    Raises ExecutorError if it cannot be started.

    Args:
        argv: the program and its arguments.
        request: what it reads from its standard input.
        log: where its output is appended; a log that cannot be written costs only the log.
        variables: its environment, to which the pipe's number and a mark are added.
    """
    mark = os.urandom(8).hex()
    reader, writer = os.pipe()
    try:
        own = {REPLY_FD: str(writer), _MARK: mark}
        process = _launch(argv, request, log, {**variables, **own}, writer)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    child = Child(process=process, offspring=Offspring(process.pid, f"{_MARK}={mark}"), pipe=reader)
    with _guarded(process.pid, f"{_MARK}={mark}"):
        try:
            yield child
        finally:
            if process.returncode is None:
                child.offspring.end(grace_s=0)
                child.reap()
            os.close(reader)


@contextlib.contextmanager
def _guarded(pid: int, mark: str) -> Iterator[None]:
    """As long as it lasts, what a child has started does not outlive this process either.

    Where this process is killed the kernel ends its child, but no compiler that the child runs.
    """
    try:
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "benchorch-guard", str(pid), mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ExecutorError(f"A child's guard could not be started: {error}") from error
    try:
        yield
    finally:
        guard.communicate(b"\n")


def _launch(
    argv: Sequence[str], request: bytes, log: Path, variables: Mapping[str, str], writer: int
) -> subprocess.Popen[bytes]:
    try:
        with _request_file() as stdin, _log_file(log) as output:
            stdin.write(request)
            stdin.seek(0)
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
                start_new_session=True,
                env=variables,
            )
    except OSError as error:
        raise ExecutorError(f"A child process could not be started: {error}") from error


def _request_file() -> IO[bytes]:
    """An empty file in memory: unlike a pipe it never blocks, even if nobody reads it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("request"), "w+b")
    return tempfile.TemporaryFile()


def _log_file(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError:  # a full disk: the answer comes through the pipe and needs no log
        return Path(os.devnull).open("ab")

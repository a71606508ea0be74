"""A child process executed afresh in a session of its own, of which nothing is left afterwards."""

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, final

from benchorch.errors import ExecutorError
from benchorch.host.processes.child_channel import REPLY_FD
from benchorch.host.processes.process_tree import ProcessTree
from benchorch.host.processes.template import ForkedProcess, Template

_MARK = "BENCHORCH_CHILD"
_REAP_S = 2.0

# Reads who is to be watched, until the end of who writes it; nobody's child, for Ray's workers kill
# theirs when they end. A background process has no standard input unless it is given one. It looks
# more than once: a process that has just been started shows no environment yet.
_WATCHDOG_SCRIPT = """
exec 3<&0
{
  while read -r line; do last=$line; done
  for child in $last; do
    [ "${child%%:*}" = 0 ] || kill -9 -- "-${child%%:*}"
  done
  for again in 1 2 3 4 5; do
    for child in $last; do
      for place in $(grep -ls "${child#*:}" /proc/[0-9]*/environ); do
        pid=${place%/environ}
        kill -9 "${pid#/proc/}"
      done
    done
    sleep 0.2
  done
} <&3 3<&- &
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A running child.

    Attributes:
        process: itself; not reaped before `reap`, so that its number is not used again.
        tree: itself and everything it started.
        pipe: where its messages arrive.
    """

    process: subprocess.Popen[bytes] | ForkedProcess
    tree: ProcessTree
    pipe: int

    def ended(self) -> bool:
        """Whether it has ended; leaves it unreaped."""
        if isinstance(self.process, ForkedProcess):
            return self.process.ended()
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
    argv: Sequence[str],
    request: bytes,
    log: Path,
    variables: Mapping[str, str],
    *,
    template: Template | None = None,
    descriptors: Sequence[int] = (),
) -> Iterator[Child]:
    """A running child; on the way out, however that is, it and everything it started end.

    Raises ExecutorError if it cannot be started.

    Args:
        argv: the program and its arguments; of a forked process what `sys.argv` is.
        request: what it reads from its standard input.
        log: where its output is appended; a log that cannot be written costs only the log.
        variables: its environment, to which the pipe's number and a mark are added.
        template: forks it in place of executing it.
        descriptors: what else it inherits.
    """
    mark = os.urandom(8).hex()
    marked = f"{_MARK}={mark}"
    reader, writer = os.pipe()
    _WATCHDOG.watch(marked)  # whoever is killed from here on leaves nothing behind
    try:
        own = {REPLY_FD: str(writer), _MARK: mark}
        inherited = (writer, *descriptors)
        process = _launch(argv, request, log, {**variables, **own}, inherited, template)
    except BaseException:
        os.close(reader)
        _WATCHDOG.forget(marked)
        raise
    finally:
        os.close(writer)
    _WATCHDOG.watch(marked, process.pid)
    child = Child(process=process, tree=ProcessTree(process.pid, marked), pipe=reader)
    try:
        yield child
    finally:
        if process.returncode is None:
            child.tree.end(grace_s=0)
            child.reap()
        _WATCHDOG.forget(marked)
        os.close(reader)


@final
class _Watchdog:
    """Parent-death watchdog: nothing that children start outlives this process.

    Where this process is killed the kernel ends its children, but no compiler that they run: a
    shell does, which is started with the first child and waits for the end of this process.
    """

    def __init__(self) -> None:
        self._children: dict[str, int] = {}
        self._lock = threading.Lock()
        self._pipe: IO[bytes] | None = None

    def watch(self, mark: str, pid: int = 0) -> None:
        """A child, by what only its environment contains, and its number where it has one."""
        with self._lock:
            self._children[mark] = pid
            self._report()

    def forget(self, mark: str) -> None:
        """No operation: a spawned process leaves nothing behind."""
        with self._lock:
            self._children.pop(mark, None)
            self._report()

    def _report(self) -> None:
        children = " ".join(f"{pid}:{mark}" for mark, pid in self._children.items())
        try:
            self._pipe = self._pipe or self._start()
            self._pipe.write(f"{children}\n".encode())
        except OSError:  # without a shell, or somebody ended it: the next child gets another one
            self._pipe = None

    def _start(self) -> IO[bytes]:
        shell = subprocess.Popen(
            ["sh", "-c", _WATCHDOG_SCRIPT, "benchorch-guard"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        shell.wait()
        assert shell.stdin is not None
        return shell.stdin


_WATCHDOG = _Watchdog()


def _launch(
    argv: Sequence[str],
    request: bytes,
    log: Path,
    variables: dict[str, str],
    inherited: Sequence[int],
    template: Template | None,
) -> subprocess.Popen[bytes] | ForkedProcess:
    try:
        with _request_file() as stdin, _log_file(log) as output:
            stdin.write(request)
            stdin.seek(0)
            if template is not None:
                return template.fork(
                    [stdin.fileno(), output.fileno(), inherited[0]], argv, variables
                )
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
                start_new_session=True,
                env=variables,
            )
    except OSError as error:
        raise ExecutorError(f"A child process could not be started: {error}") from error


def _request_file() -> IO[bytes]:
    """Empty file in memory, which unlike a pipe never blocks without a reader."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("request"), "w+b")
    return tempfile.TemporaryFile()


def _log_file(log: Path) -> IO[bytes]:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError:  # a full disk: the answer comes through the pipe and needs no log
        return Path(os.devnull).open("ab")

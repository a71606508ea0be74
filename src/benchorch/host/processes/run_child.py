"""Execution of one stage in a fresh child process, under limits, with an exit diagnosis.

The parent starts a child that runs `worker.main` for one stage, hands the request over as its
standard input, and sleeps on a pipe until the child replies, dies, or exceeds a limit::

    parent                                    child
    ──────                                    ─────
    request (JSON)  ── stdin ───────────────> read_request(type)
    on_message(...) <─ pipe, JSON lines ───── Channel().send_message / send_reply / send_failure
    on_partial(...) <─ the same pipe ──────── Channel().send_partial
    log file        <─ stdout, stderr

Whatever the end, no process that the child started outlives `run_child`.
"""

import contextlib
import math
import os
import selectors
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from benchorch.domain.codec import Json, decode, from_json, to_json
from benchorch.domain.result import Failure
from benchorch.host import cgroup
from benchorch.host.environment import available_memory_bytes
from benchorch.host.processes.child_channel import ChildMessage
from benchorch.host.processes.exit_diagnosis import ChildExit, diagnose_exit
from benchorch.host.processes.process_tree import ProcessTree
from benchorch.host.processes.spawn import Child, started
from benchorch.host.processes.template import Template

_PADDING = "BENCHORCH_ENVIRONMENT_PADDING"

_TICK_S = 0.25  # between two readings of the child's memory
_SCAN_EVERY = 4  # ticks between two searches for new descendants, which read more files
_TERM_GRACE_S = 2.0
_MEMORY_SHARE = 0.9
_LOG_LINES = 20
_MAX_PADDING_BYTES = 4096
_PIPE_BYTES = 1 << 20  # the most a pipe can hold
_LOG_TAIL_BYTES = 16_384
_UNREADABLE = (ValueError, RecursionError)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """Limits of a child.

    Attributes:
        timeout_s: wall time from start to reply.
        memory_bytes: resident memory of the child and all it started; None means 90 % of what
            is available when it starts.
        exit_s: how long it may take to end once it has replied.
    """

    timeout_s: float
    memory_bytes: int | None
    exit_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReply(Generic[R]):
    """Reply of a child, or its failure.

    Attributes:
        reply: its reply, or None.
        failure: why there is no reply, or None.
        partial: the last partial reply before a failure, or None.
        elapsed_s: wall time from start until none of them was left.
    """

    reply: R | None
    failure: Failure | None
    partial: R | None
    elapsed_s: float


# Not ``-m benchorch.trial.worker``: a module run so is compiled anew in every process.
_ENTRY = "from benchorch.trial.worker import main; main()"


def run_child(
    stage: str,
    request: object,
    reply: type[R],
    *,
    log: Path,
    limits: ChildLimits,
    environment: Mapping[str, str],
    on_message: Callable[[str], None],
    command: Sequence[str] | None = None,
    under: Sequence[str] = (),
    on_partial: Callable[[R, int], None] | None = None,
    enough: Callable[[], bool] = lambda: False,
    template: Template | None = None,
    most_bytes: float = math.inf,
) -> ChildReply[R]:
    """The child's reply, or the failure that replaces it.

    Raises ExecutorError if no child can be started.

    Args:
        stage: the worker's argument and the failure's stage.
        request: the value that the child reads from its standard input.
        reply: the type of its reply.
        log: where its output is appended; a log that cannot be written costs only the log.
        limits: what it may use.
        environment: variables set on top of this process's own.
        on_message: called with each message as it arrives, in this thread.
        command: the program to start instead of the worker.
        under: what it is started by: a program and its options, such as a profiler's.
        on_partial: called with each partial reply and its size in bytes, in this thread.
        enough: whether to end the child now, checked several times a second; the failure's kind is
            then ``stopped``.
        template: forks the child in place of executing it.
        most_bytes: of one message; a child that writes a longer one is ended, and its failure's
            kind is ``stopped``.
    """
    began_s = time.monotonic()
    kills_before = cgroup.oom_kills()
    log_start = _size(log)
    inbox = _Inbox(kind=reply, on_message=on_message, on_partial=on_partial, most_bytes=most_bytes)
    program = [sys.executable, "-P", "-c", _ENTRY, stage] if template is None else ["-c", stage]
    argv, variables = [*under, *(command or program)], child_variables(environment)
    with started(argv, to_json(request), log, variables, template=template) as child:
        watch = _MemoryWatch(tree=child.tree, limit_bytes=_memory_limit(limits))
        deadline_s = began_s + limits.timeout_s
        stopped_for = _attend(child, inbox, watch, deadline_s, limits.exit_s, enough)
        child.tree.end(_TERM_GRACE_S if stopped_for == "timeout" else 0)
        code = child.reap()
    ended = ChildExit(
        stage=stage,
        stopped_for=stopped_for,
        code=code,
        kernel_killed=_rose(kills_before, cgroup.oom_kills()),
        last_bytes=watch.last_bytes,
        limit_bytes=watch.limit_bytes,
        timeout_s=limits.timeout_s,
        last_message=inbox.last_message,
        log_tail=_tail(log, log_start),
    )
    failure = _failure(inbox.final, ended)
    return ChildReply(
        reply=inbox.reply if failure is None else None,
        failure=failure,
        partial=inbox.partial() if failure else None,
        elapsed_s=time.monotonic() - began_s,
    )


# The parent: listen and watch --------------------------------------------------------------


def child_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The child's environment: this one's, what is set on top, and padding.

    The size of the environment shifts the stack and with it a program's speed, so each process
    draws another one (Mytkowicz et al., ASPLOS 2009).
    """
    return {
        "PYTHONFAULTHANDLER": "1",  # a crash leaves its traceback in the log
        **os.environ,
        **environment,
        _PADDING: "x" * (int.from_bytes(os.urandom(4), "big") % (_MAX_PADDING_BYTES + 1)),
    }


def _memory_limit(limits: ChildLimits) -> int:
    if limits.memory_bytes is None:
        return int(_MEMORY_SHARE * available_memory_bytes())
    return limits.memory_bytes


@dataclass(slots=True, kw_only=True)
class _Inbox(Generic[R]):
    """The child's messages so far; the code that it runs may have written any of them.

    Attributes:
        kind: the type of a reply.
        is_full: whether a message came that is longer than one may be.
        final: its reply or its failure; None before either.
        reply: what the reply says, once it is there.
    """

    kind: type[R]
    on_message: Callable[[str], None]
    on_partial: Callable[[R, int], None] | None
    most_bytes: float
    unread: bytearray = field(default_factory=bytearray)
    is_full: bool = False
    final: ChildMessage | None = None
    reply: R | None = None
    last_partial: Json = None
    last_message: str | None = None

    def feed(self, data: bytes) -> None:
        """Act on whole lines; keep the rest for later."""
        self.unread += data
        if len(self.unread) > self.most_bytes:
            self.is_full = True
            self.unread.clear()
        if self.is_full or b"\n" not in data:
            return
        *lines, rest = bytes(self.unread).split(b"\n")
        self.unread = bytearray(rest)
        for line in lines:
            message = _message_in(line)
            if message is not None:
                self._accept(message, len(line))

    def partial(self) -> R | None:
        """The last partial reply; None without one, or for one of another shape."""
        with contextlib.suppress(*_UNREADABLE):
            return None if self.last_partial is None else decode(self.kind, self.last_partial)
        return None

    def _accept(self, message: ChildMessage, size: int) -> None:
        if message.kind == "message":
            self.last_message = message.message
            self.on_message(message.message)
        elif message.kind == "partial":
            self.last_partial = message.reply
            partial = self.partial() if self.on_partial else None
            if self.on_partial and partial is not None:
                self.on_partial(partial, size)
        elif self.final is None:
            self.final = message if message.kind == "failure" else self._read(message)

    def _read(self, message: ChildMessage) -> ChildMessage:
        """Take the reply; with a failure where it has another shape."""
        try:
            self.reply = decode(self.kind, message.reply)
        except _UNREADABLE as error:
            text = f"its reply cannot be read: {error}"
            return replace(message, failure=Failure(stage="", kind="reply", message=text))
        return message


def _message_in(line: bytes) -> ChildMessage | None:
    """The message of a line; None for anything else that finds its way into the pipe."""
    try:
        message = from_json(ChildMessage, line)
    except _UNREADABLE:
        return None
    return None if message.kind == "failure" and message.failure is None else message


@dataclass(slots=True, kw_only=True)
class _MemoryWatch:
    """The memory of a child and its descendants, read now and then."""

    tree: ProcessTree
    limit_bytes: int
    next_s: float = 0.0
    readings: int = 0
    last_bytes: int = 0

    def exceeded(self, now_s: float) -> bool:
        """Whether more is held than allowed; reads only when the next reading is due."""
        if now_s < self.next_s:
            return False
        self.next_s = now_s + _TICK_S
        if self.readings % _SCAN_EVERY == 0:
            self.tree.scan()
        self.readings += 1
        self.last_bytes = self.tree.resident_bytes()
        if self.last_bytes > self.limit_bytes:  # forked processes share pages: count them once
            self.last_bytes = self.tree.proportional_bytes()
        return self.last_bytes > self.limit_bytes


def _attend(
    child: Child,
    inbox: _Inbox[R],
    watch: _MemoryWatch,
    deadline_s: float,
    exit_s: float,
    enough: Callable[[], bool],
) -> str:
    """Sleep until the child ends (""), exceeds a limit ("timeout", "oom") or is "stopped".

    Once it has replied it only has to end, for which it gets a deadline of its own.
    """
    with _alarm(child) as alarm:
        while True:
            alarm.select(max(0.0, min(watch.next_s, deadline_s) - time.monotonic()))
            ended = child.ended()  # before reading: its last words are then there
            if not inbox.final and _listen(child, inbox, alarm):
                deadline_s = time.monotonic() + exit_s
            if ended:
                return ""
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return "" if inbox.final else "timeout"
            if watch.exceeded(now_s):
                return "oom"
            if not inbox.final and (inbox.is_full or enough()):
                return "stopped"


@contextlib.contextmanager
def _alarm(child: Child) -> Iterator[selectors.BaseSelector]:
    """A selector that wakes when the child writes or, where the system supports it, ends."""
    os.set_blocking(child.pipe, False)
    with contextlib.ExitStack() as stack:
        alarm = stack.enter_context(selectors.DefaultSelector())
        alarm.register(child.pipe, selectors.EVENT_READ)
        with contextlib.suppress(AttributeError, OSError):  # kernels and containers may refuse it
            descriptor = os.pidfd_open(child.process.pid)
            stack.callback(os.close, descriptor)
            alarm.register(descriptor, selectors.EVENT_READ)
        yield alarm


def _listen(child: Child, inbox: _Inbox[R], alarm: selectors.BaseSelector) -> bool:
    """Read what the pipe holds now, all that a dead child left in it; True once it replied."""
    with contextlib.suppress(BlockingIOError):
        data = os.read(child.pipe, _PIPE_BYTES)
        inbox.feed(data)
        # A child may close the pipe and live on; where it opens it again, the next tick reads it.
        if (inbox.final or not data) and child.pipe in alarm.get_map():
            alarm.unregister(child.pipe)
    return inbox.final is not None


# The parent: look back -----------------------------------------------------------------------


def _failure(final: ChildMessage | None, ended: ChildExit) -> Failure | None:
    """Why there is no reply: in the child's own words, or else by how it ended."""
    if final is None:
        return diagnose_exit(ended)
    if final.failure is None:
        return None
    detail = final.failure.detail or ended.log_tail
    return replace(final.failure, stage=ended.stage, detail=detail)


def _rose(before: int | None, after: int | None) -> bool | None:
    """Whether a count rose; None where it cannot be read."""
    return None if before is None or after is None else after > before


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tail(log: Path, start: int) -> str:
    """The last lines that were written after a position."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, _size(log) - _LOG_TAIL_BYTES))
            lines = file.read(_LOG_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError as error:
        return f"The log cannot be read: {error}"
    return "\n".join(lines[-_LOG_LINES:])

"""One stage in a fresh child process, under limits, with every way of dying told apart.

The parent starts a child that runs `worker.main` for one stage, hands the request over as its
standard input, and sleeps on a pipe until the child answers, dies, or meets a limit::

    parent                                   child
    ──────                                   ─────
    request (JSON) ── stdin ───────────────> read_request()
    on_event(...)  <─ pipe, JSON lines ───── Channel().send_event / send_reply / send_failure
    log file       <─ stdout, stderr

Whatever the end, no process that the child started outlives `run_child`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.domain.codec import Json, decode
from benchorch.domain.result import Failure
from benchorch.host import cgroup
from benchorch.host.environment import available_memory_bytes
from benchorch.host.processes.exit_diagnosis import ChildExit, diagnose_exit
from benchorch.host.processes.process_tree import Offspring
from benchorch.host.processes.spawn import Child, started

_PADDING = "BENCHORCH_ENVIRONMENT_PADDING"

_TICK_S = 0.25  # between two looks at the child's memory
_LOOKS_EVERY = 4  # ticks between two looks for new descendants, which read more files
_TERM_GRACE_S = 2.0
_MEMORY_SHARE = 0.9
_LOG_LINES = 20
_MAX_PADDING_BYTES = 4096
_PIPE_BYTES = 1 << 20  # the most a pipe can hold
_LOG_TAIL_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may use.

    Attributes:
        timeout_s: wall time from start to answer.
        memory_bytes: resident memory of the child and all it started; None means 90 % of what
            is available when it starts.
        exit_s: how long it may take to go once it has answered.
    """

    timeout_s: float
    memory_bytes: int | None
    exit_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReply:
    """What became of a child.

    Attributes:
        reply: what it answered, or None.
        failure: why there is no answer, or None.
        peak_rss_bytes: the most memory it and its descendants were seen to hold.
        elapsed_s: wall time from start until none of them was left.
    """

    reply: Json | None
    failure: Failure | None
    peak_rss_bytes: int
    elapsed_s: float


# Not ``-m benchorch.worker``: a module run so is compiled anew in every process.
_ENTRY = "from benchorch.trial.worker import main; main()"


def run_child(
    stage: str,
    request: Json,
    *,
    log: Path,
    limits: Limits,
    environment: Mapping[str, str],
    on_event: Callable[[Json], None],
    command: Sequence[str] | None = None,
    under: Sequence[str] = (),
) -> ChildReply:
    """The child's answer, or the failure that stands in its place.

    Raises ExecutorError if no child can be started.

    Args:
        stage: the worker's argument and the failure's stage.
        request: what the child reads from its standard input.
        log: where its output is appended; a log that cannot be written costs only the log.
        limits: what it may use.
        environment: variables set on top of this process's own.
        on_event: called with each event as it arrives, in this thread.
        command: the program to start instead of the worker.
        under: what it is started by: a program and its options, such as a profiler's.
    """
    began_s = time.monotonic()
    kills_before = cgroup.oom_kills()
    log_start = _size(log)
    heard = _Heard(on_event=on_event)
    argv = [*under, *(command or [sys.executable, "-c", _ENTRY, stage])]
    with started(argv, json.dumps(request).encode(), log, _variables(environment)) as child:
        watch = _Watch(offspring=child.offspring, limit_bytes=_memory_limit(limits))
        stopped_for = _attend(child, heard, watch, began_s + limits.timeout_s, limits.exit_s)
        child.offspring.end(_TERM_GRACE_S if stopped_for == "timeout" else 0)
        code = child.reap()
    evidence = ChildExit(
        stage=stage,
        stopped_for=stopped_for,
        code=code,
        kernel_killed=_rose(kills_before, cgroup.oom_kills()),
        seen_bytes=watch.seen_bytes,
        limit_bytes=watch.limit_bytes,
        timeout_s=limits.timeout_s,
        last_event=heard.last_event,
        log_tail=_tail(log, log_start),
    )
    return ChildReply(
        reply=heard.answer.get("reply"),
        failure=_failure(heard.answer, evidence),
        peak_rss_bytes=max(watch.peak_bytes, heard.peak_bytes),
        elapsed_s=time.monotonic() - began_s,
    )


# The parent: listen and watch --------------------------------------------------------------


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
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


def _memory_limit(limits: Limits) -> int:
    if limits.memory_bytes is None:
        return int(_MEMORY_SHARE * available_memory_bytes())
    return limits.memory_bytes


@dataclass(slots=True, kw_only=True)
class _Heard:
    """What the child has said so far."""

    on_event: Callable[[Json], None]
    unread: bytearray = field(default_factory=bytearray)
    answer: Mapping[str, Json] = field(default_factory=dict)
    last_event: Json = None
    peak_bytes: int = 0

    def take(self, data: bytes) -> None:
        """Pass on whole lines; keep the rest for later."""
        self.unread += data
        if b"\n" not in data:
            return
        *lines, rest = bytes(self.unread).split(b"\n")
        self.unread = bytearray(rest)
        for line in lines:
            self._message(_parsed(line))

    def _message(self, message: Mapping[str, Json]) -> None:
        if "event" in message:
            self.last_event = message["event"]
            self.on_event(self.last_event)
        elif "reply" in message or "failure" in message:
            self.answer = self.answer or message
            peak = message.get("peak_rss_bytes")
            self.peak_bytes = peak if isinstance(peak, int) else 0


def _parsed(line: bytes) -> Mapping[str, Json]:
    """A message; empty for anything else that finds its way into the pipe."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, Mapping) else {}


@dataclass(slots=True, kw_only=True)
class _Watch:
    """Looks at the child's memory now and then."""

    offspring: Offspring
    limit_bytes: int
    next_s: float = 0.0
    looks: int = 0
    seen_bytes: int = 0
    peak_bytes: int = 0

    def exceeded(self, now_s: float) -> bool:
        """Whether more is held than allowed; looks only when the next look is due."""
        if now_s < self.next_s:
            return False
        self.next_s = now_s + _TICK_S
        if self.looks % _LOOKS_EVERY == 0:
            self.offspring.look()
        self.looks += 1
        self.seen_bytes = self.offspring.resident_bytes()
        if self.seen_bytes > self.limit_bytes:  # forked processes share pages: count them once
            self.seen_bytes = self.offspring.proportional_bytes()
        self.peak_bytes = max(self.peak_bytes, self.seen_bytes)
        return self.seen_bytes > self.limit_bytes


def _attend(child: Child, heard: _Heard, watch: _Watch, deadline_s: float, exit_s: float) -> str:
    """Sleep until the child ends ("") or meets a limit ("timeout", "oom").

    Once it has answered it only has to go, for which it gets a deadline of its own.
    """
    with _alarm(child) as alarm:
        while True:
            alarm.select(max(0.0, min(watch.next_s, deadline_s) - time.monotonic()))
            ended = child.ended()  # asked before reading: its last words are then there
            if not heard.answer and _listen(child, heard, alarm):
                deadline_s = time.monotonic() + exit_s
            if ended:
                return ""
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return "" if heard.answer else "timeout"
            if watch.exceeded(now_s):
                return "oom"


@contextlib.contextmanager
def _alarm(child: Child) -> Iterator[selectors.BaseSelector]:
    """Rings when the child speaks or, where the system can tell, when it ends."""
    os.set_blocking(child.pipe, False)
    with contextlib.ExitStack() as stack:
        alarm = stack.enter_context(selectors.DefaultSelector())
        alarm.register(child.pipe, selectors.EVENT_READ)
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(child.process.pid)
            stack.callback(os.close, descriptor)
            alarm.register(descriptor, selectors.EVENT_READ)
        yield alarm


def _listen(child: Child, heard: _Heard, alarm: selectors.BaseSelector) -> bool:
    """Take what the pipe holds now, all that a dead child left in it; True once it answered."""
    if child.pipe not in alarm.get_map():
        return False
    with contextlib.suppress(BlockingIOError):
        data = os.read(child.pipe, _PIPE_BYTES)
        heard.take(data)
        if heard.answer or not data:  # a child may close the pipe and live on: hear no more
            alarm.unregister(child.pipe)
    return bool(heard.answer)


# The parent: look back -----------------------------------------------------------------------


def _failure(answer: Mapping[str, Json], evidence: ChildExit) -> Failure | None:
    """Why there is no reply: in the child's own words, or else by the evidence."""
    if "reply" in answer:
        return None
    told = answer.get("failure")
    if not isinstance(told, Mapping):
        return diagnose_exit(evidence)
    defaults = {"kind": "failed", "message": "", "detail": evidence.log_tail}
    filled = {key: value for key, value in told.items() if value}
    return decode(Failure, {**defaults, **filled, "stage": evidence.stage})


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

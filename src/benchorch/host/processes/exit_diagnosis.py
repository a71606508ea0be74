"""Why a child process died without an answer, from what was seen of it."""

from __future__ import annotations

import json
import signal
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from benchorch.domain.codec import Json
from benchorch.domain.result import Failure
from benchorch.units import format_bytes, format_seconds

_PHRASE_LENGTH = 80
_SMALLER = "Try a smaller batch or model, or a machine with more memory."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExit:
    """What is known of a child's end.

    Attributes:
        stage: what it was doing.
        stopped_for: the limit for which its parent ended it, ``timeout`` or ``oom``, or empty.
        code: its exit code, negative for a signal, or None if nothing could end it.
        kernel_killed: whether the kernel killed for want of memory meanwhile; None if unknown.
        seen_bytes: the memory it held when last seen.
        limit_bytes: the memory it might hold.
        timeout_s: the time it might take.
        last_event: the last thing it said.
        log_tail: the last lines it wrote.
    """

    stage: str
    stopped_for: str
    code: int | None
    kernel_killed: bool | None
    seen_bytes: int
    limit_bytes: int
    timeout_s: float
    last_event: Json
    log_tail: str


def diagnose_exit(seen: ChildExit) -> Failure:
    """The failure that stands in for the answer."""
    kind, message, remedy = _cause(seen)
    return Failure(
        stage=seen.stage, kind=kind, message=message, remedy=remedy, detail=seen.log_tail
    )


def _cause(seen: ChildExit) -> tuple[str, str, str]:
    """Kind, message and remedy."""
    if seen.stopped_for == "timeout":
        return _timeout(seen)
    if seen.stopped_for == "oom":
        held, limit = format_bytes(seen.seen_bytes), format_bytes(seen.limit_bytes)
        return "oom", f"{seen.stage} held {held} of memory; the limit is {limit}.", _SMALLER
    if seen.code is None:
        message = f"{seen.stage} does not end, not even by SIGKILL."
        return "crash:stuck", message, "A driver holds it: restart the machine."
    if seen.code == -signal.SIGKILL:
        return _killed(seen)
    if seen.code < 0:
        name = _signal_name(-seen.code)
        return f"crash:{name}", f"{seen.stage} was ended by {name}.", "The log says where."
    message = f"{seen.stage} ended with exit code {seen.code} and without an answer."
    return f"exit:{seen.code}", message, "The log may say why."


def _timeout(seen: ChildExit) -> tuple[str, str, str]:
    limit = format_seconds(seen.timeout_s)
    message = f"{seen.stage} did not end within {limit}; last heard: {_phrase(seen.last_event)}."
    return "timeout", message, "The log says where it was; raise its limit if it needs longer."


def _killed(seen: ChildExit) -> tuple[str, str, str]:
    """SIGKILL from outside: the kernel's, for want of memory, unless its own count denies it."""
    held = f"it held {format_bytes(seen.seen_bytes)} when last seen."
    if seen.kernel_killed is False:
        message = f"{seen.stage} was killed from outside (SIGKILL); {held}"
        return "crash:SIGKILL", message, "The kernel counts no out-of-memory kill; look who did."
    if seen.kernel_killed:
        return "oom", f"The kernel killed {seen.stage} for want of memory; {held}", _SMALLER
    return "oom", f"{seen.stage} was killed, most likely for want of memory; {held}", _SMALLER


def _phrase(event: Json) -> str:
    """An event in a few words on one line."""
    if event is None:
        return "nothing"
    text = event
    if isinstance(event, Mapping):
        text = event.get("message") or event.get("stage") or json.dumps(event)
    return textwrap.shorten(str(text), _PHRASE_LENGTH, placeholder=" ...")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

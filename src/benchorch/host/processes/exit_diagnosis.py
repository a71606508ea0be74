"""Exit diagnosis: why a child process died without a reply, from what was observed of it."""

import signal
import textwrap
from dataclasses import dataclass

from benchorch.domain.result import Failure
from benchorch.units import format_bytes, format_seconds

_PHRASE_LENGTH = 80
_SMALLER = "A smaller batch or model, or a machine with more memory."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExit:
    """How a child ended.

    Attributes:
        stage: what it was doing.
        stopped_for: why its parent ended it: ``timeout``, ``oom``, ``stopped``; or empty.
        code: its exit code, negative for a signal, or None if nothing could end it.
        kernel_killed: whether the kernel killed for want of memory meanwhile; None if unknown.
        last_bytes: the memory it held at the last reading.
        limit_bytes: the memory it might hold.
        timeout_s: the time it might take.
        last_message: its last message, or None.
        log_tail: the last lines it wrote.
    """

    stage: str
    stopped_for: str
    code: int | None
    kernel_killed: bool | None
    last_bytes: int
    limit_bytes: int
    timeout_s: float
    last_message: str | None
    log_tail: str


def diagnose_exit(ended: ChildExit) -> Failure:
    """Failure that replaces a missing reply."""
    kind, message, remedy = _cause(ended)
    return Failure(
        stage=ended.stage, kind=kind, message=message, remedy=remedy, detail=ended.log_tail
    )


def _cause(ended: ChildExit) -> tuple[str, str, str]:
    """Kind, message and remedy."""
    if ended.stopped_for == "timeout":
        return _timeout(ended)
    if ended.stopped_for == "oom":
        held, limit = format_bytes(ended.last_bytes), format_bytes(ended.limit_bytes)
        return "oom", f"{ended.stage} held {held} of memory; the limit is {limit}.", _SMALLER
    if ended.stopped_for == "stopped":
        return "stopped", f"{ended.stage} was ended as requested.", ""
    if ended.code is None:
        message = f"{ended.stage} does not end, not even by SIGKILL."
        return "crash:stuck", message, "A driver holds it: restart the machine."
    if ended.code == -signal.SIGKILL:
        return _killed(ended)
    if ended.code < 0:
        name = _signal_name(-ended.code)
        return f"crash:{name}", f"{ended.stage} was ended by {name}.", "See the log for where."
    message = f"{ended.stage} ended with exit code {ended.code} and without a reply."
    return f"exit:{ended.code}", message, "The log may say why."


def _timeout(ended: ChildExit) -> tuple[str, str, str]:
    limit = format_seconds(ended.timeout_s)
    last = textwrap.shorten(ended.last_message or "none", _PHRASE_LENGTH, placeholder=" ...")
    message = f"{ended.stage} did not end within {limit}; last message: {last}."
    return "timeout", message, "The log shows where it was; raise its limit if it needs longer."


def _killed(ended: ChildExit) -> tuple[str, str, str]:
    """Diagnosis of SIGKILL: out of memory, unless the kernel's own count contradicts it."""
    held = f"it held {format_bytes(ended.last_bytes)} at the last reading."
    if ended.kernel_killed is False:
        message = f"{ended.stage} was killed from outside (SIGKILL); {held}"
        return "crash:SIGKILL", message, "The kernel counts no out-of-memory kill; look who did."
    if ended.kernel_killed:
        return "oom", f"The kernel killed {ended.stage} for want of memory; {held}", _SMALLER
    return "oom", f"{ended.stage} was killed, most likely for want of memory; {held}", _SMALLER


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""A child process's side: what it is asked, how it answers, and how it makes sure to end.

The parent's side is `supervise`; this half imports little, because every measurement pays for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import final

from benchorch.domain.codec import Json, encode
from benchorch.domain.result import Failure
from benchorch.host.memory import own_peak_bytes

REPLY_FD = "BENCHORCH_REPLY_FD"
"""The variable that tells a child the number of the pipe to its parent."""


def read_request() -> Json:
    """What the parent asks for."""
    request: Json = json.loads(sys.stdin.buffer.read())
    return request


@final
class Channel:
    """The child's way to its parent; threads may share it."""

    def __init__(self) -> None:
        self._descriptor = int(os.environ[REPLY_FD])
        self._lock = threading.Lock()
        os.set_inheritable(self._descriptor, False)

    def send_event(self, event: Mapping[str, Json]) -> None:
        """Say what is happening now."""
        self._send({"event": event})

    def send_reply(self, reply: Json) -> None:
        """Answer; nothing is heard after it."""
        self._send({"reply": reply, "peak_rss_bytes": own_peak_bytes()})

    def send_failure(self, failure: Failure) -> None:
        """Say why there is no answer; nothing is heard after it."""
        self._send({"failure": encode(failure), "peak_rss_bytes": own_peak_bytes()})

    def _send(self, message: Mapping[str, Json]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


def prefer_to_die() -> None:
    """Offer this process to the kernel first when memory runs out: better it than its parent."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def die_with_parent() -> None:
    """End when the thread that started this process ends, even by SIGKILL; Linux only."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if _parent_is_gone():  # before it could be asked
        os.kill(os.getpid(), signal.SIGKILL)


def _parent_is_gone() -> bool:
    """Whether nobody reads the pipe any more."""
    if REPLY_FD not in os.environ:
        return False
    poller = select.poll()
    poller.register(int(os.environ[REPLY_FD]), 0)
    return any(state & select.POLLERR for _, state in poller.poll(0))


def show_where_it_hangs() -> None:
    """Write every thread's traceback to the log when the time limit ends this process."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        faulthandler.register(signal.SIGTERM, chain=True)

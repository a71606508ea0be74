"""Liveness check of a Ray cluster's head; Ray itself takes minutes to notice that it is gone."""

import socket
import time
from collections.abc import Callable
from typing import TypeAlias, final

from benchorch.errors import ExecutorError

PROBE_S = 2.0
"""How long a head that was alive a moment ago may take to accept a connection."""

REFUSED_S = 10.0
"""A machine that refuses connections to the head's port for so long has no head any more."""

SILENT_S = 40.0
"""A machine that does not respond may be cut off for a while; after 60 s Ray ends the program."""

Probe: TypeAlias = Callable[[str, float], OSError | None]


def probe(address: str, timeout_s: float) -> OSError | None:
    """Why ``host:port`` or ``ray://host:port`` accepts no connection; None if it does.

    An address without a port cannot be probed and counts as alive.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except OSError as error:
        return error
    return None


@final
class HeadLiveness:
    """Watches one head during a sweep.

    A request to a head that is gone hangs until Ray ends the whole program, so the head is probed
    before every request.

    Args:
        address: ``host:port``.
        is_same: whether the head that responds again is the one from before; a request to another
            one ends the program.
        probe: see `probe`.
        now_s: a monotonic time in seconds.
    """

    def __init__(
        self,
        address: str,
        *,
        is_same: Callable[[], bool],
        probe: Probe = probe,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._is_same = is_same
        self._probe = probe
        self._now_s = now_s
        self._silent_since_s: float | None = None

    def is_alive(self) -> bool:
        """Whether it responds now; ExecutorError once it has not for too long."""
        error = self._probe(self._address, PROBE_S)
        if error is None:
            if self._silent_since_s is not None and not self._is_same():
                raise ExecutorError(
                    f"The head of the Ray cluster at {self._address} was restarted and has lost "
                    "this sweep, which ends here with the results so far. Continue with resume=."
                )
            self._silent_since_s = None
            return True
        now_s = self._now_s()
        if self._silent_since_s is None:  # not its last response: nothing may have probed it since
            self._silent_since_s = now_s
        silent_s = now_s - self._silent_since_s
        if silent_s >= (REFUSED_S if isinstance(error, ConnectionRefusedError) else SILENT_S):
            raise ExecutorError(
                f"The head of the Ray cluster at {self._address} has not responded for "
                f"{silent_s:.0f} s ({error}), so the sweep ends here with the results so far. "
                "Start a head again, then resume=."
            )
        return False

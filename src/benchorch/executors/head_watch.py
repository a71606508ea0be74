"""Is the head of a Ray cluster still there? Ray itself takes minutes to say no."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeAlias, final

from benchorch.errors import ExecutorError

KNOCK_S = 2.0
"""How long a head that was there a moment ago may take to answer: whoever knocks waits."""

REFUSED_S = 10.0
"""A machine that says for so long that nobody listens at the head's port has no head any more."""

SILENT_S = 40.0
"""A machine that says nothing may be cut off for a while; after 60 s Ray ends the program."""

Knock: TypeAlias = Callable[[str, float], OSError | None]


def knock(address: str, timeout_s: float) -> OSError | None:
    """Why nobody answers at ``host:port`` or ``ray://host:port``; None where somebody does.

    An address without a port cannot be knocked at and is taken to answer.
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
class HeadWatch:
    """Looks after one head for as long as a sweep lasts.

    What else is asked of a head that is gone hangs until Ray ends the whole program, so it is
    knocked at before anything is asked.

    Args:
        address: ``host:port``.
        is_same: whether who answers there again is the head that was there before; another one ends
            whoever asks it as if it were.
        knocking: how it is found out whether somebody answers.
        now_s: a monotonic time in seconds.
    """

    def __init__(
        self,
        address: str,
        *,
        is_same: Callable[[], bool],
        knocking: Knock = knock,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._is_same = is_same
        self._knock = knocking
        self._now_s = now_s
        self._silent_since_s: float | None = None

    def answers(self) -> bool:
        """Whether it does now; ExecutorError once it has not for too long."""
        trouble = self._knock(self._address, KNOCK_S)
        if trouble is None:
            if self._silent_since_s is not None and not self._is_same():
                raise ExecutorError(
                    f"The head of the Ray cluster at {self._address} was started anew and knows "
                    "nothing of this sweep, which ends here, with the results that it has. Go on "
                    "with resume=."
                )
            self._silent_since_s = None
            return True
        now_s = self._now_s()
        if self._silent_since_s is None:  # not when it was last heard: nobody may have asked since
            self._silent_since_s = now_s
        silent_s = now_s - self._silent_since_s
        if silent_s >= (REFUSED_S if isinstance(trouble, ConnectionRefusedError) else SILENT_S):
            raise ExecutorError(
                f"The head of the Ray cluster at {self._address} has not answered for "
                f"{silent_s:.0f} s ({trouble}), so the sweep ends here, with the results that it "
                "has. Start a head again, then resume=."
            )
        return False

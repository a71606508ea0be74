"""SIGTERM as an interrupt, so that what was measured is kept and shown."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

TERMINATED = 143
"""Exit code of a program that SIGTERM ended."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which service managers and schedulers send before they kill."""


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the work inside as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # only that one is told
        yield
        return
    own = os.getpid()

    def terminate(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == own:
            raise Terminated
        signal.signal(number, signal.SIG_DFL)  # a fork, in which nobody waits for it
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except SystemExit as error:
        if error.code != signal.SIGTERM:
            raise
        raise Terminated from error  # Ray's own handler leaves so
    finally:
        signal.signal(signal.SIGTERM, before)

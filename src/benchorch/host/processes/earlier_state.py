"""The state of this process as it is now, kept in a forked process for work that comes later."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from benchorch.host.processes.child_channel import die_with_parent

_DONE = b"1"
_MOST_BYTES = 32


@contextmanager
def kept_state(work: Callable[[int], None]) -> Iterator[Callable[[int, float], bool]]:
    """Keep what is in memory now, for work that must not see what happens meanwhile.

    Args:
        work: runs once for each number that is given, each time in a process that continues from
            here with a single thread; its results are files.

    Yields:
        ``run(number, seconds)``: whether that work ended well within the time. After it did not,
        all later ones are False too.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    keeper = os.fork()
    if not keeper:
        ours.close()
        _keep(theirs, work)
    theirs.close()

    def run(number: int, seconds: float) -> bool:
        try:
            ours.settimeout(seconds)
            ours.sendall(str(number).encode())
            return ours.recv(_MOST_BYTES) == _DONE
        except OSError:
            ours.close()  # what is late must not answer for the next one
            return False

    try:
        yield run
    finally:
        ours.close()
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)


def _keep(link: socket.socket, work: Callable[[int], None]) -> NoReturn:
    """Fork for each number; end with the other side, and by no exception."""
    try:
        die_with_parent()
        while message := link.recv(_MOST_BYTES):
            child = os.fork()
            if not child:
                die_with_parent()
                _attempt(work, int(message))
            _, status = os.waitpid(child, 0)
            link.sendall(_DONE if status == 0 else b"0")
    finally:
        os._exit(0)


def _attempt(work: Callable[[int], None], number: int) -> NoReturn:
    code = 1
    try:
        work(number)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)

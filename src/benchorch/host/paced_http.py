"""Ends responses that trickle, whose bytes each start a socket's timeout anew, or never end."""

import io
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any, final

LEAST_BYTES_PER_S = 1000
_lock = threading.Lock()
_blocks = 0
_most_bytes = math.inf


@final
class _PacedBytes(io.RawIOBase):
    """A response's bytes, as long as they come fast enough."""

    def __init__(self, raw: Any, timeout_s: float) -> None:
        self._raw, self._left = raw, _most_bytes
        self._until_s = time.monotonic() + timeout_s

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        if time.monotonic() > self._until_s:
            raise TimeoutError("timed out: its bytes trickle")
        count = int(self._raw.readinto(into))
        self._until_s += count / LEAST_BYTES_PER_S
        self._left -= count
        if self._left < 0:
            raise OSError("its response has more bytes than one can have")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


@final
class _PacedResponse(HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        if sock.gettimeout() is not None:
            self.fp = io.BufferedReader(_PacedBytes(self.fp.detach(), sock.gettimeout()))


@contextmanager
def paced(most_bytes: float = math.inf) -> Iterator[None]:
    """Let responses to urllib3's requests, in any thread, time out as wholes during the block.

    A response may take its socket's timeout, and a second more for each `LEAST_BYTES_PER_S` bytes;
    one whose request has no timeout may take any time. None has more than `most_bytes`.
    """
    from urllib3.connection import HTTPConnection

    global _blocks, _most_bytes
    with _lock:
        _blocks += 1
        _most_bytes = most_bytes
        HTTPConnection.response_class = _PacedResponse
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                HTTPConnection.response_class = HTTPResponse

"""An HTTP endpoint as a module: each call is a request on a connection that stays open."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import Any, final
from urllib.parse import urlsplit

import numpy as np
import torch

from benchorch.domain.codec import Json
from benchorch.errors import MeasureError, MissedQuery
from benchorch.formatting import plural
from benchorch.frameworks.content_encoding import decompressed
from benchorch.frameworks.opaque_module import OpaqueModule

_KEPT_BODIES = 1024
_MOST_BYTES = 2**28
_STALE = (RemoteDisconnected, BadStatusLine, BrokenPipeError, ConnectionResetError)
"""Errors of a connection that the server has closed meanwhile."""

_OVERLOADED = frozenset({"429", "502", "503", "504"})
_NO_ANSWER = frozenset({408, 425, 429, *range(500, 600)})
"""Statuses of a server that could not answer now, where others say that the request is wrong."""

_MOST_REPEATS = 5
_MOST_PAUSE_S = 30.0
_FIRST_PAUSE_S = 0.5
_BODY_SHOWN, _HEADER_SHOWN = 200, 40


@final
class Endpoint(OpaqueModule):
    """Sends the inputs and returns what the answer holds; each thread has a connection of its own.

    A server that is overloaded is asked again in the checks before and after measuring, and
    `note` tells how often; while calls are timed each is sent once.

    Args:
        url: where requests go, and nowhere else: neither proxies nor redirects are followed.
        method: of HTTP.
        body: the JSON that is sent, in which ``$name`` stands for an input; None for an object of
            all inputs by name.
        headers: sent with each request.
        timeout_s: of connecting and of each wait for the server.
    """

    provider = "HTTP"

    def __init__(
        self, url: str, method: str, body: Json, headers: Mapping[str, str], timeout_s: float
    ) -> None:
        super().__init__()
        self.url, self.method, self.body = url, method, body
        self.headers = {"Content-Type": "application/json", **headers}
        self.timeout_s = timeout_s
        self.repeated: Counter[str] = Counter()
        self._is_timed = False
        self._mine = threading.local()
        self._bodies: dict[tuple[int, ...], tuple[Any, bytes]] = {}

    def answer(self, **tensors: torch.Tensor) -> object:
        """Arrays of numbers as tensors, other values as they are; of plain text its bytes."""
        return decoded(self.send(self._encoded(tensors)))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Send each request once, as a query of the load that is measured."""
        self._is_timed = True
        try:
            yield
        finally:
            self._is_timed = False

    def note(self) -> str:
        """How many requests had to be sent again, by status."""
        if not self.repeated:
            return ""
        counts = ", ".join(f"{code}: {n}" for code, n in sorted(self.repeated.items()))
        again = plural(self.repeated.total(), "request")
        return f"{self.url} did not answer {again} of the checks at once ({counts}): sent again"

    def send(self, body: bytes) -> bytes:
        """The body of the answer.

        Raises:
            MissedQuery: nobody answers, too late, or with a status of an overloaded server.
            MeasureError: of kind ``endpoint``: any other status, and what is no answer.
        """
        repeats = 0
        while True:
            try:
                return self._send_once(body)
            except MissedQuery as error:
                pause_s = self._pause_s(error, repeats)
                if pause_s is None:
                    raise
                repeats += 1
                self.repeated[error.cause] += 1
                time.sleep(pause_s)

    def _pause_s(self, error: MissedQuery, repeats: int) -> float | None:
        """Seconds until a request is sent again; None where it is not."""
        if self._is_timed or repeats == _MOST_REPEATS or error.cause not in _OVERLOADED:
            return None
        pause_s = error.retry_after_s
        if pause_s is None:
            pause_s = _FIRST_PAUSE_S * 2**repeats
        return pause_s if pause_s <= _MOST_PAUSE_S else None

    def _send_once(self, body: bytes) -> bytes:
        try:
            response, content = self._exchange(body)
        except TimeoutError as error:
            message = f"{self.url} did not answer within {self.timeout_s:g} s."
            raise _missed(message, "timeout", "model.timeout_s=120") from error
        except ConnectionRefusedError as error:
            message = f"{self.url} refuses connections: nothing listens there."
            remedy = "start the server, and check host and port"
            raise _missed(message, "refused", remedy) from error
        except (ConnectionError, IncompleteRead) as error:
            message = f"{self.url} ended the connection: {type(error).__name__}: {error}."
            raise _missed(message, "reset", "look at the server's log") from error
        except (OSError, HTTPException) as error:
            raise _failed(f"{self.url}: {type(error).__name__}: {error}.") from error
        except ValueError:  # its message quotes the header, which may be a secret
            what = "model.url, model.method or model.headers hold what HTTP does not allow"
            remedy = "write them in ASCII, names without spaces and values in one line"
            raise _failed(f"{self.url}: {what}.", remedy) from None
        if not 200 <= response.status < 300:
            raise self._refusal(response, content)
        try:
            return _plain(response, content)
        except ValueError as error:
            raise _failed(f"{self.url} answered {error}.", _IDENTITY) from error

    def _refusal(self, response: HTTPResponse, content: bytes) -> MeasureError:
        """The error of an answer that is none."""
        status = response.status
        answered = f"{self.url} answered {status} {response.reason}".rstrip()
        if 300 <= status < 400:
            place = response.getheader("Location", "")
            return _failed(
                f"{answered}: it redirects to {place}.", "name that address, as model.url"
            )
        with suppress(ValueError):  # it is shown as it came
            content = _plain(response, content)
        lines = content.decode(errors="replace").strip().splitlines()
        shown = f": {lines[0][:_BODY_SHOWN]}" if lines else ""
        if status not in _NO_ANSWER:
            return _failed(f"{answered}{shown}.")
        asked = response.getheader("Retry-After", "").strip()
        wait = f" (Retry-After: {asked[:_HEADER_SHOWN]})" if asked else ""
        return _missed(f"{answered}{wait}{shown}.", str(status), _COUNTED, _seconds(asked))

    def _exchange(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        kept = getattr(self._mine, "connection", None)
        if kept is not None:
            with suppress(*_STALE):
                return self._request(kept, body)
        self._mine.connection = self._connection()
        return self._request(self._mine.connection, body)

    def _request(self, connection: HTTPConnection, body: bytes) -> tuple[HTTPResponse, bytes]:
        try:
            connection.request(self.method, self._path, body, self.headers)
            response = connection.getresponse()
            return response, self._content(response)
        except BaseException:
            connection.close()
            self._mine.connection = None
            raise

    def _content(self, response: HTTPResponse) -> bytes:
        content = response.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise _failed(f"{self.url} answered more than {_MOST_BYTES >> 20} MiB.")
        if response.length:
            raise IncompleteRead(content, response.length)
        return content

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(str(parts.hostname), parts.port, timeout=self.timeout_s)

    @property
    def _path(self) -> str:
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _encoded(self, tensors: Mapping[str, torch.Tensor]) -> bytes:
        """The request's body, made once for the same tensors: they are kept, so ids stay theirs."""
        key = tuple(map(id, tensors.values()))
        found = self._bodies.get(key)
        if found is None:
            if len(self._bodies) >= _KEPT_BODIES:
                self._bodies.clear()
            found = self._bodies[key] = (tensors, json.dumps(self._filled(tensors)).encode())
        return found[1]

    def _filled(self, tensors: Mapping[str, torch.Tensor]) -> Json:
        values = {f"${name}": each.tolist() for name, each in tensors.items()}
        if self.body is None:
            return {name.removeprefix("$"): value for name, value in values.items()}
        return _with_values(self.body, values)


def _with_values(body: Json, values: Mapping[str, Json]) -> Json:
    if isinstance(body, str):
        return values.get(body, body)
    if isinstance(body, Mapping):
        return {key: _with_values(value, values) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_with_values(value, values) for value in body]
    return body


_IDENTITY = "let the server send plain bodies, as `Accept-Encoding: identity` requests"
_COUNTED = (
    "scenario=server scenario.rate_per_s=RATE, which counts such queries as missed; or a rate that "
    "the server allows, once it has recovered"
)


def _plain(response: HTTPResponse, content: bytes) -> bytes:
    """The body without compression; ValueError where it cannot be read."""
    encoding = response.getheader("Content-Encoding", "")
    return decompressed(content, encoding, most_bytes=_MOST_BYTES)


def _failed(message: str, remedy: str = "") -> MeasureError:
    return MeasureError(message, kind="endpoint", remedy=remedy)


def _missed(
    message: str, cause: str, remedy: str, retry_after_s: float | None = None
) -> MissedQuery:
    return MissedQuery(message, cause=cause, remedy=remedy, retry_after_s=retry_after_s)


def _seconds(retry_after: str) -> float | None:
    """The seconds of a Retry-After, which may be a date; None where it is neither."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if until.tzinfo is None:
        return None
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def decoded(content: bytes) -> object:
    """An answer's arrays of numbers as tensors; where it has none, its bytes."""
    try:
        found = _tensors(json.loads(content))
    except (ValueError, RecursionError):
        found = None
    from torch.utils import _pytree

    if any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves(found)):
        return found
    return {"text": torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)}


def _tensors(value: Json) -> object:
    if isinstance(value, Mapping):
        return {key: _tensors(each) for key, each in value.items()}
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.asarray(None)
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32))
    if array.dtype.kind in "iub" and array.size:
        return torch.from_numpy(array)
    return [_tensors(each) for each in value] if isinstance(value, list) else str(value)

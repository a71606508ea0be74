"""An HTTP endpoint as a module: each call is a request on a connection that stays open."""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
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
from benchorch.errors import MeasureError
from benchorch.frameworks.opaque_module import OpaqueModule

_KEPT_BODIES = 1024
_MOST_BYTES = 2**28
_STALE = (RemoteDisconnected, BadStatusLine, BrokenPipeError, ConnectionResetError)
"""Errors of a connection that the server has closed meanwhile."""


@final
class Endpoint(OpaqueModule):
    """Sends the inputs and returns what the answer holds; each thread has a connection of its own.

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
        self._mine = threading.local()
        self._bodies: dict[tuple[int, ...], tuple[Any, bytes]] = {}

    def answer(self, **tensors: torch.Tensor) -> object:
        """Arrays of numbers as tensors, other values as they are; of plain text its bytes."""
        return decoded(self.send(self._encoded(tensors)))

    def send(self, body: bytes) -> bytes:
        """The body of the answer.

        Raises:
            MeasureError: of kind ``endpoint``: nobody answers, too late, or with another status.
        """
        try:
            response, content = self._exchange(body)
        except TimeoutError as error:
            message = f"{self.url} did not answer within {self.timeout_s:g} s."
            raise _failed(message, "model.timeout_s=120") from error
        except ConnectionRefusedError as error:
            message = f"{self.url} refuses connections: nothing listens there."
            raise _failed(message, "start the server, and check host and port") from error
        except (OSError, HTTPException) as error:
            raise _failed(f"{self.url}: {type(error).__name__}: {error}.") from error
        if 200 <= response.status < 300:
            return content
        answered = f"{self.url} answered {response.status} {response.reason}"
        if 300 <= response.status < 400:
            place = response.getheader("Location", "")
            raise _failed(
                f"{answered}: it redirects to {place}.", "name that address, as model.url"
            )
        lines = content.decode(errors="replace").strip().splitlines()
        raise _failed(f"{answered}{f': {lines[0][:200]}' if lines else ''}.")

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


def _failed(message: str, remedy: str = "") -> MeasureError:
    return MeasureError(message, kind="endpoint", remedy=remedy)


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

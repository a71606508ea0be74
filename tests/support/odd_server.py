"""An HTTP server on loopback whose replies a test chooses, broken ones among them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply.

    Attributes:
        missing_bytes: how many more bytes its header promises than come.
        dropped: whether the connection ends instead, after the request.
        location: where a redirect leads, by default to the same place.
        headers: further ones.
        pause_s: waited before each byte of it, head and body, after those that come `at_once`.
    """

    body: bytes = b"{}"
    status: int = 200
    kind: str = "application/json"
    missing_bytes: int = 0
    dropped: bool = False
    pause_s: float = 0
    at_once: int = 0
    location: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[str, str, bytes], Answer]
"""Of a request's method, its path and its body."""


class OddServer:
    """Its address, and what it answers from now on."""

    def __init__(self) -> None:
        self.respond: Respond = lambda *_: Answer()
        self.url = ""
        self.ended = threading.Event()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        answer = self.respond(handler.command, handler.path, handler.rfile.read(length))
        handler.close_connection = True
        if answer.dropped:
            return
        if answer.pause_s:
            head = f"HTTP/1.1 {answer.status} odd\r\nContent-Length: {len(answer.body)}\r\n\r\n"
            with contextlib.suppress(OSError):  # the client gave up
                content = head.encode() + answer.body
                handler.wfile.write(content[: answer.at_once])
                for byte in content[answer.at_once :]:
                    self.ended.wait(answer.pause_s)
                    handler.wfile.write(bytes([byte]))
            return
        handler.send_response(answer.status)
        handler.send_header("Content-Type", answer.kind)
        handler.send_header("Content-Length", str(len(answer.body) + answer.missing_bytes))
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if 300 <= answer.status < 400:
            handler.send_header("Location", answer.location or handler.path)
        handler.end_headers()
        handler.wfile.write(answer.body)


@contextmanager
def odd_server() -> Iterator[OddServer]:
    """A server on a port of its own until the end of the block."""
    server = OddServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            server.answer(self)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 http.server's own names

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            listening.shutdown()
            thread.join()

"""What a machine may ask of itself: EC2's metadata service, which demands a session's token."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

Facts: TypeAlias = Callable[[str], str | None]
"""The answer to a path below ``meta-data/``, or None where EC2 would answer 404."""


class _Handler(BaseHTTPRequestHandler):
    facts: Facts
    token: str

    def do_PUT(self) -> None:
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        known = self.path == "/latest/api/token" and lifetime is not None
        self._answer(200 if known else 400, self.token if known else "")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != self.token:
            return self._answer(401, "")
        fact = self.facts(self.path.removeprefix("/latest/meta-data/"))
        return self._answer(404 if fact is None else 200, fact or "")

    def _answer(self, status: int, content: str) -> None:
        body = content.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: tests print enough."""


def serve(listening: socket.socket, facts: Facts) -> Callable[[], None]:
    """Answer on a socket from now on; what ends it."""
    handler = type("Handler", (_Handler,), {"facts": staticmethod(facts)})
    handler.token = secrets.token_hex(8)
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()

    def end() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return end

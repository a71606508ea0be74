"""What a spot machine is told of its end, against a metadata service of our own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from benchorch.executors.scheduling import spot_interruption
from benchorch.executors.scheduling.spot_interruption import MAX_FAILURES, SpotInterruptionWatcher
from support.waiting import until

NAME = "spot interruption"
NOTICE = {"action": "terminate", "time": "2026-11-22T08:22:00Z"}


class Metadata(HTTPServer):
    """IMDSv2: a token is asked for with PUT, and without one nothing is told."""

    armed = False
    token = "t1"
    asked = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Metadata

    def do_PUT(self) -> None:
        assert self.path == "/latest/api/token"
        self.say(200, self.server.token)

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.headers["X-aws-ec2-metadata-token"] != self.server.token:
            self.say(401, "")
        elif self.server.armed and self.path == "/latest/meta-data/spot/instance-action":
            self.say(200, json.dumps(NOTICE))
        else:
            self.say(404, "")

    def say(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    monkeypatch.setattr(spot_interruption, "TIMEOUT_S", 60.0)
    server = Metadata(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_nothing_is_told_before_there_is_a_notice(service: Metadata) -> None:
    watcher = SpotInterruptionWatcher(service.endpoint, poll_s=0.01)
    watcher.start()
    assert until(lambda: service.asked > 3, 60)
    assert watcher.notice == ""
    service.armed = True
    assert until(lambda: watcher.notice, 60)
    assert watcher.notice == "EC2 will terminate this machine at 2026-11-22T08:22:00Z"


def test_a_token_that_has_expired_is_asked_for_anew(service: Metadata) -> None:
    watcher = SpotInterruptionWatcher(service.endpoint, poll_s=0.01)
    watcher.start()
    assert until(lambda: service.asked > 1, 60)
    service.token, service.armed = "t2", True
    assert until(lambda: watcher.notice, 60)


def test_where_there_is_no_service_asking_ends(service: Metadata) -> None:
    endpoint = service.endpoint.replace(str(service.server_address[1]), "1")  # nobody's port
    before = {*threading.enumerate()}
    watcher = SpotInterruptionWatcher(endpoint, poll_s=0.01)
    watcher.start()
    assert until(lambda: NAME not in {one.name for one in {*threading.enumerate()} - before}, 60)
    assert watcher.notice == ""
    assert MAX_FAILURES < 10

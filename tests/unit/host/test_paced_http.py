"""Real servers on loopback that trickle, and a link that is slow but steady."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from benchorch.host import paced_http
from benchorch.host.paced_http import LEAST_BYTES_PER_S, paced
from support.odd_server import Answer, OddServer, odd_server

requests = pytest.importorskip("requests")
TIMEOUT_S = 0.4
A_HEAD = 30


@pytest.fixture
def server() -> Iterator[OddServer]:
    with odd_server() as server:
        yield server


@pytest.mark.parametrize("at_once", [0, A_HEAD, 500])
def test_a_response_that_trickles_times_out_as_a_whole(server: OddServer, at_once: int) -> None:
    server.respond = lambda *_: Answer(body=b"x" * 1000, pause_s=0.1, at_once=at_once)
    with paced(), pytest.raises(requests.RequestException, match=r"timed out|trickle"):
        requests.get(server.url, timeout=TIMEOUT_S)


def test_a_request_without_a_timeout_and_those_after_the_block_may_take_long(
    server: OddServer,
) -> None:
    server.respond = lambda *_: Answer(body=b"x" * 10, pause_s=0.05, at_once=A_HEAD)
    with paced():
        assert requests.get(server.url).status_code == 200
    server.respond = lambda *_: Answer(body=b"x" * 45, pause_s=0.05, at_once=A_HEAD)
    # 55 of its bytes come one by one: it takes longer as a whole, and none of them does.
    assert requests.get(server.url, timeout=2).status_code == 200


@pytest.mark.parametrize(("bytes_per_s", "is_read"), [(1.2, True), (0.8, False)])
def test_bytes_that_come_steadily_may_take_long(
    bytes_per_s: float, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    class Link(io.BytesIO):
        def readinto(self, into: memoryview, /) -> int:
            nonlocal now_s
            now_s += 1
            return super().readinto(memoryview(into)[: round(bytes_per_s * LEAST_BYTES_PER_S)])

    monkeypatch.setattr(paced_http.time, "monotonic", lambda: now_s)
    content = bytes(100 * LEAST_BYTES_PER_S)
    response = io.BufferedReader(paced_http._PacedBytes(Link(content), 5))
    if is_read:
        assert response.read() == content
    else:
        with pytest.raises(TimeoutError, match="trickle"):
            response.read()


def test_a_response_that_never_ends_is_cut(server: OddServer) -> None:
    server.respond = lambda *_: Answer(body=b" " * 300_000)
    with paced(200_000), pytest.raises(requests.RequestException, match="more bytes"):
        requests.get(server.url, timeout=60)
    with paced(400_000):
        assert len(requests.get(server.url, timeout=60).content) == 300_000

"""A model behind a real server on the loopback interface."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import traceback
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.config.components import make
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError, MeasureError, MissedQuery
from benchorch.frameworks.module_fingerprint import UNHASHABLE, content_of
from benchorch.interfaces.model import Model
from benchorch.models.http import HttpModel, read_answers

INPUTS: dict[str, Json] = {"x": {"shape": ["batch_size", 2], "generator": "normal"}}
WORKLOAD = Workload(symbols={"batch_size": 3})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, dict[str, str], bytes]]
    connections: set[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.path, dict(self.headers), body))
        self.connections.add(self.client_address[1])
        status, headers, answer = self.reply(body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def reply(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        kind = self.path.partition("?")[0].strip("/")
        if kind == "slow":
            time.sleep(2)
        if kind == "error":
            return 500, {}, b"out of memory\nsecond line"
        if kind == "moved":
            return 302, {"Location": "http://127.0.0.1:1/elsewhere"}, b""
        if kind == "text":
            return 200, {}, b"a plain answer"
        if kind == "closing":
            self.close_connection = True
        rows = json.loads(body).get("x", [[1.0]])
        answer = {"sums": [sum(row) for row in rows], "model": "v1", "ids": [1, 2]}
        return 200, {}, json.dumps(answer).encode()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.seen, Handler.connections = [], set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def model(server: ThreadingHTTPServer | None, path: str = "/predict", **rest: object) -> HttpModel:
    port = server.server_address[1] if server else 0
    node = {"inputs": INPUTS, "url": f"http://127.0.0.1:{port}{path}", **rest}
    made = make({"_target_": "benchorch.models.http.HttpModel", **node}, Model, "model")
    assert isinstance(made, HttpModel)
    return made


def test_inputs_go_by_name_and_numbers_come_back_as_tensors(server: ThreadingHTTPServer) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    answer: Any = model(server, "/predict?v=2").load(0)(x=x)
    assert answer["sums"].tolist() == [3.0, 7.0]
    assert answer["ids"].dtype == torch.int64
    assert answer["model"] == "v1"
    path, _, body = Handler.seen[0]
    assert path == "/predict?v=2"
    assert json.loads(body) == {"x": [[1.0, 2.0], [3.0, 4.0]]}


def test_a_declared_body_holds_the_inputs_where_it_names_them(server: ThreadingHTTPServer) -> None:
    body = {"x": "$x", "parameters": {"top": 5, "names": ["$1 is no input here"]}}
    model(server, body=body).load(0)(x=torch.ones(1, 2))
    assert json.loads(Handler.seen[0][2]) == {**body, "x": [[1.0, 1.0]]}


def test_a_fixed_body_needs_no_inputs(server: ThreadingHTTPServer) -> None:
    made = model(server, body={"prompt": "hello"}, inputs={})
    assert made.problems(WORKLOAD) == []
    made.load(0)()
    assert json.loads(Handler.seen[0][2]) == {"prompt": "hello"}


def test_calls_of_a_thread_share_a_connection_and_threads_do_not(
    server: ThreadingHTTPServer,
) -> None:
    module = model(server).load(0)
    x = torch.ones(1, 2)
    for _ in range(3):
        module(x=x)
    assert len(Handler.connections) == 1
    thread = threading.Thread(target=lambda: module(x=x))
    thread.start()
    thread.join()
    assert len(Handler.connections) == 2


def test_a_connection_that_the_server_closed_is_opened_again(server: ThreadingHTTPServer) -> None:
    module = model(server, "/closing").load(0)
    for _ in range(3):
        module(x=torch.ones(1, 2))
    assert len(Handler.seen) == 3


def test_plain_text_is_compared_by_its_bytes(server: ThreadingHTTPServer) -> None:
    answer: Any = model(server, "/text").load(0)(x=torch.ones(1, 2))
    assert bytes(answer["text"].tolist()) == b"a plain answer"


@pytest.mark.parametrize(
    ("path", "rest", "said"),
    [
        ("/error", {}, "answered 500 Internal Server Error: out of memory."),
        ("/moved", {}, "redirects to http://127.0.0.1:1/elsewhere"),
        ("/slow", {"timeout_s": 0.2}, "did not answer within 0.2 s"),
    ],
)
def test_a_server_that_fails_is_a_sentence(
    server: ThreadingHTTPServer, path: str, rest: dict[str, object], said: str
) -> None:
    with pytest.raises(MeasureError, match=said.replace(".", r"\.")):
        model(server, path, **rest).load(0)(x=torch.ones(1, 2))


def replies(monkeypatch: pytest.MonkeyPatch, *given: tuple[int, dict[str, str], bytes]) -> None:
    """Let the server answer with these, the last of them from then on."""
    waiting = list(given)
    monkeypatch.setattr(
        Handler, "reply", lambda *_: waiting.pop(0) if len(waiting) > 1 else waiting[0]
    )


BUSY: tuple[int, dict[str, str], bytes] = (503, {"Retry-After": "0"}, b"queue is full\nmore")
SUMS: tuple[int, dict[str, str], bytes] = (200, {}, b'{"sums": [3.0]}')


def test_a_busy_server_is_asked_again_in_checks_and_that_is_noted(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies(monkeypatch, BUSY, BUSY, SUMS)
    module: Any = model(server).load(0)
    assert module(x=torch.ones(1, 2))["sums"].tolist() == [3.0]
    assert "did not answer 2 requests of the checks at once (503: 2): sent again" in module.note()


def test_a_busy_server_is_asked_once_while_calls_are_timed(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies(monkeypatch, (429, {"Retry-After": "7"}, b"slow down\nmore"))
    module: Any = model(server).load(0)
    with module.timed(), pytest.raises(MissedQuery) as caught:
        module(x=torch.ones(1, 2))
    assert str(caught.value).endswith("answered 429 Too Many Requests (Retry-After: 7): slow down.")
    assert (caught.value.cause, caught.value.retry_after_s) == ("429", 7.0)
    assert "scenario=server" in caught.value.remedy
    assert len(Handler.seen) == 1


def test_the_body_of_a_busy_server_may_be_compressed_in_any_way(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = model(server).load(0)
    for encoding, shown in (("gzip", ": slow down."), ("br", ": ")):
        body = gzip.compress(b"slow down")
        replies(monkeypatch, (503, {"Content-Encoding": encoding}, body))
        with module.timed(), pytest.raises(MissedQuery, match="answered 503") as caught:
            module(x=torch.ones(1, 2))
        assert shown in str(caught.value)


def test_a_wait_that_is_too_long_ends_the_checks(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies(monkeypatch, (503, {"Retry-After": "3600"}, b""))
    with pytest.raises(MissedQuery, match=r"Retry-After: 3600"):
        model(server).load(0)(x=torch.ones(1, 2))
    assert len(Handler.seen) == 1


COMPRESSED = {
    "gzip": gzip.compress(b'{"sums": [3.0]}'),
    "GZIP": gzip.compress(b'{"sums": ') + gzip.compress(b"[3.0]}"),
    "deflate": zlib.compress(b'{"sums": [3.0]}'),
    " deflate": zlib.compress(b'{"sums": [3.0]}')[2:-4],
    "deflate, gzip": gzip.compress(zlib.compress(b'{"sums": [3.0]}')),
    "identity": b'{"sums": [3.0]}',
}


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_an_answer_that_comes_compressed_is_the_same_answer(
    encoding: str, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies(monkeypatch, (200, {"Content-Encoding": encoding}, COMPRESSED[encoding]))
    answer: Any = model(server).load(0)(x=torch.ones(1, 2))
    assert answer["sums"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("br", b"\x0b\x02\x80", "Content-Encoding 'br', which was not requested"),
        ("gzip", gzip.compress(b"x" * 99)[:-9], "gzip that is cut short"),
        ("gzip", b"plain", "gzip that is damaged"),
        ("gzip", gzip.compress(bytes(2**20)), "more than 0 MiB when decompressed from gzip"),
    ],
    ids=["not requested", "short", "damaged", "long"],  # a compressed body holds the time
)
def test_an_answer_that_cannot_be_decompressed_is_a_sentence(
    encoding: str,
    body: bytes,
    said: str,
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchorch.models.architectures.endpoint._MOST_BYTES", 2**18)
    replies(monkeypatch, (200, {"Content-Encoding": encoding}, body))
    with pytest.raises(MeasureError, match=said):
        model(server).load(0)(x=torch.ones(1, 2))


def test_a_redirect_is_not_followed(server: ThreadingHTTPServer) -> None:
    with pytest.raises(MeasureError):
        model(server, "/moved").load(0)(x=torch.ones(1, 2))
    assert [path for path, _, _ in Handler.seen] == ["/moved"]


def test_nobody_listening_is_a_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    with pytest.raises(MeasureError, match="nothing listens there"):
        model(None, url=url).load(0)(x=torch.ones(1, 2))


def test_secrets_come_from_the_environment_and_enter_no_identity(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Authorization": "env:P_TOKEN"}
    assert any("P_TOKEN" in each for each in model(server, headers=headers).problems(WORKLOAD))
    monkeypatch.setenv("P_TOKEN", "hush-hush")
    made = model(server, headers=headers)
    made.load(0)(x=torch.ones(1, 2))
    assert Handler.seen[0][1]["Authorization"] == "hush-hush"
    assert "hush-hush" not in str(made.requested()) + repr(made)


def test_a_secret_is_sent_without_its_line_end_and_never_quoted(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model(server, headers={"Authorization": "env:P_TOKEN"})
    monkeypatch.setenv("P_TOKEN", "hush-hush\r\n")
    made.load(0)(x=torch.ones(1, 2))
    assert Handler.seen[0][1]["Authorization"] == "hush-hush"
    monkeypatch.setenv("P_TOKEN", "hush\nhush")
    with pytest.raises(MeasureError, match=r"model\.headers hold what HTTP") as caught:
        made.load(0)(x=torch.ones(1, 2))
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_answers_of_another_day_are_never_taken_for_todays(server: ThreadingHTTPServer) -> None:
    assert UNHASHABLE in content_of(model(server).load(0)).fields


def test_recorded_answers_must_come_again(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    answer = {"sums": [3.0], "model": "v1", "ids": [1, 2]}
    path.write_text(json.dumps({"body": {"x": [[1.0, 2.0]]}, "answer": answer}) + "\n")
    model(server, answers=str(path)).load(0)
    changed = {**answer, "sums": [3.5]}
    path.write_text(json.dumps({"body": {"x": [[1.0, 2.0]]}, "answer": changed}) + "\n")
    with pytest.raises(BuildError, match=r"line 1: sums differs by up to 0\.5"):
        model(server, answers=str(path)).load(0)


def test_lines_of_recorded_answers_end_as_json_lines_do(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    text = "one\u2028two\x85three"
    line = json.dumps({"body": text, "answer": 1}, ensure_ascii=False)
    path.write_bytes(f"{line}\r\n{line}\n".encode())
    assert read_answers(path) == [(text, 1)] * 2
    for content, problem in (("", "it has no line"), (f"{line}\n\n", "line 2 is no")):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=problem):
            read_answers(path)


def test_recorded_ids_must_be_the_same_ids(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.jsonl"
    recorded = {"ids": [50_256, 7]}
    path.write_text(json.dumps({"body": None, "answer": recorded}))
    endpoint = model(server, answers=str(path)).load
    monkeypatch.setattr(Handler, "reply", lambda *_: (200, {}, b'{"ids": [50256, 13]}'))
    with pytest.raises(BuildError, match="line 1: ids has other whole numbers"):
        endpoint(0)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"url": "127.0.0.1:8000"}, "no address of HTTP"),
        ({"url": "ftp://127.0.0.1/x"}, "no address of HTTP"),
        ({"url": "http://me:secret@127.0.0.1/"}, "holds a password"),
        ({"url": "http://127.0.0.1:port/"}, "Port could not be cast"),
        ({"url": "http://[::1:8000/p"}, "model.url: Invalid IPv6 URL"),
        ({"body": {"rows": "$y"}}, r"\$y is no input"),
        ({"body": {"rows": 1}}, "names no input"),
        ({"timeout_s": 0}, "above 0"),
        ({"timeout_s": 1e300}, "at most 86400"),
        ({"answers": "nowhere.jsonl"}, "cannot be read"),
        ({"kwargs": {"a": 1}}, "neither checkpoint nor kwargs"),
        ({"inputs": {}}, "is empty"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(rest: dict[str, object], said: str) -> None:
    made = model(None, **rest)
    found = made.problems(WORKLOAD)
    assert any(__import__("re").search(said, problem) for problem in found), found
    assert "secret" not in made.labels["model"]


def test_a_body_names_the_tensors_wherever_their_values_come_from(tmp_path: Path) -> None:
    np.savez(tmp_path / "request.npz", x=np.ones((3, 2), np.float32))
    tensors: dict[str, Json] = {"x": {"shape": ["batch_size", 2]}}
    for inputs in ({"file": str(tmp_path / "request.npz")}, {"factory": "m:f", "tensors": tensors}):
        right, wrong = (
            [
                problem
                for problem in model(None, inputs=inputs, body={"rows": name}).problems(WORKLOAD)
                if "model.body" in problem
            ]
            for name in ("$x", "$tensors")
        )
        assert right == []
        assert wrong == ["model.body: $tensors is no input. Inputs: x."]

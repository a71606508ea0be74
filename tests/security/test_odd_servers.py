"""Servers that a command asks: lists without end, paths elsewhere, answers that never stop."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from benchorch.errors import BenchorchError, MeasureError, RecordError
from benchorch.recorders.mlflow import Mlflow
from fuzz.test_replies import of_mlflow
from support.odd_server import Answer, OddServer, odd_server
from support.recorded_trials import PLAN


@pytest.fixture
def server() -> Iterator[OddServer]:
    with odd_server() as server:
        yield server


def respond(server: OddServer, artifacts: Path, **replies: Callable[[bytes], Any]) -> None:
    """As a server of MLflow's that works, but for these requests."""

    def answer(method: str, path: str, body: bytes) -> Answer:
        name = path.partition("?")[0].rpartition("/")[2]
        key = name.replace("-", "_")
        found = replies[key](body) if key in replies else of_mlflow(name, artifacts)
        return Answer(body=json.dumps(found).encode())

    server.respond = answer


@pytest.mark.parametrize("token", ["same", "another"])
def test_a_list_of_runs_without_end_is_given_up(
    token: str, server: OddServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchorch.recorders.mlflow._MOST_PAGES", 20)
    pages: list[int] = []

    def page(body: bytes) -> Any:
        pages.append(len(pages))
        found = of_mlflow("search", tmp_path)
        return {**found, "next_page_token": token if token == "same" else str(len(pages))}

    respond(server, tmp_path, search=page)
    recorder = Mlflow(uri=server.url, timeout_s=20)
    with pytest.raises(RecordError, match="has no end"):
        recorder.open(PLAN, tmp_path)
    assert len(pages) <= 25


PLACES = (
    *("../../outside", "/tmp/outside", "plan.json/../../../outside", "..%2f..%2foutside", ".."),
    "\x00",
)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_tracker_lists_is_written_nowhere_else(
    place: str, server: OddServer, tmp_path: Path
) -> None:
    into = tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    files = [{"path": name, "is_dir": False, "file_size": 1} for name in ("plan.json", place)]

    def answer(method: str, path: str, body: bytes) -> Answer:
        name = path.partition("?")[0].rpartition("/")[2]
        if name == "artifacts" and method == "GET":
            return Answer(body=json.dumps({"files": files}).encode())
        found = of_mlflow(name, tmp_path)
        if name == "search":
            run = found["runs"][0]
            run["info"]["artifact_uri"] = "mlflow-artifacts:/1/a"
            run["data"]["tags"] = [{"key": "plan_id", "value": "p1"}]
        return Answer(body=json.dumps(found).encode())

    server.respond = answer
    with suppress(BenchorchError):
        Mlflow(uri=server.url, timeout_s=20).fetch(into)
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in into.parent.iterdir()} == {"into"}
    assert not Path("/tmp/outside").exists()


@pytest.mark.parametrize("tracker", ["server", "database"])
def test_credentials_go_to_no_address_that_only_a_tracker_names(
    tracker: str, server: OddServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "a secret of mine")
    arrived: list[str] = []

    def note(method: str, path: str, body: bytes) -> Answer:
        arrived.append(path)
        return Answer(body=b'{"files": []}')

    def search(body: bytes) -> Any:
        found = of_mlflow("search", tmp_path)
        found["runs"][0]["info"]["artifact_uri"] = f"mlflow-artifacts://{host}/1/a"
        found["runs"][0]["data"]["tags"] = [{"key": "plan_id", "value": "p1"}]
        return found

    with odd_server() as elsewhere:
        elsewhere.respond = note
        host = elsewhere.url.removeprefix("http://")
        if tracker == "server":
            respond(server, tmp_path, search=search)
            recorder = Mlflow(uri=server.url, timeout_s=20)
        else:
            recorder = Mlflow(uri=f"sqlite:///{tmp_path}/mlflow.db")
            recorder.open(PLAN, tmp_path)
            place = f"http://{host}/api/2.0/mlflow-artifacts/artifacts/1/a"
            with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
                database.execute("UPDATE runs SET artifact_uri = ?", (place,))
        with pytest.raises(RecordError, match="only a tracker names"):
            recorder.fetch(tmp_path / "into")
    assert not arrived


@pytest.fixture
def raw() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers each connection with these bytes, the last of them for ever."""
    parts: list[bytes] = []
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                try:
                    for part in parts[:-1]:
                        connection.sendall(part)
                    while not ended.is_set():
                        connection.sendall(parts[-1])
                except OSError:
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/x", parts
    ended.set()
    listener.close()


ENDLESS = {
    "a body that never ends": [b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2**20],
    "chunks that never end": [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"100000\r\n" + b"x" * 2**20 + b"\r\n",
    ],
    "a length without bounds": [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1" + b"0" * 30 + b"\r\n\r\n",
        b"x" * 2**20,
    ],
    "headers that never end": [b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"],
    "a header that never ends": [b"HTTP/1.1 200 OK\r\nX: ", b"y" * 2**16],
    "a status that never ends": [b"HTTP/1.1 200 ", b"y" * 2**16],
}


@pytest.mark.parametrize("case", ENDLESS)
def test_an_answer_of_an_endpoint_that_never_ends_is_refused(
    case: str, raw: tuple[str, list[bytes]]
) -> None:
    pytest.importorskip("torch")
    from benchorch.models.architectures.endpoint import Endpoint

    url, parts = raw
    parts += ENDLESS[case]
    with pytest.raises(MeasureError, match=r"answered more|line|header|LineTooLong|Exception"):
        Endpoint(url, "POST", None, {}, 5.0).send(b"{}")


def test_an_answer_that_is_cut_short_is_refused(server: OddServer) -> None:
    pytest.importorskip("torch")
    from benchorch.models.architectures.endpoint import Endpoint

    server.respond = lambda *_: Answer(body=b"[1, 2]", missing_bytes=7)
    with pytest.raises(MeasureError, match="IncompleteRead"):
        Endpoint(server.url, "POST", None, {}, 5.0).send(b"{}")
    server.respond = lambda *_: Answer(body=b"")
    assert Endpoint(server.url, "POST", None, {}, 5.0).send(b"{}") == b""

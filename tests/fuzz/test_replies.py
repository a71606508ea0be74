"""Odd replies of MLflow's server, Ray's dashboard, a script: an error in a sentence, or an answer.

`FUZZ` is how many of each are tried; a slice by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.cli.commands.script import _data
from benchorch.cli.commands.script_report import overview
from benchorch.domain.result import Outcome, TrialResult
from benchorch.errors import ExecutorError, RecordError
from benchorch.executors.ray_jobs import RayJobs
from benchorch.frontends.scripts.discover import Script, Sightings, _encoded
from benchorch.frontends.scripts.discovery_process import DiscoveryReply
from benchorch.frontends.scripts.model_configs import described
from benchorch.host.processes.run_child import _Inbox
from benchorch.journal import run_directory
from benchorch.recorders.mlflow import Mlflow
from support.mutations import bounded, fuzzed, with_odd_json_or_bytes
from support.odd_server import Answer, OddServer, odd_server
from support.recorded_trials import PLAN, SUMMARY, TRIAL
from support.script_reports import MODEL

LONGEST_S = 36000
STATUSES = (200, 200, 200, 204, 301, 400, 401, 404, 429, 500, 503)
BODIES = (
    *(b"", b"null", b"[]", b'"x"', b"{", b"[" * 10**5, b"\xff\xfe", b" " * 5 * 10**6),
    b"<html><body>502 Bad Gateway</body></html>",
    json.dumps({"error_code": 7, "message": ["x"]}).encode(),
)
REQUESTS = ("get-by-name", "search", "create", "update", "log-batch", "set-experiment-tag", "get")
JOB: dict[str, Any] = {
    "type": "SUBMISSION",
    "submission_id": "name",
    "job_id": None,
    "entrypoint": "true",
    "status": "SUCCEEDED",
    "message": "it ended",
    "driver_exit_code": 0,
    "start_time": 1,
    "end_time": 2,
    "metadata": {},
    "runtime_env": {},
}


@pytest.fixture(scope="module")
def server() -> Iterator[OddServer]:
    with odd_server() as server:
        yield server


def odd(sound: Any, data: st.DataObject) -> Answer:
    """A sound reply with something wrong about it."""
    text = json.dumps(sound).encode()
    body = (
        with_odd_json_or_bytes(text, data)
        if data.draw(st.booleans())
        else data.draw(st.sampled_from(BODIES))
    )
    return Answer(
        body=body,
        status=data.draw(st.sampled_from(STATUSES)),
        kind=data.draw(st.sampled_from(["application/json", "text/html", ""])),
        missing_bytes=data.draw(st.sampled_from([0, 0, 0, 7])),
        dropped=data.draw(st.integers(0, 9)) == 0,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run"
    path.mkdir()
    run_directory.write_plan(path, PLAN)
    return path


def of_mlflow(name: str, artifacts: Path) -> Any:
    """What a server that works replies."""
    run = {
        "info": {
            "run_id": "a" * 32,
            "experiment_id": "1",
            "status": "RUNNING",
            "start_time": 5,
            "lifecycle_stage": "active",
            "artifact_uri": artifacts.as_uri(),
        },
        "data": {"tags": [{"key": "trial_id", "value": TRIAL.trial_id}]},
    }
    experiment = {"experiment_id": "1", "name": "benchorch", "lifecycle_stage": "active"}
    replies = {
        "get-by-name": {"experiment": experiment},
        "search": {"runs": [run], "next_page_token": ""},
        "create": {"run": run, "experiment_id": "1"},
        "update": {"run_info": run["info"]},
        "get": {"run": run},
    }
    return replies.get(name, {})


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_what_mlflow_replies_is_recorded_or_one_error(
    data: st.DataObject, server: OddServer, directory: Path
) -> None:
    artifacts = directory / "artifacts"
    at = data.draw(st.sampled_from(REQUESTS))
    wrong = odd(of_mlflow(at, artifacts), data)
    nth, seen = data.draw(st.integers(1, 2)), 0

    def respond(method: str, path: str, body: bytes) -> Answer:
        nonlocal seen
        name = path.partition("?")[0].rpartition("/")[2]
        seen += name == at
        is_wrong = name == at and seen == nth
        return wrong if is_wrong else Answer(body=json.dumps(of_mlflow(name, artifacts)).encode())

    server.respond = respond
    result = TrialResult(trial_id=TRIAL.trial_id, labels=TRIAL.labels, outcome=Outcome.OK)
    recorder = Mlflow(uri=server.url, timeout_s=2)
    with bounded(RecordError):
        recorder.open(PLAN, directory)
        folder = run_directory.trial_directory(directory, TRIAL.trial_id)
        recorder.record(TRIAL, result, SUMMARY, folder)
        recorder.close(PLAN, directory, complete=True)


@pytest.mark.timeout(LONGEST_S)
@fuzzed(8)
@given(data=st.data())
def test_what_rays_dashboard_replies_is_an_answer_or_one_error(
    data: st.DataObject, server: OddServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    version = {"version": "4", "ray_version": "2", "ray_commit": "x", "session_name": "s"}
    replies: dict[str, Any] = {"version": version, "name": JOB, "logs": {"logs": "line"}}
    replies |= {"stop": {"stopped": True}, "DELETE": {"deleted": True}}
    at = data.draw(st.sampled_from(sorted(replies)))
    wrong = odd(replies[at], data)

    def respond(method: str, path: str, body: bytes) -> Answer:
        name = method if method == "DELETE" else path.rpartition("/")[2]
        return wrong if name == at else Answer(body=json.dumps(replies.get(name, {})).encode())

    server.respond = respond
    jobs = RayJobs(server.url)
    for call in (jobs.status, jobs.reason, jobs.exit_code, jobs.log, jobs.stop, jobs.forget):
        with bounded(ExecutorError):
            call("name")


@pytest.mark.timeout(LONGEST_S)
@fuzzed(40)
@given(data=st.data())
def test_what_a_script_reports_of_itself_is_shown_or_ignored(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["partial", "reply"]))
    reply = {"seconds": 1.0, "ended": "end", "models": [MODEL], "sources": ["/x.py"]}
    line = with_odd_json_or_bytes(json.dumps({"kind": kind, "reply": reply}).encode(), data)
    shown: list[str] = []
    sightings = Sightings(
        script=Script(path=Path("x.py")), on_call=lambda _, call: shown.append(described(call))
    )
    inbox = _Inbox(
        kind=DiscoveryReply, on_message=shown.append, on_partial=sightings.add, most_bytes=10**6
    )
    with bounded():
        inbox.feed(line + b"\n")
        for found in filter(None, (inbox.reply, inbox.partial())):
            whole = {"script": "x.py", "log": "log", "labels": {}, **_encoded(found)}
            assert overview([whole])
            assert json.dumps(_data([whole]))

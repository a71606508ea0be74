"""A real MLflow server: what a trial costs it, and what an outage costs us."""

# ruff: noqa: TID251  what we wrote is read back with MLflow itself

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from benchorch.cli.commands import history, ui
from benchorch.domain.estimate import Estimate, Summary
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import RecordError
from benchorch.journal import run_directory
from benchorch.recorders.mlflow import Mlflow, create_store
from benchorch.recorders.mlflow_view import VIEW_TAG
from benchorch.results.metrics.summary import TrialFindings
from benchorch.run.record import Replayed, replay
from support.odd_server import Answer, odd_server
from support.ports import free_port
from support.recorded_trials import process_record
from support.slices import one_in
from support.synthetic_runs import result as synthetic_result
from support.synthetic_runs import trial as synthetic_trial
from support.synthetic_runs import write_run

if TYPE_CHECKING:
    from mlflow.entities import Run

REQUEST = re.compile(r'"(?:GET|POST|PATCH|PUT|DELETE) (/api/2\.0/mlflow/\S+?)[? ]')
START_S = 600


@dataclass
class Server:
    """MLflow's server as `benchorch ui` starts it, with a log of every request."""

    launch: ui.Launch
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.launch.argv,
                env=dict(self.launch.environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not self.answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.launch.url}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def requests(self) -> Counter[str]:
        """How often each tracking endpoint was asked so far; artifacts are not tracking."""
        return Counter(REQUEST.findall(self.log.read_text()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    store = f"sqlite:///{folder / 'mlflow.db'}"
    create_store(store)
    launch = ui.prepare(free_port(), store)
    server = Server(launch, folder / "server.log")
    try:
        server.start()
        asked(server, "experiments/search?max_results=1")  # its first request opens the store
        yield server
    finally:
        server.kill()


@dataclass
class Door:
    """An address that passes connections on to a server while it is open."""

    to: int
    port: int = 0
    listening: socketserver.ThreadingTCPServer | None = None

    def open(self) -> None:
        door = self

        class Passing(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection((ui.HOST, door.to)) as server:
                    back = threading.Thread(target=passed_on, args=(server, self.request))
                    back.start()
                    passed_on(self.request, server)
                    back.join()

        class Listening(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        self.listening = Listening((ui.HOST, self.port), Passing)
        self.port = self.listening.server_address[1]
        threading.Thread(target=self.listening.serve_forever, args=(0.02,), daemon=True).start()

    def shut(self) -> None:
        assert self.listening is not None
        self.listening.shutdown()
        self.listening.server_close()


def passed_on(source: socket.socket, target: socket.socket) -> None:
    """All that one end sends until it ends."""
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def derive(result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
    estimate = Estimate(
        value=2.0, low=1.0, high=3.0, level_ratio=0.95, n=5, unit="ms", method="median"
    )
    metrics = {f"latency_ms/p{p}": estimate for p in range(20)}
    summary = Summary(metrics=metrics, speedup=None, steady=True)
    return TrialFindings(summary=summary, asked=None, baseline_id=None)


def plan_of(name: str, count: int) -> Plan:
    trials = tuple(
        Trial(trial_id=f"{i:016x}", labels={"model": f"m{i}"}, spec={"i": i}) for i in range(count)
    )
    return Plan(plan_id=f"plan-{name}", name=name, trials=trials, skips=(), session={})


def end(directory: Path, trial: Trial) -> None:
    result = TrialResult(
        trial_id=trial.trial_id,
        labels=trial.labels,
        outcome=Outcome.OK,
        processes=(process_record(range(1, 1001), {"dtype": "float32"}),),
        started_at="2026-11-20T10:15:00+00:00",
        ended_at="2026-11-20T10:16:00+00:00",
    )
    run_directory.append_result(directory, result, {})


def children(server: Server, plan: Plan) -> list[Run]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server.launch.url)
    experiment = client.get_experiment_by_name("benchorch")
    wanted = f"tags.plan_id = '{plan.plan_id}' and tags.role = 'trial'"
    return list(client.search_runs([experiment.experiment_id], wanted))


def test_a_trial_costs_three_requests(server: Server, tmp_path: Path) -> None:
    plan = plan_of("cost", 10)
    run_directory.write_plan(tmp_path, plan)
    for trial in plan.trials:
        end(tmp_path, trial)
    before = server.requests()
    replayed = replay(tmp_path, Mlflow(uri=server.launch.url), derive=derive)
    asked = server.requests() - before
    assert (replayed.recorded, replayed.remaining) == (10, 0)
    # One more of each for the parent.
    assert asked["/api/2.0/mlflow/runs/create"] == 11
    assert asked["/api/2.0/mlflow/runs/log-batch"] == 11
    assert asked["/api/2.0/mlflow/runs/update"] == 11
    of_the_invocation = asked.total() - 33
    # The experiment twice, the search for the parent, and what it has at its end.
    assert of_the_invocation <= 4
    assert len(children(server, plan)) == 10


def test_artifacts_are_served_from_where_they_were_sent(server: Server, tmp_path: Path) -> None:
    plan = plan_of("artifacts", 1)
    run_directory.write_plan(tmp_path, plan)
    end(tmp_path, plan.trials[0])
    replay(tmp_path, Mlflow(uri=server.launch.url), derive=derive)
    run_id = children(server, plan)[0].info.run_id
    query = f"get-artifact?path=observations.jsonl&run_uuid={run_id}"
    with urllib.request.urlopen(f"{server.launch.url}/{query}") as reply:
        sent = reply.read()
    assert (
        sent == (tmp_path / "trials" / plan.trials[0].trial_id / "observations.jsonl").read_bytes()
    )


def test_the_ui_shows_what_was_recorded_without_a_server(server: Server, tmp_path: Path) -> None:
    plan = plan_of("direct", 1)
    run_directory.write_plan(tmp_path, plan)
    end(tmp_path, plan.trials[0])
    replay(tmp_path, Mlflow(uri=server.launch.store, experiment="direct"), derive=derive)
    parent = Mlflow(uri=server.launch.url, experiment="direct").open(plan, tmp_path)
    query = f"get-artifact?path=plan.json&run_uuid={parent}"
    with urllib.request.urlopen(f"{server.launch.url}/{query}") as reply:
        assert b"plan-direct" in reply.read()
    with urllib.request.urlopen(server.launch.url) as reply:
        assert b"<title>MLflow</title>" in reply.read()


def test_the_ui_is_given_the_saved_view_and_the_runs_that_it_asks_for(
    server: Server, tmp_path: Path
) -> None:
    plan = plan_of("view", 2)
    run_directory.write_plan(tmp_path, plan)
    for trial in plan.trials:
        end(tmp_path, trial)
    replay(tmp_path, Mlflow(uri=server.launch.url, experiment="viewed"), derive=derive)
    found = asked(server, "experiments/get-by-name?experiment_name=viewed")["experiment"]
    (tag,) = [one for one in found["tags"] if one["key"] == VIEW_TAG]
    state = json.loads(json.loads(tag["value"])["state"])
    wanted = {
        "experiment_ids": [found["experiment_id"]],
        "filter": state["searchFilter"],
        "order_by": [f"{state['orderByKey']} DESC"],
    }
    runs = asked(server, "runs/search", wanted)["runs"]
    assert sorted(one["info"]["run_name"] for one in runs) == ["m0", "m1"]
    metrics = {metric["key"] for metric in runs[0]["data"]["metrics"]}
    assert "latency_ms/p5" in metrics


def test_a_history_of_an_experiment_holds_each_run_once(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    eager = synthetic_trial()
    run = write_run(tmp_path / "run", (eager, synthetic_result(eager)))
    replay(run, Mlflow(uri=server.launch.url, experiment="watched"))
    words = ["--experiment", "watched", "--uri", server.launch.url]
    for _ in range(2):
        reply = history.run.reply([*words, "--output", str(tmp_path / "site")])
        assert cast("dict[str, Any]", reply.data)["runs"] == 1
    assert "Downloading" not in capfd.readouterr().err
    with pytest.raises(RecordError, match=r"no experiment 'wached'. It has: .*watched"):
        history.run.reply(["--experiment", "wached", *words[2:]])


def asked(server: Server, what: str, content: object = None) -> dict[str, Any]:
    """What the interface's own endpoint replies."""
    request = urllib.request.Request(
        f"{server.launch.url}/ajax-api/2.0/mlflow/{what}",
        None if content is None else json.dumps(content).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return cast("dict[str, Any]", json.load(reply))


@pytest.fixture
def door(server: Server) -> Iterator[Door]:
    made = Door(to=int(server.launch.url.rpartition(":")[2]))
    made.open()
    yield made
    made.shut()


def test_an_outage_in_the_middle_gives_each_trial_exactly_once(
    server: Server, door: Door, tmp_path: Path
) -> None:
    """The next test's server is killed and started."""
    plan = plan_of("outage", 6)
    run_directory.write_plan(tmp_path, plan)
    steps: Iterator[Callable[[], None]] = iter(
        [
            lambda: [end(tmp_path, trial) for trial in plan.trials[:2]] and None,
            door.shut,
            lambda: [end(tmp_path, trial) for trial in plan.trials[2:4]] and None,
            lambda: None,
            door.open,
            lambda: [end(tmp_path, trial) for trial in plan.trials[4:]] and None,
        ]
    )

    def wait(_timeout_s: float) -> bool | None:
        step = next(steps, None)
        if step is None:
            return True
        step()
        return None

    recorder = Mlflow(uri=f"http://{ui.HOST}:{door.port}", timeout_s=30)
    replayed = replay(tmp_path, recorder, follow=True, derive=derive, wait=wait)
    assert (replayed.recorded, replayed.remaining, replayed.reason) == (6, 0, "")
    runs = children(server, plan)
    assert sorted(run.data.tags["trial_id"] for run in runs) == [t.trial_id for t in plan.trials]
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.slow
def test_what_an_outage_left_behind_is_brought_by_a_later_replay(
    server: Server, tmp_path: Path
) -> None:
    plan = plan_of("later", 4)
    run_directory.write_plan(tmp_path, plan)
    recorder = Mlflow(uri=server.launch.url, timeout_s=30)
    end(tmp_path, plan.trials[0])
    replay(tmp_path, recorder, derive=derive)
    server.kill()
    for trial in plan.trials[1:]:
        end(tmp_path, trial)
    left: Replayed = replay(tmp_path, recorder, derive=derive)
    server.start()
    brought = replay(tmp_path, Mlflow(uri=server.launch.url, timeout_s=30), derive=derive)
    assert (left.recorded, left.remaining) == (0, 3)
    assert (brought.recorded, brought.remaining) == (3, 0)
    assert len(children(server, plan)) == 4


def test_a_password_in_the_uri_is_used_and_never_shown(server: Server, tmp_path: Path) -> None:
    plan = plan_of("secret", 1)
    uri = server.launch.url.replace("http://", "http://ann:hunter22@")
    session = {"tracking": {"uri": uri}}
    plan = Plan(plan_id=plan.plan_id, name="secret", trials=plan.trials, skips=(), session=session)
    run_directory.write_plan(tmp_path, plan)
    end(tmp_path, plan.trials[0])
    replayed = replay(tmp_path, Mlflow(uri=uri), derive=derive)
    query = f"get-artifact?path=plan.json&run_uuid={replayed.parent_run_id}"
    with urllib.request.urlopen(f"{server.launch.url}/{query}") as reply:
        assert b"hunter22" not in reply.read()
    for name in ("tracking.json", "recorded.jsonl"):
        assert "hunter22" not in (tmp_path / name).read_text()
    assert "hunter22" not in str([run.to_dictionary() for run in children(server, plan)])


def test_nobody_at_the_address_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself MLflow tries again for minutes."""
    retried: list[object] = []
    monkeypatch.setattr("urllib3.util.retry.Retry.sleep", lambda *given: retried.append(given))
    with pytest.raises(RecordError, match="did not record it"):
        Mlflow(uri=f"http://127.0.0.1:{free_port()}").open(plan_of("nobody", 1), tmp_path)
    assert retried == []


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """MLflow's own limit is two minutes, and it tries again."""
    with socket.socket() as silent:
        silent.bind((ui.HOST, 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RecordError, match="did not record it"):
            Mlflow(uri=uri, timeout_s=1).open(plan_of("silent", 1), tmp_path)
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody tried a second time
            silent.accept()


def test_a_server_that_trickles_holds_nothing(tmp_path: Path) -> None:
    plan = plan_of("trickling", 1)
    run_directory.write_plan(tmp_path, plan)
    end(tmp_path, plan.trials[0])
    with odd_server() as server:
        server.respond = lambda *_: Answer(body=b" " * 500, pause_s=0.2)
        replayed = replay(tmp_path, Mlflow(uri=server.url, timeout_s=1), derive=derive)
    assert (replayed.recorded, replayed.remaining) == (0, 1)
    assert "timed out" in replayed.reason


@pytest.mark.parametrize("status", one_in(4, [301, 302, 303, 307, 308]))
def test_a_server_that_redirects_sends_no_credentials_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2")
    monkeypatch.setenv("MLFLOW_ALLOW_HTTP_REDIRECTS", "true")
    reached: list[str] = []

    def note(_: str, path: str, body: bytes) -> Answer:
        reached.append(path)
        return Answer()

    with odd_server() as elsewhere, odd_server() as server:
        elsewhere.respond = note
        server.respond = lambda _, path, body: Answer(
            status=status, location=elsewhere.url + path, body=b"moved"
        )
        with pytest.raises(RecordError, match="it redirects, and credentials go to no address"):
            Mlflow(uri=server.url, timeout_s=20).open(plan_of("redirected", 1), tmp_path)
    assert reached == []

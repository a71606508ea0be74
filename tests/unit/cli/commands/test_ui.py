"""``benchorch ui``: the server it starts."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands import ui
from benchorch.errors import ConfigError
from benchorch.journal.registry import remember
from benchorch.journal.run_directory import read_plan, write_plan
from support.synthetic_runs import write_run


@pytest.fixture(autouse=True)
def started_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_server_is_small_and_for_this_machine_only(started_in: Path) -> None:
    launch = ui.prepare()
    command = " ".join(launch.argv)
    store = f"sqlite:///{started_in}/mlflow.db"
    assert launch.environment["MLFLOW_BACKEND_STORE_URI"] == launch.store == store
    assert "--host 127.0.0.1" in command
    assert "--workers 1" in command
    assert launch.environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert launch.environment["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_a_databases_password_is_no_argument_of_the_server() -> None:
    uri = "postgresql://ann:hunter22@host/runs"
    launch = ui.prepare(uri=uri)
    assert launch.environment["MLFLOW_BACKEND_STORE_URI"] == uri
    assert "hunter22" not in " ".join(launch.argv)


def test_a_taken_port_gives_way_to_the_next() -> None:
    with socket.socket() as taken:
        taken.bind((ui.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        launch = ui.prepare(port)
    assert launch.url != f"http://127.0.0.1:{port}"
    assert launch.url.removeprefix("http://127.0.0.1:") in launch.argv


def test_a_server_elsewhere_is_only_named() -> None:
    said: list[str] = []
    reply = ui.run.reply(["--uri", "http://ann:hunter22@host:5000"], part=said.append)
    assert reply.text == "MLflow's UI is at http://host:5000"
    assert reply.exit_code == 0


def test_in_another_folder_it_shows_the_tracker_of_the_last_run(
    started_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = started_in / "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(started_in / "state"))
    run = write_run(elsewhere / "runs" / "one", plan_id="plan-one")
    session = {"tracking": {"uri": "sqlite:///mlflow.db"}, "cwd": str(elsewhere)}
    write_plan(run, replace(read_plan(run), session=session))
    remember("plan-one", run)
    said: list[str] = []
    assert ui.usual_store(said.append) == ui.STORE  # that run has recorded nothing
    (elsewhere / "mlflow.db").touch()
    assert ui.usual_store(said.append) == f"sqlite:///{elsewhere}/mlflow.db"
    assert [text for text in said if f"{elsewhere}/mlflow.db" in text] == said != []
    (started_in / "mlflow.db").touch()
    assert ui.usual_store(said.append) == ui.STORE


def test_no_page_is_promised_without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("benchorch.host.packages.is_installed", lambda _: False)
    with pytest.raises(ConfigError, match="mlflow is not installed"):
        ui.run.reply([], part=said.append)
    assert not said


@pytest.mark.parametrize("uri", ["mlflow.db", "\x1b[2J", ""])
def test_an_address_without_a_scheme_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"--uri: .* has no scheme"):
        ui.prepare(uri=uri)

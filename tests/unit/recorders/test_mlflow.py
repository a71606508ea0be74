"""MLflow in a SQLite file: what a person finds there afterwards."""

# ruff: noqa: TID251  what we wrote is read back with MLflow itself

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchorch.cli.commands import history
from benchorch.domain.estimate import Comparison, Summary
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.errors import ConfigError, RecordError
from benchorch.journal import run_directory
from benchorch.recorders.mlflow import Mlflow, create_store
from benchorch.results.metrics.summary import summarise_all
from support.odd_server import Answer, odd_server
from support.recorded_trials import PLAN, SUMMARY, TRIAL
from support.synthetic_runs import result, trial, write_run

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RESULT = TrialResult(
    trial_id=TRIAL.trial_id,
    labels=TRIAL.labels,
    outcome=Outcome.OK,
    started_at="2026-11-20T10:15:00+00:00",
    ended_at="2026-11-20T10:16:00+00:00",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its tables; making them takes seconds, copying them none."""
    path = tmp_path_factory.mktemp("tables") / "mlflow.db"
    create_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def uri(tables: Path, tmp_path: Path) -> str:
    shutil.copy(tables, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    run_directory.write_plan(path, PLAN)
    run_directory.append_result(path, RESULT, {})
    folder = run_directory.trial_directory(path, RESULT.trial_id)
    (folder / run_directory.OBSERVATIONS).write_text("{}\n")
    (path / run_directory.TABLE).write_text("| conversion | p50 |\n")
    folder = run_directory.trial_directory(path, TRIAL.trial_id)
    (folder / "traces").mkdir()
    (folder / "traces" / "trace.json").write_text("{}")
    return path


@pytest.fixture
def client(uri: str) -> MlflowClient:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def record(recorder: Mlflow, directory: Path, result: TrialResult = RESULT) -> str:
    folder = run_directory.trial_directory(directory, TRIAL.trial_id)
    return recorder.record(TRIAL, result, SUMMARY, folder)


def write_winner(directory: Path) -> None:
    found = {"conversion": "onnx", "hardware": "local", "verdict": "faster"}
    metrics = {"latency_ms/p50": 2.0, "latency_ms/p50/low": 1.0, "speedup_ratio/p50": 1.5}
    winner = json.dumps({**found, "metrics": metrics})
    (directory / run_directory.WINNER).write_text(winner)


def known_metrics(run: Run) -> set[str]:
    return {key for key, value in run.data.metrics.items() if not math.isnan(value)}


def runs(client: MlflowClient, role: str) -> list[Run]:
    experiments = [one.experiment_id for one in client.search_experiments()]
    return list(client.search_runs(experiments, f"tags.role = '{role}'"))


def artifacts(client: MlflowClient, run_id: str, folder: str | None = None) -> set[str]:
    return {one.path for one in client.list_artifacts(run_id, folder)}


def test_a_trial_is_a_child_of_its_plan(client: MlflowClient, uri: str, directory: Path) -> None:
    recorder = Mlflow(uri=uri)
    parent_id = recorder.open(PLAN, directory)
    child = client.get_run(record(recorder, directory))
    assert client.get_run(parent_id).info.run_name == "night run"
    assert child.data.tags["mlflow.parentRunId"] == parent_id
    assert child.info.run_name == "mlp batch_size=8"
    assert child.info.status == "FINISHED"
    assert child.info.end_time - child.info.start_time == 60_000
    assert child.data.params == {"model": "mlp", "workload.batch_size": "8", "model.width": "8"}
    assert child.data.metrics == {
        "latency_ms/p50": 2.0,
        "latency_ms/p50/low": 1.0,
        "latency_ms/p50/high": 3.0,
    }


def test_the_trials_files_are_artifacts_beside_the_database(
    client: MlflowClient, uri: str, directory: Path, tmp_path: Path
) -> None:
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    run_id = record(recorder, directory)
    assert artifacts(client, run_id) == {"facts.json", "observations.jsonl", "traces"}
    assert artifacts(client, run_id, "traces") == {"traces/trace.json"}
    assert list((tmp_path / "mlartifacts").rglob("trace.json"))


@pytest.mark.parametrize("folder", ["why?", "feature%2Fx"])
def test_a_database_is_in_the_current_folder_whatever_its_path_has(
    folder: str, tables: Path, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, name = tmp_path / folder, f"{folder[:3]}.db"  # MLflow has one open file for each URI
    here.mkdir()
    shutil.copy(tables, here / name)
    monkeypatch.chdir(here)
    recorder = Mlflow(uri=f"sqlite:///{name}")
    recorder.open(PLAN, directory)
    record(recorder, directory)
    assert PLAN.plan_id.encode() in (here / name).read_bytes()
    assert list((here / "mlartifacts").rglob("trace.json"))
    assert {path.name for path in tmp_path.iterdir()} == {folder, directory.name}


def test_the_parent_holds_plan_table_results_and_skips(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    parent_id = recorder.open(PLAN, directory)
    assert client.get_run(parent_id).info.status == "RUNNING"
    recorder.close(PLAN, directory, complete=True)
    parent = client.get_run(parent_id)
    expected = {"plan.json", "results.jsonl", "table.md", "skips.json"}
    assert artifacts(client, parent_id) == expected
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["mlflow.note.content"] == "| conversion | p50 |\n"
    skips = json.loads(Path(client.download_artifacts(parent_id, "skips.json")).read_text())
    assert skips[0]["reason"] == "no GPU"


def test_what_a_sweeper_added_to_the_plan_is_recorded_at_its_end(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    parent_id = recorder.open(PLAN, directory)
    more = dataclasses.replace(PLAN, trials=(TRIAL, TRIAL), skips=(*PLAN.skips, *PLAN.skips))
    recorder.close(more, directory, complete=True)
    assert client.get_run(parent_id).data.tags["trials"] == "2"
    skips = json.loads(Path(client.download_artifacts(parent_id, "skips.json")).read_text())
    assert len(skips) == 2


def test_an_incomplete_plan_is_killed_and_opened_again(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    parent_id = recorder.open(PLAN, directory)
    recorder.close(PLAN, directory, complete=False)
    assert client.get_run(parent_id).info.status == "KILLED"
    assert Mlflow(uri=uri).open(PLAN, directory) == parent_id
    assert client.get_run(parent_id).info.status == "RUNNING"


@pytest.mark.parametrize(("kind", "status"), [("oom", "FAILED"), ("interrupted", "KILLED")])
def test_a_failure_is_a_run_that_says_why(
    client: MlflowClient, uri: str, directory: Path, kind: str, status: str
) -> None:
    failure = Failure(stage="build", kind=kind, message="asked for 9 GiB")
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    result = dataclasses.replace(RESULT, outcome=Outcome.FAILED, failure=failure)
    run = client.get_run(record(recorder, directory, result))
    assert run.info.status == status
    assert run.data.tags["failure.kind"] == kind


def test_a_trial_run_again_replaces_what_its_run_says(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    failure = Failure(stage="measure", kind="interrupted", message="Ctrl-C")
    failed = dataclasses.replace(RESULT, outcome=Outcome.FAILED, failure=failure)
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    record(recorder, directory, failed)
    run = client.get_run(record(recorder, directory, dataclasses.replace(RESULT, attempt=2)))
    assert run.info.status == "FINISHED"
    assert run.data.tags["outcome"] == "ok"
    facts = client.download_artifacts(run.info.run_id, "facts.json")
    assert json.loads(Path(facts).read_text())["attempt"] == "2"
    assert len(runs(client, "trial")) == 1


def test_a_failed_rerun_keeps_nothing_of_the_attempt_before(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    passed = Verdict(passed=True, reasons=(), outputs=(), tolerance_ratio=1e-4)
    run_id = record(recorder, directory, dataclasses.replace(RESULT, parity=passed))
    client.log_metric(run_id, "mine", 1.0)
    client.set_tag(run_id, "mine", "kept")
    assert client.get_run(run_id).data.tags["verdict"] == "passed"
    failure = Failure(stage="build", kind="oom", message="asked for 9 GiB")
    failed = dataclasses.replace(RESULT, outcome=Outcome.FAILED, failure=failure)
    summary = Summary(metrics={}, speedup=None, steady=False)
    folder = run_directory.trial_directory(directory, TRIAL.trial_id)
    for _ in range(2):
        recorder.record(TRIAL, failed, summary, folder)
    run = client.get_run(run_id)
    assert "verdict" not in run.data.tags
    assert run.data.tags["mine"] == "kept"
    assert known_metrics(run) == {"mine"}
    assert len(client.get_metric_history(run_id, "latency_ms/p50")) == 2


def test_a_parent_without_a_winner_keeps_nothing_of_an_earlier_one(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    parent_id = recorder.open(PLAN, directory)
    write_winner(directory)
    recorder.close(PLAN, directory, complete=True)
    client.log_metric(parent_id, "mine", 1.0)
    assert client.get_run(parent_id).data.tags["conversion"] == "onnx"
    (directory / run_directory.WINNER).unlink()
    recorder.close(PLAN, directory, complete=False)
    parent = client.get_run(parent_id)
    assert not {"conversion", "hardware", "speedup"} & parent.data.tags.keys()
    assert {"plan_id", "mlflow.note.content"} <= parent.data.tags.keys()
    assert known_metrics(parent) == {"mine"}
    write_winner(directory)
    recorder.close(PLAN, directory, complete=True)
    assert client.get_run(parent_id).data.metrics["speedup_ratio/p50"] == 1.5


def test_figures_that_a_larger_table_lacks_are_removed(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    latency = SUMMARY.metrics["latency_ms/p50"]
    table = dataclasses.replace(
        SUMMARY,
        metrics={**SUMMARY.metrics, "adjusted_latency_ms/p50": latency},
        warnings=("The machine's own speed moved p50.",),
    )
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    run_id = record(recorder, directory)
    folder = run_directory.trial_directory(directory, TRIAL.trial_id)
    recorder.amend(TRIAL, RESULT, table, folder)
    assert "warnings" in client.get_run(run_id).data.tags
    recorder.amend(TRIAL, RESULT, SUMMARY, folder)
    run = client.get_run(run_id)
    assert "warnings" not in run.data.tags
    assert known_metrics(run) == {f"latency_ms/p50{end}" for end in ("", "/low", "/high")}


def test_figures_of_a_new_baseline_replace_larger_ones(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    run_id = record(recorder, directory)
    smaller = dataclasses.replace(SUMMARY.metrics["latency_ms/p50"], value=1.5)
    summary = dataclasses.replace(SUMMARY, metrics={"latency_ms/p50": smaller})
    folder = run_directory.trial_directory(directory, TRIAL.trial_id)
    assert recorder.record(TRIAL, RESULT, summary, folder) == run_id
    assert client.get_run(run_id).data.metrics["latency_ms/p50"] == 1.5


def test_figures_of_the_whole_table_replace_those_of_the_trial_alone(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    latency = dataclasses.replace(SUMMARY.metrics["latency_ms/p50"], low=0.5, high=2.5)
    ratio = dataclasses.replace(latency, value=1.02, low=0.99, high=1.05, unit="ratio")
    table = dataclasses.replace(
        SUMMARY,
        metrics={"latency_ms/p50": latency},
        speedup=Comparison(ratio=ratio, verdict="inconclusive"),
    )
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    run_id = record(recorder, directory)
    assert "speedup" not in client.get_run(run_id).data.tags
    folder = run_directory.trial_directory(directory, TRIAL.trial_id)
    assert recorder.amend(TRIAL, RESULT, table, folder) == run_id
    run = client.get_run(run_id)
    assert run.data.tags["speedup"] == "inconclusive"
    assert run.data.metrics == {
        "latency_ms/p50": 2.0,
        "latency_ms/p50/low": 0.5,
        "latency_ms/p50/high": 2.5,
        "speedup_ratio/p50": 1.02,
        "speedup_ratio/p50/low": 0.99,
        "speedup_ratio/p50/high": 1.05,
    }
    assert (run.info.status, run.info.end_time - run.info.start_time) == ("FINISHED", 60_000)
    facts = client.download_artifacts(run_id, "facts.json")
    assert json.loads(Path(facts).read_text())["speedup"] == "inconclusive"


def test_the_most_that_a_trial_can_say_fits_one_batch(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    trial = dataclasses.replace(
        TRIAL, spec={f"key {i} ✓/{i}": ["ü" * 200] * 50 for i in range(200)}
    )
    result = dataclasses.replace(RESULT, environment={f"f{i}": "ü" * 9999 for i in range(200)})
    metrics = {f"a_ms/p{i}": SUMMARY.metrics["latency_ms/p50"] for i in range(1000)}
    summary = dataclasses.replace(SUMMARY, metrics=metrics)
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    for _ in range(2):  # the second time with its tags in the batch
        run_id = recorder.record(trial, result, summary, directory / "trials" / TRIAL.trial_id)
    run = client.get_run(run_id)
    assert len(run.data.metrics) == 885
    assert len(run.data.params) == 100
    facts = client.download_artifacts(run_id, "facts.json")
    assert len(json.loads(Path(facts).read_text())) > 200


def test_a_lost_answer_leaves_no_twin(
    client: MlflowClient, uri: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    create_run = MlflowClient.create_run

    def lost(self: MlflowClient, *arguments: object, **keywords: object) -> Run:
        create_run(self, *arguments, **keywords)  # type: ignore[arg-type]
        raise ConnectionResetError("the answer is lost")

    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "create_run", lost)
        with pytest.raises(RecordError, match="the answer is lost"):
            record(recorder, directory)
    record(recorder, directory)
    assert len(runs(client, "trial")) == 1


def test_a_late_twin_is_removed_at_the_end(
    client: MlflowClient, uri: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def lost(self: MlflowClient, *arguments: object, **keywords: object) -> Run:
        raise TimeoutError("no answer yet")

    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "create_run", lost)
        with pytest.raises(RecordError):
            record(recorder, directory)
    run_id = record(recorder, directory)
    late = runs(client, "trial")[0]  # what the slow server does in the end
    client.create_run(late.info.experiment_id, tags=late.data.tags)
    recorder.close(PLAN, directory, complete=True)
    assert [run.info.run_id for run in runs(client, "trial")] == [run_id]


def test_a_deleted_experiment_is_named_with_what_to_do(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    Mlflow(uri=uri).open(PLAN, directory)
    client.delete_experiment(client.get_experiment_by_name("benchorch").experiment_id)
    with pytest.raises(RecordError, match=r"restore it, or choose another with recorder\."):
        Mlflow(uri=uri).open(PLAN, directory)
    Mlflow(uri=uri, experiment="other/one").open(PLAN, directory)


def test_a_database_that_was_planted_sends_artifacts_and_tokens_nowhere(
    client: MlflowClient, uri: str, directory: Path
) -> None:
    client.create_experiment("planted", "http://127.0.0.1:1/collect")
    with pytest.raises(RecordError, match=r"127\.0\.0\.1:1/collect.*recorder\.experiment=NAME"):
        Mlflow(uri=uri, experiment="planted").open(PLAN, directory)


def test_a_database_that_cannot_be_made_is_a_record_error(directory: Path) -> None:
    with pytest.raises(RecordError, match="did not record it"):
        Mlflow(uri=f"sqlite:///{directory / 'plan.json' / 'mlflow.db'}").open(PLAN, directory)


def test_a_file_that_is_no_database_is_a_record_error(directory: Path) -> None:
    with pytest.raises(RecordError, match="not a database"):
        Mlflow(uri=f"sqlite:///{directory / 'plan.json'}").open(PLAN, directory)


@pytest.mark.timeout(300)
def test_a_pipe_for_a_database_is_a_record_error(directory: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(RecordError, match="a pipe or a device"):
        Mlflow(uri=f"sqlite:///{tmp_path / 'pipe.db'}").open(PLAN, directory)


@pytest.mark.parametrize(
    "reply",
    [{"experiment": {"tags": 7}}, {"experiment": {"lifecycle_stage": [{}]}}, {"experiment": 7}, 7],
)
def test_a_reply_of_other_types_is_a_record_error(reply: object, directory: Path) -> None:
    with odd_server() as server:
        server.respond = lambda *_: Answer(body=json.dumps(reply).encode())
        with pytest.raises(RecordError, match="did not record it"):
            Mlflow(uri=server.url, timeout_s=20).open(PLAN, directory)


def test_a_recorder_must_be_opened_first(uri: str, directory: Path) -> None:
    with pytest.raises(RecordError, match="not open"):
        record(Mlflow(uri=uri), directory)


def test_a_users_own_mlflow_settings_stay(
    uri: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    before = dict(os.environ)
    Mlflow(uri=uri).open(PLAN, directory)
    assert dict(os.environ) == before


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog


def test_nothing_is_printed_and_nothing_logged(
    uri: str, directory: Path, capsys: pytest.CaptureFixture[str], quiet: pytest.LogCaptureFixture
) -> None:
    recorder = Mlflow(uri=uri)
    recorder.open(PLAN, directory)
    record(recorder, directory)
    recorder.close(PLAN, directory, complete=True)
    assert capsys.readouterr() == ("", "")
    assert quiet.records == []


def test_the_retired_file_store_still_takes_everything(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    recorder = Mlflow(uri=(tmp_path / "mlruns").as_uri())
    recorder.open(PLAN, directory)
    record(recorder, directory)
    write_winner(directory)
    recorder.close(PLAN, directory, complete=True)
    assert len(list((tmp_path / "mlruns").rglob("p50_low"))) == 2  # of the trial and the parent


FIRST_USE = """
    import sys
    from pathlib import Path
    from benchorch.domain.trial import Plan
    from benchorch.recorders.mlflow import Mlflow
    plan = Plan(plan_id=sys.argv[2], name="n", trials=(), skips=(), session={})
    Mlflow(uri=sys.argv[1]).open(plan, Path("."))
    assert not sys.stdout.write("")
"""


@pytest.mark.slow
def test_several_processes_may_be_the_first_at_once(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}"
    code = textwrap.dedent(FIRST_USE)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, uri, f"p{i}"], stderr=subprocess.PIPE)
        for i in range(4)
    ]
    said = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert said == [b""] * 4


def test_the_runs_of_an_experiment_come_back_as_a_history(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--experiment", "benchorch", "--uri", uri]
    Mlflow(uri=uri).open(PLAN, tmp_path)  # a run that goes on has no plan there yet
    with pytest.raises(ConfigError, match="'benchorch' has no run that ended"):
        history.run.reply(words)
    one = trial()
    for day in (1, 2):
        found = result(one, 1e6 * day, started_at=f"2026-03-0{day}T00:00:00.000+00:00")
        place = write_run(tmp_path / f"day-{day}", (one, found))
        recorder = Mlflow(uri=uri)
        plan = run_directory.read_plan(place)
        recorder.open(plan, place)
        summary = summarise_all({one.trial_id: found})[one.trial_id]
        folder = run_directory.trial_directory(place, one.trial_id)
        recorder.record(one, found, summary, folder)
        recorder.close(plan, place, complete=True)
        shutil.rmtree(place)
    data = history.run.reply(words).data
    (series,) = data["series"]  # type: ignore[index,call-overload]
    values = [point["value"] for point in series["points"]]
    assert values == pytest.approx([1, 2], rel=0.01)
    with pytest.raises(RecordError, match="no experiment 'nothing'"):
        history.run.reply(["--experiment", "nothing", "--uri", uri])

"""Where a tracker is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchorch.domain.codec import Json
from benchorch.errors import ConfigError, RecordError
from benchorch.recorders import location
from benchorch.recorders.attachments import below, directly_in, without_secrets
from benchorch.recorders.mlflow import Mlflow
from support.recorded_trials import PLAN

SECRET = "postgresql://ann:hunter22@db.example:5432/mlflow?sslmode=require"


MANAGED = "arn:aws:sagemaker:us-east-1:123456789012:mlflow-tracking-server/team"


def test_a_server_that_aws_manages_is_named_by_its_arn_and_needs_its_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(location, "find_spec", lambda name: None)
    assert "pip install sagemaker-mlflow" in str(location.problem(MANAGED))
    monkeypatch.setattr(location, "find_spec", lambda name: name)
    assert location.problem(MANAGED) is None
    assert location.anchored(MANAGED, Path("/here")) == MANAGED
    assert location.without_secrets(MANAGED) == MANAGED
    assert location.secrets(MANAGED) == ()


def test_mlflow_asks_the_plugin_of_an_arn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The plug-in announces itself to MLflow for the scheme ``arn``, as this stand-in does."""
    from mlflow.exceptions import MlflowException  # noqa: TID251 - what a server would answer
    from mlflow.tracking._tracking_service import utils  # noqa: TID251 - where plug-ins register

    asked = []

    def managed(store_uri: str, artifact_uri: str | None = None) -> object:
        asked.append(store_uri)
        raise MlflowException("the plug-in was asked")

    monkeypatch.setattr(location, "find_spec", lambda name: name)
    monkeypatch.setitem(utils._tracking_store_registry._registry, "arn", managed)
    with pytest.raises(RecordError):
        Mlflow(uri=MANAGED).open(PLAN, tmp_path)
    assert set(asked) == {MANAGED}


def test_a_relative_database_belongs_to_the_directory_it_was_named_in() -> None:
    assert location.anchored("sqlite:///mlflow.db", Path("/here")) == "sqlite:////here/mlflow.db"


@pytest.mark.parametrize("folder", ["a b", 'it\'s "mine"', "c#", "100%", "ä%zz", "two\nlines"])
def test_a_relative_database_may_be_in_a_folder_of_any_plain_name(folder: str) -> None:
    assert location.anchored("sqlite:///a.db", Path("/", folder)) == f"sqlite:////{folder}/a.db"


@pytest.mark.parametrize("folder", ["why?", "feature%2Fx"])
def test_a_database_stays_relative_to_a_folder_whose_name_a_uri_reads_otherwise(
    folder: str,
) -> None:
    assert location.anchored("sqlite:///a.db", Path("/", folder)) == "sqlite:///a.db"
    assert location.anchored("sqlite:////b/a.db", Path("/", folder)) == "sqlite:////b/a.db"


@pytest.mark.parametrize(
    ("tracker", "place", "refused"),
    [
        ("sqlite:////here/mlflow.db", "file:///here/mlartifacts/x", False),
        ("sqlite:////here/mlflow.db", "/here/mlartifacts/x", False),
        ("sqlite:////here/mlflow.db", "s3://bucket/x", True),
        ("sqlite:////here/mlflow.db", "mlflow-artifacts:/x", True),
        ("sqlite:////here/mlflow.db", "runs:/1/x", True),
        ("file:mlruns", "file:///here/mlruns/1/x", False),
        ("file:mlruns", "s3://bucket/x", True),
        ("file:///here/mlruns", "ftp://other/x", True),
        ("http://ann:hunter22@host:5000/base", "mlflow-artifacts:/1/x", False),
        ("http://host:5000", "mlflow-artifacts://HOST:5000/1/x", False),
        ("http://host:5000", "http://host:5000/api/2.0/mlflow-artifacts/artifacts/1", False),
        ("https://host", "https://host:443/api/2.0/mlflow-artifacts/artifacts/1", False),
        ("https://host", "http://host/api/2.0/mlflow-artifacts/artifacts/1", True),
        ("http://host:5000", "mlflow-artifacts://other:5000/1/x", True),
        ("http://host:5000", "mlflow-artifacts://host:5001/1/x", True),
        ("http://host:5000", "http://host:5000@other/1/x", True),
        ("http://host:5000", "http://host:5000\\@other/1/x", True),
        ("http://host:5000", "http:other/1/x", True),
        ("http://host:5000", "http://[other/1/x", True),
        ("http://host:5000", "runs:/1/x", True),
        ("postgresql://host:5000/mlflow", "http://host:5000/x", True),
        ("databricks", "dbfs:/databricks/mlflow-tracking/1/2/artifacts", False),
        ("http://host:5000", "s3://bucket/1/x", False),
        ("http://host:5000", "gs://bucket/1/x", False),
        ("http://host:5000", "abfss://files@account.dfs.core.windows.net/1/x", False),
        ("http://host:5000", "abfss://$root@account.dfs.core.windows.net/1/x", False),
        ("http://host:5000", "abfss://files@account.other.example/1/x", True),
        ("http://host:5000", "abfss://files@other.example\\.core.windows.net/1/x", True),
        ("http://host:5000", "abfss://files@other.example\\@a.core.windows.net/1/x", True),
        ("http://host:5000", "wasbs://files@account.blob.core.windows.net/1/x", False),
        ("http://host:5000", "r2://bucket@account.r2.cloudflarestorage.com/x", False),
        ("http://host:5000", "r2://bucket@other.example/x", True),
        ("http://host:5000", "b2://bucket@s3.us-west-004.backblazeb2.com/x", False),
        ("http://host:5000", "b2://bucket@s3.us-west-004.other.example/x", True),
        ("http://host:5000", "file:///shared/mlartifacts/x", False),
    ],
)
def test_a_tracker_chooses_folders_and_storage_but_no_other_server_for_artifacts(
    tracker: str, place: str, refused: bool
) -> None:
    assert location.is_chosen_address(place, tracker) is refused


@pytest.mark.parametrize("uri", ["sqlite:////there/mlflow.db", "http://host:5000", "sqlite://"])
def test_what_is_absolute_stays(uri: str) -> None:
    assert location.anchored(uri, Path("/here")) == uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://ann:hunter22@host:5000/x", "http://host:5000/x"),
        (SECRET, "postgresql://db.example:5432/mlflow"),
        ("http://host:5000", "http://host:5000"),
        ("sqlite:////here/mlflow.db", "sqlite:////here/mlflow.db"),
        ("sqlite:////here/mlflow.db?password=hunter22", "sqlite:////here/mlflow.db"),
        ("databricks", "databricks"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(uri: str, shown: str) -> None:
    assert location.without_secrets(uri) == shown


def test_a_recorder_never_shows_a_password() -> None:
    recorder = Mlflow(uri=SECRET)
    assert "hunter22" not in repr(recorder)
    assert "hunter22" not in str(recorder.address)


def test_secrets_are_struck_out_of_a_text() -> None:
    text = location.scrubbed(f"cannot reach {SECRET}: password hunter22 refused", SECRET)
    assert "hunter22" not in text
    assert "ann:" not in text


def test_a_plan_holds_no_password_and_the_recorder_has_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(location.VARIABLE, "")  # put back afterwards
    node = location.kept_secret({"uri": SECRET, "experiment": "e"})
    assert node == {"uri": "postgresql://db.example:5432/mlflow", "experiment": "e"}
    assert Mlflow(uri=str(node["uri"])).uri == SECRET
    assert Mlflow(uri="postgresql://another.example/mlflow").uri.startswith("postgresql://another")
    monkeypatch.delenv(location.VARIABLE)
    assert Mlflow(uri=str(node["uri"])).uri == node["uri"]


def test_a_password_in_a_databases_query_stays_out_of_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(location.VARIABLE, "")
    uri = "sqlite:////here/mlflow.db?password=hunter22"
    node = location.kept_secret({"uri": uri, "experiment": "x"})
    assert node == {"uri": "sqlite:////here/mlflow.db", "experiment": "x"}
    assert location.whole(str(node["uri"])) == uri
    assert "hunter22" not in location.strike_out(f"recorder: {{uri: {uri}}}")
    assert "hunter22" not in location.scrubbed(f"cannot open {uri}", uri)


@pytest.mark.parametrize("node", [{"uri": "sqlite:///mlflow.db"}, {"uri": 3}, {}])
def test_where_there_is_no_secret_nothing_is_kept(
    node: dict[str, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(location.VARIABLE, raising=False)
    assert location.kept_secret(node) is node
    assert location.VARIABLE not in os.environ


def test_every_uri_of_a_text_loses_its_secrets() -> None:
    text = (
        f"- recorder.uri={SECRET}\nuri: 'http://ann:h22@host/x', a: http://host/?token=t\nb: x@y\n"
    )
    assert location.strike_out(text) == (
        "- recorder.uri=postgresql://db.example:5432/mlflow\n"
        "uri: 'http://host/x', a: http://host/\nb: x@y\n"
    )


def test_what_hydra_noted_of_a_command_loses_its_passwords(tmp_path: Path) -> None:
    from benchorch.cli.hydra_app import _strike_out_passwords

    notes = [tmp_path / "multirun.yaml", tmp_path / ".hydra" / "overrides.yaml"]
    notes[1].parent.mkdir()
    for path in notes:
        path.write_text(f"- recorder.uri={SECRET}\n")
    _strike_out_passwords(tmp_path)
    assert not any("hunter22" in path.read_text() for path in notes)


def test_a_file_with_the_password_is_uploaded_as_a_clean_copy(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(f'{{"uri": "{SECRET}"}}')
    with without_secrets(plan, SECRET) as clean:
        assert clean.name == "plan.json"
        assert "hunter22" not in clean.read_text()
    assert "hunter22" in plan.read_text()


def test_a_file_without_secrets_is_uploaded_itself(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    with without_secrets(plan, SECRET) as clean:
        assert clean == plan


def test_hidden_files_and_the_recorders_own_are_not_attached(tmp_path: Path) -> None:
    for name in ("table.md", ".hidden", "recorded.jsonl", "tracking.json", "lock"):
        (tmp_path / name).write_text("")
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text("")
    (tmp_path / "trials" / "t").mkdir(parents=True)
    (tmp_path / "trials" / "t" / "log.txt").write_text("")
    assert [(path.name, folder) for path, folder in directly_in(tmp_path)] == [("table.md", "")]
    assert ("log.txt", "trials/t") in [(path.name, folder) for path, folder in below(tmp_path)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"uri": "localhost:5000"}, "has no scheme"),
        ({"uri": ""}, "has no scheme"),
        ({"experiment": ""}, "experiment"),
        ({"timeout_s": 0}, "got 0"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(options: dict[str, str], named: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=named):
        Mlflow(**options)  # type: ignore[arg-type]

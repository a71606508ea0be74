"""What a run on this machine was told in confidence stands in nothing that it leaves or prints."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.command_lines import Commands

SECRETS: Mapping[str, str] = {
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws-0123456789",
    "HF_TOKEN": "hf_secret_0123456789",
    "MLFLOW_TRACKING_PASSWORD": "password-of-mlflow-0123456789",
    "RAY_AUTH_TOKEN": "5ca1ab1e" * 8,
}
OF_URI = "password-in-a-uri-0123456789"
RUN = (
    *("model=mlp", "conversion=eager", "profiler=none", "protocol.pairing=none"),
    *("protocol.canary_tolerance_ratio=null", "executor=inline"),
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
)


@pytest.fixture
def variables(tmp_path: Path) -> Mapping[str, str]:
    places = {"BENCHORCH_CACHE_DIR": "store", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "conf"}
    return {**os.environ, **SECRETS, **{key: str(tmp_path / at) for key, at in places.items()}}


def assert_kept(text: bytes, where: object) -> None:
    for secret in (*SECRETS.values(), OF_URI):
        assert secret.encode() not in text, where


def test_no_secret_is_in_a_file_of_a_run_its_output_or_the_trackers_database(
    commands: Commands, tmp_path: Path, variables: Mapping[str, str]
) -> None:
    database = tmp_path / "tracker.db"
    uri = f"sqlite:///{database}?password={OF_URI}"
    words = (*RUN, f"recorder.uri='{uri}'")
    done = commands.run(tmp_path, words, 300, environment=variables)
    assert done.code == 0, done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"plan.json", "results.jsonl", "environment.json"} <= {path.name for path in files}
    for path in files:
        assert_kept(path.read_bytes(), path)
    assert_kept(done.output.encode(), "output")
    with sqlite3.connect(database) as opened:
        rows = "\n".join(opened.iterdump())
    assert "INSERT INTO" in rows
    assert_kept(rows.encode(), database)


@pytest.mark.parametrize("flags", [("--cfg", "job"), ("--cfg", "hydra"), ("--cfg", "all")])
def test_no_password_is_in_the_configuration_that_is_shown(
    commands: Commands, tmp_path: Path, variables: Mapping[str, str], flags: tuple[str, ...]
) -> None:
    uri = f"recorder.uri=https://me:{OF_URI}@tracker.example/mlflow"
    done = commands.run(tmp_path, (*flags, "model=mlp", uri), environment=variables)
    assert done.code == 0, done.stderr
    assert "tracker.example" in done.stdout
    assert_kept(done.output.encode(), flags)

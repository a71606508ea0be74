"""A run's directory from elsewhere is data: its plan is not run, and its ids lead nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError
from benchorch.journal.registry import remember_plan
from benchorch.journal.run_directory import PLAN, read_plan, trial_directory, write_plan
from benchorch.models import trust
from benchorch.run.foreign_plan import refuse_foreign


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    spec = {"model": {"factory": "psutil:Popen"}}
    trial = Trial(trial_id="0123456789abcdef", labels={}, spec=spec)
    made = Plan(plan_id="20260101-101010-abcd", name="n", trials=(trial,), skips=(), session={})
    write_plan(tmp_path, made)
    return made


@pytest.mark.parametrize("name", ["../../evil", "/etc", "a/b", "..", "", "a\\n", "\u0430"])
@pytest.mark.usefixtures("plan")
def test_an_id_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no id"):
        trial_directory(tmp_path, name)
    text = json.loads((tmp_path / PLAN).read_text())
    text["trials"][0]["trial_id"] = name
    (tmp_path / PLAN).write_text(json.dumps(text))
    with pytest.raises(ConfigError, match="is no id"):
        read_plan(tmp_path)


def test_a_plan_of_ones_own_is_resumed_until_it_changes(plan: Plan, tmp_path: Path) -> None:
    with trust.declared([]), pytest.raises(ConfigError, match="--trust"):
        refuse_foreign(plan, tmp_path, "benchorch resume R")
    remember_plan(plan.plan_id, tmp_path)
    with trust.declared([]):
        refuse_foreign(plan, tmp_path, "benchorch resume R")
    (tmp_path / PLAN).write_text((tmp_path / PLAN).read_text() + " ")
    with trust.declared([]), pytest.raises(ConfigError, match="made elsewhere or changed"):
        refuse_foreign(plan, tmp_path, "benchorch resume R")


def test_a_foreign_plan_runs_where_its_folder_is_named(plan: Plan, tmp_path: Path) -> None:
    with trust.declared(["--trust", str(tmp_path)]):
        refuse_foreign(plan, tmp_path, "benchorch resume R")

"""The index of this machine's runs: which of them are going on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchorch.journal import registry
from benchorch.journal.lock import acquire_lock
from benchorch.journal.registry import find_invocation, others_running, remember


def test_runs_that_go_on_are_told_but_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own, other, ended, gone = (tmp_path / name for name in ("own", "other", "ended", "gone"))
    for place in (own, other, ended):
        place.mkdir()
    for place in (own, other, ended, gone):
        remember(f"plan-{place.name}", place)
    acquire_lock(ended).close()
    with acquire_lock(own), acquire_lock(other):
        assert others_running(own) == [other]
    assert others_running(own) == []


def test_last_is_the_newest_ended_run_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mine, here, live, other = (tmp_path / name for name in ("w/mine", "w/here", "w/live", "other"))
    for place in (mine, here, live, other):
        place.mkdir(parents=True)
        (place / "plan.json").write_text("{}")
        remember(f"plan-{place.name}", place)
    elsewhere = tmp_path / "set"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path / "w")
    with acquire_lock(live):
        assert find_invocation("last", "report") == here
        assert find_invocation("last~1", "report") == mine
        assert find_invocation("last", "logs") == live
        (elsewhere / "plan.json").write_text(json.dumps({"session": {"cwd": str(Path.cwd())}}))
        remember("plan-set", elsewhere)
        assert find_invocation("last", "report") == elsewhere
    monkeypatch.chdir(tmp_path / "state")
    assert find_invocation("last", "report") == elsewhere


def test_no_more_runs_are_looked_at_than_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        place = tmp_path / f"run-{number}"
        place.mkdir()
        (place / "plan.json").write_text("{}")
        remember(f"plan-{number}", place)
    looked_at: list[Path] = []
    monkeypatch.setattr(registry, "is_running", looked_at.append)
    assert registry.latest_invocations(2) == [tmp_path / "run-9", tmp_path / "run-8"]
    assert len(looked_at) == 2

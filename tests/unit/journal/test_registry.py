"""The index of this machine's runs: which of them are going on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.journal.lock import acquire_lock
from benchorch.journal.registry import others_running, remember


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

"""The working directory of a person who tries an example."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCHORCH_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "store"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

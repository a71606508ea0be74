"""Where a stranger's files lie."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder, alone in its parent, so that what is written beside it shows."""
    folder = tmp_path / "a" / "folder"
    folder.mkdir(parents=True)
    return folder

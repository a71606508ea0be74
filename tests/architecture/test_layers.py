"""The layers that pyproject.toml states as contracts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_files_import_only_from_lower_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    finished = subprocess.run(
        [str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout.partition("Contracts")[2] + finished.stderr

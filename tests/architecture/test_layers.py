"""The layers that pyproject.toml states as contracts."""

from __future__ import annotations

import graphlib
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]


def test_files_import_only_from_lower_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    finished = subprocess.run(
        [str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout.partition("Contracts")[2] + finished.stderr


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("benchorch", exclude_type_checking_imports=False, cache_dir=None)
    imported = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    graphlib.TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle

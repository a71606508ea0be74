"""A downloaded folder: no command that is given in it makes a marker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from security.bypass.test_factories import filled
from security.bypass.unseen.folders import FOLDERS
from support.slices import one_in


@pytest.mark.parametrize("case", one_in(12, FOLDERS))
def test_a_command_given_in_a_strangers_folder_runs_nothing_of_it(
    case: str, tmp_path: Path
) -> None:
    folder, marker = tmp_path / "folder", tmp_path / "marker"
    words, files = FOLDERS[case]
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text, folder, marker))
        if text.startswith("#!"):
            path.chmod(0o755)
    places = {
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
        "BENCHORCH_CACHE_DIR": "store",
    }
    # What `python -m` imports from the current folder is Python's own doing: see SECURITY.md.
    script = str(Path(sys.executable).with_name("benchorch"))
    program = [script] if case == "its own benchorch" else [sys.executable, "-m", "benchorch"]
    done = subprocess.run(
        [*program, *words],
        cwd=folder,
        env={**os.environ, **{name: str(tmp_path / at) for name, at in places.items()}},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert not marker.exists(), (done.stdout + done.stderr)[-3000:]
    assert "Traceback (most recent call last)" not in done.stderr, done.stderr[-3000:]

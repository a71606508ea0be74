"""A duel of two versions of a user's module, in a repository of the user's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.journal import reader, run_directory

NET = """
import torch
from sizes import LAYERS

def make():
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(LAYERS)])
"""
WORDS = (
    *("model=factory", "model.factory=net:make", "conversion=eager", "hardware.threads=1"),
    "model.inputs={input: {shape: [batch_size, 256], generator: normal}}",
    *("stopping=fixed", "stopping.window_s=0.1", "stopping.calls=20"),
)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "repo"
    root.mkdir()
    (root / "net.py").write_text(NET)
    (root / "sizes.py").write_text("LAYERS = 4\n")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "one")):
        assert command(root, *git, *words).returncode == 0
    return root


@pytest.mark.slow
def test_three_times_the_work_in_a_module_that_is_imported_is_a_regression(
    repository: Path,
) -> None:
    (repository / "sizes.py").write_text("LAYERS = 12\n")
    options = ("--against", "HEAD", "--max-regression", "2%", "--minutes", "4", "--directory", "d")
    ended = command(
        repository, sys.executable, "-m", "benchorch", "gate", *options, "--json", *WORDS
    )
    found = json.loads(ended.stdout)
    (case,) = found["cases"]
    assert (ended.returncode, found["state"]) == (1, "regression"), ended.stderr
    assert case["floor"]["ratio"]["value"] > 1.5
    pairs = list(run_directory.read_lines(repository / "d" / "pairs.jsonl"))
    assert len(pairs) == case["pairs"] >= 5
    parameters = [reader.read_results(repository / "d" / side)[0].counts for side in ("old", "new")]
    assert [each.parameters for each in parameters if each] == [4 * 65_792, 12 * 65_792]
    assert command(repository, "git", "worktree", "list").stdout.count("\n") == 1


@pytest.mark.slow
def test_a_version_that_does_not_run_is_refused(repository: Path) -> None:
    (repository / "sizes.py").write_text("raise RuntimeError('broken')\n")
    ended = command(
        repository, sys.executable, "-m", "benchorch", "duel", "--against", "HEAD", *WORDS
    )
    assert ended.returncode == 3
    assert "REFUSED" in ended.stdout
    assert "new: " in ended.stdout
    assert "broken" in ended.stdout

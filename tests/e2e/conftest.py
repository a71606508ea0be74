"""Real runs of the command line, each in a directory of its own."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"
TIMEOUT_S = 540


@dataclass(frozen=True)
class Place:
    """A user's working directory with `my_zoo.py` in it, and a store of its own."""

    path: Path
    store: Path

    @property
    def environment(self):
        return {
            **os.environ,
            "BENCHORCH_CACHE_DIR": str(self.store),
            "XDG_STATE_HOME": str(self.path / "state"),
            "COLUMNS": "200",
        }

    def command(self, *words):
        return [sys.executable, "-m", "benchorch", *words]

    def run(self, *words, code=0):
        """The finished process; its exit code is checked, its output kept."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def results(self, directory):
        lines = (self.path / directory / "results.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory):
    return tmp_path_factory.mktemp("stores") / "store"


@pytest.fixture(scope="session")
def make_place():
    def make(path, store):
        subprocess.run(["git", "init", "-q", path], check=True)  # recipes in it may name its code
        shutil.copy(SUPPORT / "user_models.py", path / "my_zoo.py")
        return Place(path=path, store=store)

    return make


@pytest.fixture
def place(tmp_path, shared_store, make_place):
    return make_place(tmp_path, shared_store)

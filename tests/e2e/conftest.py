"""Real runs of the command line, each in a directory of its own."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command_lines import Commands, started

SUPPORT = Path(__file__).resolve().parents[1] / "support"
TIMEOUT_S = 540


@dataclass(frozen=True)
class Place:
    """A user's working directory with `my_zoo.py` in it, and a store of its own."""

    path: Path
    store: Path
    commands: Commands
    variables: Mapping[str, str]

    @property
    def environment(self):
        return {
            **os.environ,
            "BENCHORCH_CACHE_DIR": str(self.store),
            "XDG_STATE_HOME": str(self.path / "state"),
            "COLUMNS": "200",
            **self.variables,
        }

    def command(self, *words):
        return [sys.executable, "-m", "benchorch", *words]

    def run(self, *words, code=0):
        """The end of a command; its exit code is checked (one of several), its output kept."""
        codes = (code,) if isinstance(code, int) else code
        done = self.commands.run(self.path, words, TIMEOUT_S, environment=self.environment)
        assert done.code in codes, f"{done.code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def results(self, directory):
        lines = (self.path / directory / "results.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory):
    return tmp_path_factory.mktemp("stores") / "store"


@pytest.fixture(scope="session")
def commands_of(commands, tmp_path_factory):
    """The warm process whose packages include those of a site; without one that of all tests."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def commands_at(site):
            if site is None:
                return commands
            home = tmp_path_factory.mktemp("commands")
            packages = ("scipy.special", "rich.console", "torch")
            return stack.enter_context(started(home, *packages, variables=path_of(site)))

        yield commands_at


def path_of(site):
    known = os.environ.get("PYTHONPATH")
    places = [str(place) for place in (site, known) if place]
    return {"PYTHONPATH": os.pathsep.join(places)} if places else {}


@pytest.fixture(scope="session")
def make_place(commands_of, shared_store):
    def make(path, store=shared_store, site=None):
        subprocess.run(["git", "init", "-q", path], check=True)  # recipes in it may name its code
        shutil.copy(SUPPORT / "user_models.py", path / "my_zoo.py")
        return Place(path, store, commands_of(site), path_of(site))

    return make


@pytest.fixture
def place(tmp_path, make_place):
    return make_place(tmp_path)


@pytest.fixture
def here(place, monkeypatch):
    """A user's working directory, for code in this process."""
    monkeypatch.chdir(place.path)
    for name in ("BENCHORCH_CACHE_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, place.environment[name])
    return place


@pytest.fixture(scope="session")
def install(tmp_path_factory):
    """Installs the package in a folder as a wheel; the site where it is then."""

    def install(source):
        site = tmp_path_factory.mktemp("site")
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
        command += ["--no-build-isolation", "--target", site, source]
        subprocess.run(command, check=True, timeout=300)
        return site

    return install


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser without a window, for a file's pages."""
    from support.browsers import opened_browser

    with opened_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(params=["light", "dark"])
def theme(request, browser):
    """The colours that the browser prefers."""
    browser.dress(request.param)
    yield request.param
    browser.dress("light")

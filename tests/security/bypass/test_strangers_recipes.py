"""A stranger's recipe chooses no program, address or place, and reads no variable.

Each case is also run with `--trust`, where what it asks for happens: the refusals have teeth.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from support.command_lines import Commands
from support.slices import one_in
from support.waiting import until

SECRET = "hunter2-of-the-environment"
RECIPE = """
defaults:
  - config
  - override model: mlp
  - override stopping: quick
  - override profiler: none
  - override recorder: none
  - _self_
matrix: {conversion: [eager]}
baseline: null
"""
ELSEWHERE = "is not for a recipe of others to choose"
VARIABLE = "may not read the variable"


def recipe(more: str, *chosen: str) -> str:
    """A recipe with these lines and these options of groups."""
    text = RECIPE
    for choice in chosen:
        group, _, name = choice.partition("=")
        text = "\n".join(x for x in text.splitlines() if f"override {group}:" not in x)
        text = text.replace("  - _self_", f"  - override {group}: {name}\n  - _self_")
    return f"{text}\n{more}\n"


CASES = {
    "a profiler's program": (recipe("profiler: {program: ./evil}", "profiler=nsys"), ELSEWHERE),
    "a program by its name": (recipe("profiler: {program: make}", "profiler=nsys"), ELSEWHERE),
    "a cluster": (recipe("executor: {address: '127.0.0.1:1'}", "executor=ray"), ELSEWHERE),
    "a cluster behind auto": (recipe("executor: {address: 'ray://127.0.0.1:1'}"), ELSEWHERE),
    "a service of notices": (
        recipe("executor: {metadata: 'http://127.0.0.1:1'}", "executor=ray"),
        ELSEWHERE,
    ),
    "a tracker": (recipe("recorder: {uri: 'http://127.0.0.1:1'}", "recorder=mlflow"), ELSEWHERE),
    "a tracker's file": (
        recipe("recorder: {uri: 'sqlite:///@D/x.db'}", "recorder=mlflow"),
        ELSEWHERE,
    ),
    "a store": (recipe("store: {root: './mine', quota_gib: 0}"), ELSEWHERE),
    "a copy": (recipe("keep_at: 's3://evil/prefix'"), ELSEWHERE),
    "a run's folder": (recipe("hydra: {run: {dir: '@D/victim'}}"), ELSEWHERE),
    "a folder that climbs": (recipe("hydra: {run: {dir: 'x/../../victim'}}"), ELSEWHERE),
    "a folder behind a link": (recipe("hydra: {run: {dir: 'linked/x'}}"), ELSEWHERE),
    "a folder that is put together": (recipe("hydra: {run: {dir: '${name}'}}"), ELSEWHERE),
    "a folder of settings": (recipe("hydra: {output_subdir: '@D/victim'}"), ELSEWHERE),
    "a variable": (recipe("name: 'x-${oc.env:MY_SECRET}'"), VARIABLE),
    "a variable by a resolver's name that is put together": (
        recipe("name: 'x-${oc.${objective}:MY_SECRET}'\nobjective: env"),
        VARIABLE,
    ),
    "a variable of a model's": (recipe("model: {kwargs: {k: '${oc.env:MY_SECRET,x}'}}"), VARIABLE),
    "a variable of benchorch's own": (
        recipe("name: 'x-${oc.env:BENCHORCH_TRACKING_URI}'"),
        VARIABLE,
    ),
}


def environment(folder: Path) -> dict[str, str]:
    places = {
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
        "BENCHORCH_CACHE_DIR": "store",
    }
    secrets = {"MY_SECRET": SECRET, "MY_NAME": "mine", "BENCHORCH_TRACKING_URI": SECRET}
    own = {name: str(folder.parent / f"home-{at}") for name, at in places.items()}
    return {**os.environ, **own, **secrets, "MLFLOW_TRACKING_TOKEN": SECRET}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stranger's folder, beside one of the user's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "victim").mkdir()
    (folder / "linked").symlink_to(tmp_path / "victim")
    return folder


@pytest.mark.parametrize("case", one_in(3, CASES))
def test_a_choice_of_a_strangers_recipe_is_refused(
    case: str, commands: Commands, folder: Path
) -> None:
    text, why = CASES[case]
    name = "theirs.yml" if len(case) % 2 else "theirs.yaml"
    (folder / name).write_text(text.replace("@D", str(folder.parent)))
    done = commands.run(folder, ["plan", name], environment=environment(folder))
    assert done.code == 2, done.output
    assert why in done.output
    assert f"--trust {folder / name}" in done.output
    assert not list((folder.parent / "victim").iterdir())


def test_resolving_a_strangers_recipe_shows_no_secret(commands: Commands, folder: Path) -> None:
    (folder / "theirs.yaml").write_text(CASES["a variable"][0])
    words = ["theirs.yaml", "--cfg", "job", "--resolve"]
    done = commands.run(folder, words, environment=environment(folder))
    assert done.code == 2
    assert SECRET not in done.output


def test_options_beside_the_recipe_are_no_defaults_of_benchorchs(
    commands: Commands, folder: Path
) -> None:
    (folder / "recorder").mkdir()
    (folder / "recorder" / "mlflow.yaml").write_text(
        "_target_: benchorch.recorders.mlflow.Mlflow\nuri: http://127.0.0.1:1\n"
    )
    (folder / "theirs.yaml").write_text(recipe("", "recorder=mlflow"))
    done = commands.run(folder, ["plan", "theirs.yaml"], environment=environment(folder))
    assert done.code == 2
    assert "recorder.uri: 'http://127.0.0.1:1' is not for" in done.output


def test_what_the_command_line_sets_is_the_users_choice(commands: Commands, folder: Path) -> None:
    (folder / "theirs.yaml").write_text(recipe(""))
    words = [
        *("plan", "theirs.yaml", "recorder=mlflow", "recorder.uri=http://127.0.0.1:1"),
        *(f"store.root={folder.parent}/mine", "name='x-${oc.env:MY_NAME}'"),
    ]
    done = commands.run(folder, words, environment=environment(folder))
    assert done.code == 0, done.output


@pytest.fixture
def tracker() -> Iterator[tuple[str, list[str]]]:
    """A stranger's server, and the tokens that it was sent."""
    tokens: list[str] = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers.get("Authorization", ""))
            self.send_response(500)
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Noting)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", tokens
    server.shutdown()


def test_the_trackers_token_goes_to_a_recipes_address_only_with_trust(
    commands: Commands, folder: Path, tracker: tuple[str, list[str]]
) -> None:
    url, tokens = tracker
    small = "model: {widths: [8, 8], inputs: {input: {shape: [1, 8], generator: normal}}}"
    more = f"{small}\nrecorder: {{uri: '{url}', timeout_s: 20}}"
    (folder / "theirs.yaml").write_text(recipe(more, "recorder=mlflow"))
    words = [
        *("theirs.yaml", "protocol.pairing=none", f"hydra.run.dir={folder.parent}/out"),
        *("stopping.processes=1", "stopping.window_s=0.05", "executor=inline"),
        "protocol.canary_tolerance_ratio=null",
    ]
    done = commands.run(folder, words, environment=environment(folder))
    assert (done.code, tokens) == (2, [])
    commands.run(folder, [*words, "--trust", "theirs.yaml"], 120, environment=environment(folder))
    reached = until(lambda: any(SECRET in token for token in tokens), 60)
    assert reached, "the control reached no tracker"


OWN = """
defaults: [config, override model: mlp, override recorder: mlflow, _self_]
matrix: {conversion: [eager]}
"""


@pytest.fixture
def own(folder: Path) -> Path:
    """A folder that is the user's own git work tree."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.mark.parametrize("part", ["job", "all"])
def test_what_is_shown_of_ones_own_recipe_names_no_variables_value(
    commands: Commands, own: Path, part: str
) -> None:
    (own / "own.yaml").write_text(
        OWN + "name: 'x-${oc.env:MY_NAME}-${oc.decode:${oc.env:MY_NAME}}'"
    )
    variables = {**environment(own), "MY_NAME": SECRET}
    words = ["own.yaml", "--cfg", part, "--resolve"]
    done = commands.run(own, words, environment=variables)
    assert done.code == 0, done.output
    assert SECRET not in done.output
    assert "name: x-***-***" in done.output


@pytest.mark.parametrize("words", [[], ["--cfg", "job", "--resolve"]])
def test_a_secrets_variable_is_not_for_what_is_stored(
    commands: Commands, own: Path, words: list[str]
) -> None:
    (own / "own.yaml").write_text(OWN + "model: {kwargs: {key: '${oc.env:MY_SECRET}'}}")
    done = commands.run(own, ["own.yaml", *words], environment=environment(own))
    assert done.code == 2, done.output
    assert "MY_SECRET is a secret by its name" in done.output
    assert SECRET not in done.output


def test_a_secrets_variable_is_for_the_trackers_address(commands: Commands, own: Path) -> None:
    address = "http://me:${oc.env:MY_SECRET}@127.0.0.1:1"
    (own / "own.yaml").write_text(OWN + f"recorder: {{uri: '{address}'}}")
    done = commands.run(own, ["plan", "own.yaml"], environment=environment(own))
    assert done.code == 0, done.output
    assert SECRET not in done.output

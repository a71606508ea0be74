"""``benchorch init``: a recipe that can be planned is written, and no other is left behind."""

import json
from pathlib import Path

import pytest
import yaml

from benchorch.cli.commands import init
from benchorch.errors import ConfigError

MODULE = """
import torch


def build():
    raise AssertionError("a recipe is planned without its module")
"""
WORDS = ["--module", "ranker.py:build", "--input", "x=batch_size,16"]
SCHEMA = Path(__file__).resolve().parents[4] / "recipes" / "recipe.schema.json"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ranker.py").write_text(MODULE)


def run(*words):
    """The reply where every question would be a mistake."""

    def unasked(question):
        raise AssertionError(question)

    return init.run.reply([*words, "--yes"], question=unasked)


def test_words_become_a_recipe_that_is_planned():
    words = [*WORDS, "--input", "ids=batch_size,seq_len:100", "--conversion", "eager,inductor"]
    reply = run("mine.yaml", *words)
    assert "2 trials, 0 skips" in reply.text
    assert reply.data == {
        "recipe": "mine.yaml",
        "command": "benchorch mine.yaml --trust ranker.py:build",
    }
    recipe = yaml.safe_load(Path("mine.yaml").read_text())
    assert recipe["model"]["inputs"] == {
        "x": {"shape": ["batch_size", 16], "generator": "normal"},
        "ids": {
            "shape": ["batch_size", "seq_len"],
            "dtype": "int64",
            "generator": "integers",
            "low": 0,
            "high": 100,
        },
    }


def test_a_recipe_fits_the_schema():
    jsonschema = pytest.importorskip("jsonschema")
    run("mine.yaml", *WORDS, "--conversion", "eager")
    recipe = yaml.safe_load(Path("mine.yaml").read_text())
    jsonschema.validate(recipe, json.loads(SCHEMA.read_text()))


def test_what_the_words_leave_out_is_asked(capsys):
    answers = ["ranker.py:build", "x=batch_size, 16", "", "eager, bf16", "n"]
    reply = init.run.reply(["mine.yaml"], question=lambda _: answers.pop(0))
    assert "2 trials" in capsys.readouterr().out
    assert "run it   benchorch mine.yaml --trust ranker.py:build" in reply.text


def test_the_recipe_is_run_if_a_person_agrees(monkeypatch):
    class Replaced(Exception):
        """Of this process, by the run's."""

    def replace(_, words):
        raise Replaced(*words[1:])

    monkeypatch.setattr(init.os, "execv", replace)
    with pytest.raises(Replaced) as run_instead:
        init.run.reply(["mine.yaml", *WORDS], question=lambda asked: "y" if "Run" in asked else "")
    words = ("-P", "-m", "benchorch", "mine.yaml", "--trust", "ranker.py:build")
    assert run_instead.value.args == words


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--input", "x=batch_size,16"], "--module: is missing"),
        (["--module", "ranker.py:build"], "--input: is missing"),
        ([*WORDS, "--input", "x;3"], "got 'x;3'"),
        ([*WORDS, "--conversion", "inductr"], "Did you mean 'inductor'"),
        (["--module", "ranker.py:biuld", "--input", "x=batch_size,16"], "Did you mean 'build'"),
        (["--module", "away.py:build", "--input", "x=batch_size,16"], "away.py"),
    ],
)
def test_a_recipe_that_cannot_be_planned_is_not_left_behind(words, problem):
    with pytest.raises(ConfigError, match=problem):
        run("mine.yaml", *words)
    assert not Path("mine.yaml").exists()


def test_a_file_that_exists_is_kept():
    Path("mine.yaml").write_text("a recipe of mine")
    with pytest.raises(ConfigError, match="exists already"):
        run("mine.yaml", *WORDS)
    assert Path("mine.yaml").read_text() == "a recipe of mine"


@pytest.mark.parametrize("name", ["mine.json", "config.yaml", "away/mine.yaml"])
def test_a_place_where_no_recipe_can_be_is_named(name):
    with pytest.raises(ConfigError, match=name):
        run(name, *WORDS)


def test_an_input_given_twice_is_an_error():
    with pytest.raises(ConfigError, match="x: is given twice"):
        run("mine.yaml", *WORDS, "--input", "x=3")


@pytest.mark.parametrize(
    ("words", "next_line"),
    [
        (["model=x", "conversion=eager"], "benchorch init mine.yaml"),
        (["a.yaml", "model.factory=net.py:make", "workload.batch_size=2"], "benchorch init a.yaml"),
        (["model.factory=net.py:make", "a.yaml"], "benchorch init a.yaml"),
        (["a.yaml", "b.yaml"], "benchorch init a.yaml"),
    ],
)
def test_a_runs_words_are_answered_with_the_line_that_was_meant(words, next_line):
    with pytest.raises(ConfigError, match="init takes a file's name and options") as refused:
        run(*words)
    assert refused.value.next.startswith(next_line)
    assert "--input x=batch_size,16" in refused.value.next
    assert ("--module net.py:make" in refused.value.next) == ("model.factory=net.py:make" in words)

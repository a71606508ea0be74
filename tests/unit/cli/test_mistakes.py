"""A mistaken line is answered with what is wrong and the line to type, in text and in JSON."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchorch.cli import corrections, main
from benchorch.cli.commands import plan
from benchorch.config.directories import builtin_directory
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.journal.registry import remember
from support.command_lines import Commands
from support.loggers import unchanged_loggers
from support.slices import one_in
from support.synthetic_runs import result, trial, write_run

START = "defaults: [config, override model: mlp, _self_]\n"
SERVER = "defaults: [config, override model: mlp, override scenario: server, _self_]\n"
FOUR = (
    "defaults: [config, override model: brt, _self_]\n"
    "nmae: x\n"
    "limits: {build_timeout: 3}\n"
    "matrix: {conversion: [eager, inductr]}\n"
)


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    with unchanged_loggers():
        yield


def refused(words: list[str]) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        main.run(words)
    return error.value


@pytest.mark.parametrize(
    ("line", "told", "next_line"),
    [
        ("--model bert", "a key is set by KEY=VALUE", "benchorch run model=bert"),
        (
            "model=mlp model=bert",
            "model is chosen by model=mlp already",
            "benchorch run 'model=[mlp,bert]'",
        ),
        (
            "plan model=mlp conversion=[eager] conversion=[eager,onnxruntime]",
            "several are a list",
            "benchorch plan model=mlp 'conversion=[eager,onnxruntime]'",
        ),
        (
            "plan -m model=mlp,bert model=resnet50 conversion=eager",
            "model is chosen by model=mlp,bert already",
            "benchorch plan -m 'model=[mlp,bert,resnet50]' conversion=eager",
        ),
        (
            "plan model=mlp conversion=eager recorder=none recorder=mlflow",
            "leave out either",
            "benchorch plan model=mlp conversion=eager recorder=mlflow",
        ),
        ("plan model=mlp model=mlp", "model is chosen", "benchorch plan model=mlp"),
        (
            "plan model=mlp workload.batch_size=1 stopping=quick ++workload.batch_size=2",
            "++workload.batch_size=2: workload.batch_size is set by workload.batch_size=1 already",
            "benchorch plan model=mlp ++workload.batch_size=2 stopping=quick",
        ),
        (
            "submit model=mlp name=a name=a",
            "leave out either",
            "benchorch submit model=mlp name=a",
        ),
        ("resume last name=a name=b", "name is set by name=a", ""),
        ("cache list store=local store=s3", "store=s3: store is set by store=local already", ""),
        (
            "cache list store.quota_gib=1 store.quota_gib=2",
            "store.quota_gib is set by store.quota_gib=1 already; leave out either",
            "",
        ),
        ("--model=bert", "a key is set by KEY=VALUE", "benchorch run model=bert"),
        ("plan --model bert", "KEY=VALUE", "benchorch plan model=bert"),
        ("run model=mlp --batch-size 8", "", "benchorch run model=mlp workload.batch_size=8"),
        ("model = mlp", "no spaces around =", "benchorch run model=mlp"),
        ("model= mlp", "no spaces around =", "benchorch run model=mlp"),
        ("model =mlp", "no spaces around =", "benchorch run model=mlp"),
        (
            "model=mlp conversion=[eager, onnxruntime]",
            "a list holds no spaces",
            "benchorch run model=mlp 'conversion=[eager,onnxruntime]'",
        ),
        ("-m model=mlp, bert", "no spaces", "benchorch run -m model=mlp,bert"),
        ("recipes/tiny.yaml --model bert", "", "benchorch run recipes/tiny.yaml model=bert"),
        ("bert", "is a model", "benchorch run model=bert"),
        ("tiny", "is a recipe", "benchorch run recipes/tiny.yaml"),
        ("run", "names no model and no recipe", "benchorch run model=bert"),
        ("-m", "names no model and no recipe", "benchorch run model=bert"),
        ("run -x --allow-skips", "names no model and no recipe", "benchorch run model=bert"),
        ("plna", "Did you mean 'plan'?", ""),
        ("--jsno model=mlp", "Did you mean '--json'?", "benchorch run --json model=mlp"),
        ("plan model=mlp --cheapset", "'--cheapest'", "benchorch plan model=mlp --cheapest"),
        ("plan model=mlp --zzzz", "there is no such option.", "benchorch plan model=mlp"),
        ("run conversion=eager, model=mlp", "comma", "benchorch run conversion=eager model=mlp"),
        ("script nope.py", "there is no nope.py", ""),
        ("plan model=mlp --trust ~nobody-here", "--trust: there is no '~nobody-here'", ""),
        ("report ~nobody-here", "'~nobody-here' is neither", ""),
        pytest.param(
            "status ~nobody-here", "'~nobody-here' is neither", "", marks=pytest.mark.slow
        ),
        pytest.param(
            "reproduce ~nobody-here", "'~nobody-here' is neither", "", marks=pytest.mark.slow
        ),
        pytest.param(
            "history ~nobody-here", "'~nobody-here' is neither", "", marks=pytest.mark.slow
        ),
        ("history nosuch", "'nosuch' is neither", "benchorch run recipes/tiny.yaml"),
        ("compare nosuch other", "'nosuch' is neither", "benchorch run recipes/tiny.yaml"),
        ("init --inpt x", "did you mean --input", "benchorch init mine.yaml --module"),
        ("plan model=mlp batch=4", "Did you mean 'workload.batch_size'?", ""),
        ("plan model=mlp minuts=4", "Did you mean 'budget.minutes'?", ""),
        ("plan model=factory model.factory=a:b", "set model.inputs='{x: {shape: [batch", ""),
        ("-X", "there is no such option", "benchorch run recipes/tiny.yaml"),
        ("tiny.yaml", "Did you mean 'recipes/tiny.yaml'?", ""),
        ("plan model=mlp model.arguments.hidden=64", "model.arguments.hidden: unknown key", ""),
        pytest.param(
            "plan model=factory model.arguments.hidden=64",
            "+model.arguments.hidden=...",
            "",
            marks=pytest.mark.slow,
        ),
        ("plan model=factory model.arguments={hidden:64}", "+model.arguments.hidden=...", ""),
        ('plan model=mlp workload={"batch_size":2}', "without quotes", "'workload={batch_size:2}'"),
        ("plan model=mlp conversion=inductr", "All: benchorch conversions", ""),
        ("plan model=mlp --only onnx conversion=eager", "fits no trial", ""),
        ("plan model=mlp --only", "expected a conversion or the name", "benchorch plan model=mlp"),
        ("plan --only=, model=mlp", "name of a trial, got ','", "benchorch plan model=mlp"),
        ("cache lst", "Did you mean 'list'?", "benchorch cache list"),
        ("report", "missing argument 'RUN [RUN ...]'", "benchorch run recipes/tiny"),
        ("compare A", "missing argument 'B'", "benchorch run recipes/tiny"),
        ("report A --ouput x.html", "--ouput", "benchorch run recipes/tiny.yaml"),
        ("help protcol", "Did you mean 'protocol'?", ""),
        ("completion tcsh", "'tcsh' is not one of", "benchorch completion bash"),
        ("plan model=mlp workload.batch_size=1..8", "", "'workload.batch_size=[1,8]'"),
        ("gate --baseline A --max-regression 5", "'5' is not a share", "benchorch gate --baseline"),
        ("plan model=mlp workload.batch_size=1 8 32", "", "'workload.batch_size=[1,8,32]'"),
        ("export A onnxruntime --output d", "extra argument", "benchorch "),
        ("open --run A", "there is no option --run.", "benchorch "),
        ("cache list --ouput x.json", "did you mean --output", "benchorch cache list --output x"),
        ("history --html x.html", "--output here", "benchorch history --output x.html"),
    ],
)
def test_a_mistaken_line_is_answered_with_the_right_one(
    line: str, told: str, next_line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = line.split()
    error = refused(words)
    assert told in str(error)
    assert next_line in corrections.next_line(words, error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "next_line"),
    [
        ("plan model=mlp,bert", "benchorch plan model=mlp,bert -m"),
        pytest.param(
            "plan model=mlp hardware.threads=[1,2]",
            "benchorch plan model=mlp hardware.threads=1,2 -m",
            marks=pytest.mark.slow,
        ),
        (
            "plan -m model=mlp scenario=server scenario.rate_per_s=[50,100]",
            "benchorch plan -m model=mlp scenario=server scenario.rate_per_s=50,100",
        ),
        ("plan model=mlp rebuild=[always,never]", "benchorch plan model=mlp rebuild=always"),
        pytest.param(
            "plan model=mlp budget.minutes=[1,2]",
            "benchorch plan model=mlp budget.minutes=1",
            marks=pytest.mark.slow,
        ),
        ("plan model=mlp,brt", "benchorch plan model=mlp,bert -m"),
        ("plan model=mlp batch=4", "benchorch plan model=mlp workload.batch_size=4"),
        ("analyze nosuch.json", "benchorch run recipes/tiny.yaml profile=winner"),
        pytest.param(
            "plan model=mlp workload.batch_size=0",
            "benchorch plan model=mlp workload.batch_size=1",
            marks=pytest.mark.slow,
        ),
        ("model=mlp workload.batch_size=0", "benchorch model=mlp workload.batch_size=1"),
    ],
)
def test_every_answer_ends_in_a_line_to_type(
    line: str,
    next_line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchorch", *line.split()])
    with pytest.raises(SystemExit):
        main.main()
    assert f"Try: {next_line}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n\tb: 2\n", ["r.yaml:2:1: ", "tab", "^"]),
        ("a: [1\nb: 2\n", ["r.yaml:2:2: ", "begins in line 1", "^"]),
        (f"{START}name: a\nname: b\n", ["r.yaml:3:1: the key 'name' is in line 2 already", "^"]),
        ("matrix: {conversion: [eager]}\n", ["r.yaml:1:1: there is no defaults list"]),
        ("", ["r.yaml: is empty; a recipe begins with defaults"]),
        (b"\xff\xfe\x00", ["r.yaml: is not UTF-8 text (byte 0xff at position 0)"]),
        (f"{START}1: 2\n", ["r.yaml:2:1: a key is text, not '1'"]),
        ("- a\n", ["r.yaml:1:1: expected keys with values"]),
        ("defaults: [config]\nname: a\n", ["r.yaml:1:11: _self_ is missing at its end"]),
        ("defaults: [_self_, config]\nname: a\n", ["r.yaml:1:11: _self_ comes before config"]),
        (f"{START}each: [{{a: 1}}]\n", ["r.yaml:2:8: each: expected a list of KEY=VALUE"]),
        (f"{START}conversion: [eager]\n", ["r.yaml:2:1: ", "+   conversion: [eager]"]),
        (f"{START}conversions: eager\n", ["r.yaml:2:1: ", "+   conversion: [eager]"]),
        (f"{START}hardware: [local, g5]\n", ["r.yaml:2:1: ", "+   hardware: [local, g5]"]),
        (f"{START}hardware: g5\n", ["r.yaml:2:1: ", "+ - override hardware: g5"]),
        (f"{START}batch_size: 8\n", ["r.yaml:2:1: ", "workload: {batch_size: ...}"]),
        (f"{START}budget: 5\n", ["r.yaml:2:9: ", "a mapping of minutes, max_usd, got 5"]),
        (f"{START}objective: p99\n", ["r.yaml:2:12: ", "+ objective: latency_ms/p99"]),
        ("model: {factory: x:y}\n", ["r.yaml:1:1: ", "+   - override model: factory"]),
        (
            f'{START}matrix: {{conversion: "eager,inductor"}}\n',
            ["r.yaml:2:22: ", "+ matrix: {conversion: [eager,inductor]}"],
        ),
        (
            f"{START}matrix: {{model: {['mlp'] * 50}}}\neach: [limits.a=1]\n",
            ["r.yaml:3:8: limits.a"],
        ),
        (
            FOUR,
            [
                "r.yaml:1:36: model: there is no 'brt'. Did you mean 'bert'?",
                "r.yaml:2:1: nmae: unknown key. Did you mean 'name'?",
                "r.yaml:3:10: limits.build_timeout: unknown key.",
                "r.yaml:4:30: conversion: there is no 'inductr'. Did you mean 'inductor'?",
            ],
        ),
    ],
    ids=[
        "tab",
        "bracket",
        "twice",
        "defaults",
        "empty",
        "binary",
        "number",
        "list",
        "self",
        "order",
        "each",
        "axis",
        "misspelt group",
        "kinds of machine",
        "option",
        "deeper key",
        "section",
        "metric",
        "own model",
        "quoted axis",
        "long axis",
        "four",
    ],
)
def test_a_recipe_is_answered_with_every_mistake_and_its_place(
    text: str | bytes, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    error = refused(["plan", "r.yaml"])
    assert [part for part in told if part not in str(error)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SERVER}matrix: {{scenario.utilisation_ratio: [0.5]}}\n", []),
        pytest.param(
            f"{SERVER}each: [scenario.utilisation_ratio=0.5]\n", [], marks=pytest.mark.slow
        ),
        pytest.param(
            "defaults: [base, _self_]\neach: [scenario.utilisation_ratio=0.5]\n",
            [],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "defaults: [/base, _self_]\neach: [scenario.utilisation_ratio=0.5]\n",
            [],
            marks=pytest.mark.slow,
        ),
        ("defaults: [other, _self_]\neach: [scenario.utilisation_ratio=0.5]\n", []),
        (f"{START}matrix: {{scenario: [server]}}\neach: [scenario.utilisation_ratio=0.5]\n", []),
        (f"{START}matrix: {{scenario.utilisation_ratio: [0.5]}}\n", ["scenario=server"]),
        (f"{SERVER.replace('server', 'a(b')}each: [scenario.utilisation_ratio=0.5]\n", []),
        (f"{START}each: [conversion.tolerance_ratio=0.5]\n", []),
        ("defaults: [config, override tracking: none, _self_]\ntracking: {}\n", []),
    ],
    ids=[
        "axis",
        "each",
        "extended",
        "extended by path",
        "extended .yml",
        "axis of options",
        "by hand",
        "bracket in a name",
        "no conversion",
        "former name",
    ],
)
def test_a_mistake_beside_a_recipe_accuses_no_line_of_it(
    text: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(SERVER)
    Path("other.yml").write_text(SERVER)
    Path("scenario").mkdir()
    shutil.copy(builtin_directory("conf") / "scenario/server.yaml", "scenario/a(b.yaml")
    Path("r.yaml").write_text(text)
    error = refused(["plan", "r.yaml", *words, "workload.foo=3"])
    assert [problem.partition(": ")[0] for problem in error.problems] == ["workload.foo"]


def test_a_mistaken_key_is_named_where_the_line_chooses_what_the_recipe_misspells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(START.replace("mlp", "mpl"))
    error = refused(["plan", "r.yaml", "model=mlp", "model.hiden=3"])
    assert "there is no 'mpl'" in str(error)
    assert "model.hiden: unknown key" in str(error)


def test_a_key_is_judged_without_the_recipes_option_that_the_line_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment").mkdir()
    hasty = "# @package _global_\ndefaults: [override /stopping: quick]\n"
    Path("experiment/hasty.yaml").write_text(hasty)
    Path("experiment/calm.yaml").write_text("note: nothing\n")
    Path("r.yaml").write_text("defaults: [config, experiment: hasty, _self_]\n")
    words = ["model=mlp", "experiment=calm", "stopping.max_window_s=9"]  # a key that quick lacks
    error = refused(["plan", "r.yaml", *words, "workload.foo=3"])
    assert [problem.partition(": ")[0] for problem in error.problems] == ["workload.foo"]


def test_a_recipe_may_end_in_yml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(f"{START}matrix: {{conversion: [eager]}}\n")
    assert main.run(["plan", "r.yml", "--json"]) == 0
    assert [
        trial["labels"]["model"] for trial in json.loads(capsys.readouterr().out)["trials"]
    ] == ["mlp"]


@pytest.mark.parametrize(
    ("file", "written", "variables"),
    [
        ("r.yaml", lambda text: b"\xef\xbb\xbf" + text.encode(), {}),
        ("r.yaml", lambda text: text.replace("\n", "\r\n").encode(), {}),
        ("größe und mehr/r 1.yaml", str.encode, {}),
        ("r.yaml", str.encode, {"HOME": ""}),
        pytest.param(
            "größe.yaml", str.encode, {"LC_ALL": "C", "PYTHONUTF8": "0"}, marks=pytest.mark.slow
        ),
        (
            "r.yaml",
            lambda text: f"# größe\n{text}".encode(),
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ),
    ],
    ids=[
        "byte order mark",
        "lines of Windows",
        "spaces and umlauts",
        "no home",
        "C locale",
        "ASCII",
    ],
)
def test_an_unusual_recipe_that_is_valid_is_planned(
    commands: Commands, file: str, written: Any, variables: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / file
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(written(f"{START}name: a\n"))
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), **variables}
    words = ["plan", file, "conversion=eager", "--json"]
    if "PYTHONUTF8" in variables:  # which an interpreter reads as it begins
        stdout = subprocess.run(
            [sys.executable, "-m", "benchorch", *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    else:
        stdout = commands.run(tmp_path, words, environment=environment).stdout
    assert json.loads(stdout)["name"] == "a"


@pytest.mark.parametrize("command", ["export a", "check a", "compare a b"])
def test_a_word_with_a_space_too_many_is_a_mistake_as_any(command: str) -> None:
    name, *runs = command.split()
    error = refused([name, *runs, "eager batch_size=1"])
    assert "unexpected extra argument" in str(error)
    assert error.next == f"benchorch {name} --help"


@pytest.mark.parametrize("words", [["--model", "bert"], ["report"], ["cache", "show", "zzzz"]])
def test_an_error_is_one_object_for_programs(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BENCHORCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["benchorch", *words, "--json"])
    with pytest.raises(SystemExit) as left:
        main.main()
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 2
    assert told["code"] == "wrong_request"
    assert told["message"] == "\n".join(told["problems"])
    assert told["next"].startswith("benchorch ")


def test_without_words_there_is_help_that_fits_a_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["--help"], ["run", "--help"]):
        assert main.run(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
    assert "stopping" in "".join(lines)


@pytest.mark.parametrize("words", [["--version"], ["version"], ["-V"]])
def test_the_version_is_benchorchs_own(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from benchorch import __version__

    assert main.run(words) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_an_own_model_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zoo.py").write_text("import torch\n\n\ndef ranker():\n    return torch.nn.Linear(4, 4)\n")
    words = ["plan", "--json", "model=factory", "model.factory=zoo.py:ranker", "conversion=eager"]
    words.append("model.inputs={x:{shape:[batch_size,4],generator:normal}}")
    for named, label in ([], "zoo.py:ranker"), (["name=mine"], "mine"):
        assert main.run([*words, *named]) == 0
        (trial,) = json.loads(capsys.readouterr().out)["trials"]
        assert trial["labels"]["model"] == label


@pytest.mark.parametrize("group", ["recorder", "profiler"])
def test_a_group_that_is_taken_away_is_told_how_it_is_switched_off(group: str) -> None:
    with pytest.raises(ConfigError, match=f"To switch it off: {group}=none"):
        plan.run.reply(["model=mlp", "conversion=eager", f"~{group}"])


def test_an_answer_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "benchorch", "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "Nothing more can be written: No space left on device.\n"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("plan model=brt", "plan model=bert"),
        ("plan modle=mlp", "plan model=mlp"),
        ("plan model=mlp workload.batchsize=3", "plan model=mlp workload.batch_size=3"),
        (
            "plan modle=mlp conversion=eager,inductr -m",
            "plan model=mlp conversion=eager,inductor -m",
        ),
        ("model=mlp hardware=g55", "model=mlp hardware=g5"),
        (
            "plan model=mlp conversion=inductr stopping=fst",
            "plan model=mlp conversion=inductor stopping=decide",
        ),
        ("plan model=factory model.factory=nope:make model.inputs={}", ""),
    ],
)
def test_misspelt_names_are_answered_with_the_line_that_has_them_right(
    line: str, meant: str
) -> None:
    words = line.split()
    found = corrections.corrected(words, refused(words).problems)
    assert found == (f"benchorch {meant}" if meant else "")


def test_a_password_is_not_repeated_in_the_line_that_was_meant() -> None:
    words = ["plan", "modle=mlp", "recorder.uri=https://me:hunter2@example.com"]
    problem = Problem("modle: unknown key.", Correction(typed="modle", meant="model"))
    found = corrections.corrected(words, [problem])
    assert found.startswith("benchorch plan model=mlp ")
    assert "hunter2" not in found


@pytest.mark.parametrize(
    "line",
    one_in(
        6,
        [
            "-model=mlp",
            "model mlp",
            "model:mlp",
            "MLP",
            "model=mlp plan",
            "plan run model=mlp",
            "--config-dir . plan model=mlp",
            "run --model mlp --conversion eager onnxruntime",
            "model=mlp conversion=eager;onnxruntime",
            "model=mlp conversion=(eager,onnxruntime)",
            "model=mlp conversion=[eager,onnxruntime",
            "model=mlp conversion={eager,onnxruntime}",
            "model=mlp conversion=ONNXRuntime",
            "model=mlp workload.batch_size",
            "model=mlp workload/batch_size=8",
            "model=mlp +workload.batch_size=8",
            "model=mlp ++workload.batchsize=3",
            "model=mlp ~tracking",
            "model=mlp profile=winer",
            "model=mlp budget.max_usd=abc",
            "model=mlp budget.minutes=-2",
            "model=mlp workload.dtype=float15 hardware.threads=-1 workload.batch_size=1.5",
            "model=mlp scenario=server scenario.rate_per_s=-1",
            "model=mlp stopping=fixed stopping.processes=0",
            "model=mlp protocol.pairing=always",
            "model=mlp pricing.market=spt",
            "model=mlp recorder.uri=127.0.0.1:5000",
            "model=mlp store=s3 store.url=bucket",
            "model=mlp --cfg jobb",
            "model=factory model.factory=ranker.py:nope",
            "model=factory model.factory=ranker.py",
            "model=factory model.factory=nope:make",
            "model=factory model.factory=ranker.py:build model.inputs={x:{shape:[batch_size,16]}} "
            "model.arguments.hidden=64",
            "model=factory model.factory=ranker.py:build +model.inputs.x={generator:integers}",
            "mine.yaml",
            "mine",
            "recipes/mine.yaml recipes/mine.yaml",
        ],
    ),
)
def test_the_corrected_line_can_be_planned(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipes").mkdir()
    Path("recipes/mine.yaml").write_text(f"{START}matrix: {{conversion: [eager]}}\n")
    Path("ranker.py").write_text("def build(hidden=16): ...\n")
    words = line.split()
    meant = shlex.split(corrections.next_line(words, refused(words)))
    assert meant[0] == "benchorch"
    rest = [word for word in meant[1:] if word not in ("run", "plan")]
    assert main.run(["plan" if "--cfg" not in rest else "run", *rest]) == 0


def test_a_folder_that_cannot_be_written_is_answered_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").write_text("in the way")
    words = ["model=mlp", "conversion=eager"]
    error = refused(words)
    assert "Not a directory" in str(error) or "File exists" in str(error)
    line = corrections.next_line(words, error)
    assert line == "benchorch model=mlp conversion=eager hydra.run.dir=/tmp/benchorch-run"


def test_what_a_person_must_trust_is_added_to_the_line_and_not_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corrections, "_problems_of", lambda line: pytest.fail("planned"))
    trust = Correction(added=["--trust", "net.py"])
    error = ConfigError([Problem("net.py is code of others", trust)])
    assert corrections.next_line(["r.yaml"], error) == "benchorch r.yaml --trust net.py"


@pytest.mark.parametrize("entry", ["{conversion: eager}", "[eager]"])
def test_an_entry_of_each_that_is_no_override_is_one_problem(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(f"{START}each:\n- {entry}\n")
    (problem,) = refused(["plan", "r.yaml"]).problems
    assert problem.startswith("r.yaml:3:3: each: expected a list of KEY=VALUE")


@pytest.mark.parametrize("value", ["3", "{stopping.calls: 5}"])
def test_each_that_is_no_list_is_one_problem(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(f"{START}each: {value}\n")
    (problem,) = refused(["plan", "r.yaml"]).problems
    assert problem.startswith("r.yaml:2:7: each: expected a list of KEY=VALUE")


@pytest.mark.parametrize("text", ["model:\ndefaults: {model: null}\n", ".\t"])
def test_recipes_that_random_trials_found_are_refused_in_a_sentence(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(text)
    assert refused(["plan", "r.yaml"]).problems


def test_a_conversion_for_other_machines_is_skipped_with_the_machine_that_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["plan", "model=mlp", "conversion=tensorrt", "--json"]) == 0
    (skip,) = json.loads(capsys.readouterr().out)["skips"]
    assert "NVIDIA GPU" in skip["reason"]
    assert "hardware=local_gpu" in skip["reason"]


def test_a_quiet_plan_has_trials_and_sums_without_notes_and_ways(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = []
    for more in ([], ["--quiet"]):
        assert main.run(["plan", "model=mlp", "hardware=g5", *more]) == 0
        told.append(capsys.readouterr().out)
    loud, quiet = told
    assert "\nnote  " in loud
    assert "What you can do" in loud
    assert "note  " not in quiet
    assert quiet.splitlines()[-1].startswith("price  g5.xlarge")
    assert {*quiet.splitlines()} < {*loud.splitlines()}


@pytest.mark.parametrize(
    ("line", "meant"),
    one_in(
        3,
        [
            ("run -w 3 -r 20 model=mlp", "run stopping=fixed stopping.processes=20 model=mlp"),
            (
                "run -L workload.batch_size 1,8 model=mlp",
                "run -m workload.batch_size=1,8 model=mlp",
            ),
            ("run model=mlp -k onnx", "run model=mlp --only '*onnx*'"),
            ("run model=mlp --lf", "run recipes/tiny.yaml"),  # there is no run
            ("run model=resnet50 --fp16", "run model=resnet50 'conversion=[eager,fp16]'"),
            ("report last --export-markdown t.md", "run recipes/tiny.yaml"),
            (
                "compare last --fail=mean:5%",
                "gate --baseline last~1 --candidate last --max-regression 5%",
            ),
            ("server --host 0.0.0.0 -p 5001", "ui --port 5001"),
            ("runs list --experiment-id 0", "status"),
            ("run model=mlp backend=onnxruntime", "run model=mlp conversion=onnxruntime"),
            ("run +model=mlp", "run model=mlp"),
            ("run --config-name nosuch model=mlp", "run model=mlp"),
            ("run --config-dir nosuch model=mlp", "run model=mlp"),
            ("run model=mlp name=", "run model=mlp name=benchorch"),
            ("run recipes/tiny.yaml --collect-only", "plan recipes/tiny.yaml"),
            ("recipes/tiny.yaml::onnxruntime", "run recipes/tiny.yaml --only onnxruntime"),
            ("run --durations=10 model=mlp", "run model=mlp"),
            ("run --durations 10 model=mlp", "run model=mlp"),
            ("--config-dir nosuch --config-name nosuch", "run recipes/tiny.yaml"),
            ("backend=pytorch model=mlp", "conversion=eager model=mlp"),
            ("backend.torch_dtype=float16 model=mlp", "'conversion=[eager,fp16]' model=mlp"),
            ("scenario.input_shapes.batch_size=4 model=mlp", "workload.batch_size=4 model=mlp"),
            ("launcher=process model=mlp", "executor=process model=mlp"),
            ("backend.model=some/model", "model=bert"),
            (
                "auto-opt -m bert-base-uncased --device cpu --provider CPUExecutionProvider",
                "run model=bert hardware=local 'conversion=[eager,onnxruntime]'",
            ),
            ("capture-onnx-graph -m bert", "run model=bert"),
            ("run --config recipes/tiny.yaml", "run recipes/tiny.yaml"),
            ("run -c recipes/tiny.yaml", "run recipes/tiny.yaml"),
            (
                "run model=mlp --users 20 --spawn-rate 5 --run-time 1m",
                "run model=mlp scenario=server scenario.servers=20 scenario.duration_s=60",
            ),
            (
                "run model=mlp --host http://localhost:8000",
                "run model=http model.url=http://localhost:8000 "
                "'model.inputs={x: {shape: [batch_size, 16], generator: normal}}'",
            ),
            ("run --onnx=some.onnx --fp16", "script some.onnx 'conversion=[eager,fp16]'"),
            (
                "plan model=mlp model.inputs.input.generator=randn",
                "plan model=mlp model.inputs.input.generator=normal",
            ),
        ],
    ),
)
def test_other_tools_lines_are_answered_with_ours(
    line: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = line.split()
    assert corrections.next_line(words, refused(words)) == f"benchorch {meant}"


@pytest.mark.parametrize(
    ("line", "meant"),
    one_in(
        3,
        [
            ("model=bert-base-uncased", "model=bert"),
            ("model=mlp conversion=torch.compile", "model=mlp conversion=inductor"),
            (
                "model=mlp conversion=[eager,torch.compile]",
                "model=mlp 'conversion=[eager,inductor]'",
            ),
            ("model=mlp conversion=all", "model=mlp"),
            (
                "model=mlp conversion=[eager onnxruntime]",
                "run model=mlp 'conversion=[eager,onnxruntime]'",
            ),
            ("model=mlp hardware=cpu", "model=mlp hardware=local"),
            ("model=mlp hardware=cuda:0", "model=mlp hardware=local_gpu"),
            ("model=mlp device=cuda:0", "model=mlp hardware=local_gpu"),
            ("model=mlp quick", "run model=mlp stopping=quick"),
            ("run ranker.py", "script ranker.py"),
            ("run ranker.py conversion=eager", "script ranker.py conversion=eager"),
            ("ranker.py:build", "init mine.yaml --module ranker.py:build --input x=batch_size,16"),
            ("ranker:build", "init mine.yaml --module ranker:build --input x=batch_size,16"),
            (
                "init --module ranker.py:build --input x=batch_size,4",
                "init mine.yaml --module ranker.py:build --input x=batch_size,4",
            ),
            (
                "init mine.yaml --module ranker.py:build --input batch_size,32:100",
                "init mine.yaml --module ranker.py:build --input x=batch_size,32:100",
            ),
            ("export last serving", "export last --output serving"),
            ("export --output serving", "export plan-two --output serving"),
            ("gate last", "gate --baseline 'last~1' --candidate last --max-regression 2%"),
            (
                "gate last~1 last --max-regression 5%",
                "gate --baseline 'last~1' --candidate last --max-regression 5%",
            ),
            ("compare last previous", "compare last plan-one"),
            ("history nosuch", "history plan-two"),
            ("history runs nosuch", "history runs plan-two"),
            ("history empty plan-one", "history plan-two plan-one"),
            ("history runs --metrc latency_ms/p50", "history runs --metric latency_ms/p50"),
            ("report --last", "report last"),
            ("rerun last --trial onnxruntime", "rerun last --only onnxruntime"),
            ("analyze last", "run recipes/tiny.yaml profile=winner"),
        ],
    ),
)
def test_a_line_of_the_first_hour_is_answered_with_what_was_typed_and_meant(
    line: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("ranker.py").write_text("def build(hidden=16): ...\n")
    Path("empty").mkdir()
    eager = trial()
    for name in ("one", "two"):
        remember(f"plan-{name}", write_run(tmp_path / "runs" / name, (eager, result(eager))))
    words = line.split(" ")
    assert corrections.next_line(words, refused(words)) == f"benchorch {meant}"


REFUSED = """\
plan model=mlp budget.minutes=2min
plan model=mlp limits.memory_gib=8GB
plan model=mlp budget.max_usd=-3
plan model=mlp budget.max_usd=0
plan model=mlp budget.max_usd=cheap
plan model=mlp stopping.window_s=100ms
plan model=mlp stopping=quick stopping.window_s=100ms
plan model=mlp scenario.rate_per_s=200
plan model=mlp conversion=onnxruntime+bf16
plan model=mlp conversion=eager,onnxruntime+bf16 -m
plan model=mlp,model=bert
plan model=mlp budget.max_usd=$5
plan --trust model=mlp
plan model=mlp --trust nosuch.py
plan --check
plan model=mlp --check
plan model=mlp --output folder
plan model=mlp --output ranker.py/p.json
plan model=mlp --output
plan model=mlp --quiet --verbose
plan model=mlp nonsense
plan model=mlp nonsense other
plan nosuch.yaml
plan folder.yaml
plan folder
plan model=factory
run --only nosuch model=mlp
plan model=mlp --only nosuch
init new.yaml
init new.yaml --yes
init mine.yaml --yes
init new.yml --module ranker.py:build --input x=4 --yes
init config.yaml --module ranker.py:build --input x=4 --yes
init new.yaml --module ranker.py:build --input x --yes
init new.yaml --input x=batch_size,16 --yes
init new.yaml --module ranker.py:biuld --input y=batch_size,32 --yes
init new.yaml --module nosuch.py:build --input y=batch_size,32 --yes
init model=mlp
analyze nosuch.json
script nosuch.py
cancel
cancel nosuch
report
report nosuch
open nosuch
export nosuch
logs nosuch
rerun nosuch --failed
compare nosuch
gate
check nosuch
cache nosuch
help nosuch
completion
conversions nosuch
backends nosuch
submit
resume
nosuch
model=mlp workload.batch_size=99999999999999999999x
"""
KEPT = {
    "plan model=mlp budget.minutes=2min": "budget.minutes=2",
    "plan model=mlp limits.memory_gib=8GB": "limits.memory_gib=8",
    "plan model=mlp budget.max_usd=-3": "budget.max_usd=3",
    "plan model=mlp budget.max_usd=0": "budget.max_usd=1",
    "plan model=mlp budget.max_usd=$5": "budget.max_usd=5",
    "plan model=mlp,model=bert": "model=[mlp,bert]",
    "plan model=mlp stopping=quick stopping.window_s=100ms": "stopping.window_s=0.1",
    "plan model=mlp scenario.rate_per_s=200": "scenario=server",
    "plan model=mlp conversion=onnxruntime+bf16": "conversion=bf16+onnxruntime",
    "plan model=mlp --output folder": "--output folder/result.txt",
    "run --only nosuch model=mlp": "--only eager",
    "cancel nosuch": "benchorch status",
    "init new.yaml --module ranker.py:biuld --input y=batch_size,32 --yes": (
        "init new.yaml --module ranker.py:build --input y=batch_size,32 --yes"
    ),
    "init new.yaml --module nosuch.py:build --input y=batch_size,32 --yes": (
        "--input y=batch_size,32 --yes"
    ),
}
"""What the line to type next must hold of what was typed."""


@pytest.mark.parametrize("line", one_in(6, REFUSED.splitlines()))
def test_the_line_to_type_next_is_neither_refused_nor_the_same_nor_only_help(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("ranker.py").write_text("def build(hidden=16): ...\n")
    Path("mine.yaml").write_text(f"{START}matrix: {{conversion: [eager]}}\n")
    for folder in ("folder", "folder.yaml"):
        Path(folder).mkdir()
    typed = shlex.split(line)
    meant = corrections.next_line(typed, refused(typed))
    words = shlex.split(meant)
    assert words[0] == "benchorch"
    assert words[1:] != typed
    assert "--help" not in words
    assert KEPT.get(line, "") in meant
    if words[1] == "script":  # which would run it
        assert Path(words[2]).is_file()
        return
    begins = words[1] in {"run", "submit"}  # which would measure, and a submitted run goes on
    measures = begins or "=" in words[1] or words[1].endswith(".yaml")
    assert main.run(["plan", *words[1 + begins :]] if measures else words[1:]) == 0


def test_without_a_run_a_recipe_of_the_folder_is_the_one_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("compose.yaml").write_text("services: {web: {}}\n")
    Path("own.yaml").write_text(f"{START}matrix: {{conversion: [eager]}}\n")
    words = ["report", "last"]
    assert corrections.next_line(words, refused(words)) == "benchorch run own.yaml"


def benchorch(words: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    line = f"{shlex.quote(sys.executable)} -m benchorch {words}"
    return subprocess.run(
        ["/bin/sh", "-c", f"{shell}{line}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "shell", "code", "told"),
    [
        ("init new.yaml <&-", "", 2, "--module: is missing"),
        ("version >&-", "", 0, ""),
        ("version", "mkdir gone; cd gone; rmdir ../gone; ", 1, "current folder was removed"),
    ],
)
def test_closed_streams_and_a_removed_folder_are_no_tracebacks(
    words: str, shell: str, code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = benchorch(words, shell)
    assert "Traceback" not in done.stderr
    assert told in done.stderr
    assert done.returncode == code


def test_init_prompts_at_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = benchorch("init new.yaml", "printf 'n\\n' | ")
    assert done.stdout == ""
    assert done.returncode == 2


def test_the_recipe_that_init_writes_names_a_line_that_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ranker.py").write_text("def build(hidden=16): ...\n")
    words = [
        "init",
        "mine.yaml",
        "--module",
        "ranker.py:build",
        "--input",
        "x=batch_size,16",
        "--yes",
    ]
    assert main.run(words) == 0
    line = Path("mine.yaml").read_text().partition("\n")[0].removeprefix("# benchorch ")
    assert main.run(["plan", *line.split()]) == 0
    bare = ["plan", "mine.yaml"]
    meant = corrections.next_line(bare, refused(bare))
    assert main.run(shlex.split(meant)[1:]) == 0
    assert "--trust" in meant


@pytest.mark.parametrize("line", ["--json", "--help --json", "plan --help --json"])
def test_help_for_programs_is_json(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(line.split()) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_recipes_mistakes_in_chosen_options_and_its_tabs_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(f"{START}nmae: x\nstopping: {{window_ms: 3}}\n")
    told = str(refused(["plan", "r.yaml"]))
    assert "nmae: unknown key" in told
    assert "r.yaml:3:12: stopping.window_ms: unknown key" in told
    Path("tab.yaml").write_text(f"{START}workload:\n\tbatch_size: 2\n")
    assert "a tab; YAML indents with spaces" in str(refused(["plan", "tab.yaml"]))


def test_a_run_is_never_offered_for_a_comparison_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("a.json").write_text("{}")
    words = shlex.split("gate --baseline a.json --max-regression 2%")
    eager = trial()
    for name in ("one", "two"):
        remember(f"plan-{name}", write_run(tmp_path / name, (eager, result(eager))))
        meant = corrections.next_line(words, refused(words))
        if name == "one":
            assert meant == "benchorch run recipes/tiny.yaml"
            compared = shlex.split("compare nosuch other")
            assert "plan-one plan-one" not in corrections.next_line(compared, refused(compared))
    assert meant.startswith("benchorch gate --baseline plan-one --candidate plan-two")


def test_a_folder_to_export_to_that_is_full_is_answered_with_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("serving", "serving1"):
        Path(folder).mkdir()
        Path(folder, "mine").touch()
    Path("serving2").mkdir()  # an empty one will do
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    eager = trial()
    remember("plan-one", write_run(tmp_path / "one", (eager, result(eager))))
    words = ["export", "last", "--output", "serving"]
    assert corrections.next_line(words, refused(words)) == "benchorch export last --output serving2"


@pytest.mark.parametrize("line", ["export RUN --output served", "resume RUN"])
def test_a_strangers_run_is_answered_with_the_line_that_trusts_it(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    eager = trial()
    run = write_run(tmp_path / "run", (eager, result(eager)))
    words = line.replace("RUN", str(run)).split()
    meant = corrections.next_line(words, refused(words))
    assert meant == shlex.join(["benchorch", *words, "--trust", str(run)])


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("export old", "export old --output winner"),
        ("export old:eager --output served", "report old"),
        ("compare old older", "report old older"),
        ("compare old", "compare old plan-new"),
        ("rerun old", "rerun old --failed"),
        ("report old", "status"),
        ("check", "check plan-new"),
    ],
)
def test_an_answer_stays_with_the_runs_that_were_named(
    line: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    eager = trial()
    for name in ("older", "old", "new"):
        remember(f"plan-{name}", write_run(tmp_path / name, (eager, result(eager))))
    found = corrections.next_line(line.split(), ConfigError(["It cannot be had."]))
    assert found == f"benchorch {meant}"

"""``benchorch script`` from the command line: whatever a script does, and nothing is left of it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from benchorch.units import format_seconds
from support.waiting import until

SCRIPTS = Path(__file__).resolve().parents[1] / "data" / "scripts"
BAD = SCRIPTS / "bad"
TOP = str(SCRIPTS / "good" / "top_level.py")
FAST = (
    *("stopping=fixed", "profiler=none", "stopping.processes=1", "stopping.calls=5"),
    *("stopping.window_s=0.01", "recorder=none", "protocol.pair_window_s=0.01"),
    *("protocol.pin=false", "protocol.canary_tolerance_ratio=null"),
)


def analyzed(place, *words, code=0):
    return json.loads(place.run("script", "--json", *words, code=code).stdout)


def running(word):
    """Whether any process has this word on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.ray_cluster
def test_scripts_are_looked_at_on_the_nodes_of_a_cluster(place):
    here = analyzed(place, TOP)
    done = place.run("script", "--json", TOP, str(BAD / "raises.py"), "executor=ray", code=1)
    there = json.loads(done.stdout)
    assert "running 2 scripts on the executor's nodes" in done.stderr
    assert [each["hash"] for each in there["models"]] == [each["hash"] for each in here["models"]]
    assert [each["ended"] for each in there["scripts"]] == ["end", "error"]


WORDS = {
    "raises": "it raised RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "raises_late": "it raised ValueError: no more data (raises_late.py, line",
    "exits": "it ended itself with the words 'no licence'",
    "exits_hard": "its process ended with exit code 3 before the script did",
    "reads_input": "it reads standard input, which is empty here",
    "needs_arguments": "give them after ::",
    "no_model": "it called no torch.nn.Module",
    "never_calls": "it made Linear but never called it",
    "only_operators": "only torch's own operators without parameters: ReLU",
    "missing_package": "it imports a_package_that_nobody_has, which is not installed",
    "other_framework": "it needs TensorFlow, which is not benchmarked",
}
ENDLESS = """
import torch, time
net = torch.nn.Linear(3, 3)
net(torch.ones(1, 3))
while True:
    time.sleep(0.05)
"""
OF_EACH_KIND = ("raises_late", "exits_hard")
"""An error, and an end of the process."""


@pytest.mark.parametrize(
    "names", [OF_EACH_KIND, pytest.param(tuple(WORDS), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_each_script_that_goes_wrong_is_told_in_one_report_and_the_others_go_on(place, names):
    """One of them forks: its child does not report in its place."""
    (place.path / "not_python.py").write_text("#!/bin/sh\nif [ 1 ]; then echo hello; fi\n")
    (place.path / "broken.pt2").write_text("nothing")
    scripts = [str(BAD / f"{name}.py") for name in (*names, "forks")]
    no_scripts = ("not_python.py", "nowhere.py", ".", "broken.pt2")
    done = place.run("script", *scripts, *no_scripts, TOP, "--analyze-only", code=1)
    blocks = {block.partition(".py:")[0]: block for block in done.stdout.split("\n\n")}
    for name in names:
        assert WORDS[name] in blocks[name], blocks[name]
    assert "it is not Python: invalid syntax, line 2" in done.stdout
    assert "it does not exist" in done.stdout
    assert "it is a folder" in done.stdout
    assert "it is no file that torch.export.save wrote" in done.stdout
    assert "(1 call, " in blocks["forks"]
    assert "top_level.py: 1 model" in done.stdout
    assert f"{len(names) + 6} scripts, 3 models; problems in {names[0]}.py" in done.stdout


def test_a_script_that_never_ends_is_ended_with_all_it_started(place):
    seconds = f"613.{os.getpid()}"  # no other sleep of this machine has them
    for limit_s in (4, 60, 300):  # on a loaded machine it takes longer to begin
        words = ("--analyze-only", "--timeout", str(limit_s), "::", seconds)
        done = place.run("script", str(BAD / "loops.py"), *words, code=1)
        limit = f"it did not end within {format_seconds(limit_s)}"
        assert f"{limit} (--timeout gives it longer; it ran in a" in done.stdout
        (log,) = place.path.glob("state/benchorch/scripts/loops-*/log.txt")
        if "started" in log.read_text():
            break
    assert "started" in log.read_text()
    assert until(lambda: not running(seconds.encode()), 300)


@pytest.mark.slow
def test_an_interrupt_ends_an_endless_script_and_its_models_are_measured(place):
    (place.path / "endless.py").write_text(ENDLESS)
    command = place.command("script", "endless.py", "conversion=eager", *FAST)
    running = subprocess.Popen(
        command,
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the interrupt goes to all of it, as a terminal's does
    )
    lines = iter(running.stderr.readline, "")
    assert any("net (Linear" in line for line in lines)
    os.killpg(running.pid, signal.SIGINT)
    said, rest = running.communicate(timeout=300)
    assert running.returncode == 0, said + rest
    assert "going on with what was found so far" in rest
    assert "ended early: interrupted" in said
    assert "endless.py:net" in said


def test_a_wrong_request_runs_nothing(place):
    told = place.run("script", TOP, "model=bert", "--timeout", "0", code=2).stderr
    assert "the models are those of the script" in told
    assert "--timeout: expected seconds above 0" in told


@pytest.mark.slow
def test_several_hashes_select_models_and_calls(place):
    script = str(SCRIPTS / "good" / "gan.py")
    models = analyzed(place, script)["models"]
    chosen = [models[0]["hash"], models[1]["invocations"][1]["hash"]]
    some = analyzed(place, f"{script}::{','.join(chosen)}")["models"]
    assert [len(model["invocations"]) for model in some] == [1, 1]


def test_a_hash_selects_and_what_is_not_there_is_told(place):
    found = analyzed(place, f"{TOP}::cd181ac1", f"{TOP}::deadbeef", code=1)
    assert [len(model["invocations"]) for model in found["models"]] == [1]
    problem = found["scripts"][1]["problem"]
    assert "it has no model or call deadbeef" in problem["message"]
    assert "--analyze-only shows the hashes" in problem["remedy"]


@pytest.mark.slow
def test_a_name_selects_parts(place):
    (model,) = analyzed(place, str(SCRIPTS / "good" / "gan.py"), "--name", "judge.*")["models"]
    assert model["name"] == "judge.layer"


@pytest.mark.slow
def test_levels_below_are_shown_where_they_are_asked_for(place):
    models = analyzed(place, str(SCRIPTS / "good" / "gan.py"), "--max-depth", "1")["models"]
    assert {model["depth"] for model in models} == {0, 1}


@pytest.mark.slow
def test_arguments_in_quotes_go_to_the_script_too(place):
    script = str(SCRIPTS / "good" / "arguments.py")
    (model,) = analyzed(place, script, "--script-args", "--rows 3")["models"]
    assert model["invocations"][0]["inputs"][0]["shape"] == [3, 4]


def test_programs_get_an_object_with_models_and_their_invocations(place):
    """Of all scripts that fit a pattern, with arguments, whose first lines are read."""
    text = (SCRIPTS / "good" / "arguments.py").read_text().partition("\n")[2]
    for name in ("one", "two"):
        (place.path / f"{name}.py").write_text(f"# labels: name::{name} author::me,you\n{text}")
    model, other = analyzed(place, "[ot][nw][eo].py", "::", "--rows", "3")["models"]
    assert Path(other["script"]).name == "two.py"
    assert model["labels"] == {"name": ["one"], "author": ["me", "you"]}
    assert model["file"] == str(place.path / "one.py")
    (call,) = model["invocations"]
    assert [each["shape"] for each in call["inputs"]] == [[3, 4]]


@pytest.mark.slow
def test_what_is_found_is_built_once_and_found_again(place):
    words = ("script", TOP, "--build-only", "conversion=[eager,onnxruntime]", "recorder=none")
    first, second = place.run(*words).stdout, place.run(*words).stdout
    assert "eager / local: leaves no files" in first
    assert "onnxruntime / local: " in first
    assert "onnxruntime / local: cached" in second


def test_one_command_turns_an_unmodified_script_into_a_table(place):
    """Trials in the command's own process, for none of theirs is looked at."""
    (place.path / "mine.py").write_text(
        f"# labels: name::tiny author::me,you task::toys\n{Path(TOP).read_text()}"
        "\nopen('ran.txt', 'a').write('once')\n"
    )
    words = ("conversion=[eager,bf16]", f"hydra.run.dir={place.path / 'run'}")
    quick = (*FAST, "protocol.pairing=none", "executor=inline")
    done = place.run("script", "mine.py", *quick, *words)
    assert "mine.py: 1 model" in done.stdout
    assert (place.path / "ran.txt").read_text() == "once"
    results = place.results(place.path / "run")
    assert {result["labels"]["conversion"] for result in results} == {"eager", "bf16"}
    assert {result["outcome"] for result in results} == {"ok"}
    assert all(result["parity"]["passed"] for result in results)
    place.run("report", "run", "--output", "report.csv")
    with (place.path / "report.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["author"], row["task"], row["model_class"]) for row in rows} == {
        ("me/you", "toys", "Net")
    }


MAKE_MODELS = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
x = torch.ones(2, 4)
torch.export.save(torch.export.export(net, (x,)), 'net.pt2')
torch.onnx.export(net, (x,), 'net.onnx', dynamo=True, verbose=False, external_data=False)
"""


@pytest.mark.slow
def test_files_that_are_models_are_benchmarked_like_scripts(place):
    (place.path / "export.py").write_text(MAKE_MODELS)
    place.run("script", "export.py", "--analyze-only", code=1)  # it calls no model itself
    words = ("conversion=[eager,onnxruntime,export]", f"hydra.run.dir={place.path / 'run'}")
    done = place.run("script", "net.onnx", "net.pt2", TOP, "--allow-skips", *FAST, *words)
    results = place.results(place.path / "run")
    ran = {(r["labels"]["model"], r["labels"]["conversion"]) for r in results}
    names, chains = ("net.pt2:net", "top_level.py:net"), ("eager", "onnxruntime", "export")
    graph = {("net.onnx:net", conversion) for conversion in chains[:2]}
    assert ran == {*graph, *((name, chain) for name in names for chain in chains)}
    assert len(results) == 8
    assert {result["outcome"] for result in results} == {"ok"}
    assert all(result["parity"]["passed"] for result in results)
    assert "this model provides onnx and callable" in done.stdout


@pytest.mark.slow
def test_each_line_of_mlagilitys_guide_has_one_that_works_here(place):
    """What its user guide prints, in its order; docs/guides/scripts.md has the table."""
    (place.path / "example.py").write_text(Path(TOP).read_text())
    store = f"store.root={place.path / 'cache'}"
    onnx = ("conversion=onnxruntime", "hardware=local", *FAST)
    assert "✓" in place.run("script", "example.py", *onnx, store).stdout
    (model,) = analyzed(place, "exam*.py", "--max-depth", "0")["models"]
    chosen = f"example.py::{model['hash']},{model['invocations'][0]['hash']}"
    for rebuild in ("always", "if_needed", "never"):
        built = place.run("script", chosen, "--build-only", *onnx, store, f"rebuild={rebuild}")
        assert "onnxruntime / local: " in built.stdout
    assert "onnx" in place.run("cache", "list", store).stdout
    assert "onnx" in place.run("cache", "report", store).stdout
    place.run("cache", "delete", "--all", "--yes", store)
    assert "onnx" not in place.run("cache", "list", store).stdout
    assert place.run("version").stdout.strip()

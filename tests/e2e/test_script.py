"""``benchorch script`` from the command line: whatever a script does, and nothing is left of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
BAD = SCRIPTS / "bad"
TOP = str(SCRIPTS / "good" / "top_level.py")


def analyzed(place, *words, code=0):
    return json.loads(place.run("script", *words, "--json", code=code).stdout)


def running(word):
    """Whether any process has this word on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


WORDS = {
    "raises": "it raised RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "raises_late": "it raised ValueError: no more data (raises_late.py, line",
    "exits": "it ended itself with the words 'no licence'",
    "exits_hard": "it ended its own process with exit code 3",
    "reads_input": "it reads standard input, which is empty here",
    "needs_arguments": "give them after ::",
    "no_model": "it called no torch.nn.Module",
    "never_calls": "it made Linear but never called it",
    "only_operators": "only torch's own operators without parameters: ReLU",
    "missing_package": "it imports a_package_that_nobody_has, which is not installed",
    "other_framework": "it needs TensorFlow, which is not benchmarked",
}


def test_each_script_that_goes_wrong_is_told_in_one_report_and_the_others_go_on(place):
    scripts = [str(BAD / f"{name}.py") for name in WORDS]
    done = place.run("script", *scripts, TOP, "--analyze-only", code=1)
    blocks = {block.partition(".py:")[0]: block for block in done.stdout.split("\n\n")}
    for name, words in WORDS.items():
        assert words in blocks[name], blocks[name]
    assert "top_level.py: 1 model" in done.stdout
    assert f"{len(WORDS) + 1} scripts, 2 models; problems in raises.py" in done.stdout


def test_a_script_that_never_ends_is_ended_with_all_it_started(place):
    done = place.run("script", str(BAD / "loops.py"), "--analyze-only", "--timeout", "6", code=1)
    assert "it did not end within 6.0 s (--timeout gives it longer)" in done.stdout
    deadline = time.monotonic() + 5
    while running(b"613") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(b"613")


def test_a_child_that_a_script_forks_does_not_report_in_its_place(place):
    found = analyzed(place, str(BAD / "forks.py"))
    assert [model["calls"] for model in found["models"]] == [1]


def test_what_is_no_script_is_told_before_anything_runs(place):
    (place.path / "not_python.py").write_text("#!/bin/sh\nif [ 1 ]; then echo hello; fi\n")
    (place.path / "broken.pt2").write_text("nothing")
    done = place.run("script", "not_python.py", "nowhere.py", ".", "broken.pt2", code=1)
    assert "it is not Python: invalid syntax, line 2" in done.stdout
    assert "it does not exist" in done.stdout
    assert "it is a folder" in done.stdout
    assert "it is no file that torch.export.save wrote" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name a script"),
        ((TOP, "model=bert"), "the models are those of the script"),
        (("*.nothing",), "no file fits '*.nothing'"),
        ((TOP, "--timeout", "0"), "--timeout is a number of seconds above 0"),
    ],
)
def test_a_wrong_request_runs_nothing(place, words, told):
    assert told in place.run("script", *words, code=2).stderr


def test_programs_get_an_object_with_models_and_their_invocations(place):
    (place.path / "mine.py").write_text(
        f"# labels: name::tiny author::me,you\n{Path(TOP).read_text()}"
    )
    (model,) = analyzed(place, "mine.py")["models"]
    assert model["name"] == "net"
    assert model["labels"] == {"name": ["tiny"], "author": ["me", "you"]}
    assert (model["class"], model["file"]) == ("__main__.Net", str(place.path / "mine.py"))
    (call,) = model["invocations"]
    assert call["inputs"] == [{"name": "x", "shape": [2, 4], "dtype": "float32"}]


def test_arguments_go_to_the_script_either_way(place):
    script = str(SCRIPTS / "good" / "arguments.py")
    behind = place.run("script", script, "--json", "::", "--rows", "3").stdout
    quoted = place.run("script", script, "--json", "--script-args", "--rows 3").stdout
    for text in (behind, quoted):
        (model,) = json.loads(text)["models"]
        assert model["invocations"][0]["inputs"][0]["shape"] == [3, 4]


def test_a_hash_or_a_name_selects(place):
    script = str(SCRIPTS / "good" / "gan.py")
    models = analyzed(place, script)["models"]
    chosen = [models[0]["hash"], models[1]["invocations"][1]["hash"]]
    some = analyzed(place, f"{script}::{','.join(chosen)}")["models"]
    assert [len(model["invocations"]) for model in some] == [1, 1]
    parts = analyzed(place, script, "--name", "judge.*")["models"]
    assert [model["name"] for model in parts] == ["judge.layer"]
    done = place.run("script", f"{script}::deadbeef", "--analyze-only", code=1)
    assert "it has no model or call deadbeef (--analyze-only shows the hashes" in done.stdout


def test_a_pattern_the_shell_left_alone_names_scripts(place):
    for name in ("one.py", "two.py"):
        (place.path / name).write_text(Path(TOP).read_text())
    found = analyzed(place, "[ot][nw]?.py")
    assert {Path(m["script"]).name for m in found["models"]} == {"one.py", "two.py"}


@pytest.mark.slow
def test_what_is_found_is_built_once_and_found_again(place):
    words = ("script", TOP, "--build-only", "conversion=[eager,onnxruntime]", "tracking=none")
    first, second = place.run(*words).stdout, place.run(*words).stdout
    assert "eager / local: leaves no files" in first
    assert "onnxruntime / local: " in first
    assert "onnxruntime / local: found in the store" in second


def test_one_command_turns_an_unmodified_script_into_a_table(place):
    done = place.run(
        *("script", TOP, "conversion=[eager,onnxruntime]", "stopping=fixed", "profiler=none"),
        *("stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.01", "tracking=none"),
        *("protocol.pair_window_s=0.01", f"hydra.run.dir={place.path / 'run'}"),
        "protocol.pin=false",
    )
    assert "top_level.py: 1 model" in done.stdout
    results = place.results(place.path / "run")
    assert {result["labels"]["conversion"] for result in results} == {"eager", "onnxruntime"}
    assert {result["outcome"] for result in results} == {"ok"}
    assert all(result["parity"]["passed"] for result in results)


@pytest.mark.slow
def test_an_exported_program_is_looked_at_like_a_script(place):
    (place.path / "export.py").write_text(
        Path(TOP).read_text()
        + "torch.export.save(torch.export.export(net, (torch.ones(2, 4),)), 'net.pt2')\n"
    )
    place.run("script", "export.py", "--analyze-only")
    (model,) = analyzed(place, str(place.path / "net.pt2"))["models"]
    assert model["parameters"] == 15

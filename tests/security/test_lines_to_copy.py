"""Lines that a command prints to be typed next: names of a stranger's files start nothing there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command_lines import Commands
from support.slices import one_in
from support.synthetic_runs import result, trial, write_run

HEAD = "defaults: [config, override model: mlp, override recorder: none, _self_]\n"
NAMES = (
    *(
        "a;touch marker;",
        "$(touch marker)",
        "`touch marker`",
        "a'b",
        'a"b',
        "a|touch marker|",
        "a b",
    ),
    *("a&touch marker&", "a>marker", "#a", "*", "~", "a\\b", "{a,b}", "a$HOME", "!a"),
)
_LINE = re.compile(
    r"(?:^|[:>] |  |`)((?:[A-Z_]+=\S+ )?(?:python -m )?benchorch [^`\n]*?)(?:`|\.?$)", re.M
)


def lines(output: str) -> list[str]:
    """Every command that a text names, as somebody would copy it."""
    return [found[1] for found in _LINE.finditer(output)]


def typed(line: str, folder: Path) -> None:
    """Give a line to a shell in which our programs do nothing."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("benchorch", "python"):
        (programs / name).write_text("#!/bin/sh\nexit 0\n")
        (programs / name).chmod(0o755)
    subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder.parent)},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_the_lines_are_found() -> None:
    text = "Try: benchorch plan x.yaml\n  results   y\n  report    python -m benchorch report p\n"
    assert lines(text) == ["benchorch plan x.yaml", "python -m benchorch report p"]


@pytest.mark.parametrize("name", one_in(8, NAMES))
def test_the_name_of_a_recipe_starts_nothing(name: str, commands: Commands, folder: Path) -> None:
    recipe = f"{name}.yaml"
    (folder / recipe).write_text(f"{HEAD}nmae: x\n")
    found: list[str] = []
    for words in (
        ["plan", recipe],
        ["plan", recipe, "--model", "mlp"],
        ["plan", recipe, "conversion=inductr"],
        ["plan", recipe[:-5]],
        ["run", recipe, recipe],
        ["plan", recipe, "store.root=/x"],
    ):
        done = commands.run(folder, words)
        found += lines(done.output)
    assert found
    for line in dict.fromkeys(found):
        typed(line, folder)
        assert not (folder / "marker").exists(), line


@pytest.mark.parametrize("name", one_in(16, NAMES))
def test_the_folder_of_a_run_starts_nothing(
    name: str, commands: Commands, folder: Path, tmp_path: Path
) -> None:
    eager = trial()
    fast = trial("fast", baseline=eager)
    run = write_run(folder / name, (eager, result(eager)), (fast, result(fast)))
    other = folder / f"{name}2"
    shutil.copytree(run, other)
    (other / "results.jsonl").write_text("garbage\n")
    found: list[str] = []
    for command in ("report", "status", "resume", "check", "logs", "reproduce", "record", "export"):
        for place in (str(run), f"./{other.name}"):
            found += lines(commands.run(folder, [command, place]).output)
    assert found
    for line in dict.fromkeys(found):
        typed(line, folder)
        assert not (folder / "marker").exists(), line

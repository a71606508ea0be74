"""Which words are the script's own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import click
import pytest

from benchorch.cli import main
from benchorch.cli.commands import script
from benchorch.cli.commands.script import Options, Prepared, _Script, parse
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from support.synthetic_runs import trial, write_run

OPTIONS = Options(
    allow_skips=False,
    analyze_only=False,
    build_only=False,
    sandbox=None,
    max_depth=0,
    labels=(),
    name="",
    script_args="",
    until_quiet=None,
    first=False,
    jobs=1,
    no_capture=False,
    resume=False,
    timeout=600,
)


def taken_apart(line: str) -> tuple[list[str], tuple[str, ...]]:
    """The words of the command and those of the script."""
    arguments = [click.Argument(["words"], nargs=-1), click.Option(["--first"], is_flag=True)]
    command = _Script("script", params=arguments)
    context = click.Context(command)
    command.parse_args(context, line.split())
    return list(context.params["words"]), context.meta["::"]


@pytest.mark.parametrize(
    ("line", "own", "of_the_script"),
    [
        ("a.py :: --rows 3", ["a.py"], ("--rows", "3")),
        ("a.py:: --rows 3", ["a.py"], ("--rows", "3")),
        ("a.py ::--rows 3", ["a.py"], ("--rows", "3")),
        ("a.py::--rows 3", ["a.py"], ("--rows", "3")),
        ("a.py::12ab,34cd b.py :: -v", ["a.py::12ab,34cd", "b.py"], ("-v",)),
        ("a.py :: x::-y :: z", ["a.py"], ("x::-y", "::", "z")),
        ("a.py --first ::", ["a.py"], ()),
        ("a.py::12ab", ["a.py::12ab"], ()),
    ],
)
def test_arguments_of_the_script_follow_two_colons(
    line: str, own: list[str], of_the_script: tuple[str, ...]
) -> None:
    assert taken_apart(line) == (own, of_the_script)


def test_shared_options_before_the_command_are_not_the_scripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def invoke(_: _Script, ctx: click.Context) -> int:
        seen.extend([ctx.meta["::"], ctx.params["as_json"]])
        return 0

    monkeypatch.setattr(_Script, "invoke", invoke)
    assert main.run(["--json", "--quiet", "script", "a.py", "::", "--rows", "3"]) == 0
    assert seen == [("--rows", "3"), True]


def test_arguments_before_the_colons_come_with_the_line_that_has_them_behind() -> None:
    words = ["a.py", "stopping=quick", "--rows", "3"]
    with pytest.raises(ConfigError, match="Arguments of the script follow ' :: '") as caught:
        parse(words, (), OPTIONS)
    assert caught.value.next == "benchorch script a.py stopping=quick :: --rows 3"


def test_arguments_with_an_open_quote_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.touch()
    with pytest.raises(ConfigError, match=r"--script-args: .*No closing quotation"):
        parse([str(path)], (), replace(OPTIONS, script_args="it's"))


@pytest.mark.parametrize(
    ("terminal", "is_measured"),
    [(Terminal(as_json=True), False), (Terminal(output=Path("result.json")), True)],
)
def test_a_reply_for_programs_measures_nothing_and_a_file_of_json_is_the_runs(
    terminal: Terminal, is_measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(Exception):
        pass

    def discovery(*, keep: bool, **_: object) -> None:
        raise Begun(keep)

    monkeypatch.setattr(script, "Discovery", discovery)
    (tmp_path / "a.py").touch()
    with pytest.raises(Begun) as begun:
        script.prepare([str(tmp_path / "a.py")], (), OPTIONS, terminal)
    assert begun.value.args == (is_measured,)


def test_scripts_that_are_interrupted_before_the_first_result_have_no_corpus_report(
    tmp_path: Path,
) -> None:
    directory = write_run(tmp_path / "run", (trial(), None))
    prepared = Prepared(reply=Reply(text="", data=None), directory=directory)
    assert prepared.corpus(complete=False) == ""


def test_each_choice_among_the_calls_of_a_script_has_a_log_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.touch()
    scripts, _ = parse([str(path), f"{path}::12ab", f"{path}::34cd"], (), OPTIONS)
    assert len({script.log for script in scripts}) == 3


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("option", ["until_quiet", "timeout"])
def test_a_limit_is_a_number_of_seconds_above_0(option: str, seconds: float) -> None:
    name = f"--{option.replace('_', '-')}"
    with pytest.raises(ConfigError, match=f"{name}: expected seconds above 0"):
        parse(["a.py"], (), replace(OPTIONS, **{option: seconds}))

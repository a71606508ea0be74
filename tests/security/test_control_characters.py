"""No name makes a terminal do anything, wherever it comes from."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.cli.terminal import Terminal, print_err, print_error, print_out
from benchorch.config.composer import Composer, config_loader
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, ExecutorError
from benchorch.formatting import printable
from benchorch.frontends.scripts.discover import Script
from benchorch.results.report.console import ConsoleReport
from benchorch.run.planner import plan_jobs

EVIL = "\x1b]0;PWN\x07\x1b[2Jname\x9b31m\u202e"


def assert_obeyed_nowhere(text: str) -> None:
    assert "name" in text
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)


def test_lines_and_tabs_stay_and_the_rest_is_written_out() -> None:
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable("\x1b[31mred") == "\\x1b[31mred"
    assert printable("é 漢 ✓ µs") == "é 漢 ✓ µs"


def test_what_the_commands_print(capsys: pytest.CaptureFixture[str]) -> None:
    print_out(EVIL)
    print_err(EVIL)
    print_error(ConfigError([EVIL]))
    print_error(ExecutorError(EVIL))
    Terminal().reply(Reply(text=EVIL, data=EVIL))
    Terminal(as_json=True).reply(Reply(text=EVIL, data=EVIL))
    done = capsys.readouterr()
    assert_obeyed_nowhere(done.out)
    assert_obeyed_nowhere(done.err)


def test_colours_of_our_own_stay(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().reply(Reply(text="\x1b[31mred\x1b[0m\x1b[2J", data=None, is_coloured=True))
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\\x1b[2J\n"
    Terminal().reply(Reply(text="\x1b[8mhidden", data=None))
    assert capsys.readouterr().out == "\\x1b[8mhidden\n"


def test_what_the_report_prints() -> None:
    from rich.console import Console

    stream = io.StringIO()
    ConsoleReport(Console(file=stream)).text(EVIL)
    assert_obeyed_nowhere(stream.getvalue())


@pytest.mark.parametrize(
    "line", ['name: "a\\e]0;PWN\\a"', 'name: "a\\nssh-rsa b\\n"', 'baseline: "\\e[2J"']
)
def test_a_recipe_with_such_a_name_is_refused(tmp_path: Path, line: str) -> None:
    head = (
        "defaults:\n  - config\n  - override model: mlp\n  - override conversion: eager\n  - _self_"
    )
    (tmp_path / "evil.yaml").write_text(f"{head}\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        plan_jobs(Composer(config_loader([tmp_path]), "evil"), [[]], "p")
    assert refused.value.problems


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_an_output_cannot_encode_is_written_out(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchorch", b"report", b"./\xff\xc3\xa9"],
        env={**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"\\udcff" in done.stderr


def test_a_script_whose_name_is_no_text_has_a_folder() -> None:
    folder = Script(path=Path(os.fsdecode(b"\xff.py"))).folder
    assert folder.name.startswith("\udcff-")

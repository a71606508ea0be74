"""Stored screens: a run's table at a terminal of three widths and in a pipe, looked at by a person.

A terminal's width is that of a real pseudo-terminal, not of a variable.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchorch.cli import main
from benchorch.cli.catalog import COMMANDS
from benchorch.domain.trial import Skip
from benchorch.journal.registry import remember
from support.command_lines import Commands
from support.synthetic_runs import result, trial, write_run

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "golden"
EAGER = trial()
FAST = trial("fast", baseline=EAGER)
SKIP = Skip(labels={"model": "mlp", "conversion": "trt"}, reason="needs a GPU.")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(
        tmp_path_factory.mktemp("screens") / "run",
        (EAGER, result(EAGER)),
        (FAST, result(FAST, 5e5, baseline_ns=1e6, processes=8)),
        skips=(SKIP,),
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory that lists two runs, whose paths fit no screen."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("listed")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for name, nanoseconds in ("earlier", 5e5), ("later", 6e5):
            fast = (FAST, result(FAST, nanoseconds, baseline_ns=1e6, processes=8))
            directory = folder / ("long" * 30) / name
            write_run(directory, (EAGER, result(EAGER)), fast, plan_id=f"plan-{name}")
            remember(f"plan-{name}", directory)
        yield folder / "state"


def shown(
    commands: Commands, words: Sequence[str], width: int | None, state: Path | None = None
) -> str:
    """What a command prints before notes; None is a pipe."""
    environment = of_a_terminal(state)
    if width is None:
        done = commands.run(Path.cwd(), words, environment=environment)
        code, text = done.code, done.stdout
    else:
        code, text = at_terminal(commands, words, width, environment)
    assert code == 0, text
    assert width is None or max(map(len, text.splitlines())) <= width
    return text.partition("note ")[0].rstrip() + "\n"


def of_a_terminal(state: Path | None) -> dict[str, str]:
    """Variables without a width of their own, with the place of known runs."""
    plain = {key: text for key, text in os.environ.items() if key not in ("COLUMNS", "LINES")}
    known = {} if state is None else {"XDG_STATE_HOME": str(state)}
    return {**plain, "NO_COLOR": "1", **known}


def at_terminal(
    commands: Commands,
    words: Sequence[str],
    width: int,
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    typed: str = "",
) -> tuple[int, str]:
    """The exit code of a command at a terminal of this width, and what is there at its end."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    os.write(here, typed.encode())
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(_everything, here)
        try:
            name = os.ttyname(there)
            done = commands.run(cwd or Path.cwd(), words, environment=environment, terminal=name)
        finally:
            os.close(there)
    return done.code, text.result().replace("\r\n", "\n")


def _everything(terminal: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # as Linux ends a terminal whose last writer is gone
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts).decode()
        parts.append(part)


@pytest.mark.parametrize("width", [60, 80, 140, None])
def test_the_table_is_what_a_person_has_looked_at(
    commands: Commands, run: Path, width: int | None
) -> None:
    stored = GOLDEN / f"report-{width or 'piped'}.txt"
    assert shown(commands, ["report", str(run)], width) == stored.read_text()


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("words", ["status", "compare plan-earlier plan-later"])
def test_lists_and_comparisons_fit_the_terminal(
    commands: Commands, words: str, width: int, state: Path
) -> None:
    stored = GOLDEN / f"{words.partition(' ')[0]}-{width}.txt"
    assert shown(commands, words.split(), width, state) == stored.read_text()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_help_fits_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main.run([name, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    "words",
    [["backends"], ["conversions"], ["conversions", "onnxruntime"], ["help", "protocol"]],
    ids=" ".join,
)
def test_what_there_is_fits_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main.run(words) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


LONGEST_COMMAND = re.compile(r" *(?:\w+:? +)?(?:python -m )?(?:benchorch|cd|mv|pip) ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check plan-later", 0),
        ("history plan-earlier plan-later --output site", 0),
        ("gate --baseline plan-earlier --candidate plan-later --max-regression 2%", 1),
        ("plan model=mlp conversion=[eager,onnxruntime,tensorrt]", 0),
        ("open plan-later --no-browser", 0),
        ("help protocol", 0),
        ("help conversion", 0),
        ("conversions onnxruntime", 0),
        ("cache list", 0),
        ("logs plan-later", 2),
        ("report plan-nowhere", 2),
        ("plan model=mlp conversion=inductr workload.batchsize=8 stopping.proceses=3", 2),
        ("export plan-later:fast --output site", None),
    ],
)
def test_no_answer_is_cut_inside_a_word(
    commands: Commands, words: str, code: int | None, state: Path, tmp_path: Path
) -> None:
    environment = of_a_terminal(state)
    ended, text = at_terminal(commands, words.split(), 60, environment, cwd=tmp_path)
    assert code in (ended, None), text
    wide = [line for line in text.splitlines() if len(line) > 60 and len(line.split()) > 1]
    assert [line for line in wide if not LONGEST_COMMAND.match(line)] == []


def test_init_asks_at_a_terminal_and_writes_what_was_answered(
    commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "ranker.py").write_text("def build(): ...\n")
    answers = "ranker.py:build\nx=batch_size,16\n\neager\nn\n"
    environment = of_a_terminal(tmp_path / "state")
    words = ["init", "mine.yaml"]
    ended, text = at_terminal(commands, words, 80, environment, cwd=tmp_path, typed=answers)
    assert ended == 0, text
    asked = ("Module (", "Input (", "Next input (", "Conversions [", "Run it now? [y/N]: ")
    places = [text.index(question) for question in asked]
    assert places == sorted(places)
    assert "1 trial, 0 skips" in text
    assert "run it   benchorch mine.yaml --trust ranker.py:build" in text
    assert "factory: ranker.py:build" in (tmp_path / "mine.yaml").read_text()

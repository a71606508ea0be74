"""Lines as wide as the terminal: folded between words, below what they begin with."""

import io

import pytest

from benchorch.results.report.console import console_on
from benchorch.results.report.console_table import columns_of, folded, table_text
from benchorch.results.report.rich_table import rich_table

PROSE = "Intervals and verdicts hold for all of the comparisons of this table together."


def at(text, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    return folded(text, io.StringIO())


@pytest.mark.parametrize("columns", [20, 33, 60])
def test_no_word_is_cut_and_no_line_sticks_out(columns, monkeypatch):
    shown = at(PROSE, columns, monkeypatch)
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.split() == PROSE.split()


@pytest.mark.parametrize(
    ("line", "below"),
    [
        (PROSE, "  "),
        (f"  {PROSE}", "    "),
        (f"MLflow    {PROSE}", " " * 10),
        (f"  3. {PROSE}", " " * 5),
        (f"{'a-very-long-name-of-a-key':38}  {PROSE}", "  "),
    ],
)
def test_a_line_goes_on_below_its_beginning(line, below, monkeypatch):
    first, *others = at(line, 60, monkeypatch).splitlines()
    assert line.startswith(first)
    assert others
    assert all(each.startswith(below) and each[len(below)] != " " for each in others)


@pytest.mark.parametrize(
    "command",
    [
        "Try: benchorch plan recipes/bert.yaml workload.seq_len=256 conversion=[eager,inductor]",
        "resume    python -m benchorch resume=runs/2026-11-24/10-11-12-131415 a b c d e f g h i j",
        "  serve    cd /some/where/far/away && uvicorn server:app --host 127.0.0.1 --port 8000",
    ],
)
def test_a_command_stays_one_line_for_whoever_copies_it(command, monkeypatch):
    assert at(command, 60, monkeypatch) == command


def test_a_file_and_a_pipe_have_no_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert columns_of(io.StringIO()) == 0
    assert folded(PROSE * 5, io.StringIO()) == PROSE * 5


def test_a_file_and_a_pipe_have_every_column_in_one_line(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = ("conversion", "p50 ms [95 %]", "p99 ms [95 %]", "build", "peak memory", "same model?")
    rows = [names, ["0.01985 (0.01985 to 0.01998 seen, n = 2)"] * len(names)]
    monkeypatch.setattr("sys.stdout", io.StringIO())
    stream = io.StringIO()
    console_on(stream).print(rich_table(rows, console_on(stream).width))
    for written in (table_text(rows), stream.getvalue()):
        head, _, row = filter(None, (line.strip() for line in written.splitlines()))
        assert all(name in head for name in names)
        assert row.count("n = 2)") == len(names)

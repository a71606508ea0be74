"""The report of stored runs: for people, for programs, or as a file by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchorch.cli.terminal import Terminal, writing
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import write_text
from benchorch.progress import Say
from benchorch.results.compare import export
from benchorch.results.compare.load_run import derive, locate, stored
from benchorch.results.compare.stored_run import RunResults, StoredRun
from benchorch.results.report.console import ConsoleReport
from benchorch.results.report.console_table import paper, tidy
from benchorch.results.report.tables import conclusions, full_markdown

SEVERAL = "benchorch runs"
"""The format of a JSON file with more than one run."""

_MARKDOWN = ("", ".md", ".markdown", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """One run, with the values that tables need.

    Attributes:
        run: without raw series.
        results: by the trials' ids; with raw series, unless an exported file was read.
        derived: with raw series; None where an exported file was read.
    """

    run: StoredRun
    results: RunResults
    derived: RunResults | None = None

    def text(self) -> str:
        """The report of the terminal, as at the end of the run."""
        console, written = paper()
        report = ConsoleReport(console)
        report.plan(self.results.plan, done=0)
        report.table(self.results)
        return tidy(written.getvalue())

    def json(self) -> ConfigNode:
        """The run as compare and gate read it, with its conclusions."""
        return {**export.to_json(self.run), "conclusions": _conclusions(self.results)}

    def markdown(self) -> str:
        """Every row, conclusion and warning."""
        return full_markdown(self.results)


def report(runs: Sequence[str], terminal: Terminal, *, reprice: bool = False) -> Reply:
    """The tables for people or, with ``--json``, the runs without raw series for programs."""
    path, as_json = terminal.output, terminal.as_json
    write = None if path is None else writer(path, as_json=as_json)
    if reprice:
        write = _repriced(write)
    exports = as_json if write is None else write is _write_json
    opened = _open_all(runs, terminal.say, each_process=exports)
    if write is not None and path is not None:
        write(opened, path)
        return _reply(opened, path)
    if as_json:
        return Reply(text="", data=_json(opened))
    return Reply(text="\n\n".join(one.text() for one in opened), data=None)


_Writer = Callable[[Sequence[_Opened], Path], None]


def writer(path: Path, *, as_json: bool) -> _Writer:
    """The writer for a suffix; ConfigError before anything is read where there is none."""
    suffix = path.suffix.lower()
    if as_json or suffix == ".json":
        return _write_json
    if suffix in (".html", ".htm"):
        return _write_page
    if suffix == ".csv":
        return _write_csv
    if suffix in _MARKDOWN:
        return _write_markdown
    problem = f"--output: {path.name} ends in {suffix!r}; a report is .html, .csv, .md or .json."
    page = str(path.with_suffix(".html"))
    raise ConfigError([Problem(problem, Correction(typed=str(path), meant=page))])


def _repriced(write: _Writer | None) -> _Writer:
    if write not in (_write_page, _write_csv):
        raise ConfigError(["--reprice needs a report with costs: --output FILE.html or .csv."])
    return partial(write, anew=True)


def _open_all(references: Sequence[str], say: Say, *, each_process: bool) -> list[_Opened]:
    """Each run once, however often it is named; ConfigError with every problem at once."""
    found: dict[Path, tuple[Path, str]] = {}
    problems: list[str] = []
    for reference in references:
        try:
            path = locate(reference)
            found.setdefault(path.resolve(), (path, reference))
        except ConfigError as error:
            problems += error.problems
    opened = []
    for path, reference in found.values():
        try:
            opened.append(_open(path, reference, say, each_process=each_process))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return opened


def _open(found: Path, reference: str, say: Say, *, each_process: bool) -> _Opened:
    if found.is_file():
        exported = export.read(found)
        return _Opened(run=exported, results=exported.run_results())
    derived = derive(found, reference, say, running=True)
    loaded = stored(derived, reference, say, each_process=each_process)
    return _Opened(run=loaded, results=derived, derived=derived)


def _json(opened: Sequence[_Opened]) -> ConfigNode:
    """One run as compare and gate read it; several in a list of such."""
    runs = [one.json() for one in opened]
    return runs[0] if len(runs) == 1 else {"format": SEVERAL, "schema_version": 1, "runs": runs}


def _write_json(opened: Sequence[_Opened], path: Path) -> None:
    _write(path, export.text_of(_json(opened)))


def _conclusions(run: RunResults) -> list[Json]:
    """For each serving case the sentence of the table, and what it rests on."""
    return [
        {
            "sentence": one.sentence,
            "best_figure": None if one.fastest is None else one.fastest.trial_id,
            "requested": one.coverage.requested,
            "ranked": one.coverage.ranked,
            "missing": dict(one.coverage.missing),
            "undecided": list(one.coverage.undecided),
            "partial": one.coverage.is_partial,
        }
        for one in conclusions(run)
    ]


def _write_markdown(opened: Sequence[_Opened], path: Path) -> None:
    _write(path, "\n".join(one.markdown() for one in opened))


def _write_csv(opened: Sequence[_Opened], path: Path, *, anew: bool = False) -> None:
    from benchorch.results.report.csv_columns import csv_text
    from benchorch.results.report.prices import prices_of
    from benchorch.results.report.rows import rows_of

    runs = [one.run for one in opened]
    _write(path, csv_text(rows_of(runs, prices_of(runs, anew=anew))))


def _write_page(opened: Sequence[_Opened], path: Path, *, anew: bool = False) -> None:
    from benchorch.results.report.html_page import page
    from benchorch.results.report.prices import prices_of
    from benchorch.results.report.rows import rows_of
    from benchorch.results.report.series_figures import series_figures

    runs = [one.run for one in opened]
    prices = prices_of(runs, anew=anew)
    read = [one.derived for one in opened if one.derived is not None]
    series = series_figures(result for one in read for result in one.results.values())
    _write(path, page(runs, rows_of(runs, prices), prices, series=series))


def _reply(opened: Sequence[_Opened], path: Path) -> Reply:
    trials = sum(len(one.run.trials) for one in opened)
    results = sum(len(one.results.results) for one in opened)
    plans = [one.run.plan_id for one in opened]
    what = "this run" if len(opened) == 1 else f"these {len(opened)} runs"
    text = f"{path} holds {what}: {results} of {trials} trials."
    named: dict[str, Json] = {"plan_id": plans[0]} if len(plans) == 1 else {"plan_ids": [*plans]}
    return Reply(text=text, data={"written": str(path), **named})


def _write(path: Path, text: str) -> None:
    with writing(path):
        write_text(path, text)

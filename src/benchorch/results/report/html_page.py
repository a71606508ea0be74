"""The HTML page of some runs: one file that loads nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from benchorch.domain.estimate import Summary
from benchorch.domain.price import PriceSnapshot
from benchorch.formatting import plural
from benchorch.pages import templates
from benchorch.pages.chart_script import script
from benchorch.pages.templates import MOST_BYTES, SizeBudget, size_of
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report import trial_details
from benchorch.results.report.bars import case_charts
from benchorch.results.report.chart import PageChart
from benchorch.results.report.notes import few, notes_of
from benchorch.results.report.overview import Answer, overall
from benchorch.results.report.plan_text import names_of, skip_text
from benchorch.results.report.request_coverage import pending
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.series_figures import AllSeries
from benchorch.results.report.tables import (
    HEADERS,
    LIMIT,
    PRECISION,
    TOKEN_COST,
    TOKEN_PARITY,
    TOKENS,
    against,
    conclusions,
    serving_case,
)
from benchorch.results.report.tradeoffs import tradeoffs

_HERE = Path(__file__).parent
STYLE = templates.STYLE + (_HERE / "results_page.css").read_text(encoding="utf-8")

_MOST_ROWS = 400
"""Charts show the rows up to here."""
_MOST_CHARTS = 90
_MOST_LISTED_BYTES = 200_000
_MARGIN_BYTES = 120_000
_COST = "USD a million"
_LONGEST_LINE = 24  # characters of a cell, but for the name's, which has a width of its own
_INTERVAL = re.compile(r"(\[[^][,]+), ")

Links = Mapping[str, Sequence[tuple[str, str]]]
"""Of each trial, by its id, the texts and addresses of its further pages; the run's under ''."""


class Cell(NamedTuple):
    """A cell of the table and its classes: good, bad, wraps, wide."""

    text: str
    kind: str


@final
class _Charts:
    """The charts of a page, numbered: figures come first, their specifications in one place."""

    def __init__(self) -> None:
        self.specs: list[object] = []

    def number(self, chart: PageChart) -> int | None:
        """The chart's number among the specifications; None where nothing is drawn."""
        if chart.spec is None or len(self.specs) >= _MOST_CHARTS:
            return None
        self.specs.append(chart.spec)
        return len(self.specs) - 1


class Case(NamedTuple):
    """One serving case: its name, its charts, and its warnings with the trials that have them."""

    name: str
    charts: Sequence[tuple[int | None, PageChart]]
    warnings: Sequence[tuple[str, Sequence[str]]]


class SummaryText(NamedTuple):
    """The conclusion over all runs, and that of each serving case where there are several."""

    sentence: str
    each: Sequence[str]


def page(
    runs: Sequence[StoredRun],
    rows: Sequence[ReportRow],
    prices: PriceSnapshot,
    *,
    series: AllSeries | None = None,
    links: Links | None = None,
    refreshes: bool = False,
) -> str:
    """The page: conclusion, bars, table, other charts, each trial, skips, machines, prices.

    Args:
        series: what charts show of raw series; without it those charts are missing.
        links: relative to where the page lies.
        refreshes: whether the browser is to read the page again, because the run goes on.
    """
    charts = _Charts()
    cases = list(_cases(runs, rows[:_MOST_ROWS], series or {}, charts))
    others = [(charts.number(one), one) for one in tradeoffs(rows[:_MOST_ROWS], series or {})]
    code = script()
    left = MOST_BYTES - size_of(STYLE, code, str(charts.specs))
    left -= 2 * _MOST_LISTED_BYTES + _MARGIN_BYTES
    columns = _columns(rows)
    groups = [(run, [row for row in rows if row.run is run]) for run in runs]
    template = templates.templates(_HERE).get_template("results_page.html.j2")
    return template.render(
        style=STYLE,
        script=code,
        summary=_summary(runs),
        runs=runs,
        refreshes=refreshes,
        resume=[run.plan_id for run in runs if not run.running and _waits(run)],
        trials=plural(sum(len(run.trials) for run in runs), "trial"),
        columns=[_title(column, rows) for column in columns],
        groups=[(_heading(run, own), [_cells(row, columns) for row in own]) for run, own in groups],
        cases=cases,
        others=others,
        specs=charts.specs,
        file_name=_file_name,
        more_rows=max(len(rows) - _MOST_ROWS, 0),
        links=links or {},
        rows=rows,
        details=trial_details,
        outcome=lambda row: row.cells[HEADERS[7]] if row.ran else row.outcome,
        skips=[skip_text(skip) for run in runs for skip in run.skips],
        machines=trial_details.machines(rows),
        prices=sorted(prices.on_demand.items()),
        plural=plural,
        budget_of_table=SizeBudget(left // 2),
        budget_of_trials=SizeBudget(left // 2),
        budget_of_skips=SizeBudget(_MOST_LISTED_BYTES),
        budget_of_machines=SizeBudget(_MOST_LISTED_BYTES),
    )


def _summary(runs: Sequence[StoredRun]) -> SummaryText:
    """The only conclusion; or the conversion that is fastest most often, and all conclusions.

    Nothing is concluded from a run that goes on; of one that was interrupted, the conclusion of
    the terminal, which is marked as partial.
    """
    each: list[str] = []
    answers: list[Answer] = []
    for run in (stored.run_results() for stored in runs):
        waits_for = pending(run) if run.running else ""
        own = [] if waits_for else conclusions(run)
        answers += [(one.fastest, run.summaries) for one in own]
        prefix = f"{run.plan.plan_id}: " if len(runs) > 1 else ""
        each += [f"{prefix}{text}" for text in [one.sentence for one in own] or [waits_for]]
    if len(each) == 1:
        return SummaryText(each[0], ())
    if not answers:
        return SummaryText("No run here is finished, so nothing is concluded.", each)
    return SummaryText(overall(answers), each)


def _waits(run: StoredRun) -> bool:
    """Whether some of its trials have no final result."""
    return bool(pending(run.run_results()))


def _cases(
    runs: Sequence[StoredRun], rows: Sequence[ReportRow], series: AllSeries, charts: _Charts
) -> Iterator[Case]:
    """A case for each model, workload and scenario of each run: nothing else can be ranked."""
    several = len(runs) > 1
    found: dict[str, list[ReportRow]] = {}
    for row in rows:
        name = serving_case(row.stored.trial)
        found.setdefault(f"{row.run.plan_id}: {name}" if several else name, []).append(row)
    for name, own in found.items():
        drawn = [(charts.number(chart), chart) for chart in case_charts(own, series)]
        names = names_of([row.stored.trial for row in own])
        summaries = {names[one.trial.trial_id]: one.summary for one in (row.stored for row in own)}
        yield Case(name, drawn, _noted({key: each for key, each in summaries.items() if each}))


def _noted(summaries: Mapping[str, Summary]) -> list[tuple[str, Sequence[str]]]:
    """Warnings with the trials that have them; first those that the terminal shows."""
    notes = notes_of(summaries)
    first = few(notes)
    others = [note for note in notes if note not in first]
    return [(note.text, [*note.trial_ids, *note.alike_ids]) for note in (*first, *others)]


def _file_name(chart: PageChart, case: str = "") -> str:
    """What a saved chart is called: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", f"{case} {chart.title}".lower()).strip("-")[:80]


def _columns(rows: Sequence[ReportRow]) -> list[str]:
    """The run's own columns, cost, and device where it varies; none that is empty throughout."""
    name, p50, p99, rate, build, memory, same, gain = HEADERS
    tokens = (*TOKENS, TOKEN_PARITY, TOKEN_COST)
    own = [p50, p99, gain, same, *tokens, PRECISION, rate, _COST, LIMIT, build, memory]
    known = [column for column in own if any(_text(row, column) != "–" for row in rows)]
    varied = ["device"] if len({row.device for row in rows if row.device}) > 1 else []
    return [name, *known, *varied]


def _title(column: str, rows: Sequence[ReportRow]) -> str:
    if column != HEADERS[7]:
        return column
    return f"{against([row.stored.trial for row in rows])} [95 %]"


def _heading(run: StoredRun, rows: Sequence[ReportRow]) -> str:
    started = min((row.result.dated_at for row in rows if row.result), default="")
    where = ", ".join(dict.fromkeys(row.device for row in rows if row.device))
    parts = (f"{run.name} {run.plan_id}", started[:16].replace("T", " "), where)
    return " · ".join(filter(None, parts))


def _cells(row: ReportRow, columns: Sequence[str]) -> Iterator[Cell]:
    verdict = "" if row.speedup is None else row.speedup.verdict
    judged = {"faster": "good", "slower": "bad"}.get(verdict, "")
    kinds = {
        HEADERS[1]: "" if row.ran else "bad",
        HEADERS[6]: "bad" if row.disqualified else "",
        HEADERS[7]: "bad" if row.disqualified else judged,
        LIMIT: "wide",
    }
    for column in columns:
        text = _text(row, column)
        wraps = " wraps" if len(text) > _LONGEST_LINE else ""
        yield Cell(_INTERVAL.sub("\\1,\N{NO-BREAK SPACE}", text), f"{kinds.get(column, '')}{wraps}")


def _text(row: ReportRow, column: str) -> str:
    texts = (_own_text(row, column), row.cells.get(column))
    return next((text for text in texts if text and text != "–"), "–")


def _own_text(row: ReportRow, column: str) -> str | None:
    """What the page says in a column by itself; None where the run's table does."""
    if column == (_COST if row.priced_unit == "items" else TOKEN_COST):
        return trial_details.cost_text(row)
    return {HEADERS[0]: row.name, "device": row.device}.get(column)

"""The HTML page of some runs: one file without scripts that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchorch.domain.price import PriceSnapshot
from benchorch.formatting import plural
from benchorch.pages import templates
from benchorch.pages.charts import swatch
from benchorch.pages.templates import MOST_BYTES, SizeBudget, size_of
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report import trial_details
from benchorch.results.report.plots import plots, series_of
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.summary_text import summary_text
from benchorch.results.report.tables import HEADERS, LIMIT, skip_text

_HERE = Path(__file__).parent
STYLE = templates.STYLE + (_HERE / "results_page.css").read_text(encoding="utf-8")

_MOST_MARKS = 400
"""A chart with more points shows no more."""
_MOST_LISTED_BYTES = 200_000
_MARGIN_BYTES = 120_000
_COST = "USD a million"


class Cell(NamedTuple):
    """A cell of the table and its class: good, bad, wide or none."""

    text: str
    kind: str


def page(runs: Sequence[StoredRun], rows: Sequence[ReportRow], prices: PriceSnapshot) -> str:
    """The page: conclusion, table, plots, each trial, skips, machines, prices."""
    drawn = plots(rows[:_MOST_MARKS])
    left = MOST_BYTES - size_of(STYLE, *(plot.svg for plot in drawn))
    left -= 2 * _MOST_LISTED_BYTES + _MARGIN_BYTES
    names = list(dict.fromkeys(map(series_of, rows)))
    columns = _columns(rows)
    groups = [(run, [row for row in rows if row.run is run]) for run in runs]
    template = templates.templates(_HERE).get_template("results_page.html.j2")
    return template.render(
        style=STYLE,
        summary=summary_text(runs),
        runs=runs,
        trials=plural(sum(len(run.trials) for run in runs), "trial"),
        columns=columns,
        groups=[(_heading(run, own), [_cells(row, columns) for row in own]) for run, own in groups],
        plots=drawn,
        most_marks=_MOST_MARKS,
        swatches={name: swatch(series) for series, name in enumerate(names)},
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


def _columns(rows: Sequence[ReportRow]) -> list[str]:
    """The run's own columns, cost, runtime and device; none that is empty throughout."""
    name, *own = [*HEADERS[:4], HEADERS[7], *HEADERS[4:7], LIMIT]
    known = [column for column in own if any(row.cells[column] != "–" for row in rows)]
    priced = [_COST] if any(row.usd_per_million for row in rows) else []
    return [name, *known, *priced, "runtime", "device"]


def _heading(run: StoredRun, rows: Sequence[ReportRow]) -> str:
    started = min((row.result.started_at for row in rows if row.result), default="")
    where = ", ".join(dict.fromkeys(row.device for row in rows if row.device))
    parts = (f"{run.name} {run.plan_id}", started[:16].replace("T", " "), where)
    return " · ".join(filter(None, parts))


def _cells(row: ReportRow, columns: Sequence[str]) -> Iterator[Cell]:
    texts = {
        **row.cells,
        HEADERS[0]: row.name,
        "runtime": row.runtime,
        "device": row.device,
        _COST: trial_details.cost_text(row),
    }
    verdict = "" if row.speedup is None else row.speedup.verdict
    kinds = {
        HEADERS[1]: "" if row.ran else "bad",
        HEADERS[6]: "bad" if row.disqualified else "",
        HEADERS[7]: "bad"
        if row.disqualified
        else {"faster": "good", "slower": "bad"}.get(verdict, ""),
        LIMIT: "wide",
    }
    yield from (Cell(texts[column] or "–", kinds.get(column, "")) for column in columns)

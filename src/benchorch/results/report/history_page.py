"""The site of a history: one page that loads nothing, and beside it the runs that it shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

from benchorch.files import as_bytes, write_text
from benchorch.formatting import interval_text, plural
from benchorch.pages import templates
from benchorch.pages.chart_script import Spec, script
from benchorch.results.compare import export
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.history.collect import started_at
from benchorch.results.history.series import MetricHistory, SessionLevel
from benchorch.results.report.history_chart import history_chart, percent

RUNS = "runs"
"""The folder of a site with each run as `report --json` writes it."""

_HERE = Path(__file__).parent
_STYLE = templates.STYLE + "".join(
    (_HERE / name).read_text(encoding="utf-8") for name in ("results_page.css", "history_page.css")
)
_OPEN = 12
_FILTERS = ("model", "conversion", "machine", "metric")
_CHANGES_TOLD = 6


@final
class ShiftRow(NamedTuple):
    """A shift as a row of the table.

    Attributes:
        kind: good, bad or empty.
        between: what else changed with it: packages, settings, the commit.
    """

    name: str
    machine: str
    when: str
    text: str
    kind: str
    between: Sequence[str]


@final
class Card(NamedTuple):
    """One history of the page."""

    series: MetricHistory
    keys: Spec
    latest: str
    when: str
    kind: str
    said: str
    sentence: str
    number: int


def write_site(site: Path, runs: Sequence[StoredRun], series: Sequence[MetricHistory]) -> Path:
    """Write the page and its runs into a folder; returns the page's path.

    Args:
        runs: in order of time.
    """
    (site / RUNS).mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = site / RUNS / f"{run.plan_id}.json"
        text = export.text_of(export.to_json(run))
        if not path.exists() or path.read_bytes() != as_bytes(text):
            write_text(path, text)
    path = site / "index.html"
    write_text(path, page(runs, series))
    return path


def page(runs: Sequence[StoredRun], series: Sequence[MetricHistory]) -> str:
    """The page: what changed, filters, and a chart a history."""
    charts = [history_chart(one) for one in series]
    cards = [_card(one, charts[index].sentence, index) for index, one in enumerate(series)]
    code = f"{script()}\n{(_HERE / 'history_page.js').read_text(encoding='utf-8')}"
    template = templates.templates(_HERE).get_template("history_page.html.j2")
    return template.render(
        title="History",
        style=_STYLE,
        script=code,
        sentence=sentence_of(series),
        span=_span(runs),
        changes=changes_of(series),
        cards=cards,
        filters={name: list(dict.fromkeys(card.keys[name] for card in cards)) for name in _FILTERS},
        opened=_OPEN,
        specs=[chart.spec for chart in charts],
        runs=[(run.plan_id, f"{RUNS}/{run.plan_id}.json", started_at(run)[:16]) for run in runs],
    )


def _span(runs: Sequence[StoredRun]) -> str:
    """``12 runs from 2026-03-01 to 2026-03-12``."""
    first, last = (started_at(run)[:10] for run in (runs[0], runs[-1]))
    return f"{plural(len(runs), 'run')} from {first} to {last}"


def sentence_of(series: Sequence[MetricHistory]) -> str:
    """``2 of 6 histories have shifted: 1 for the worse, 1 for the better.``."""
    of = f"{len(series)} {'history' if len(series) == 1 else 'histories'}"
    judged = [one.is_worse(level) for one in series for level in one.shifts]
    if not judged:
        return f"None of {of} has shifted."
    moved = sum(bool(one.shifts) for one in series)
    ways = {"for the worse": judged.count(True), "for the better": judged.count(False)}
    counted = ", ".join(f"{count} {way}" for way, count in ways.items() if count)
    return f"{moved} of {of} {'has' if moved == 1 else 'have'} shifted: {counted or 'neither way'}."


def changes_of(series: Sequence[MetricHistory]) -> list[ShiftRow]:
    """Every shift, the newest first."""
    found = [_change(one, level) for one in series for level in one.shifts]
    return sorted(found, key=lambda change: change.when, reverse=True)


def _change(series: MetricHistory, level: SessionLevel) -> ShiftRow:
    assert level.shift is not None
    point = series.points[level.first]
    commit = f" {point.commit}" if point.commit else ""
    ratio = level.shift.ratio
    return ShiftRow(
        name=f"{series.name} {series.metric}",
        machine=series.machine,
        when=f"{point.started_at[:16].replace('T', ' ')}{commit}",
        text=f"{percent(ratio)}, {series.word(level)}: ×{interval_text(ratio, '{:.3f}'.format)}",
        kind=_kind(series, level),
        between=point.changed[:_CHANGES_TOLD],
    )


def _kind(series: MetricHistory, level: SessionLevel) -> str:
    worse = series.is_worse(level)
    return "" if worse is None else "bad" if worse else "good"


def _card(series: MetricHistory, sentence: str, number: int) -> Card:
    latest, shifts = series.latest, series.shifts
    known = latest.estimate
    labels = series.labels
    failed = sum(point.estimate is None for point in series.points)
    shift = percent(shifts[-1].shift.ratio) if shifts and shifts[-1].shift else "no shift"
    return Card(
        series=series,
        keys={
            "model": labels.get("model", ""),
            "conversion": labels.get("conversion", ""),
            "machine": series.machine,
            "metric": series.metric,
        },
        latest=f"{interval_text(known)} {known.unit}" if known else latest.problem,
        when=latest.started_at[:10],
        kind=_kind(series, shifts[-1]) if shifts else "",
        said=shift,
        sentence=f"{sentence} {plural(failed, 'session')} without a figure."
        if failed
        else sentence,
        number=number,
    )

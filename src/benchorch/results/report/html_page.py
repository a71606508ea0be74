"""Some runs on one page that needs nothing else: no script, no network, no file beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchorch.domain.price import PriceSnapshot
from benchorch.formatting import plural
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report import trial_details
from benchorch.results.report.headline import conclusions_of, opening
from benchorch.results.report.plots import Plot, plots, series_of
from benchorch.results.report.rows import ReportRow
from benchorch.results.report.scatter import swatch
from benchorch.results.report.tables import HEADERS, LIMIT, skip_text
from benchorch.trace.report import svg
from benchorch.trace.report.markup import element, escaped, shortened

_PAGES = Path(svg.__file__).parent
STYLE = "".join(
    file.read_text(encoding="utf-8")
    for file in (_PAGES / "svg.css", _PAGES / "report.css", Path(__file__).parent / "page.css")
)

MOST_BYTES = 2_900_000
_MOST_MARKS = 400
"""So many points on a picture say no less than more would."""

_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src 'sha256-{_DIGEST}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)


def page(runs: Sequence[StoredRun], rows: Sequence[ReportRow], prices: PriceSnapshot) -> str:
    """The page: conclusion, table, pictures, each row, machines."""
    said = conclusions_of(runs)
    pictures = _section("pictures", "Pictures", _pictures(plots(rows[:_MOST_MARKS]), rows))
    machines = _section(
        "machines", "Machines", _fitting(trial_details.machines(rows), 200_000, "machine")[0]
    )
    small = _section("small-print", "Prices and words", _small_print(prices))
    skipped = _section("skips", "What was skipped", _skips(runs))
    first = opening(said, runs)
    room = MOST_BYTES - _size(STYLE, first, pictures, machines, small, skipped)
    table, room = _table(runs, rows, room - 20_000)
    one_by_one, _ = _fitting([trial_details.row(row) for row in rows], room, "trial")
    body = [
        _section("table", "All trials", table),
        pictures,
        _section("rows", "Each trial: verdict, parity, limit, doubts", one_by_one),
        skipped,
        machines,
        small,
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            element("head", {}, *_head(said.sentence)),
            element("body", {}, first, element("main", {}, *body)),
            "</html>\n",
        ]
    )


def _head(title: str) -> list[str]:
    return [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        element("title", {}, escaped(shortened(title, 120))),
        f"<style>{STYLE}</style>",
    ]


def _section(name: str, heading: str, content: str) -> str:
    if not content:
        return ""
    return element("section", {"id": name}, element("h2", {}, escaped(heading)), content)


def _table(runs: Sequence[StoredRun], rows: Sequence[ReportRow], room: int) -> tuple[str, int]:
    """One table of all runs, each under its own heading; the room that is left after it."""
    columns = _columns(rows)
    head = element("tr", {}, *(element("th", {"scope": "col"}, escaped(one)) for one in columns))
    groups = []
    for run in runs:
        own = [row for row in rows if row.run is run]
        lines = [_line(row, columns) for row in own]
        heading = element("tr", {}, element("th", {"colspan": len(columns)}, _heading(run, own)))
        room -= _size(heading)
        shown = []
        for line in lines:
            if _size(line) > room // 2:
                break
            shown.append(line)
            room -= _size(line)
        rest = len(lines) - len(shown)
        if rest:
            words = f"{plural(rest, 'more trial')}: this page has no room; the CSV has all."
            cell = element("td", {"colspan": len(columns)}, escaped(words))
            shown.append(element("tr", {}, cell))
        groups.append(element("tbody", {}, *([heading] if len(runs) > 1 else []), *shown))
    drawn = element("table", {}, element("thead", {}, head), *groups)
    return element("div", {"class": "scroll rows", "tabindex": 0}, drawn), room


def _columns(rows: Sequence[ReportRow]) -> list[str]:
    """The run's own columns, what it costs and where it ran; none that is empty throughout."""
    name, *own = [*HEADERS[:4], HEADERS[7], *HEADERS[4:7], LIMIT]
    known = [column for column in own if any(row.cells[column] != "–" for row in rows)]
    priced = [trial_details.COST] if any(row.usd_per_million for row in rows) else []
    return [name, *known, *priced, "runtime", "device"]


def _heading(run: StoredRun, rows: Sequence[ReportRow]) -> str:
    started = min((row.result.started_at for row in rows if row.result), default="")
    where = ", ".join(dict.fromkeys(row.device for row in rows if row.device))
    told = (f"{run.name} {run.plan_id}", started[:16].replace("T", " "), where)
    return element("span", {}, escaped(" · ".join(filter(None, told))))


def _line(row: ReportRow, columns: Sequence[str]) -> str:
    told: Mapping[str, str] = {
        **row.cells,
        HEADERS[0]: row.name,
        "runtime": row.runtime,
        "device": row.device,
        trial_details.COST: trial_details.cost_text(row),
    }
    kinds = {"same model?": _tone(row.disqualified), HEADERS[7]: _verdict_tone(row)}
    cells = []
    for column in columns:
        kind = kinds.get(column)
        text = told[column]
        if column == HEADERS[1] and not row.ran:
            kind = "bad"
        if column == LIMIT:
            kind = "wide"
        if column == HEADERS[0]:
            text = shortened(text, 90)
        cells.append(element("td", {"class": kind}, escaped(text) or "–"))
    return element("tr", {}, *cells)


def _tone(bad: bool) -> str | None:
    return "bad" if bad else None


def _verdict_tone(row: ReportRow) -> str | None:
    if row.disqualified:
        return "bad"
    speedup = None if row.stored.summary is None else row.stored.summary.speedup
    return {"faster": "good", "slower": "bad"}.get(speedup.verdict) if speedup else None


def _pictures(found: Sequence[Plot], rows: Sequence[ReportRow]) -> str:
    names = list(dict.fromkeys(map(series_of, rows)))
    shown = [_figure(plot, names) for plot in found if plot.picture]
    missing = [
        element("div", {"class": "nothing"}, *_caption(plot)) for plot in found if not plot.picture
    ]
    note = ""
    if len(rows) > _MOST_MARKS:
        note = element("p", {"class": "warning"}, f"Of the first {_MOST_MARKS} trials only.")
    return note + element("div", {"class": "plots"}, *shown, *missing)


def _figure(plot: Plot, names: Sequence[str]) -> str:
    signs = [
        element("li", {}, swatch(names.index(name)), escaped(shortened(name, 60)))
        for name in plot.series
    ]
    key = element("ul", {"class": "key"}, *signs)
    return element("figure", {}, *_caption(plot), plot.picture, key)


def _caption(plot: Plot) -> Iterator[str]:
    yield element("h3", {}, escaped(plot.title))
    yield element("p", {"class": "small"}, escaped(plot.sentence))


def _skips(runs: Sequence[StoredRun]) -> str:
    told = [element("li", {}, escaped(skip_text(skip))) for run in runs for skip in run.skips]
    found, _ = _fitting(told, 200_000, "skip")
    return element("ul", {}, found) if found else ""


def _fitting(parts: Sequence[str], room: int, noun: str) -> tuple[str, int]:
    """As many as there is room for, and how many are left out."""
    shown = []
    for part in parts:
        if _size(part) > room:
            break
        shown.append(part)
        room -= _size(part)
    rest = len(parts) - len(shown)
    if rest:
        words = f"{plural(rest, f'more {noun}')}: this page has no room; the CSV has all."
        shown.append(element("p", {"class": "warning"}, escaped(words)))
    return "".join(shown), room


def _small_print(prices: PriceSnapshot) -> str:
    told = [
        f"{kind}: {price.usd_per_hour:g} USD an hour in {price.region}, as of {price.as_of} "
        f"({price.source})."
        for kind, price in sorted(prices.on_demand.items())
    ]
    told = told or ["No machine here has a known price, so nothing is said of cost."]
    told += [
        "Brackets hold 95 % intervals. A verdict follows from pairs measured by turns in the same "
        "session; figures of different runs stand side by side here and are no comparison: "
        "benchorch compare makes one.",
        "“same model?” is the worst relative L2 error of any output against the baseline's; "
        "where it is beyond its tolerance the trial is disqualified, however fast.",
    ]
    return element("ul", {}, *(element("li", {}, escaped(one)) for one in told))


def _size(*texts: str) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts)

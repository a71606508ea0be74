"""The HTML page of an analysis: one file that loads nothing."""

import base64
from collections.abc import Iterator, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path

from jinja2 import Template

from benchorch.pages.templates import STYLE, templates
from benchorch.trace.analysis import Analysis
from benchorch.trace.report.table import HEADER, duration, percent, row_texts
from benchorch.trace.report.timeline import COLORS, allocated, timeline

_HERE = Path(__file__).parent
MOST_ROWS, MOST_STEPS = 40, 60
MOST_EMBEDDED_BYTES = 1_500_000  # of the packed trace; larger ones are opened from a file
_OPEN = """
const packed="%s";
document.getElementById("open").onclick=()=>{
 const bytes=Uint8Array.from(atob(packed),c=>c.charCodeAt(0)).buffer;
 const other=window.open("https://ui.perfetto.dev");if(!other)return;
 const timer=setInterval(()=>other.postMessage("PING","https://ui.perfetto.dev"),50);
 window.addEventListener("message",event=>{
  if(event.data!=="PONG")return;clearInterval(timer);
  other.postMessage({perfetto:{buffer:bytes,title:"critical path"}},"https://ui.perfetto.dev");});};
"""


def page(analysis: Analysis, trace: bytes, command: str) -> str:
    """The page; a small trace is in it, for Perfetto."""
    script = {}
    if len(trace) <= MOST_EMBEDDED_BYTES:
        script["script"] = _OPEN % base64.b64encode(trace).decode()
    return _template().render(
        style=STYLE + (_HERE / "page.css").read_text(encoding="utf-8"),
        title=analysis.verdict.sentence,
        analysis=analysis,
        verdict=analysis.verdict,
        figures=list(_figures(analysis)),
        command=command,
        colors={cause.value: color for cause, color in COLORS.items()},
        timeline=timeline(analysis),
        memory=list(allocated(analysis)),
        periods_ns=analysis.steps.periods_ns.tolist(),
        most_steps=MOST_STEPS,
        tables=list(_tables(analysis)),
        **script,
    )


@cache
def _template() -> Template:
    found = templates(_HERE)
    found.filters.update(duration=duration, percent=percent)
    return found.get_template("analysis_page.html.j2")


def _figures(analysis: Analysis) -> Iterator[tuple[str, str]]:
    steps, verdict = analysis.steps, analysis.verdict
    yield duration(steps.period_ns), f"{'mean' if steps.averaged else 'median'} steady period"
    yield f"{len(steps)} × {steps.name}", "steps analysed"
    if analysis.devices:
        length = sum(one.step_ns for one in analysis.devices)
        idle = sum(one.idle_ns for one in analysis.devices)
        yield percent(1 - idle / length if length else 0.0), "device utilisation"
    if verdict.largest:
        yield percent(verdict.largest_gain_ratio), f"if {verdict.largest} were free"


def _tables(analysis: Analysis) -> Iterator[tuple[str, Sequence[str], list[list[str]], str]]:
    """Heading, columns, rows and where the others are, of every table that has any."""
    parts = ("compute", "communication", "memory", "overlapped", "idle")
    devices = [
        [
            str(one.rank),
            f"{one.device} of process {one.process}" if one.process else str(one.device),
            str(one.step),
            *(percent(getattr(one, f"{part}_ns") / max(one.step_ns, 1)) for part in parts),
            percent(one.utilisation_ratio),
        ]
        for one in sorted(analysis.devices, key=attrgetter("step"))[:MOST_ROWS]
    ]
    if devices:
        heads = ["rank", "device", "step", *parts, "busy"]
        yield "Devices", heads, devices, _others(analysis.devices, "summary.json")
    for name, rows in analysis.tables.items():
        texts = [row_texts(row, analysis.steps.period_ns) for row in rows[:MOST_ROWS]]
        heads = [head for head in HEADER if any(text[head] for text in texts)]
        cells = [[one[head] for head in heads] for one in texts]
        yield f"By {name.removesuffix('s')}", heads, cells, _others(rows, "table.csv")
    branches = [
        [
            f"{one.fork} → {one.join or 'end'}",
            duration(one.total_ns),
            percent(one.share_ratio),
            duration(one.slack_ns),
            ", ".join(one.nodes),
        ]
        for one in analysis.branches[:MOST_ROWS]
    ]
    if branches:
        heads = ["fork → join", "time", "share", "slack", "nodes"]
        yield "Branches of the model", heads, branches, _others(analysis.branches, "summary.json")


def _others(rows: Sequence[object], file: str) -> str:
    """A sentence on where the rows are that the page leaves out; empty if there are none."""
    return f"{len(rows) - MOST_ROWS} more in {file}." if len(rows) > MOST_ROWS else ""

"""The HTML page of an analysis: one file that loads nothing."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchorch.trace.analysis import Analysis
from benchorch.trace.breakdown import DeviceShare
from benchorch.trace.causes import Cause
from benchorch.trace.findings import EntityRow, Findings
from benchorch.trace.report.table import HEADER, duration, html, percent, row_texts
from benchorch.trace.report.timeline import COLORS, allocated, timeline

_STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
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
    """The page."""
    findings, memory = analysis.findings, list(allocated(analysis))
    parts = [
        *_head(findings),
        _section("What to do next", _next(findings, command, len(trace))),
        _section("Where a step's time goes", _causes(findings)),
        _section("Timeline of the steps shown", [timeline(analysis)]),
        _section("Memory in the steps shown", memory) if memory else "",
        _section("Steps", _steps(findings)) if len(findings.periods_ns) > 1 else "",
        _section("Devices", _devices(findings.devices)) if findings.devices else "",
        *(
            _section(f"By {name.removesuffix('s')}", [_table(rows, findings)])
            for name, rows in findings.tables.items()
        ),
        _section("Branches of the model", [_branches(findings)]) if findings.branches else "",
        _section("Checks", _checks(findings)),
    ]
    script = ""
    if len(trace) <= MOST_EMBEDDED_BYTES:
        script = _OPEN % base64.b64encode(trace).decode()
    policy = f"default-src 'none'; style-src '{_digest(_STYLE)}'; script-src '{_digest(script)}'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html(findings.verdict.sentence, 120)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}<script>{script}</script></body></html>\n"
    )


def _digest(text: str) -> str:
    """The hash by which a content security policy allows a script or a style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(heading: str, parts: Iterator[str] | Sequence[str]) -> str:
    return f"<section><h2>{html(heading)}</h2>{''.join(parts)}</section>"


def _head(findings: Findings) -> Iterator[str]:
    verdict, steps = findings.verdict, findings.steps
    yield f"<h1>{html(verdict.sentence, 600)}</h1>"
    if findings.matched_ratio is not None:
        yield f"<p>Model: {percent(findings.matched_ratio)} of its nodes were found.</p>"
    yield f'<p class="soft">{_evidence("lengths", verdict.length)}; '
    yield f"{_evidence('causes', verdict.cause)}.</p>"
    yield from (f'<p class="warn">{html(one, 600)}</p>' for one in findings.warnings)
    figures = [
        (duration(findings.period_ns), "median steady period"),
        (f"{len(findings.periods_ns)} × {steps.name}", "steps analysed"),
    ]
    if findings.devices:
        length = sum(one.step_ns for one in findings.devices)
        idle = sum(one.idle_ns for one in findings.devices)
        figures.append((percent(1 - idle / length if length else 0.0), "device utilisation"))
    if verdict.largest:
        figures.append((percent(verdict.largest_gain_ratio), f"if {verdict.largest} were free"))
    boxes = "".join(
        f"<div><b>{html(a, 60)}</b><span>{html(b, 60)}</span></div>" for a, b in figures
    )
    yield f'<div class="figures">{boxes}</div>'


def _evidence(what: str, known: Mapping[str, float]) -> str:
    named = ", ".join(f"{percent(share)} {name}" for name, share in known.items() if share)
    return f"Evidence for {what}: {named or 'none'}"


def _next(findings: Findings, command: str, size: int) -> Iterator[str]:
    verdict = findings.verdict
    listed = [verdict.advice, *(f"Record {one}" for one in verdict.record)]
    yield "<ul>"
    yield from (f"<li>{html(one, 600)}</li>" for one in listed if one)
    if command:
        yield f"<li>Model with its times in Model Explorer: <code>{html(command)}</code></li>"
    yield "<li>Predict a change before you make it: <code>analyze TRACE --whatif FILE</code></li>"
    yield "</ul>"
    if size <= MOST_EMBEDDED_BYTES:
        yield '<p><button type="button" id="open">Open in Perfetto</button></p>'
    else:
        yield "<p>Open <code>perfetto.json.gz</code> at ui.perfetto.dev.</p>"


def _causes(findings: Findings) -> Iterator[str]:
    for name, share in findings.verdict.shares.items():
        gain = findings.verdict.gains.get(name)
        label = percent(share) + ("" if gain is None else f"; if free -{percent(max(gain, 0.0))}")
        yield _bar(name, share, COLORS[Cause(name)], label)
    yield '<p class="soft">Share of the critical path, and what a step saves without it.</p>'


def _bar(label: str, share: float, color: str, text: str) -> str:
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}"
    return (
        f'<div class="bar"><span>{html(label, 60)}</span>'
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="100" height="10" class="track"/>'
        f'<rect width="{width}" height="10" fill="{color}"/></svg><span>{html(text)}</span></div>'
    )


def _steps(findings: Findings) -> Iterator[str]:
    longest = max(findings.periods_ns) or 1
    for at, period_ns in enumerate(findings.periods_ns[:MOST_STEPS]):
        label = f"step {findings.steps.first + at}"
        yield _bar(label, period_ns / longest, "#2166ac", duration(period_ns))
    if len(findings.periods_ns) > MOST_STEPS:
        yield f"<p>{len(findings.periods_ns) - MOST_STEPS} more in summary.json.</p>"


def _devices(devices: Sequence[DeviceShare]) -> Iterator[str]:
    parts = ("compute", "communication", "memory", "overlapped", "idle")
    rows = [
        (
            *(str(one.rank), str(one.device), str(one.step)),
            *(percent(getattr(one, f"{part}_ns") / max(one.step_ns, 1)) for part in parts),
            percent(one.utilisation_ratio),
        )
        for one in devices[:MOST_ROWS]
    ]
    yield _lines(("rank", "device", "step", *parts, "busy"), rows)


def _table(rows: Sequence[EntityRow], findings: Findings) -> str:
    texts = [row_texts(row, findings.period_ns) for row in rows[:MOST_ROWS]]
    heads = [head for head in HEADER if any(text[head] for text in texts)]
    return _lines(heads, [[text[head] for head in heads] for text in texts])


def _branches(findings: Findings) -> str:
    rows = [
        (
            f"{one.fork} → {one.join or 'end'}",
            duration(one.total_ns),
            percent(one.share_ratio),
            duration(one.slack_ns),
            ", ".join(one.nodes),
        )
        for one in findings.branches[:MOST_ROWS]
    ]
    return _lines(("fork → join", "time", "share", "slack", "nodes"), rows)


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{html(one)}</th>' for one in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html(cell, 110)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _checks(findings: Findings) -> Iterator[str]:
    for name, values in (
        ("repairs", findings.repairs),
        ("fitted", {name: f"{value:g}" for name, value in findings.facts.items()}),
    ):
        listed = ", ".join(f"{key} {value}" for key, value in values.items())
        yield f'<p class="soft">{name}: {html(listed or "none", 1500)}</p>'

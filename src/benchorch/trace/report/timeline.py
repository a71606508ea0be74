"""Timeline of the steps that are shown: lanes with their events, and the path in color."""

from collections.abc import Iterator, Mapping

import numpy as np

from benchorch.trace.analysis import Analysis
from benchorch.trace.arrays import Int64s
from benchorch.trace.causes import CAUSES, Cause
from benchorch.trace.events import Category, Events, among
from benchorch.trace.report.table import duration, html
from benchorch.units import format_bytes

WIDTH, LEFT, ROW, DEPTHS = 1140.0, 170.0, 15.0, 3
MEMORY = 6 * ROW
MOST_LANES, MOST_SLICES = 14, 3_000
MOST_SHOWN = 3  # steps that are drawn, the last ones

COLORS: Mapping[Cause, str] = {
    Cause.DEVICE_COMPUTE: "#2e7d32",
    Cause.DEVICE_MEMORY: "#8bc34a",
    Cause.COMMUNICATION: "#00897b",
    Cause.STRAGGLER: "#80cbc4",
    Cause.DATA_LOADING: "#8e6bbf",
    Cause.FRAMEWORK: "#4b9cd3",
    Cause.PYTHON: "#b2a1d6",
    Cause.INPUT_OUTPUT: "#a6761d",
    Cause.SLEEP: "#d8a03d",
    Cause.OUTSIDE: "#f4845f",
    Cause.PROFILER: "#969696",
    Cause.UNKNOWN: "#e7298a",
}
_HOST_COLOR, _DEVICE_COLOR = "#b9c2cf", "#a9cbaa"


def timeline(analysis: Analysis) -> str:
    """An SVG with one row for the path and a few for each lane."""
    interval = _interval(analysis)
    scale = (WIDTH - LEFT) / max(interval[1] - interval[0], 1)
    rows = list(_lanes(analysis.events, interval))
    height = 2.5 * ROW + sum((depths + 0.6) * ROW for _, _, depths in rows) + ROW
    parts = [f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="timeline">']
    parts += _path(analysis, interval, scale)
    top = 2.5 * ROW
    for lane, these, depths in rows:
        label = analysis.events.lanes[lane].label
        parts.append(f'<text x="0" y="{top + ROW - 4:.1f}">{html(label, 26)}</text>')
        parts += _slices(analysis.events, these, interval, scale, top)
        top += (depths + 0.6) * ROW
    parts += _ruler(analysis, interval, scale, top)
    return "".join(parts) + "</svg>"


def allocated(analysis: Analysis) -> Iterator[str]:
    """For each device an SVG with the bytes allocated over time, from zero up."""
    begin_ns, end_ns = _interval(analysis)
    for label, rows in list(analysis.events.allocated.items())[:MOST_LANES]:
        first = max(int(np.searchsorted(rows[:, 0], begin_ns, "right")) - 1, 0)
        inside = rows[first : np.searchsorted(rows[:, 0], end_ns, "right")]
        inside = inside[:: len(inside) // MOST_SLICES + 1]
        if len(inside):
            most = max(int(inside[:, 1].max()), 1)
            left = (np.clip(inside[:, 0], begin_ns, end_ns) - begin_ns) / max(end_ns - begin_ns, 1)
            x = LEFT + left * (WIDTH - LEFT)
            y = MEMORY * (1 - inside[:, 1] / most)
            steps = zip(x.tolist(), y.tolist(), strict=True)
            line = "".join(f"H{at:.1f}V{height:.1f}" for at, height in steps)
            yield (
                f'<svg viewBox="0 0 {WIDTH:.0f} {MEMORY + 4:.0f}" role="img" aria-label="memory">'
                f'<text x="0" y="{ROW:.0f}">{html(label, 26)}</text>'
                f'<text x="0" y="{2 * ROW:.0f}">0 to {format_bytes(most)}</text>'
                f'<path d="M{LEFT:.1f},{MEMORY:.0f}{line}H{WIDTH:.0f}V{MEMORY:.0f}Z" '
                f'fill="{COLORS[Cause.DEVICE_MEMORY]}"/></svg>'
            )


def _interval(analysis: Analysis) -> tuple[int, int]:
    steps = analysis.steps
    begin_ns, end_ns = analysis.periods.interval_ns
    last = steps.shown[1]
    if steps.back_to_back and last - steps.shown[0] >= MOST_SHOWN:
        begin_ns = max(begin_ns, int(steps.done_ns[last - MOST_SHOWN]))
    return begin_ns, end_ns


def _lanes(events: Events, interval: tuple[int, int]) -> Iterator[tuple[int, Int64s, int]]:
    """The lanes with most time in the interval: number, events, rows."""
    hidden = (Category.SYNC, Category.RECORD, Category.OVERHEAD)
    inside = (events.end_ns > interval[0]) & (events.start_ns < interval[1])
    inside &= ~among(events.category, hidden) & (events.duration_ns > 0)
    around = (events.start_ns <= interval[0]) & (events.end_ns >= interval[1])
    inside &= ~(around & (events.category == Category.PYTHON))  # what calls all that is shown
    these = np.flatnonzero(inside)
    busy = np.bincount(events.lane[these], events.duration_ns[these], len(events.lanes))
    chosen = np.sort(np.argsort(-busy, kind="stable")[:MOST_LANES])
    for lane in chosen.tolist():
        mine = these[events.lane[these] == lane]
        if len(mine):
            longest = mine[np.argsort(-events.duration_ns[mine], kind="stable")]
            mine = longest[: MOST_SLICES // MOST_LANES]
            depths = 1 if events.lanes[lane].on_device else DEPTHS
            yield lane, mine, depths


def _slices(
    events: Events, these: Int64s, interval: tuple[int, int], scale: float, top: float
) -> Iterator[str]:
    order = these[np.lexsort((-events.duration_ns[these], events.start_ns[these]))]
    ends: list[int] = []
    columns = (order, events.start_ns[order], events.end_ns[order])
    for event, start, end in zip(*(column.tolist() for column in columns), strict=True):
        ends = [one for one in ends if one > start]
        depth = len(ends)
        ends.append(end)
        device = events.lanes[events.lane[event]].on_device
        if depth >= DEPTHS or (device and depth):
            continue
        name = events.names[events.name[event]]
        color = _DEVICE_COLOR if device else _HOST_COLOR
        yield _slice(start, end, interval, scale, top + depth * ROW, color, name)


def _slice(
    start: int, end: int, interval: tuple[int, int], scale: float, y: float, color: str, name: str
) -> str:
    left = LEFT + (max(start, interval[0]) - interval[0]) * scale
    width = max((min(end, interval[1]) - max(start, interval[0])) * scale, 0.3)
    label = ""
    if width > 45:
        label = (
            f'<text x="{left + 3:.1f}" y="{y + ROW - 5:.1f}">{html(name, int(width / 7))}</text>'
        )
    return (
        f'<g><title>{html(name, 160)}: {duration(end - start)}</title><rect x="{left:.2f}" '
        f'y="{y:.1f}" width="{width:.2f}" height="{ROW - 2:.0f}" fill="{color}"/>{label}</g>'
    )


def _path(analysis: Analysis, interval: tuple[int, int], scale: float) -> Iterator[str]:
    """The path's segments; neighbours of one cause that are too short to see are one."""
    path, events = analysis.path, analysis.events
    yield f'<text x="0" y="{ROW - 4:.1f}">critical path</text>'
    end_ns = path.start_ns + path.duration_ns
    inside = np.flatnonzero((end_ns > interval[0]) & (path.start_ns < interval[1]))
    cause = analysis.reasons.cause[inside]
    long = path.duration_ns[inside] * scale > 1.0
    joined = (np.diff(cause, prepend=-1) == 0) & ~long & ~np.append(False, long[:-1])
    first = np.flatnonzero(~joined)
    last = np.append(first[1:], len(inside))[: len(first)] - 1
    for a, b in list(zip(first.tolist(), last.tolist(), strict=True))[:MOST_SLICES]:
        one = CAUSES[int(cause[a])]
        owner = int(path.owner[inside[a]])
        name = events.names[events.name[owner]] if owner >= 0 and a == b else ""
        text = f"{one.value}: {name}" if name else one.value
        span = int(path.start_ns[inside[a]]), int(end_ns[inside[b]])
        yield _slice(*span, interval, scale, 0.0, COLORS[one], text)


def _ruler(
    analysis: Analysis, interval: tuple[int, int], scale: float, top: float
) -> Iterator[str]:
    """Ticks at the ends of steps, with the time since the left edge."""
    for at in analysis.steps.done_ns.tolist():
        if interval[0] < at <= interval[1]:
            x = LEFT + (at - interval[0]) * scale
            yield (
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{top:.0f}" stroke="#888" '
                f'stroke-dasharray="2 3"/><text x="{x - 3:.1f}" y="{top + ROW - 4:.1f}" '
                f'text-anchor="end">{duration(at - interval[0])}</text>'
            )

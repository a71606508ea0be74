"""Timeline of the steps that are shown: lanes with their events, and the path in color."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from benchorch.trace.analysis import Analysis
from benchorch.trace.arrays import Int64s
from benchorch.trace.causes import CAUSES, Cause
from benchorch.trace.events import Category, Events, among
from benchorch.units import format_bytes

WIDTH, LEFT, ROW, DEPTHS = 1140, 170, 15, 3
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


class Slice(NamedTuple):
    """A rectangle."""

    name: str
    color: str
    length_ns: int
    x: float
    y: float
    width: float


class _TimeScale(NamedTuple):
    begin_ns: int
    end_ns: int

    def x(self, at_ns: int) -> float:
        """Where a time is drawn, at one of the edges if it is beyond."""
        passed_ns = min(max(at_ns, self.begin_ns), self.end_ns) - self.begin_ns
        return LEFT + (WIDTH - LEFT) * passed_ns / max(self.end_ns - self.begin_ns, 1)

    def slice(self, start_ns: int, end_ns: int, y: float, color: str, name: str) -> Slice:
        x = self.x(start_ns)
        width = round(max(self.x(end_ns) - x, 0.3), 2)
        return Slice(name, color, end_ns - start_ns, round(x, 2), round(y, 1), width)


def timeline(analysis: Analysis) -> dict[str, object]:
    """One row for the path and a few for each lane: labels, slices, ends of steps."""
    events, scale = analysis.events, _scale(analysis)
    labels: list[tuple[float, str]] = [(ROW - 4, "critical path")]
    slices, top = list(_path(analysis, scale)), 2.5 * ROW
    for lane, these, depths in _lanes(events, scale):
        labels.append((round(top + ROW - 4, 1), events.lanes[lane].label))
        slices += _slices(events, these, scale, top)
        top += (depths + 0.6) * ROW
    done_ns = analysis.steps.done_ns
    ends_ns = done_ns[(done_ns > scale.begin_ns) & (done_ns <= scale.end_ns)].tolist()
    ticks = [(round(scale.x(at), 1), at - scale.begin_ns) for at in ends_ns]
    drawn = {"labels": labels, "slices": slices, "ticks": ticks}
    return {"width": WIDTH, "height": round(top + ROW), **drawn}


def allocated(analysis: Analysis) -> Iterator[dict[str, object]]:
    """For each device the bytes allocated over time, from zero up: of many values the peaks."""
    scale = _scale(analysis)
    for label, rows in list(analysis.events.allocated.items())[:MOST_LANES]:
        first = max(int(np.searchsorted(rows[:, 0], scale.begin_ns, "right")) - 1, 0)
        inside = rows[first : np.searchsorted(rows[:, 0], scale.end_ns, "right")]
        if len(inside):
            first_of_each = np.arange(0, len(inside), len(inside) // MOST_SLICES + 1)
            peaks = np.maximum.reduceat(inside[:, 1], first_of_each)
            inside = np.stack([inside[first_of_each, 0], peaks], axis=1)
            most = max(int(inside[:, 1].max()), 1)
            line = "".join(
                f"H{scale.x(at):.1f}V{MEMORY * (1 - size / most):.1f}"
                for at, size in inside.tolist()
            )
            line = f"M{LEFT},{MEMORY}{line}H{WIDTH}V{MEMORY}Z"
            yield {"label": label, "height": MEMORY, "most": format_bytes(most), "line": line}


def _scale(analysis: Analysis) -> _TimeScale:
    steps = analysis.steps
    begin_ns, end_ns = analysis.periods.interval_ns
    last = steps.shown[1]
    if steps.back_to_back and last - steps.shown[0] >= MOST_SHOWN:
        begin_ns = max(begin_ns, int(steps.done_ns[last - MOST_SHOWN]))
    return _TimeScale(begin_ns, end_ns)


def _lanes(events: Events, scale: _TimeScale) -> Iterator[tuple[int, Int64s, int]]:
    """The lanes with most time in the interval: number, events, rows."""
    hidden = (Category.SYNC, Category.RECORD, Category.OVERHEAD)
    inside = (events.end_ns > scale.begin_ns) & (events.start_ns < scale.end_ns)
    inside &= ~among(events.category, hidden) & (events.duration_ns > 0)
    around = (events.start_ns <= scale.begin_ns) & (events.end_ns >= scale.end_ns)
    inside &= ~(around & (events.category == Category.PYTHON))  # what calls all that is shown
    these = np.flatnonzero(inside)
    busy = np.bincount(events.lane[these], events.duration_ns[these], len(events.lanes))
    chosen = np.sort(np.argsort(-busy, kind="stable")[:MOST_LANES])
    for lane in chosen.tolist():
        mine = these[events.lane[these] == lane]
        if len(mine):
            longest = mine[np.argsort(-events.duration_ns[mine], kind="stable")]
            depths = 1 if events.lanes[lane].on_device else DEPTHS
            yield lane, longest[: MOST_SLICES // MOST_LANES], depths


def _slices(events: Events, these: Int64s, scale: _TimeScale, top: float) -> Iterator[Slice]:
    order = these[np.lexsort((-events.duration_ns[these], events.start_ns[these]))]
    ends: list[int] = []
    columns = (order, events.start_ns[order], events.end_ns[order])
    for event, start, end in zip(*(column.tolist() for column in columns), strict=True):
        ends = [one for one in ends if one > start]
        depth = len(ends)
        ends.append(end)
        device = events.lanes[events.lane[event]].on_device
        if depth < (1 if device else DEPTHS):
            color = _DEVICE_COLOR if device else _HOST_COLOR
            name = events.names[events.name[event]]
            yield scale.slice(start, end, top + depth * ROW, color, name)


def _path(analysis: Analysis, scale: _TimeScale) -> Iterator[Slice]:
    """The path's segments; neighbours of one cause that are too short to see are one."""
    path, events = analysis.path, analysis.events
    end_ns = path.start_ns + path.duration_ns
    inside = np.flatnonzero((end_ns > scale.begin_ns) & (path.start_ns < scale.end_ns))
    cause = analysis.reasons.cause[inside]
    seen_ns = max(scale.end_ns - scale.begin_ns, 1) / (WIDTH - LEFT)  # of a pixel
    long = path.duration_ns[inside] > seen_ns
    joined = (np.diff(cause, prepend=-1) == 0) & ~long & ~np.append(False, long[:-1])
    first = np.flatnonzero(~joined)
    last = np.append(first[1:], len(inside))[: len(first)] - 1
    for a, b in list(zip(first.tolist(), last.tolist(), strict=True))[:MOST_SLICES]:
        one = CAUSES[int(cause[a])]
        owner = int(path.owner[inside[a]])
        name = events.names[events.name[owner]] if owner >= 0 and a == b else ""
        text = f"{one.value}: {name}" if name else one.value
        span = int(path.start_ns[inside[a]]), int(end_ns[inside[b]])
        yield scale.slice(*span, 0.0, COLORS[one], text)

"""The trace with its critical path as one more process, for Perfetto and other trace viewers."""

import gzip
import io
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchorch.pages.markup import json_text
from benchorch.trace.analysis import Analysis
from benchorch.trace.arrays import Int64s
from benchorch.trace.causes import CAUSES, Known
from benchorch.trace.dag import CLASSES, NOBODY, EdgeKind
from benchorch.trace.events import DEVICE_WORK, Category, Events, among
from benchorch.trace.nesting import Spans, nest
from benchorch.units import NS_PER_US

PATH_PROCESS = "critical path"
MOST_EVENTS = 300_000  # beyond this, only the longest events of the steps shown are written
MOST_ARROWS = 20_000
RECORDS_AT_ONCE = 2_000
_SUB_TRACKS = 100
_COLORS = ("thread_state_running", "thread_state_runnable", "rail_response", "rail_animation")
_HIDDEN = (Category.SYNC, Category.RECORD)

Record = dict[str, object]


def perfetto(analysis: Analysis) -> bytes:
    """The compressed file; the same analysis gives the same bytes.

    Times are microseconds since the first event. No two slices of a track overlap in part: host
    events are cut, device work gets further tracks.
    """
    raw = io.BytesIO()
    records = _records(analysis)
    with gzip.GzipFile("", "wb", 5, raw, mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        separator = ""
        while block := list(islice(records, RECORDS_AT_ONCE)):
            file.write(f"{separator}{json_text(block)[1:-1]}".encode())
            separator = ",\n"
        file.write(b"\n]}\n")
    return raw.getvalue()


def _records(analysis: Analysis) -> Iterator[Record]:
    events = analysis.events
    origin_ns = int(events.start_ns.min(initial=1 << 62))
    kept = _kept(analysis)
    tracks = _tracks(events, kept)
    yield from _names(events, tracks, kept)
    yield from _slices(events, kept, tracks, origin_ns)
    yield from _path(analysis, origin_ns)
    yield from _arrows(analysis, kept, tracks, origin_ns)


def _kept(analysis: Analysis) -> Int64s:
    events = analysis.events
    shown = ~among(events.category, _HIDDEN)
    if shown.sum() > MOST_EVENTS:
        begin_ns, end_ns = analysis.periods.interval_ns
        shown &= (events.end_ns > begin_ns) & (events.start_ns < end_ns)
    found = np.flatnonzero(shown)
    if len(found) > MOST_EVENTS:
        longest = np.argsort(-events.duration_ns[found], kind="stable")[:MOST_EVENTS]
        found = np.sort(found[longest])
    return found


def _tracks(events: Events, kept: Int64s) -> Int64s:
    """The track of each kept event: its lane's, or one beside it where work overlaps in part."""
    track = (events.lane[kept].astype(np.int64) + 1) * _SUB_TRACKS
    on_stream = np.flatnonzero(among(events.category[kept], DEVICE_WORK))
    order = on_stream[np.lexsort((events.start_ns[kept[on_stream]], events.lane[kept[on_stream]]))]
    free: list[int] = []
    lane = -1
    columns = (order, events.lane[kept[order]], events.start_ns[kept[order]])
    ends_ns = events.end_ns[kept[order]].tolist()
    for place, on, start, end in zip(*(one.tolist() for one in columns), ends_ns, strict=True):
        if on != lane:
            lane, free = on, []
        row = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[row : row + 1] = [end]
        track[place] += min(row, _SUB_TRACKS - 1)
    return track


def _names(events: Events, tracks: Int64s, kept: Int64s) -> Iterator[Record]:
    yield _meta("process_name", 0, 0, PATH_PROCESS)
    yield _meta("thread_name", 0, 1, "on the path")
    numbers = _process_numbers(events)
    names = [lane.process for lane in events.lanes]
    for name, number in dict(zip(names, numbers, strict=True)).items():
        yield _meta("process_name", number, 0, name)
    _, first = np.unique(tracks, return_index=True)
    for place in first.tolist():
        lane = int(events.lane[kept[place]])
        yield _meta("thread_name", numbers[lane], int(tracks[place]), events.lanes[lane].label)


def _process_numbers(events: Events) -> list[int]:
    number: dict[str, int] = {}
    return [number.setdefault(lane.process, len(number) + 1) for lane in events.lanes]


def _meta(kind: str, process: int, track: int, name: str) -> Record:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _slices(events: Events, kept: Int64s, tracks: Int64s, origin_ns: int) -> Iterator[Record]:
    """The trace's own events, each cut where the one around it ends."""
    dense = np.unique(tracks, return_inverse=True)[1].astype(np.int32)
    spans = Spans(lane=dense, start_ns=events.start_ns[kept], end_ns=events.end_ns[kept])
    length_ns = nest(spans).end_ns - events.start_ns[kept]
    processes = _process_numbers(events)
    # Viewers nest slices of the same start by their order in the file.
    order = np.lexsort((-length_ns, events.start_ns[kept], tracks))
    columns = events.name[kept], events.lane[kept], tracks, events.start_ns[kept], length_ns
    for name, lane, track, start_ns, long_ns in _rows(*(column[order] for column in columns)):
        span = _span(start_ns - origin_ns, long_ns)
        yield {"ph": "X", "name": events.names[name], "pid": processes[lane], "tid": track, **span}


def _path(analysis: Analysis, origin_ns: int) -> Iterator[Record]:
    """The path's segments, which tile the interval; of very many, neighbours of a cause are one."""
    path, events, why = analysis.path, analysis.events, analysis.reasons
    first = np.arange(len(path))
    if len(path) > MOST_EVENTS:
        first = np.flatnonzero(np.diff(why.cause, prepend=-1))
    length_ns = np.add.reduceat(path.duration_ns, first) if len(first) else path.duration_ns
    name = np.where(path.owner == NOBODY, NOBODY, events.name[path.owner])
    columns = (column[first] for column in (name, path.label, why.cause, why.certainty))
    said = cache(_said)
    for code, label, *others, start_ns, long_ns in _rows(*columns, path.start_ns[first], length_ns):
        named = CLASSES[label].value if code == NOBODY else events.names[code]
        span = _span(start_ns - origin_ns, long_ns)
        yield {"ph": "X", "name": named, "pid": 0, "tid": 1, **span, **said(label, *others)}


def _said(label: int, cause: int, known: int) -> Record:
    args = {"class": CLASSES[label].value, "cause": CAUSES[cause], "known": Known(known).name}
    return {"cname": _COLORS[cause % len(_COLORS)], "args": args}


def _arrows(analysis: Analysis, kept: Int64s, tracks: Int64s, origin_ns: int) -> Iterator[Record]:
    """From each launch to its work, and wherever the path goes from one lane to another."""
    events, dag, path = analysis.events, analysis.dag, analysis.path
    track = np.zeros(len(events) + 1, dtype=np.int64)
    track[kept] = tracks
    launches = np.flatnonzero(dag.kind == EdgeKind.LAUNCH)[:MOST_ARROWS]
    owned = path.owner[path.owner != NOBODY]
    changes = np.flatnonzero(np.diff(events.lane[owned]) != 0)
    pairs = (
        ("launch", dag.event[dag.tail[launches]], dag.event[dag.head[launches]]),
        ("critical path", owned[changes], owned[changes + 1]),
    )
    processes, number = _process_numbers(events), 0
    for kind, tails, heads in pairs:
        seen = (track[tails] > 0) & (track[heads] > 0) & (tails != NOBODY) & (heads != NOBODY)
        for ends in zip(tails[seen].tolist(), heads[seen].tolist(), strict=True):
            number += 1
            for phase, event in zip("sf", ends, strict=True):
                yield {
                    **{"ph": phase, "bp": "e", "id": number, "cat": kind, "name": kind},
                    **{"pid": processes[events.lane[event]], "tid": int(track[event])},
                    "ts": (int(events.start_ns[event]) - origin_ns) / NS_PER_US,
                }


def _span(start_ns: int, length_ns: int) -> Record:
    return {"ts": start_ns / NS_PER_US, "dur": max(length_ns, 0) / NS_PER_US}


def _rows(*columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of columns as Python's values, of which only some exist at a time."""
    for at in range(0, len(columns[0]), RECORDS_AT_ONCE):
        rows = (column[at : at + RECORDS_AT_ONCE].tolist() for column in columns)
        yield from zip(*rows, strict=True)

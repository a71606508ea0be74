"""The trace with its critical path as one more process, for Perfetto and other trace viewers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy import int64
from numpy.typing import NDArray

from benchorch.pages.markup import json_text
from benchorch.trace.analysed import Analysed
from benchorch.trace.dag import CLASSES, NOBODY, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.nesting import nest
from benchorch.trace.report.ancestry import Ancestry
from benchorch.trace.report.colors import perfetto_name
from benchorch.trace.report.path_segments import PathSegments, lane_label
from benchorch.units import NS_PER_US

PATH_PROCESS = "critical path"
PATH_TRACK, NEAR_TRACK = 1, 2
MOST_EVENTS = 300_000
"""Beyond this, only events that lie in no other are written, for the viewer's sake."""

MOST_NEAR = 10_000
LINES_AT_ONCE = 2_000
NEAR_SHARE = 0.01
"""Of the makespan: an edge with less slack is nearly critical."""


def write_perfetto(
    analysis: Analysed, along: PathSegments, above: Ancestry, spare_ns: NDArray[int64], path: Path
) -> None:
    """Write the file, compressed; the same analysis gives the same bytes.

    Times are microseconds with three decimals since the trace's first event, which is exact. The
    first track of the path's process tiles the window: its slices sum to the makespan.

    Args:
        spare_ns: slack of every edge, (E,).
    """
    lines = _events(analysis, along, above, spare_ns)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 3, raw, mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        separator = ""
        while block := ",\n".join(islice(lines, LINES_AT_ONCE)):
            file.write(f"{separator}{block}".encode())
            separator = ",\n"
        file.write(b"\n]}\n")


def _events(
    analysis: Analysed, along: PathSegments, above: Ancestry, spare_ns: NDArray[int64]
) -> Iterator[str]:
    origin_ns = int(
        min(analysis.events.start_ns.min(initial=1 << 62), analysis.dag.window.start_ns)
    )
    yield from _names(analysis)
    yield from _lanes(analysis, above, origin_ns)
    yield from _path(analysis, along, origin_ns)
    yield from _near(analysis, spare_ns, origin_ns)
    yield from _flows(analysis, along, origin_ns)


def _names(analysis: Analysed) -> Iterator[str]:
    """Processes and threads of the trace; the path's process comes first."""
    process, tracks = _processes(analysis)
    yield _meta("process_name", 0, 0, PATH_PROCESS)
    yield _meta("thread_name", 0, PATH_TRACK, "on the path")
    yield _meta("thread_name", 0, NEAR_TRACK, "nearly critical")
    for name, number in process.items():
        yield _meta("process_name", number, 0, name)
    for lane, (number, track) in enumerate(tracks):
        yield _meta("thread_name", number, track, lane_label(analysis, lane))


def _processes(analysis: Analysed) -> tuple[dict[str, int], list[tuple[int, int]]]:
    lanes = analysis.events.lanes
    named = dict.fromkeys(lane.process for lane in lanes)
    number = {process: index + 1 for index, process in enumerate(named)}
    return number, [(number[lane.process], index + 1) for index, lane in enumerate(lanes)]


def _meta(kind: str, process: int, track: int, name: str) -> str:
    return json_text(
        {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}
    )


def _lanes(analysis: Analysed, above: Ancestry, origin_ns: int) -> Iterator[str]:
    """The trace's own events, each cut where the one around it ends."""
    events, (_, tracks) = analysis.events, _processes(analysis)
    kept = _kept(above)
    names = [json_text(name) for name in events.names]
    length_ns = nest(events).end_ns[kept] - events.start_ns[kept]
    spans = _spans(events.start_ns[kept] - origin_ns, length_ns)
    at = [f'"pid":{process},"tid":{track}' for process, track in tracks]
    named = zip(events.name[kept].tolist(), events.lane[kept].tolist(), spans, strict=True)
    for name, lane, span in named:
        yield f'{{"ph":"X","name":{names[name]},{at[lane]},{span}}}'


def _kept(above: Ancestry) -> NDArray[int64]:
    events = above.events
    if len(events) <= MOST_EVENTS:
        return np.arange(len(events))
    on_device = np.array([lane.on_device for lane in events.lanes], dtype=bool)
    outer = np.flatnonzero((above.owned.parent == NOTHING) | on_device[events.lane])
    return np.sort(outer[_longest(events.duration_ns[outer], MOST_EVENTS)])


def _longest(length_ns: NDArray[int64], most: int) -> NDArray[int64]:
    """Indices of the greatest lengths, the longest first, of equals the first."""
    if len(length_ns) > most:
        least_ns = np.partition(length_ns, -most)[-most]
        (long,) = np.nonzero(length_ns >= least_ns)
    else:
        long = np.arange(len(length_ns))
    return long[np.argsort(-length_ns[long], kind="stable")[:most]]


def _path(analysis: Analysed, along: PathSegments, origin_ns: int) -> Iterator[str]:
    names = [json_text(name) for name in along.names]
    modules = [json_text(module) for module in along.modules]
    lanes = [json_text(lane_label(analysis, lane)) for lane in range(len(analysis.events.lanes))]
    classes = [(label.value, perfetto_name(label.value)) for label in CLASSES]
    tiers = [tier.name.lower() for tier in Tier]
    columns = (along.owner, along.label, along.tier, along.drag_ns, along.name, along.module)
    rows = zip(*(column.tolist() for column in (*columns, along.lane, along.pieces)), strict=True)
    spans = _spans(along.start_ns - origin_ns, along.duration_ns)
    for span, row in zip(spans, rows, strict=True):
        owner, label, tier, drag_ns, name, module, lane, pieces = row
        value, color = classes[label]
        shown = names[name] if owner != NOBODY or pieces > 1 else f'"{value}"'
        at = lanes[lane] if lane >= 0 else '"window"'
        yield (
            f'{{"ph":"X","name":{shown},"pid":0,"tid":{PATH_TRACK},'
            f'{span},"cname":"{color}","args":{{'
            f'"event":{owner},"class":"{value}","tier":"{tiers[tier]}","drag_ns":{drag_ns},'
            f'"module":{modules[module]},"lane":{at},"pieces":{pieces}}}}}'
        )


def _near(analysis: Analysed, spare_ns: NDArray[int64], origin_ns: int) -> Iterator[str]:
    """The longest edges with little slack, in order; overlapping ones are left out."""
    dag = analysis.dag
    most_ns = NEAR_SHARE * dag.makespan_ns
    near = np.flatnonzero((spare_ns > 0) & (spare_ns < most_ns) & (dag.weight_ns > 0))
    near = near[_longest(dag.weight_ns[near], MOST_NEAR)]
    near = near[np.argsort(dag.time_ns[dag.tail[near]], kind="stable")]
    start_ns, length_ns = dag.time_ns[dag.tail[near]], dag.weight_ns[near]
    rows = zip(start_ns.tolist(), (start_ns + length_ns).tolist(), near.tolist(), strict=True)
    free_ns = -1 << 62
    for (start, end, edge), span in zip(rows, _spans(start_ns - origin_ns, length_ns), strict=True):
        if start < free_ns:
            continue
        free_ns = end
        owner = int(dag.owner[edge])
        label = CLASSES[int(dag.label[edge])].value
        name = label if owner == NOBODY else analysis.events.names[int(analysis.events.name[owner])]
        args = json_text({"slack_ns": int(spare_ns[edge]), "class": label})
        yield (
            f'{{"ph":"X","name":{json_text(name)},"pid":0,"tid":{NEAR_TRACK},{span},"args":{args}}}'
        )


def _flows(analysis: Analysed, along: PathSegments, origin_ns: int) -> Iterator[str]:
    """An arrow wherever the path goes from one lane to another."""
    _, tracks = _processes(analysis)
    owned = np.flatnonzero(along.owner != NOBODY)
    lane = along.lane[owned]
    (changes,) = np.nonzero((lane[1:] != lane[:-1]) & (lane[1:] >= 0) & (lane[:-1] >= 0))
    for number, change in enumerate(changes.tolist()):
        before, after = owned[change], owned[change + 1]
        left_ns, reached_ns = int(along.start_ns[before]), int(along.start_ns[after])
        yield _flow("s", number, tracks[int(along.lane[before])], left_ns - origin_ns)
        yield _flow("f", number, tracks[int(along.lane[after])], reached_ns - origin_ns)


def _flow(phase: str, number: int, track: tuple[int, int], at_ns: int) -> str:
    head = f'{{"ph":"{phase}","bp":"e","id":{number},"cat":"path","name":"critical path",'
    return f'{head}"pid":{track[0]},"tid":{track[1]},"ts":{_us(at_ns)}}}'


def _spans(start_ns: NDArray[int64], length_ns: NDArray[int64]) -> list[str]:
    """Start and duration of each as JSON, formatted as `_us` does."""
    begun_us, begun_ns = np.divmod(start_ns, NS_PER_US)
    took_us, took_ns = np.divmod(np.maximum(length_ns, 0), NS_PER_US)
    rows = zip(*(one.tolist() for one in (begun_us, begun_ns, took_us, took_ns)), strict=True)
    return [f'"ts":{us}.{ns:03d},"dur":{long_us}.{long:03d}' for us, ns, long_us, long in rows]


def _us(at_ns: int) -> str:
    """Microseconds with three decimals, digit by digit: no rounding on the way."""
    sign, size = ("-", -at_ns) if at_ns < 0 else ("", at_ns)
    return f"{sign}{size // NS_PER_US}.{size % NS_PER_US:03d}"

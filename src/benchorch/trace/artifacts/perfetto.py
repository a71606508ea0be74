"""The trace with its critical path as one more process, for Perfetto and other trace viewers."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.trace.artifacts.ancestry import Ancestry
from benchorch.trace.artifacts.colours import perfetto_name
from benchorch.trace.artifacts.markup import json_text
from benchorch.trace.artifacts.stretches import Stretches, lane_label
from benchorch.trace.artifacts.subject import Analysed
from benchorch.trace.dag import CLASSES, NOBODY, Tier
from benchorch.trace.events import NOTHING
from benchorch.trace.nesting import nest
from benchorch.trace.slack import slack
from benchorch.units import NS_PER_US

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

PATH_PROCESS = "critical path"
PATH_TRACK, NEAR_TRACK = 1, 2
MOST_EVENTS = 300_000
"""Beyond which only events that lie in no other are written, for a viewer's sake."""

NEAR_SHARE = 0.01
"""Of the makespan: what has less to spare is nearly critical."""


def write_perfetto(analysis: Analysed, along: Stretches, above: Ancestry, path: Path) -> None:
    """The file, compressed; it says the same bytes of the same analysis.

    Times are microseconds with three decimals since the trace's first event, which is exact.
    The first track of the path's process tiles the window: its slices sum to the makespan.
    """
    lines = _events(analysis, along, above)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        separator = b""
        for line in lines:
            file.write(separator + line.encode())
            separator = b",\n"
        file.write(b"\n]}\n")


def _events(analysis: Analysed, along: Stretches, above: Ancestry) -> Iterator[str]:
    origin_ns = int(
        min(analysis.events.start_ns.min(initial=1 << 62), analysis.dag.window.start_ns)
    )
    yield from _names(analysis)
    yield from _lanes(analysis, above, origin_ns)
    yield from _path(analysis, along, origin_ns)
    yield from _near(analysis, origin_ns)
    yield from _flows(analysis, along, origin_ns)


def _names(analysis: Analysed) -> Iterator[str]:
    """Processes and threads as the trace has them; the path's process comes first."""
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
    end_ns = nest(events).end_ns
    for index in _kept(above).tolist():
        lane = int(events.lane[index])
        if 0 <= lane < len(tracks):
            start_ns = int(events.start_ns[index])
            span = _span(start_ns - origin_ns, int(end_ns[index]) - start_ns)
            yield _slice(events.names[int(events.name[index])], *tracks[lane], span)


def _kept(above: Ancestry) -> NDArray[int64]:
    import numpy as np

    events = above.events
    if len(events) <= MOST_EVENTS:
        return np.arange(len(events))
    on_device = np.array([lane.on_device for lane in events.lanes], dtype=bool)
    outer = np.flatnonzero((above.owned.parent == NOTHING) | on_device[events.lane])
    longest = np.argsort(-events.duration_ns[outer], kind="stable")[:MOST_EVENTS]
    return np.sort(outer[longest])


def _path(analysis: Analysed, along: Stretches, origin_ns: int) -> Iterator[str]:
    path = analysis.path
    for index, (start_ns, length_ns) in enumerate(_spans(path.start_ns, path.duration_ns)):
        owner, label = int(path.owner[index]), CLASSES[int(path.label[index])].value
        said = {
            "event": owner,
            "class": label,
            "tier": Tier(int(path.tier[index])).name.lower(),
            "drag_ns": int(along.drag_ns[index]),
            "module": along.module[owner],
            "lane": lane_label(analysis, int(along.lane[index])),
        }
        if length_ns:
            extra = {"cname": perfetto_name(label), "args": said}
            name = along.name[owner] if owner != NOBODY else label
            yield _slice(name, 0, PATH_TRACK, _span(start_ns - origin_ns, length_ns), extra)


def _near(analysis: Analysed, origin_ns: int) -> Iterator[str]:
    """Weights with little to spare, in order of their start; one on another has no room."""
    import numpy as np

    dag, spare_ns = analysis.dag, slack(analysis.dag)
    most_ns = NEAR_SHARE * dag.makespan_ns
    near = np.flatnonzero((spare_ns > 0) & (spare_ns < most_ns) & (dag.weight_ns > 0))
    start_ns = dag.time_ns[dag.tail[near]]
    free_ns = -1 << 62
    order = np.argsort(start_ns, kind="stable")
    for edge, start in _spans(near[order], start_ns[order]):
        if start < free_ns:
            continue
        length_ns = int(dag.weight_ns[edge])
        free_ns = start + length_ns
        owner = int(dag.owner[edge])
        label = CLASSES[int(dag.label[edge])].value
        name = label if owner == NOBODY else analysis.events.names[int(analysis.events.name[owner])]
        extra = {"args": {"slack_ns": int(spare_ns[edge]), "class": label}}
        yield _slice(name, 0, NEAR_TRACK, _span(start - origin_ns, length_ns), extra)


def _flows(analysis: Analysed, along: Stretches, origin_ns: int) -> Iterator[str]:
    """An arrow wherever the path goes from one lane to another, between the events there."""
    _, tracks = _processes(analysis)
    path, lanes = analysis.path, along.lane.tolist()
    owned = [index for index in range(len(path)) if path.owner[index] != NOBODY]
    for number, (before, after) in enumerate(pairwise(owned)):
        from_lane, to_lane = lanes[before], lanes[after]
        if from_lane == to_lane or not (
            0 <= from_lane < len(tracks) and 0 <= to_lane < len(tracks)
        ):
            continue
        left_ns, reached_ns = int(path.start_ns[before]), int(path.start_ns[after])
        yield _flow("s", number, tracks[from_lane], left_ns - origin_ns)
        yield _flow("f", number, tracks[to_lane], reached_ns - origin_ns)


def _flow(phase: str, number: int, track: tuple[int, int], at_ns: int) -> str:
    head = f'{{"ph":"{phase}","bp":"e","id":{number},"cat":"path","name":"critical path",'
    return f'{head}"pid":{track[0]},"tid":{track[1]},"ts":{_us(at_ns)}}}'


def _slice(
    name: str, process: int, track: int, span: str, extra: Mapping[str, object] | None = None
) -> str:
    rest = json_text(extra)[1:] if extra else "}"
    comma = "," if extra else ""
    return f'{{"ph":"X","name":{json_text(name)},"pid":{process},"tid":{track},{span}{comma}{rest}'


def _spans(first: NDArray[int64], second: NDArray[int64]) -> Iterable[tuple[int, int]]:
    return zip(first.tolist(), second.tolist(), strict=True)


def _span(start_ns: int, length_ns: int) -> str:
    return f'"ts":{_us(start_ns)},"dur":{_us(max(length_ns, 0))}'


def _us(at_ns: int) -> str:
    """Microseconds with three decimals, digit by digit: no rounding on the way."""
    sign, size = ("-", -at_ns) if at_ns < 0 else ("", at_ns)
    return f"{sign}{size // NS_PER_US}.{size % NS_PER_US:03d}"

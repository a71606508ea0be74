"""Which events is a graph made of, cut to its window and in the order of their lanes?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.dag import Window
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events
from benchorch.trace.graph.lanes import HOST, among, daemons, main_lane, on_device
from benchorch.trace.graph.launches import join, skew_ns
from benchorch.trace.graph.profiler_overhead import with_overhead
from benchorch.trace.graph.scope_values import Scope
from benchorch.trace.nesting import nest

_OUTSIDE_FIRST = (
    Category.SESSION,
    Category.ANNOTATION,
    Category.PYTHON,
    Category.OPERATOR,
    Category.NODE,
)
_NOTES = (Category.SYNC, Category.RECORD, Category.OVERHEAD)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Spans:
    """Host events as they are nested."""

    lane: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def scope(events: Events, window: Window | None = None) -> Scope:
    """The events of a window, or of the whole trace.

    Host events belong to it where they run inside the window's range; device work where its
    launch does, or where it was still to be done when the window began. Threads that do no work
    are left out.
    """
    streams = on_device(events)
    device = np.flatnonzero(among(events.category, DEVICE_WORK) & streams[events.lane])
    launch, duplicates = _launches(events, device)
    idle = daemons(events, launch[launch != NOTHING])
    host = np.flatnonzero(among(events.category, HOST) & ~(idle | streams)[events.lane])
    shift_ns = _shift_ns(events, device, launch)
    window, last_ns = _bounds(events, window, np.concatenate([host, device]))
    host = host[_inside(events, host, window, last_ns)]
    taken, carried = _still_to_do(events, device, launch, window, last_ns)
    notes = np.flatnonzero(among(events.category, _NOTES))
    notes = notes[_inside(events, notes, window, last_ns)]
    host = _by_depth(events, host, window, last_ns)
    device_order = _by_start(events.lane, events.start_ns, device[taken])
    order = np.concatenate([host, device_order, notes])
    return with_overhead(
        _gather(
            events,
            order,
            window,
            last_ns,
            sizes=(len(host), int(taken.sum())),
            launched=(device, launch, device[taken & carried]),
            shift_ns=shift_ns,
            facts={
                "daemon_lanes": float(idle.sum()),
                "clock_skew_ns": float(shift_ns.max(initial=0)),
            },
            repairs={"duplicate_correlations": duplicates} if duplicates else {},
        )
    )


def _launches(events: Events, device: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The call that started each piece of device work, and how many calls share a correlation."""
    calls = np.flatnonzero(events.category == Category.RUNTIME)
    at, duplicates = join(
        events.correlation[calls], events.start_ns[calls], events.correlation[device]
    )
    found = at != NOTHING
    return np.where(found, calls[at] if len(calls) else NOTHING, NOTHING), duplicates


def _shift_ns(
    events: Events, device: NDArray[np.int64], launch: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By how much the clock of each lane is to be put forward."""
    number = np.array([lane.device for lane in events.lanes] or [NOTHING], dtype=np.int64)
    shift = np.zeros(len(number), dtype=np.int64)
    known = launch != NOTHING
    work = device[known]
    late = events.start_ns[work] - events.start_ns[launch[known]]
    on = number[events.lane[work]]
    for one in np.unique(on):
        shift[number == one] = skew_ns(late[on == one])
    return shift


def _bounds(
    events: Events, window: Window | None, taking_part: NDArray[np.int64]
) -> tuple[Window, int]:
    """The window, and when the range that marks it ended on the host."""
    if window is None:
        start_ns, end_ns = events.start_ns[taking_part], events.end_ns[taking_part]
        window = Window(
            start_ns=int(start_ns.min()) if len(start_ns) else 0,
            end_ns=int(end_ns.max()) if len(end_ns) else 0,
        )
        return window, window.end_ns
    marks = np.flatnonzero(
        (events.start_ns == window.start_ns)
        & among(events.category, (Category.ANNOTATION, Category.SESSION))
        & (events.end_ns <= window.end_ns)
    )
    if window.name == "trace" or not len(marks):
        return window, window.end_ns
    named = [at for at in marks if events.names[events.name[at]].startswith(_stem(window.name))]
    return window, int(events.end_ns[named or marks].max())


def _stem(name: str) -> str:
    """Of a name with a wildcard what comes before it."""
    return name.split("*", maxsplit=1)[0]


def _inside(
    events: Events, these: NDArray[np.int64], window: Window, last_ns: int
) -> NDArray[np.bool_]:
    """Which run inside the range: not those around all of it, but those that take no time."""
    start_ns, end_ns = events.start_ns[these], events.end_ns[these]
    begins = (start_ns < last_ns) | (start_ns == end_ns) & (start_ns == last_ns)
    ends = (end_ns > window.start_ns) | (start_ns >= window.start_ns)
    around = (start_ns < window.start_ns) & (end_ns > last_ns)
    inside: NDArray[np.bool_] = begins & ends & ~around
    return inside


def _still_to_do(
    events: Events,
    device: NDArray[np.int64],
    launch: NDArray[np.int64],
    window: Window,
    last_ns: int,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which device work belongs to the window, and which was launched before it."""
    known = launch != NOTHING
    launched_ns = np.where(known, events.start_ns[launch] if len(events) else 0, window.start_ns)
    start_ns, end_ns = events.start_ns[device], events.end_ns[device]
    early = launched_ns < window.start_ns
    running = (end_ns > window.start_ns) & (start_ns < window.end_ns)
    ours = known & ~early & (launched_ns <= last_ns)
    carried = early | ~known & (start_ns < window.start_ns)
    return ours | running & (early | ~known), carried


def _by_depth(
    events: Events, host: NDArray[np.int64], window: Window, last_ns: int
) -> NDArray[np.int64]:
    """By lane, start and length: what begins together is one inside the other, the longer first.

    Times are those inside the window. Of equal events the outer kind comes first, then the lower
    name: so the order of the file does not matter.
    """
    start_ns = np.maximum(events.start_ns, window.start_ns)
    host = _by_start(events.lane, start_ns, host)
    lane, start_ns = events.lane[host], start_ns[host]
    same = (lane[1:] == lane[:-1]) & (start_ns[1:] == start_ns[:-1])
    together = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if len(together):  # few: sorting all by three keys costs more than everything else here
        some = host[together]
        rank = np.full(len(Category), len(_OUTSIDE_FIRST))
        rank[list(_OUTSIDE_FIRST)] = np.arange(len(_OUTSIDE_FIRST))
        kind = rank[events.category[some]]
        end_ns = np.minimum(events.start_ns[some] + events.duration_ns[some], last_ns)
        keys = (events.name[some], kind, -end_ns, start_ns[together], lane[together])
        host[together] = some[np.lexsort(keys)]
    return host


def _by_start(
    lane: NDArray[np.int32], start_ns: NDArray[np.int64], these: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By lane and start, what begins together by place; files are nearly in that order."""
    these = these[np.argsort(start_ns[these], kind="stable")]
    return these[np.argsort(lane[these].astype(np.uint16), kind="stable")]


def _gather(
    events: Events,
    order: NDArray[np.int64],
    window: Window,
    last_ns: int,
    *,
    sizes: tuple[int, int],
    launched: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    shift_ns: NDArray[np.int64],
    facts: Mapping[str, float],
    repairs: Mapping[str, int],
) -> Scope:
    """The scope's columns: times cut to the window, calls by their place in the scope."""
    place = np.full(len(events) + 1, NOTHING, dtype=np.int64)  # its last one is NOTHING's
    place[order] = np.arange(len(order))
    launch = np.full(len(order), NOTHING, dtype=np.int64)
    device, call, carried = launched
    taken = place[device] != NOTHING
    launch[place[device[taken]]] = place[call[taken]]
    early = np.zeros(len(order), dtype=np.bool_)
    early[place[carried]] = True
    lane = events.lane[order]
    start_ns, end_ns = events.start_ns[order], events.end_ns[order]
    hosts, works = sizes
    latest = np.full(len(order), last_ns, dtype=np.int64)
    latest[hosts : hosts + works] = np.iinfo(np.int64).max
    shift = shift_ns[lane] if shift_ns.any() else 0
    start_ns = np.clip(start_ns + shift, window.start_ns, latest)
    end_ns = np.clip(end_ns + shift, window.start_ns, latest)
    tree = nest(_Spans(lane=lane[:hosts], start_ns=start_ns[:hosts], end_ns=end_ns[:hosts]))
    end_ns[:hosts] = tree.end_ns
    taking_part = np.zeros(len(events.lanes), dtype=np.bool_)
    taking_part[lane[:hosts]] = True
    category = events.category[order]
    counts = np.bincount(category, minlength=len(Category))
    return Scope(
        events=events,
        window=window,
        event=order,
        hosts=hosts,
        works=works,
        start_ns=start_ns,
        end_ns=end_ns,
        lane=lane,
        name=events.name[order],
        category=category,
        by_category=np.argsort(category, kind="stable"),
        category_from=np.insert(np.cumsum(counts), 0, 0),
        correlation=events.correlation[order],
        stream=events.stream[order],
        awaited=events.awaited[order],
        sequence=events.sequence[order],
        forward_lane=events.forward_lane[order],
        graph_node=events.graph_node[order],
        launch=launch,
        carried=early,
        overhead=np.zeros(0, dtype=np.int64),
        parent=tree.parent,
        depth=tree.depth,
        after=_after(lane[:hosts], start_ns[:hosts], tree.end_ns),
        main_lane=main_lane(events, taking_part),
        facts=facts,
        repairs={**repairs, **({"clipped_children": tree.clipped} if tree.clipped else {})},
    )


def _after(
    lane: NDArray[np.int32], start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
) -> NDArray[np.int32]:
    """For each host event the first one of its lane from its end on, itself excepted."""
    if not len(lane):
        return np.zeros(0, dtype=np.int32)
    first_ns = start_ns.min()
    span_ns = int(end_ns.max() - first_ns) + 1
    rank = np.cumsum(np.diff(lane, prepend=lane[0]) != 0)
    begins = rank * span_ns + (start_ns - first_ns)
    ends = rank * span_ns + (end_ns - first_ns)
    after: NDArray[np.int32] = np.searchsorted(begins, ends).astype(np.int32)
    np.maximum(after, np.arange(1, len(lane) + 1, dtype=np.int32), out=after)
    return after

"""Windows of a trace that are analysed one by one: its iterations, or all of it."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.trace.dag import Window
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events, among
from benchorch.trace.graph.launches import calls_with
from benchorch.trace.nesting import Spans, nest

MARKS = ("benchorch:call*", "ProfilerStep#*", "model_run")
"""Ranges that mark iterations, the most telling ones first."""

_RANGES = (Category.ANNOTATION, Category.SESSION)
_ON_STREAMS = (*DEVICE_WORK, Category.SYNC, Category.RECORD)
_MOST_NAMED = 12


def windows(events: Events, name: str | None = None) -> tuple[Window, ...]:
    """Each iteration that a range marks, in order of start; the whole trace if none does.

    A window ends with its range or with the last device work that was launched inside it,
    whichever is later (so windows may overlap). Of ranges inside each other the outermost count.

    Args:
        events: of the trace, at least one.
        name: of the marking ranges, or a pattern such as ``ProfilerStep#*``; any host event
            will do. TraceError if there is none. By default the first of `MARKS` that occurs.
    """
    if name is not None:
        marks = _outermost(events, _named(events, name) & ~among(events.category, _ON_STREAMS))
        if not len(marks):
            raise TraceError(_unknown(events, name))
        return _of(events, marks)
    ranges = among(events.category, _RANGES)
    for mark in MARKS:
        marks = _outermost(events, _named(events, mark) & ranges)
        if len(marks):
            return _of(events, marks)
    return (whole(events),)


def whole(events: Events) -> Window:
    """All of a trace, from its first event to its last; the profiler's own time only if alone."""
    counted = events.category != Category.OVERHEAD
    counted = counted if counted.any() else np.ones(len(events), dtype=bool)
    start_ns, end_ns = events.start_ns[counted].min(), events.end_ns[counted].max()
    return Window(start_ns=int(start_ns), end_ns=int(end_ns))


def _named(events: Events, pattern: str) -> NDArray[np.bool_]:
    """Which events are called so exactly or, if none is, fit the pattern."""
    fits = [each == pattern for each in events.names]
    if not any(fits):
        fits = [fnmatchcase(each, pattern) for each in events.names]
    return np.array(fits, dtype=bool)[events.name]


def _outermost(events: Events, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The chosen events that are in no other chosen one on their lane, in order of start."""
    indices = np.flatnonzero(chosen)
    spans = Spans(
        lane=events.lane[indices], start_ns=events.start_ns[indices], end_ns=events.end_ns[indices]
    )
    top = indices[nest(spans).depth == 0]
    order = np.lexsort((events.lane[top], events.end_ns[top], events.start_ns[top]))
    in_order: NDArray[np.intp] = top[order]
    return in_order


def _of(events: Events, marks: NDArray[np.intp]) -> tuple[Window, ...]:
    """The windows of some marking ranges."""
    start_ns, range_end_ns = events.start_ns[marks], events.end_ns[marks]
    call_ns, work_end_ns = _launches(events)
    first = np.searchsorted(call_ns, start_ns)
    last = np.searchsorted(call_ns, range_end_ns)
    windows = []
    for i, mark in enumerate(marks.tolist()):
        launched_ns = work_end_ns[first[i] : last[i]]
        windows.append(
            Window(
                start_ns=int(start_ns[i]),
                end_ns=int(launched_ns.max(initial=range_end_ns[i])),
                name=events.names[events.name[mark]],
                iteration=i,
            )
        )
    return tuple(windows)


def _launches(events: Events) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each host call that started device work began, and when the last of that work ended.

    Returns:
        Two arrays of shape ``(m,)``, sorted by the first.
    """
    known = events.correlation >= 0
    calls = np.flatnonzero((events.category == Category.RUNTIME) & known)
    works = np.flatnonzero(among(events.category, DEVICE_WORK) & known)
    call, _ = calls_with(events.correlation[works], calls, events.correlation, events.start_ns)
    works, call = works[call != NOTHING], call[call != NOTHING]
    end_ns = events.start_ns.copy()
    np.maximum.at(end_ns, call, events.end_ns[works])
    calls = calls[np.argsort(events.start_ns[calls], kind="stable")]
    return events.start_ns[calls], end_ns[calls]


def _unknown(events: Events, name: str) -> str:
    ranges = np.unique(events.name[among(events.category, _RANGES)])
    known = [repr(events.names[index]) for index in ranges[:_MOST_NAMED].tolist()]
    more = f" and {len(ranges) - _MOST_NAMED} more" if len(ranges) > _MOST_NAMED else ""
    there = f"Its ranges are {', '.join(known)}{more}." if known else "It has no named ranges."
    return f"No event of the trace is called {name!r}. {there}"

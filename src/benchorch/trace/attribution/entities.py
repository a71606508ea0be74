"""Rows of a table, the events that belong to each, and the time of each event."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Bools, Int32s, Int64s, mask, scattered
from benchorch.trace.attribution.owners import EventOwners, module_name
from benchorch.trace.dag import NOBODY, CriticalPath, Dag
from benchorch.trace.events import COLLECTIVE, NOTHING, Category, Events, once
from benchorch.trace.nesting import inherited
from benchorch.trace.operators.provenance import is_fused
from benchorch.trace.steps import NO_STEP


class OwnerTimes(NamedTuple):
    """Time in ns by owner; arrays have shape (n + 1,), the last entry is the time of none."""

    total_ns: Int64s  # rigid time in the interval: work, overhead, gaps; waiting is not part of it
    # of it, on the critical path, with the unexplained time of the path as that of none: it sums to
    # the path
    on_path_ns: Int64s
    in_window: Bools  # whether the event has a point in the interval


def measured(dag: Dag, path: CriticalPath, interval_ns: tuple[int, int], events: int) -> OwnerTimes:
    """Time of each of so many events in an interval of the graph, and on its path."""
    begin_ns, end_ns = interval_ns
    at_ns = dag.time_ns[dag.head]
    inside = (at_ns > begin_ns) & (at_ns <= end_ns) & ~dag.beside
    points = (dag.time_ns >= begin_ns) & (dag.time_ns <= end_ns) & (dag.event != NOBODY)
    in_window = mask(events + 1, dag.event[points])
    return OwnerTimes(
        total_ns=_summed(dag.owner[inside], dag.weight_ns[inside], events),
        on_path_ns=_summed(path.owner, path.duration_ns, events),
        in_window=in_window,
    )


def _summed(owner: Int32s | Int64s, time_ns: Int64s, events: int) -> Int64s:
    """Integers by owner, exactly: sums of less than 2**53 ns (104 days) fit a double."""
    place = np.where(owner == NOBODY, events, owner)
    return np.bincount(place, weights=time_ns, minlength=events + 1).astype(np.int64)


Shares = Mapping[int, float]


class Entities(NamedTuple):
    """Rows, and the part of them that each of n events is: as a rule one row."""

    names: tuple[str, ...]  # of the rows
    part: Int64s  # (n,) number of the part an event belongs to; NOTHING where it belongs to none
    # of each part the rows it is divided among, with shares that sum to 1
    shares: tuple[Shares, ...]
    # (n,) the event that is the occurrence an event belongs to, such as the operator that a kernel
    # was launched by
    instance: Int64s

    def occurrences(self, measured: OwnerTimes) -> tuple[Int64s, Int64s]:
        """Occurrences in the window, in order, and (n,) the time of each event and what it owns."""
        times_ns = _summed(self.instance, measured.total_ns[:-1], len(self.part))[:-1]
        own = self.instance == np.arange(len(self.part))
        return np.flatnonzero(own & (measured.in_window[:-1] | (times_ns > 0))), times_ns


def operators(events: Events, owned: EventOwners) -> Entities:
    """Rows by the innermost operator, with its launches and their device work; nodes by type."""
    names = (*events.names, *operator_types(events))
    code = events.name + len(events.names) * (events.category == Category.NODE).astype(np.int64)
    return by_key(owned.operator, names, code)


def op_type(name: str, arguments: Mapping[str, object]) -> str:
    """An event's operator: nodes of ONNX Runtime list it apart from their names."""
    return str(arguments.get("op_name") or name)


@once
def first_nodes(events: Events) -> Mapping[int, Mapping[str, object]]:
    """The details of the first node of each name, by event."""
    nodes = np.flatnonzero(events.category == Category.NODE)
    first = nodes[np.unique(events.name[nodes], return_index=True)[1]].tolist()
    return events.details(first) if first else {}


@once
def operator_types(events: Events) -> tuple[str, ...]:
    """The operator's type for each name: of a node's name, from the first node of that name."""
    types = list(events.names)
    for event, arguments in first_nodes(events).items():
        types[events.name[event]] = op_type(events.names[events.name[event]], arguments)
    return tuple(types)


def ranges(events: Events, owned: EventOwners, marks: Sequence[int]) -> Entities:
    """Rows by the innermost range, or call of an unknown kind, without those of the steps."""
    marking = events.name[np.array(marks, dtype=np.int64)]
    chosen = np.isin(events.category, (Category.ANNOTATION, Category.OTHER))
    chosen &= ~np.isin(events.name, marking)
    chosen &= ~events.called(NO_STEP.match)
    own = np.where(chosen, np.arange(len(events)), NOTHING)
    return by_key(inherited(owned.parent, own), events.names, events.name)


def modules(events: Events, owned: EventOwners) -> Entities:
    """Rows by the innermost module."""
    return by_key(owned.module, [*map(module_name, events.names)], events.name)


def frames(events: Events, owned: EventOwners) -> Entities:
    """Rows by Python function: its own time; of one that is built in, by who calls it."""
    python = events.category == Category.PYTHON
    frame = np.flatnonzero(python)
    around = inherited(owned.parent, np.where(python, np.arange(len(events)), NOTHING))
    above = owned.parent[frame]
    caller = np.where(above >= 0, around[above], NOTHING)
    caller = np.where(caller >= 0, caller, np.where(above >= 0, above, frame))
    width = len(events.names)
    code = scattered(len(events), frame, events.name[caller] * np.int64(width) + events.name[frame])
    keys, code[frame] = np.unique(code[frame], return_inverse=True)
    names = [
        _called(events.names[key % width], events.names[key // width]) for key in keys.tolist()
    ]
    occurrence = scattered(len(events), frame, frame)
    return by_key(occurrence, names, code)


_RECORDING = re.compile(r"_record_function_|torch[/\\]autograd[/\\]profiler\.py|function_record_v1")
_BUILT_IN = re.compile(r"^<built-in (?:function|method) ([^ >]+)")
_ADDRESS = re.compile(r" object at 0x[0-9a-f]+(?=>?$)")


def _called(name: str, caller: str) -> str:
    """How people call a frame: built-in ones by their caller and without an address."""
    if _RECORDING.search(name):
        return "record_function, the profiler's own"
    found = _BUILT_IN.match(name)
    return f"{found[1]}, called by {caller}" if found and caller != name else _ADDRESS.sub("", name)


def kernels(events: Events, owned: EventOwners) -> Entities:
    """Rows by the name of the device work, and of a host's fused kernels and collectives."""
    on_host = (events.category == Category.OPERATOR) & events.called(is_fused)
    on_host |= (events.category == Category.ANNOTATION) & events.called(COLLECTIVE.search)
    chosen = events.works | on_host
    occurrence = np.where(chosen, np.arange(len(events)), NOTHING)
    return by_key(occurrence, events.names, events.name)


def by_key(occurrence: Int64s, names: Sequence[str], code: NDArray[np.integer]) -> Entities:
    """Rows by the name of the code, (n,), of the occurrence, (n,), of each event, or NOTHING."""
    belongs = occurrence >= 0
    belongs[belongs] = code[occurrence[belongs]] >= 0
    codes = code[occurrence[belongs]]
    used = np.flatnonzero(np.bincount(codes))
    named = [names[one] for one in used.tolist()]
    rows = {name: row for row, name in enumerate(dict.fromkeys(filter(None, named)))}
    numbers = [rows.get(name, NOTHING) for name in named]
    row_of = scattered(int(used.max(initial=-1)) + 1, used, numbers)
    part = scattered(len(occurrence), belongs, row_of[codes])
    return Entities(
        names=tuple(rows),
        part=part,
        shares=tuple({row: 1.0} for row in range(len(rows))),
        instance=np.where(part >= 0, occurrence, NOTHING),
    )

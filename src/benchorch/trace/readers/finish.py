"""Gathered columns as `Events`: names and lanes in an order of their own, joins made clean."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Int8s, Int32s, Int64s, mask
from benchorch.trace.events import DEVICE_WORK, DISPATCHER, NOTHING, Category, Events, Lane, among
from benchorch.trace.lookup import by_lane, joined_by
from benchorch.trace.nesting import by_start, nest, spans_of
from benchorch.trace.readers.columns import ON_STREAMS, Gathered, program_of
from benchorch.trace.readers.records import Begin, Record, integer, integers, nanoseconds, word
from benchorch.units import NS_PER_US

SYNC_ROWS = 1_000_000  # newer exporters add it to a synchronisation's stream, for a row
_DIGITS = re.compile(r"^-\d+|\d+")
_MOST_STREAM = 2**31 - 1


def thread_lane(process: object, thread: object) -> Lane:
    """The lane of a host thread."""
    return Lane(process=word(process), thread=word(thread), program=program_of(process))


def stream_lane(
    process: object, thread: object, device: object, stream: object, works: bool, program: str = ""
) -> Lane:
    """The lane of a stream by its own numbers, or its row's; that of a device's synchronisation."""
    number = integer(stream)
    if number < 0 and not works:
        return thread_lane(process, thread)
    if not 0 <= number <= _MOST_STREAM:
        number = _row(thread)
    owner = integer(device)
    owner = owner if owner >= 0 else max(_row(process), 0)
    process, thread = str(owner), str(number)
    return Lane(process=process, thread=thread, device=owner, stream=number, program=program)


def _by_program(lanes: Sequence[Lane]) -> Sequence[Lane]:
    """Lanes with a device for each process that has it, where several processes have devices."""
    devices = sorted({(lane.program, lane.device) for lane in lanes if lane.on_device})
    if len({program for program, _ in devices}) < 2:
        return [replace(lane, program="") for lane in lanes]

    def apart(lane: Lane) -> Lane:
        if not lane.on_device:
            return replace(lane, program=lane.program or lane.process)
        device = devices.index((lane.program, lane.device))
        process = f"{lane.device} of process {lane.program}"
        return replace(lane, process=process, device=device, offset=device - lane.device)

    return [*map(apart, lanes)]


def _row(spelled: object) -> int:
    """The number in what a row is called, such as ``stream 7``; 0 if there is none, or -1."""
    digits = _DIGITS.search(word(spelled))
    number = max(int(digits.group()[:18]), 0) if digits else 0
    return (number - SYNC_ROWS if number >= SYNC_ROWS else number) % (_MOST_STREAM + 1)


def lane_order(lane: Lane) -> tuple[object, ...]:
    """A key that sorts host threads before streams, by number where they have one."""
    ids = []
    for spelled in (lane.process, lane.thread):
        number = integer(spelled)
        ids.append((0 if number == NOTHING else number, spelled))
    return (lane.device, lane.stream, *ids)


Columns = dict[str, NDArray[Any]]

_NODE_SUFFIX = "_kernel_time"
_OPENS = re.compile(
    r"_record_function_enter|torch[/\\](_ops|autograd[/\\]profiler|profiler[/\\]profiler)\.py"
    r"|contextlib\.py|: __enter__$|^c10d::|^record_param_comms"
)
_AWAITS = re.compile(r"built-in method wait of ")
_STRAY_RATIO, _STRAY_NS, _LONGEST_NS = 100, 3_600_000_000_000, 30 * 86_400_000_000_000
_COPIES = re.compile(r"Memcpy(Host|Device)|hipMemcpy")  # that ONNX Runtime calls kernels
_FENCES = ("_fence_before", "_fence_after")
_RANGES = ("ProfilerStep#", "enumerate(DataLoader)#", "Optimizer.")
"""Ranges of PyTorch's own, which its exporters before 1.12 call operators."""


def finished(gathered: Gathered, details: Callable[[Int64s, Sequence[int]], Any]) -> Events | None:
    """The events of all that was gathered, which is used up; None without any.

    `details` reads further arguments of events from the file, by the places of all.
    """
    pieces, repairs = gathered.pieces, gathered.repairs
    if gathered.halves:
        ends_ns = [int((piece["start_ns"] + piece["duration_ns"]).max()) for piece in pieces]
        gathered.add_complete(*_paired(gathered.halves, max(ends_ns, default=0), repairs))
    repairs["wrong type"] += gathered.names.mended + gathered.lanes.mended + gathered.words.mended
    if not pieces:
        return None
    columns = {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in [*pieces[0]]}
    pieces.clear()
    if gathered.halves:
        order = np.argsort(columns["place"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
    columns = _without_strays(columns, repairs)
    columns["lane"], lanes = _lanes(gathered, columns["lane"])
    columns = _without_duplicates(columns, repairs)
    columns["category"], columns["name"], names = _names(gathered, columns)
    streams = np.array([lane.stream for lane in lanes], dtype=np.int32)
    on_streams = among(columns["category"], ON_STREAMS)
    columns["stream"] = np.where(on_streams, streams[columns["lane"]], np.int32(NOTHING))
    columns["forward_lane"] = _forward_lanes(columns)
    columns["correlation"] = _unambiguous(columns, repairs)
    columns["graph_node"][columns["graph_node"] == 0] = NOTHING  # CUPTI's word for no graph
    recorded_on = columns.pop("recorded_on")  # the stream that a wait names is that of the record
    waits = np.flatnonzero((recorded_on >= 0) & (columns["awaited"] >= 0))
    calls = np.flatnonzero(columns["category"] == Category.RUNTIME)
    call = joined_by(columns["correlation"], calls, columns["awaited"][waits])
    columns["stream"][call[call != NOTHING]] = recorded_on[waits[call != NOTHING]]
    given: dict[str, Any] = {
        "details": partial(details, columns.pop("place")),
        "repairs": dict(sorted((+repairs).items())),
        "allocated": _allocated(gathered),
        "rank": gathered.rank,
        "pytorch": gathered.pytorch and _may_be_of_pytorch(columns["category"]),
        **columns,
    }
    events = Events(**given, names=names, lanes=lanes)
    _open_ranges(events)
    _last_in_c(events)
    return events


def _may_be_of_pytorch(category: Int8s) -> bool:
    """Whether some events have categories of PyTorch's profiler, and none those of ONNX Runtime."""
    of_others = among(category, (Category.NODE, Category.SESSION)).any()
    return not of_others and bool((category != Category.OTHER).any())


def _open_ranges(events: Events) -> None:
    """Begin ranges that Python opened where the calls that opened them end.

    A range begins inside of those calls and outlives them: what comes next is in the range.
    """
    opens, awaits = (events.called(pattern.search) for pattern in (_OPENS, _AWAITS))
    category = events.category
    frame = np.flatnonzero((category == Category.PYTHON) | (category == Category.OPERATOR) & opens)
    opened = np.flatnonzero(category == Category.ANNOTATION)
    if not len(frame) or not len(opened):
        return
    frame = frame[by_start(events.lane[frame], events.start_ns[frame])]
    spans = lane, start_ns, end_ns = spans_of(events, frame)
    parent = nest(spans).parent
    opens, awaits = opens[frame], awaits[frame]
    on, begin_ns, last_ns = spans_of(events, opened)
    at = by_lane(lane, start_ns, on, begin_ns, "right") - 1
    at = np.where((at >= 0) & (lane[at] == on), at, NOTHING)
    while (over := (at != NOTHING) & (end_ns[at] <= begin_ns)).any():
        at = np.where(over, parent[at], at)
    while (inside := (at != NOTHING) & opens[at] & (end_ns[at] < last_ns)).any():
        begin_ns = np.where(inside, end_ns[at], begin_ns)
        at = np.where(inside, parent[at], at)
    # The calling thread may carry out a collective itself: in the call that waits for it.
    at = np.minimum(by_lane(lane, start_ns, on, begin_ns), len(lane) - 1)
    around = awaits[at] & (lane[at] == on) & (end_ns[at] >= last_ns)
    around &= (start_ns[at] >= begin_ns) & (start_ns[at] < last_ns)
    begin_ns = np.where(around, start_ns[at], begin_ns)
    events.start_ns[opened], events.duration_ns[opened] = begin_ns, last_ns - begin_ns


def _last_in_c(events: Events) -> None:
    """NumPy's functions in C last until their caller's next call, or its end.

    A profiler records the call of Python's part alone, which ends before the work begins.
    """
    these = events.called(DISPATCHER.match) & (events.category == Category.PYTHON)
    if not these.any():
        return
    rows = np.flatnonzero(among(events.category, (Category.PYTHON, Category.OPERATOR)))
    rows = rows[by_start(events.lane[rows], events.start_ns[rows])]
    spans = lane, start_ns, end_ns = spans_of(events, rows)
    at = np.flatnonzero(these[rows])
    parent = nest(spans).parent[at]
    at, parent = at[parent != NOTHING], parent[parent != NOTHING]
    following = np.minimum(by_lane(lane, start_ns, lane[at], end_ns[at]), len(rows) - 1)
    next_ns = np.where(start_ns[following] >= end_ns[at], start_ns[following], end_ns[parent])
    next_ns = np.where(lane[following] == lane[at], next_ns, end_ns[parent])
    last_ns = np.maximum(np.minimum(next_ns, end_ns[parent]), end_ns[at])
    events.duration_ns[rows[at]] = last_ns - start_ns[at]


def _allocated(gathered: Gathered) -> dict[str, Int64s]:
    """The bytes that are allocated, by device; without what is no time or no size."""
    if not gathered.allocated:
        return {}
    at, sizes, kinds, numbers = zip(*gathered.allocated, strict=True)
    at_ns, known = nanoseconds(at)
    size = integers(sizes)
    known &= size >= 0
    on = np.where(integers(kinds) == 0, NOTHING, integers(numbers))
    found = {}
    for number in np.unique(on[known]).tolist():
        mine = known & (on == number)
        rows = np.stack([at_ns[mine], size[mine]], axis=1)
        label = "host" if number == NOTHING else f"device {number}"
        found[label] = rows[np.argsort(rows[:, 0], kind="stable")]
    return found


def _paired(
    halves: Sequence[tuple[int, Record]], last_ns: int, repairs: Counter[str]
) -> tuple[list[Record], Int64s]:
    """Complete records of events that the trace has in two, begin and end; and their places.

    On each thread an end closes the last open begin. A begin without an end lasts to the last
    time; an end without a begin is dropped.
    """
    times, known = nanoseconds([record.ts for _, record in halves])
    order = np.lexsort((np.arange(len(halves)), times))
    open_by_thread: dict[tuple[str, str], list[int]] = {}
    ends: dict[int, int] = {}
    for at in order[known[order]].tolist():
        record = halves[at][1]
        waiting = open_by_thread.setdefault((word(record.pid), word(record.tid)), [])
        if isinstance(record, Begin):
            waiting.append(at)
        elif waiting:
            ends[waiting.pop()] = int(times[at])
        else:
            repairs["end without a begin"] += 1
    last_ns = max([last_ns, *times.tolist()])
    for waiting in open_by_thread.values():
        ends.update(dict.fromkeys(waiting, last_ns))
        repairs["begin without an end"] += len(waiting)
    begins = sorted(ends, key=lambda at: halves[at][0])
    rows = []
    for at in begins:
        given = msgspec.structs.asdict(halves[at][1])
        rows.append(Record(**{**given, "dur": (ends[at] - int(times[at])) / NS_PER_US}))
    return rows, np.array([halves[at][0] for at in begins], dtype=np.int64)


def _lanes(gathered: Gathered, codes: Int32s) -> tuple[Int32s, tuple[Lane, ...]]:
    """The column of lanes by their final numbers, and the lanes with their labels."""
    found = [
        thread_lane(*key) if len(key) == 2 else stream_lane(*key) for key in gathered.lanes.values
    ]
    column, ordered = _renumbered(codes, _by_program(found), lane_order)

    def label(lane: Lane) -> str:
        if lane.on_device:
            process = f" of process {lane.program}" if lane.program else ""
            return f"device {lane.number} stream {lane.stream}{process}"
        return min(gathered.thread_names[lane.process, lane.thread] or {f"thread {lane.thread}"})

    return column, tuple(replace(lane, label=label(lane)) for lane in ordered)


def _names(gathered: Gathered, columns: Columns) -> tuple[Int8s, Int32s, tuple[str, ...]]:
    """Categories, names by final numbers, and the names: ONNX Runtime's as in the graph."""
    texts = [word(value) for value in gathered.names.values]
    fences = np.array([text.endswith(_FENCES) for text in texts], dtype=bool)
    codes, category = columns["name"], columns["category"]
    is_node = (category == Category.NODE) & ~fences[codes]
    category = np.where((category == Category.NODE) & ~is_node, Category.OTHER, category)
    copies = np.array([bool(_COPIES.match(text)) for text in texts], dtype=bool)
    category = np.where((category == Category.KERNEL) & copies[codes], Category.COPY, category)
    ranges = np.array([text.startswith(_RANGES) for text in texts], dtype=bool)[codes]
    category = np.where(ranges & (category == Category.OPERATOR), Category.ANNOTATION, category)
    texts += [text.removesuffix(_NODE_SUFFIX) for text in texts]
    codes = codes + is_node * np.int32(len(texts) // 2)
    return category.astype(np.int8), *_renumbered(codes, texts)


def _renumbered(
    codes: Int32s, values: Sequence[Any], key: Callable[[Any], Any] | None = None
) -> tuple[Int32s, tuple[Any, ...]]:
    """A column by the numbers of its distinct values in order, and these values."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(values))).tolist()
    ordered = sorted({values[code] for code in used}, key=key)
    index = {value: number for number, value in enumerate(ordered)}
    table = np.zeros(len(values), dtype=np.int32)
    table[used] = [index[values[code]] for code in used]
    return table[codes], tuple(ordered)


def _without_strays(columns: Columns, repairs: Counter[str]) -> Columns:
    """Without events whose time has nothing to do with that of all others."""
    start_ns = columns["start_ns"]
    away_ns = np.abs(start_ns - int(np.median(start_ns)))
    usual_ns = max(_STRAY_RATIO * float(np.quantile(away_ns, 0.9)), _STRAY_NS)
    limit_ns = min(usual_ns, _LONGEST_NS)
    keep = (away_ns <= limit_ns) & (columns["duration_ns"] <= 2 * limit_ns)
    if keep.all() or not keep.any():
        return columns
    repairs["stray time stamp"] += int((~keep).sum())
    return {name: column[keep] for name, column in columns.items()}


def _without_duplicates(columns: Columns, repairs: Counter[str]) -> Columns:
    work = np.flatnonzero(among(columns["category"], DEVICE_WORK))
    begins = columns["start_ns"][work]
    together = np.sort(begins)
    together = together[1:][np.diff(together) == 0]  # few: sorting all by all keys takes long
    work = work[np.isin(begins, together)]
    keys = ("start_ns", "lane", "duration_ns", "name", "correlation", "graph_node")
    rows = np.stack([columns[name][work] for name in keys])
    order = np.lexsort(rows)
    twice = work[order[1:][(rows[:, order[1:]] == rows[:, order[:-1]]).all(axis=0)]]
    if not len(twice):
        return columns
    repairs["duplicate device event"] += len(twice)
    keep = ~mask(len(columns["place"]), twice)
    return {name: column[keep] for name, column in columns.items()}


def _forward_lanes(columns: Columns) -> Int32s:
    """For each event with a forward thread the lane of that thread, (n,); NOTHING for the others.

    PyTorch exports its own number of it: it is the lane on which forward operators used most of
    the sequence numbers before.
    """
    sequence, forward_thread = columns["sequence"], columns.pop("forward_thread")
    lane, start_ns = columns["lane"], columns["start_ns"]
    result = np.full(len(lane), NOTHING, dtype=np.int32)
    candidates = np.flatnonzero((forward_thread <= 0) & (sequence >= 0))
    for thread in np.unique(forward_thread[forward_thread > 0]):
        backward = np.flatnonzero(forward_thread == thread)
        order = backward[sequence[backward] >= 0]
        if not len(order) or not len(candidates):
            continue
        order = order[np.lexsort((-start_ns[order], sequence[order]))]
        numbers, first = np.unique(sequence[order], return_index=True)
        last_start_ns = start_ns[order[first]]
        at = np.minimum(np.searchsorted(numbers, sequence[candidates]), len(numbers) - 1)
        fits = (numbers[at] == sequence[candidates]) & (start_ns[candidates] < last_start_ns[at])
        if fits.any():
            result[backward] = np.argmax(np.bincount(lane[candidates[fits]]))
    return result


def _unambiguous(columns: Columns, repairs: Counter[str]) -> Int64s:
    """Correlations, no two host calls with the same one: the first and outermost call keeps it."""
    correlation = columns["correlation"].copy()
    calls = np.flatnonzero((columns["category"] == Category.RUNTIME) & (correlation >= 0))
    found = np.sort(correlation[calls])
    calls = calls[np.isin(correlation[calls], found[1:][np.diff(found) == 0])]  # few, or none
    keys = (-columns["duration_ns"][calls], columns["start_ns"][calls], correlation[calls])
    calls = calls[np.lexsort(keys)]
    later = calls[1:][correlation[calls[1:]] == correlation[calls[:-1]]]
    repairs["duplicate correlation"] += len(later)
    correlation[later] = NOTHING
    return correlation

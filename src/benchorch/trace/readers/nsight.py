"""SQLite exports of Nsight Systems (``nsys export --type sqlite``).

Written after NVIDIA's documentation of the schema and tested on synthetic files of that schema
only: no real export was available. Tables and columns that are missing count as empty, for Nsight
makes only those it needs. Unlike PyTorch's profiler, Nsight records waits of host threads in the
operating system: they become ranges called ``wait:<call>``. Its other calls are no ranges.
"""

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from benchorch.errors import TraceError
from benchorch.trace.arrays import Int64s
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.lookup import by_lane, latest_so_far
from benchorch.trace.nesting import by_start
from benchorch.trace.readers.columns import Codes, Gathered, Piece
from benchorch.trace.readers.finish import finished
from benchorch.trace.readers.records import MOST_NS, integer, integers, word

WAITS = re.compile(
    r"(pthread_(cond_|join|mutex_lock|mutex_timedlock|rwlock_|barrier_wait|timedjoin)|sem_|futex"
    r"|p?poll|p?select|epoll_p?wait|wait|io_getevents|accept|recv)"
)
"""Calls of the operating system that end because of another thread or process."""
_LOCKS = re.compile(r"wait:pthread_(mutex|rwlock)")

_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_CHUNK_ROWS, _ROWID_BITS, _TID_BITS = 65_536, 48, 24
_TID = (1 << _TID_BITS) - 1
_VERSION = re.compile(r"_v\d+$")

Row = tuple[object, ...]
Text = Callable[[object], str]  # of a number in the table of strings, or in that of memories


class _EventTable(NamedTuple):
    name: str
    category: Category
    named_by: tuple[str, ...]  # the columns that an event's name is made of
    on_host: bool = False  # on the lane of ``globalTid``, else of ``deviceId`` and ``streamId``


_CUPTI = "CUPTI_ACTIVITY_KIND_"
TABLES = (
    _EventTable(f"{_CUPTI}RUNTIME", Category.RUNTIME, ("nameId",), on_host=True),
    _EventTable(f"{_CUPTI}KERNEL", Category.KERNEL, ("demangledName", "shortName")),
    _EventTable(f"{_CUPTI}GRAPH_TRACE", Category.KERNEL, ("graphId",)),
    _EventTable(f"{_CUPTI}MEMCPY", Category.COPY, ("copyKind", "srcKind", "dstKind")),
    _EventTable(f"{_CUPTI}MEMSET", Category.FILL, ("bytes",)),
    _EventTable(f"{_CUPTI}SYNCHRONIZATION", Category.SYNC, ("syncType",)),
    _EventTable("NVTX_EVENTS", Category.ANNOTATION, ("text", "textId"), on_host=True),
    _EventTable("OSRT_API", Category.OTHER, ("nameId",), on_host=True),
    _EventTable("PROFILER_OVERHEAD", Category.OVERHEAD, ("nameId",), on_host=True),
)
_SYSTEM_CALLS = [table.name for table in TABLES].index("OSRT_API")


def _name(table: str, row: Row, string: Text, memory: Text) -> str:
    """The name of an event, made of the columns that its table names it by."""
    text = string(row[0])
    match table.removeprefix(_CUPTI):
        case "KERNEL":
            return text or string(row[1])
        case "GRAPH_TRACE":
            return f"CUDA graph {integer(row[0])}"
        case "MEMCPY":
            kind, ends = (
                f"Memcpy {_COPIES.get(integer(row[0]), 'unknown')}",
                [*map(memory, row[1:])],
            )
            return f"{kind} ({ends[0]} -> {ends[1]})" if all(ends) else kind
        case "MEMSET":
            return "Memset"
        case "SYNCHRONIZATION":
            return _SYNCS.get(integer(row[0]), "Sync")
        case "NVTX_EVENTS":
            return word(row[0]) or string(row[1])
        case "OSRT_API":
            return f"wait:{text}" if WAITS.match(text) else text
    return _VERSION.sub("", text)


_EVENT = ("globalPid", "correlationId", "eventId", "eventSyncId", "streamId")
_ALL = (
    "start",
    "end",
    "globalTid",
    "globalPid",
    "deviceId",
    "streamId",
    "correlationId",
    "graphNodeId",
)
_CORRELATION_BITS = 32  # what a correlation takes; each process counts its own


@final
class _File:
    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self.execute = connection.execute
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        self.columns = {  # names of the columns by table; views are none
            name: {row[1] for row in self.execute(f"PRAGMA table_info({_quoted(name)})")}
            for name in [str(name) for (name,) in self.execute(tables)]
        }

    def chunks(self, table: str, requested: Sequence[str]) -> Iterator[list[Row]]:
        """Columns of a few rows at a time, ``rowid`` first; an absent one is all None."""
        there = self.columns.get(table, ())
        names = (_quoted(name) if name in there else "NULL" for name in requested)
        if there:
            cursor = self.execute(f"SELECT rowid, {', '.join(names)} FROM {_quoted(table)}")
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                yield list(zip(*rows, strict=True))

    def rows(self, table: str, *requested: str) -> Iterator[Row]:
        """Columns row by row."""
        for _, *columns in self.chunks(table, requested):
            yield from zip(*columns, strict=True)

    def texts(self, table: str, value: str) -> Text:
        """The text of each ``id`` of a table; empty for others."""
        known = {integer(key): word(text) for key, text in self.rows(table, "id", value)}
        return lambda number: known.get(integer(number), "")


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """The file, opened so that no journal is made; TraceError if SQLite cannot read it."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            yield _File(connection)
    except sqlite3.Error as error:
        raise TraceError(f"{path} is an SQLite file that cannot be read: {error}.") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_nsight(path: Path) -> Events:
    """The events of an export; TraceError if it holds none."""
    gathered = Gathered(pytorch=False)
    with _opened(path) as file:
        texts = file.texts("StringIds", "value"), file.texts("ENUM_CUDA_MEM_KIND", "label")
        processes = Codes()
        awaited = _awaited(file, processes)
        for number, table in enumerate(TABLES):
            for columns in file.chunks(table.name, (*_ALL, *table.named_by)):
                _gather(gathered, table, number, columns, texts, awaited, processes)
        for thread, name in file.rows("ThreadNames", "globalTid", "nameId"):
            gathered.name_thread(*_thread(thread), texts[0](name))
        known = ", ".join(sorted(file.columns)[:8]) or "none"
    gathered.pieces = _without_inner_calls(gathered)
    events = finished(gathered, partial(_details, path))
    if events is None:
        raise TraceError(
            f"{path} is an SQLite file without events of Nsight Systems (tables: {known}). Make "
            "one with: nsys export --type sqlite <report>."
        )
    return events


def _gather(
    gathered: Gathered,
    table: _EventTable,
    number: int,
    columns: Sequence[Row],
    texts: tuple[Text, Text],
    awaited: Mapping[int, tuple[int, int]],
    processes: Codes,
) -> None:
    """Take some rows of a table; those that never ended are left out."""
    rowid, start, end, thread, process, device, stream, correlation, graph_node, *named_by = columns
    start_ns, end_ns = integers(start), integers(end)
    ended = (start_ns != NOTHING) & (end_ns != NOTHING) & (np.abs(start_ns) <= MOST_NS)
    gathered.repairs["without a start or an end"] += int((~ended).sum())
    gathered.repairs["negative duration"] += int((ended & (end_ns < start_ns)).sum())
    sync = table.category is Category.SYNC
    names = [_name(table.name, row, *texts) for row in zip(*named_by, strict=True)]
    category = np.full(len(rowid), table.category, dtype=np.int8)
    if table.category is Category.OTHER:
        category[[name.startswith("wait:") for name in names]] = Category.ANNOTATION
    lanes: list[Hashable] = [
        (on, "synchronisation", on, own, not sync, str(_thread(one)[0]))
        for on, own, one in zip(device, stream, process, strict=True)
    ]
    correlations = _unique(correlation, thread if table.on_host else process, processes)
    unknown = NOTHING, NOTHING
    waits = [awaited.get(one, unknown) if sync else unknown for one in correlations.tolist()]
    record, recorded_on = np.array(waits, dtype=np.int64).reshape(-1, 2).T
    piece = {
        "place": (np.int64(number) << _ROWID_BITS) | integers(rowid),
        "category": category,
        "name": gathered.names.encoded(names),
        "lane": gathered.lanes.encoded([*map(_thread, thread)] if table.on_host else lanes),
        "start_ns": start_ns,
        "duration_ns": np.clip(end_ns - start_ns, 0, MOST_NS),
        "correlation": correlations,
        "graph_node": integers(graph_node),
        "awaited": record,
        "recorded_on": recorded_on,
        **dict.fromkeys(
            ("external_id", "sequence", "forward_thread", "group"),
            np.full(len(rowid), NOTHING, dtype=np.int64),
        ),
    }
    if ended.any():
        gathered.pieces.append({name: column[ended] for name, column in piece.items()})


def _without_inner_calls(gathered: Gathered) -> list[Piece]:
    """The pieces without calls of the system that a call of the device's runtime makes.

    That call has all of its time, and what it waits for is known. Locks that other threads hold
    stay.
    """
    calls = [piece for piece in gathered.pieces if piece["category"][0] == Category.RUNTIME]
    if not calls:
        return gathered.pieces
    lane, start_ns, took_ns = (
        np.concatenate([piece[name] for piece in calls])
        for name in ("lane", "start_ns", "duration_ns")
    )
    order = by_start(lane, start_ns)
    lane, start_ns, end_ns = lane[order], start_ns[order], (start_ns + took_ns)[order]
    reached_ns = end_ns[latest_so_far(lane, end_ns)]
    locks = np.array([bool(_LOCKS.match(word(name))) for name in gathered.names.values])

    def outside(piece: Piece) -> Piece:
        if piece["place"][0] >> _ROWID_BITS != _SYSTEM_CALLS:
            return piece
        at = by_lane(lane, start_ns, piece["lane"], piece["start_ns"], "right") - 1
        inside = (at >= 0) & (lane[at] == piece["lane"])
        inside &= reached_ns[at] >= piece["start_ns"] + piece["duration_ns"]
        kept = ~inside | locks[piece["name"]]
        return {name: column[kept] for name, column in piece.items()}

    return [piece for one in gathered.pieces if len((piece := outside(one))["place"])]


def _thread(global_id: object) -> tuple[int, int]:
    """Process and thread, which the export packs into one number with the machine's above."""
    number = integer(global_id)
    return (number >> _TID_BITS) & _TID, number & _TID


def _unique(correlation: Row, process: Row, processes: Codes) -> Int64s:
    """Correlations that are unique in the file, by process; an unknown one counts as the first."""
    numbers, owner = integers(correlation), integers(process) >> _TID_BITS
    known = owner >= 0
    number = np.zeros(len(owner), dtype=np.int64)
    number[known] = processes.encoded(owner[known].tolist())
    return np.where(numbers >= 0, numbers + (number << _CORRELATION_BITS), numbers)


def _awaited(file: _File, processes: Codes) -> Mapping[int, tuple[int, int]]:
    """The correlation of the event record that each synchronisation waits for, and its stream.

    By the synchronisation's own correlation; NOTHING where they are unknown.
    Newer exports name the record; else it is the last one of that event before the wait.
    """
    records, syncs = (
        list(_waited_for(file, f"{_CUPTI}{table}", processes))
        for table in ("CUDA_EVENT", "SYNCHRONIZATION")
    )
    exact = {(of, sync): (made, on) for of, made, _, sync, on in records if sync != NOTHING}
    by_event: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for of, made, event, _, on in sorted(records):
        by_event.setdefault((of, event), []).append((made, on))
    found = {}
    for of, correlation, event, sync, _ in syncs:
        earlier = by_event.get((of, event), []) if event != NOTHING else []
        last = bisect_left(earlier, (correlation, NOTHING))
        before = earlier[last - 1] if last else (NOTHING, NOTHING)
        found[correlation] = exact.get((of, sync), before)
    return found


def _waited_for(file: _File, table: str, processes: Codes) -> Iterator[tuple[int, ...]]:
    """Process, correlation, event, number of the wait and stream of each row."""
    for _, process, correlation, *others in file.chunks(table, _EVENT):
        columns = integers(process), _unique(correlation, process, processes)
        yield from zip(*(one.tolist() for one in (*columns, *map(integers, others))), strict=True)


def _details(
    path: Path, place: Int64s, indices: Sequence[int]
) -> Mapping[int, Mapping[str, object]]:
    """The columns of the rows of some events, by table and row of each; without empty values."""
    found = {}
    with _opened(path) as file:
        for index in indices:
            number, rowid = divmod(int(place[index]), 1 << _ROWID_BITS)
            table = _quoted(TABLES[number].name)
            cursor = file.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,))
            names = [column[0] for column in cursor.description]
            row = zip(names, cursor.fetchone() or (), strict=False)
            found[index] = {name: value for name, value in row if value is not None}
    return found

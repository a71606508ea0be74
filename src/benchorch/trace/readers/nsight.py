"""SQLite exports of Nsight Systems (``nsys export --type sqlite``).

Written after NVIDIA's documentation of the schema and tested on synthetic files of that schema
only: no real export was available. Tables and columns that are missing count as empty, for Nsight
makes only those it needs. Unlike PyTorch's profiler, Nsight records waits of host threads in the
operating system: they become ranges called ``wait:<call>``.
"""

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, final

import numpy as np

from benchorch.errors import TraceError
from benchorch.trace.arrays import Int64s
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.readers.columns import Gathered
from benchorch.trace.readers.finish import finished
from benchorch.trace.readers.values import MOST_NS, integer, integers, word

_CHUNK_ROWS = 65_536


@final
class SqliteFile:
    """The plain tables of one file; opened read-only, so that no journal is made beside it.

    Attributes:
        columns: names of the columns by table; views are none.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        connection.text_factory = _text
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        names = [str(name) for (name,) in self._run(tables)]
        self.columns: Mapping[str, frozenset[str]] = {
            name: frozenset(str(row[1]) for row in self._run(f"PRAGMA table_info({_quoted(name)})"))
            for name in names
        }

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """The file for as long as it is needed; TraceError if SQLite cannot read it."""
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                yield cls(path, connection)
        except sqlite3.Error as error:
            raise TraceError(f"{path} is an SQLite file that cannot be read: {error}.") from error

    def chunks(self, table: str, requested: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """Columns of a few rows at a time, ``rowid`` first.

        A column that the table does not have is all None; a table that is not there gives none.
        """
        if table not in self.columns:
            return
        there = self.columns[table]
        names = (_quoted(name) if name in there else "NULL" for name in requested)
        cursor = self._run(f"SELECT rowid, {', '.join(names)} FROM {_quoted(table)}")
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            yield list(zip(*rows, strict=True))

    def row(self, table: str, rowid: int) -> Mapping[str, object]:
        """All columns of one row by name, without those that have no value; empty if it is gone."""
        cursor = self._run(f"SELECT * FROM {_quoted(table)} WHERE rowid = ?", rowid)
        names = [column[0] for column in cursor.description]
        values = cursor.fetchone() or ()
        return {
            name: value for name, value in zip(names, values, strict=False) if value is not None
        }

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


WAITS = re.compile(
    r"(pthread_(cond_|join|mutex_lock|mutex_timedlock|rwlock_|barrier_wait|timedjoin)|sem_|futex"
    r"|p?poll|p?select|epoll_p?wait|wait|io_getevents|accept|recv)"
)
"""Calls of the operating system that end because of another thread or process."""

_COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_TID_BITS = 24
_TID = (1 << _TID_BITS) - 1
_ROWID_BITS = 48
_VERSION = re.compile(r"_v\d+$")

Row = tuple[object, ...]
Naming = Callable[["_Words", Row], str]


@dataclass(frozen=True, slots=True)
class _Table:
    """Table of one kind of event."""

    name: str
    category: Category
    named_by: tuple[str, ...]  # the columns that `naming` makes an event's name of
    naming: Naming
    # whether its lane is that of ``globalTid``, else of ``deviceId`` and ``streamId``
    on_host: bool = False


@final
class _Words:
    """Strings for the file's numeric ids."""

    def __init__(self, file: SqliteFile) -> None:
        self.strings = _pairs(file, "StringIds", "id", "value")
        self.memories = _pairs(file, "ENUM_CUDA_MEM_KIND", "id", "label")

    def string(self, number: object) -> str:
        """A string by its number."""
        return self.strings.get(integer(number), "")

    def memory(self, number: object) -> str:
        """A kind of memory by its number."""
        return self.memories.get(integer(number), "")


def _pairs(file: SqliteFile, table: str, key: str, value: str) -> Mapping[int, str]:
    return {
        integer(number): word(text)
        for _, numbers, texts in file.chunks(table, (key, value))
        for number, text in zip(numbers, texts, strict=True)
    }


def _called(words: _Words, row: Row) -> str:
    return _VERSION.sub("", words.string(row[0]))


def _kernel(words: _Words, row: Row) -> str:
    return words.string(row[0]) or words.string(row[1])


def _copy(words: _Words, row: Row) -> str:
    kind = f"Memcpy {_COPIES.get(integer(row[0]), 'unknown')}"
    ends = [words.memory(each) for each in row[1:]]
    return f"{kind} ({ends[0]} -> {ends[1]})" if all(ends) else kind


def _sync(_: _Words, row: Row) -> str:
    return _SYNCS.get(integer(row[0]), "Sync")


def _range(words: _Words, row: Row) -> str:
    return word(row[0]) or words.string(row[1])


def _system_call(words: _Words, row: Row) -> str:
    name = words.string(row[0])
    return f"wait:{name}" if WAITS.match(name) else name


TABLES = (
    _Table("CUPTI_ACTIVITY_KIND_RUNTIME", Category.RUNTIME, ("nameId",), _called, on_host=True),
    _Table("CUPTI_ACTIVITY_KIND_KERNEL", Category.KERNEL, ("demangledName", "shortName"), _kernel),
    _Table(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        Category.KERNEL,
        ("graphId",),
        lambda _, row: f"CUDA graph {integer(row[0])}",
    ),
    _Table("CUPTI_ACTIVITY_KIND_MEMCPY", Category.COPY, ("copyKind", "srcKind", "dstKind"), _copy),
    _Table("CUPTI_ACTIVITY_KIND_MEMSET", Category.FILL, ("bytes",), lambda _, __: "Memset"),
    _Table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", Category.SYNC, ("syncType",), _sync),
    _Table("NVTX_EVENTS", Category.ANNOTATION, ("text", "textId"), _range, on_host=True),
    _Table("OSRT_API", Category.ANNOTATION, ("nameId",), _system_call, on_host=True),
    _Table("PROFILER_OVERHEAD", Category.OVERHEAD, ("nameId",), _called, on_host=True),
)

_ALL = ("start", "end", "globalTid", "deviceId", "streamId", "correlationId", "graphNodeId")


def read_nsight(path: Path) -> Events:
    """The events of an export; TraceError if it holds none."""
    gathered = Gathered()
    with SqliteFile.opened(path) as file:
        words = _Words(file)
        awaited = _awaited(file)
        for number, table in enumerate(TABLES):
            for columns in file.chunks(table.name, (*_ALL, *table.named_by)):
                _gather(gathered, table, number, columns, words, awaited)
        for _, threads, names in file.chunks("ThreadNames", ("globalTid", "nameId")):
            for thread, name in zip(threads, names, strict=True):
                gathered.name_thread(*_thread(thread), words.string(name))
        devices = [
            word(name) for _, names in file.chunks("TARGET_INFO_GPU", ("name",)) for name in names
        ]
        facts = {"format": "nsight", "devices": devices, "left_out": dict(+gathered.left_out)}
        tables = sorted(file.columns)
    done = finished(gathered)
    if done is None:
        known = ", ".join(tables[:8]) or "none"
        raise TraceError(
            f"{path} is an SQLite file without events of Nsight Systems (tables: {known}). Make "
            "one with: nsys export --type sqlite <report>."
        )
    events, place = done
    return replace(
        events,
        details=NsightDetails(path=path, place=place),
        repairs=dict(sorted((+gathered.repairs).items())),
        facts=facts,
    )


def _gather(
    gathered: Gathered,
    table: _Table,
    number: int,
    columns: Sequence[Row],
    words: _Words,
    awaited: Mapping[int, int],
) -> None:
    """Take some rows of a table; those that never ended are left out."""
    rowid, start, end, thread, device, stream, correlation, graph_node, *named_by = columns
    start_ns, end_ns = integers(start), integers(end)
    ended = (start_ns != NOTHING) & (end_ns != NOTHING) & (np.abs(start_ns) <= MOST_NS)
    gathered.left_out["without a start or an end"] += int((~ended).sum())
    gathered.repairs["negative duration"] += int((ended & (end_ns < start_ns)).sum())
    nothing = np.full(len(rowid), NOTHING, dtype=np.int64)
    correlations = integers(correlation)
    names = [table.naming(words, row) for row in zip(*named_by, strict=True)]
    piece = {
        "place": (np.int64(number) << _ROWID_BITS) | integers(rowid),
        "category": np.full(len(rowid), table.category, dtype=np.int8),
        "name": gathered.names.encoded(names),
        "lane": gathered.lanes.encoded(_lane_keys(table, thread, device, stream)),
        "start_ns": start_ns,
        "duration_ns": np.clip(end_ns - start_ns, 0, MOST_NS),
        "correlation": correlations,
        "graph_node": integers(graph_node),
        "awaited": np.array([awaited.get(each, NOTHING) for each in correlations.tolist()])
        if table.category is Category.SYNC
        else nothing,
        **dict.fromkeys(("external_id", "sequence", "forward_thread", "recorded_on"), nothing),
    }
    if ended.any():
        gathered.pieces.append({name: column[ended] for name, column in piece.items()})


def _lane_keys(table: _Table, thread: Row, device: Row, stream: Row) -> list[Hashable]:
    if table.on_host:
        return [_thread(each) for each in thread]
    works = table.category is not Category.SYNC
    return [
        (each, "synchronisation", each, number, works)
        for each, number in zip(device, stream, strict=True)
    ]


def _thread(global_id: object) -> tuple[int, int]:
    """Process and thread, which the export packs into one number with the machine's above."""
    number = integer(global_id)
    return (number >> _TID_BITS) & _TID, number & _TID


def _awaited(file: SqliteFile) -> Mapping[int, int]:
    """The correlation of the event record that each synchronisation waits for, by its own.

    Newer exports name the record; else it is the last one of that event before the wait.
    """
    records = _rows(file, "CUPTI_ACTIVITY_KIND_CUDA_EVENT")
    exact = {sync: correlation for correlation, _, sync in records if sync != NOTHING}
    by_event: dict[int, list[int]] = {}
    for correlation, event, _ in sorted(records):
        by_event.setdefault(event, []).append(correlation)
    found = {}
    for correlation, event, sync in _rows(file, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
        earlier = by_event.get(event, []) if event != NOTHING else []
        last = bisect_left(earlier, correlation)
        found[correlation] = exact.get(sync, earlier[last - 1] if last else NOTHING)
    return found


def _rows(file: SqliteFile, table: str) -> list[tuple[int, int, int]]:
    """Correlation, event and synchronisation of each row."""
    return [
        (correlation, event, sync)
        for _, *columns in file.chunks(table, ("correlationId", "eventId", "eventSyncId"))
        for correlation, event, sync in zip(*(map(integer, each) for each in columns), strict=True)
    ]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NsightDetails:
    """All columns of the rows that events were made of."""

    path: Path  # the file, which must still be what it was
    place: Int64s  # (n,) table and row of each event

    def read(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        """The columns of some events by index."""
        with SqliteFile.opened(self.path) as file:
            return {index: self._row(file, int(self.place[index])) for index in indices}

    def _row(self, file: SqliteFile, place: int) -> Mapping[str, object]:
        return file.row(TABLES[place >> _ROWID_BITS].name, place & ((1 << _ROWID_BITS) - 1))

"""Records of a trace as unfinished columns: names, lanes and categories are codes."""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import attrgetter, ne
from typing import Any, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s
from benchorch.trace.events import BETWEEN_TWO, DEVICE_WORK, NOTHING, Category, among
from benchorch.trace.readers.records import (
    Begin,
    End,
    EventArguments,
    Instant,
    Metadata,
    Record,
    Unknown,
    integers,
    nanoseconds,
    word,
)

Piece = dict[str, NDArray[Any]]

ROW_BITS = 32  # A record's place is its block's number and its row there, as one number

_LEFT_OUT = -1  # code of complete events without a lane: they only span what others record

_CATEGORY_WORDS = {
    Category.OPERATOR: "cpu_op operator hpu_op",
    Category.ANNOTATION: "user_annotation",
    Category.PYTHON: "python_function python",
    Category.RUNTIME: "runtime driver api",
    Category.KERNEL: "kernel concurrent_kernel mtia_ccp_events",
    Category.COPY: "gpu_memcpy memcpy",
    Category.FILL: "gpu_memset memset",
    Category.OVERHEAD: "overhead",
    Category.NODE: "node",
    Category.SESSION: "session",
}
_ENDINGS = {  # whatever the maker of the device: cuda_runtime, hip_driver, xpu_sync
    "_runtime": Category.RUNTIME,
    "_driver": Category.RUNTIME,
    "_sync": Category.SYNC,
    "_event": Category.RECORD,
}
_CATEGORIES = {
    **{word: category for category, words in _CATEGORY_WORDS.items() for word in words.split()},
    **dict.fromkeys(("trace", "gpu_user_annotation", "mtia_insight"), _LEFT_OUT),
    "cpu_instant_event": Category.OTHER,
}

_FUNCTIONS = "CPU functions"  # the process of every event of `EventList.export_chrome_trace`
_RUNTIME_CALL = re.compile(r"(cuda|hip|cu)[A-Z]")

_LABEL = re.compile(r"(\[[^\]]+\])\s*-?\d+$")  # before the processes of a file made of several
_COUNTED = ("correlation", "awaited", "external_id", "sequence", "forward_thread")
_PROGRAM_BITS = 32  # what a number takes that each process counts for itself

ON_STREAMS = (*DEVICE_WORK, Category.SYNC, Category.RECORD)  # categories on the lane of a stream
_HAVING: Mapping[tuple[Category, ...], tuple[str, ...]] = {
    (*ON_STREAMS, Category.RUNTIME, Category.OTHER): ("correlation",),
    ON_STREAMS: ("graph_node", "awaited", "recorded_on"),
    (Category.OPERATOR, Category.ANNOTATION, Category.OTHER): ("sequence", "forward_thread"),
}
"""Keys that join events with others, by the categories that may have them."""


@final
class Codes:
    """The distinct values of a column, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = defaultdict(count().__next__)
        self.mended = 0  # lists and objects that count as words

    @property
    def values(self) -> tuple[Any, ...]:
        """Every value so far, by its number."""
        return tuple(self._numbers)

    def encoded(self, values: Sequence[Hashable]) -> Int32s:
        """The numbers of some values, (n,)."""
        try:
            return np.fromiter(map(self._numbers.__getitem__, values), np.int32, len(values))
        except TypeError:
            plain = [*map(_plain, values)]
            self.mended += sum(map(ne, plain, values))
            return np.fromiter(map(self._numbers.__getitem__, plain), np.int32, len(values))


def _plain(value: object) -> Hashable:
    """A value with words instead of lists and objects."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return word(value) if isinstance(value, list | dict) else value


@final
@dataclass(slots=True, kw_only=True)
class Gathered:
    """Columns collected from the records of a file, block by block."""

    # names, lanes: what the codes of the columns stand for; a lane is ``(pid, tid)`` or, of
    # something on a stream, ``(pid, tid, device, stream, whether it works)``, and its program
    names: Codes = field(default_factory=Codes)
    lanes: Codes = field(default_factory=Codes)
    words: Codes = field(default_factory=Codes)  # the categories as the file spells them
    programs: Codes = field(default_factory=Codes)  # labels of processes of a file of several
    # by process and thread
    thread_names: defaultdict[tuple[str, str], set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )
    pieces: list[Piece] = field(default_factory=list)
    # records that begin or end an event, with their place
    halves: list[tuple[int, Record]] = field(default_factory=list)
    # bytes after each allocation: time in us, bytes, kind and number of the device
    allocated: list[tuple[object, object, object, object]] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)
    rank: int = NOTHING  # that the file names for all of it
    pytorch: bool = True  # whether PyTorch's profiler may have written it

    def add(self, rows: list[Any], block: int) -> None:
        """Take the records of one block."""
        first = block << ROW_BITS
        kinds = Counter(map(type, rows))
        if kinds[Record] == len(rows):
            self.add_complete(rows, np.arange(first, first + len(rows)))
            return
        self._add_others(rows, kinds, first)
        complete = [type(row) is Record for row in rows]
        places = np.flatnonzero(np.array(complete, dtype=bool)) + first
        self.add_complete(list(compress(rows, complete)), places)

    def add_complete(self, rows: list[Record], places: Int64s) -> None:
        """Take complete events."""
        piece = self._piece(rows, places)
        if len(piece["place"]):
            self.pieces.append(piece)

    def _add_others(self, rows: list[Any], kinds: Counter[type], first: int) -> None:
        """Take what is no complete event, of which most is left out."""
        self.repairs["record of an unknown kind"] += kinds[Unknown]
        if kinds[Metadata]:
            for row in rows:
                if type(row) is Metadata and row.name == "thread_name":
                    self.name_thread(row.pid, row.tid, row.args.name)
        if kinds[Instant]:
            self.allocated += (
                (row.ts, row.args.size, row.args.kind, row.args.device)
                for row in rows
                if type(row) is Instant and row.name == "[memory]"
            )
        if kinds[Begin] or kinds[End]:
            halves = [at for at, row in enumerate(rows) if isinstance(row, Begin | End)]
            self.halves += ((first + at, rows[at]) for at in halves)

    def name_thread(self, process: object, thread: object, name: object) -> None:
        """Keep one name of a thread."""
        if word(name):
            self.thread_names[word(process), word(thread)].add(word(name).strip())

    def _piece(self, rows: list[Record], places: Int64s) -> Piece:
        codes = self.words.encoded([row.cat for row in rows])
        kinds = [_category(word(each)) for each in self.words.values]
        kind = np.array(kinds, dtype=np.int8)[codes]
        spans = kind == _LEFT_OUT
        if spans.any():
            rows = list(compress(rows, (~spans).tolist()))
            kind, places = kind[~spans], places[~spans]
        for at in np.flatnonzero(kind == Category.OTHER).tolist():
            kind[at] = _without_a_word(rows[at])
        piece: Piece = {
            "place": places,
            "category": kind,
            "name": self.names.encoded([row.name for row in rows]),
            "lane": self.lanes.encoded(_lane_keys(rows, kind)),
            **_joins([row.args for row in rows], kind),
        }
        programs = [program_of(row.pid) for row in rows]
        if any(programs):
            counted_apart(piece, self.programs.encoded(["", *programs])[1:])  # of none it is 0
        # Records without a time are dropped, durations that are none become 0.
        piece["start_ns"], known = nanoseconds([row.ts for row in rows])
        duration, valid = nanoseconds([row.dur for row in rows])
        negative = duration < 0
        piece["duration_ns"] = np.where(negative, 0, duration)
        self.repairs["missing duration"] += int((known & ~valid).sum())
        self.repairs["negative duration"] += int((known & negative).sum())
        self.repairs["missing time"] += int((~known).sum())
        return piece if known.all() else {name: each[known] for name, each in piece.items()}


def _lane_keys(rows: Sequence[Record], kind: Int8s) -> list[Hashable]:
    keys: list[Hashable] = [(row.pid, row.tid) for row in rows]
    works = among(kind, DEVICE_WORK).tolist()
    for at in np.flatnonzero(among(kind, ON_STREAMS)).tolist():
        row = rows[at]
        on = (row.pid, row.tid, row.args.device, row.args.stream, works[at])
        keys[at] = (*on, program_of(row.pid))
    return keys


def program_of(process: object) -> str:
    """The label that a merger put before a process, as in ``[TP00] 4711``; empty without one."""
    found = _LABEL.match(process) if isinstance(process, str) else None
    return found[1] if found else ""


def counted_apart(piece: Piece, program: Int32s) -> None:
    """Make unique in the file what each program counts for itself."""
    for name in _COUNTED:
        numbers = piece[name]
        further = numbers + (program.astype(np.int64) << _PROGRAM_BITS)
        piece[name] = np.where(numbers > 0, further, numbers)


def _joins(args: list[EventArguments], kind: Int8s) -> Piece:
    """Join keys of events, read only from the categories that may have them."""
    external_id = integers([one.external_id for one in args])
    older = external_id == NOTHING
    if older.any():
        before = [one.external_id_before_1_13 for one in compress(args, older.tolist())]
        external_id = np.where(older, _placed(older, before), external_id)
    piece: Piece = {"external_id": external_id}
    for categories, names in _HAVING.items():
        where = among(kind, categories)
        having = list(compress(args, where.tolist()))
        for name in names:
            piece[name] = _placed(where, list(map(attrgetter(name), having)))
    kernels = kind == Category.KERNEL
    piece["group"] = _placed(kernels, [*map(_group, compress(args, kernels.tolist()))])
    return piece


def _group(args: EventArguments) -> int:
    """A number for the ranks that take part in a collective."""
    if args.group is None:
        return NOTHING
    ranks = word(args.group)
    if args.collective in ("send", "recv") and ranks.count(",") > 1:
        return BETWEEN_TWO
    return crc32(ranks.encode())


def _placed(where: Bools, values: Sequence[object]) -> Int64s:
    """Integers at some places and NOTHING elsewhere."""
    column = np.broadcast_to(np.int64(NOTHING), len(where))  # takes no memory
    found = integers(values)
    if (found != NOTHING).any():
        column = column.copy()
        column[where] = found
    return column


def _without_a_word(row: Record) -> int:
    """The category of an event whose word means none, by how PyTorch's exports spell it."""
    name = word(row.name)
    if row.cat == "collective_comm":  # of a thread on Intel's GPUs, of a stream elsewhere
        work = row.args.stream is not None or row.args.correlation != NOTHING
        return int(Category.KERNEL if work else Category.ANNOTATION)
    if row.pid != _FUNCTIONS:
        return int(Category.OTHER)
    if _RUNTIME_CALL.match(name):
        return int(Category.RUNTIME)
    operator = "::" in name or "Backward" in name
    return int(Category.OPERATOR if operator else Category.ANNOTATION)


def _category(word: str) -> int:
    """The `Category` that an exporter's word means, or _LEFT_OUT."""
    spelled = word.strip().casefold().replace(" ", "_")
    ending = "".join(spelled.rpartition("_")[1:])
    return int(_CATEGORIES.get(spelled, _ENDINGS.get(ending, Category.OTHER)))

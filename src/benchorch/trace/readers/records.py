"""Records of a JSON trace: the fields that are read, their values, and lenient reading."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from benchorch.trace.arrays import Bools, Floats, Int64s
from benchorch.trace.events import NOTHING
from benchorch.units import NS_PER_US

MOST_NS = 2**61  # two of them still add up to an int64
_LONGEST_WORD = 16_384
_UNSIGNED_NOTHING = 2**32 - 1  # -1 by exporters that print it unsigned
_MOST = 2**62


def integer(value: object) -> int:
    """The whole number that a field means; NOTHING if it means none."""
    try:
        if isinstance(value, str):
            number = int(value, 0) if "x" in value.lower() else int(value)
        elif isinstance(value, int | float):
            number = int(value)
        else:
            return NOTHING
    except (ValueError, OverflowError):  # no number, NaN, infinity
        return NOTHING
    return number if abs(number) < _MOST and number != _UNSIGNED_NOTHING else NOTHING


def microseconds(value: object) -> float:
    """The time that a field means; NaN if it means none."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def word(value: object) -> str:
    """A field as text that can be printed: whole numbers without a point, bounded in length."""
    if isinstance(value, bool | float) and value == value and abs(value) < _MOST:
        value = int(value) if value == int(value) else value
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text[:_LONGEST_WORD].encode("utf-8", "replace").decode("utf-8")


def integers(values: Sequence[object]) -> Int64s:
    """Column of integers; NOTHING where a field means none."""
    if values.count(NOTHING) == len(values):
        return np.broadcast_to(np.int64(NOTHING), len(values))  # takes no memory
    try:
        column = np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        column = np.array([integer(value) for value in values], dtype=np.int64)
    if column.ndim != 1:
        column = np.array([integer(value) for value in values], dtype=np.int64)
    column[(column == _UNSIGNED_NOTHING) | (column >= _MOST) | (column <= -_MOST)] = NOTHING
    return column


def nanoseconds(values: Sequence[object]) -> tuple[Int64s, Bools]:
    """One column of times out of microseconds with decimals, and which of them are times.

    ``round(us * 1000)`` is exact as long as a double holds the microseconds with three
    decimals: up to 9e12 us, a hundred days. Where it is no time the column has 0.
    """
    with np.errstate(over="ignore"):
        scaled = _floats(values) * NS_PER_US
    known = np.abs(scaled) <= MOST_NS
    return np.where(known, np.rint(scaled), 0.0).astype(np.int64), known


def _floats(values: Sequence[object]) -> Floats:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(0)
    if column.shape != (len(values),):
        column = np.array([microseconds(value) for value in values], dtype=np.float64)
    return column


_RENAMED = {
    "external_id": "External id",
    "external_id_before_1_13": "external id",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "graph_node": "graph node id",
    "awaited": "wait_on_cuda_event_record_corr_id",
    "recorded_on": "wait_on_stream",
    "allocated": "Total Allocated",
    "allocated_kind": "Device Type",
    "allocated_on": "Device Id",
}


class EventArguments(msgspec.Struct, frozen=True, gc=False, rename=_RENAMED):
    """Arguments that join a record with others."""

    correlation: Any = NOTHING
    external_id: Any = NOTHING
    external_id_before_1_13: Any = NOTHING
    sequence: Any = NOTHING
    forward_thread: Any = NOTHING
    device: Any = None
    stream: Any = None
    graph_node: Any = NOTHING
    awaited: Any = NOTHING
    recorded_on: Any = NOTHING
    name: Any = None
    labels: Any = None
    allocated: Any = NOTHING
    allocated_kind: Any = NOTHING
    allocated_on: Any = NOTHING


NO_ARGUMENTS = EventArguments()


class Record(msgspec.Struct, gc=False):
    """Element of ``traceEvents``."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: EventArguments = NO_ARGUMENTS


class _Bare(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"{}")


UNREADABLE = (ValueError, RecursionError)
"""Errors of decoders on unexpected text; msgspec's are ValueErrors."""

_records = msgspec.json.Decoder(list[Record])
_bare = msgspec.json.Decoder(list[_Bare])
_BACKSLASH = re.compile(rb'\\(["\\/bfnrtu]?)')
_ARGUMENTS = {_RENAMED.get(name, name): name for name in EventArguments.__struct_fields__}
_FIELDS = tuple(name for name in Record.__struct_fields__ if name != "args")


def decoded(text: bytes | memoryview) -> list[Record]:
    """The records of a JSON array; raises one of `UNREADABLE` where anything in it is off."""
    return _records.decode(text)


def mended(text: bytes) -> list[Record]:
    """The records of a JSON array that only a lenient reading makes sense of, or UNREADABLE.

    Lenient: NaN and Infinity, raw control characters, stray backslashes, bytes that are no
    UTF-8, arguments that are no object.
    """
    return [_record(value) for value in _lenient(text)]


def arguments(text: bytes, rows: Sequence[int]) -> list[Mapping[str, object]]:
    """All arguments of some records of an array that was read before."""
    try:
        records = _bare.decode(text)
        return [_mapping(msgspec.json.decode(records[row].args)) for row in rows]
    except UNREADABLE:
        values = _lenient(text)
        return [_mapping(_mapping(values[row]).get("args")) for row in rows]


def _lenient(text: bytes) -> list[object]:
    escaped = _BACKSLASH.sub(lambda found: found[0] if found[1] else rb"\\", text)
    readable = escaped.decode("utf-8", "replace")
    values = json.loads(readable, strict=False)
    if not isinstance(values, list):
        raise ValueError("no array")  # noqa: TRY004 one of UNREADABLE
    return values


def _record(value: object) -> Record:
    fields = _mapping(value)
    given = _mapping(fields.get("args"))
    joined = {name: given[key] for key, name in _ARGUMENTS.items() if key in given}
    return Record(
        **{name: fields[name] for name in _FIELDS if name in fields},
        args=EventArguments(**joined) if joined else NO_ARGUMENTS,
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

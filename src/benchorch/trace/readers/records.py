"""Records of a JSON trace: the fields that are read, their values, and lenient reading.

Exporters write 7, 7.0, "7" and "0x7": fields are read as whatever they are, and numbers are made of
columns of them. Fields that are not named here are skipped without being built.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgspec
import numpy as np
from msgspec import field
from numpy.typing import NDArray

from benchorch.trace.arrays import Bools, Int64s
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
    column = _numbers(values, np.int64, integer)
    column[(column == _UNSIGNED_NOTHING) | (column >= _MOST) | (column <= -_MOST)] = NOTHING
    return column


def nanoseconds(values: Sequence[object]) -> tuple[Int64s, Bools]:
    """One column of times out of microseconds, 0 where it is no time, and which of them are times.

    Exact for up to 9e12 us with three decimals, a hundred days.
    """
    with np.errstate(over="ignore"):
        scaled = _numbers(values, np.float64, microseconds) * NS_PER_US
    known = np.abs(scaled) <= MOST_NS
    return np.where(known, np.rint(scaled), 0.0).astype(np.int64), known


def _numbers(
    values: Sequence[object], dtype: type, meaning: Callable[[object], float]
) -> NDArray[Any]:
    """Values as numbers at once; where some are none, what each means."""
    try:
        column: NDArray[Any] = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(0)
    if column.shape != (len(values),):
        column = np.array([meaning(value) for value in values], dtype=dtype)
    return column


class EventArguments(msgspec.Struct, frozen=True, gc=False):
    """Arguments that join an event with others."""

    correlation: Any = NOTHING
    external_id: Any = field(default=NOTHING, name="External id")
    external_id_before_1_13: Any = field(default=NOTHING, name="external id")
    sequence: Any = field(default=NOTHING, name="Sequence number")
    forward_thread: Any = field(default=NOTHING, name="Fwd thread id")
    device: Any = None
    stream: Any = None
    graph_node: Any = field(default=NOTHING, name="graph node id")
    awaited: Any = field(default=NOTHING, name="wait_on_cuda_event_record_corr_id")
    recorded_on: Any = field(default=NOTHING, name="wait_on_stream")
    group: Any = field(default=None, name="Process Group Ranks")
    collective: Any = field(default=None, name="Collective name")


class Record(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """Complete event."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: EventArguments = EventArguments()


class Begin(Record, gc=False, tag="B"):
    """First half of an event."""


class End(Record, gc=False, tag="E"):
    """Second half of an event."""


class NameArguments(msgspec.Struct, frozen=True, gc=False):
    """Name of a process or thread."""

    name: Any = None


class Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """Name of a process or thread, and other facts."""

    name: Any = None
    pid: Any = None
    tid: Any = None
    args: NameArguments = NameArguments()


class MemoryArguments(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are allocated on a device."""

    size: Any = field(default=NOTHING, name="Total Allocated")
    kind: Any = field(default=NOTHING, name="Device Type")
    device: Any = field(default=NOTHING, name="Device Id")


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """Event without length."""

    name: Any = None
    ts: Any = None
    args: MemoryArguments = MemoryArguments()


class Unknown(msgspec.Struct, gc=False):
    """Record of a kind that no format describes."""


_OTHERS = [  # flows, counters, asynchronous ranges: what is no event on a lane
    msgspec.defstruct(f"Phase{ord(phase)}", [], gc=False, tag_field="ph", tag=phase)
    for phase in "sftIRCbneSTpFNODPvVca(),"
]
_ALL: tuple[type[msgspec.Struct], ...] = (Record, Begin, End, Metadata, Instant, *_OTHERS)
_ANY: Any = reduce(or_, _ALL)


class _Bare(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"{}")


UNREADABLE = (ValueError, RecursionError)  # decoders' errors; msgspec's are ValueErrors
_records = msgspec.json.Decoder(list[_ANY])
_bare = msgspec.json.Decoder(list[_Bare])
_BACKSLASH = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def escaped(text: bytes, lone: bytes = rb"\\") -> bytes:
    """A JSON text with something else for each backslash that escapes nothing."""
    return _BACKSLASH.sub(lambda found: found[0] if found[1] else lone, text)


def decoded(text: bytes | memoryview) -> list[Any]:
    """The records of a JSON array, each of its kind; one of `UNREADABLE` where anything is off."""
    return _records.decode(text)


def mended(text: bytes) -> list[Any]:
    """The records of a JSON array, read strictly or else leniently; or UNREADABLE."""
    try:
        return decoded(text)
    except UNREADABLE:
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
    readable = escaped(text).decode("utf-8", "replace")
    values = json.loads(readable, strict=False)
    if not isinstance(values, list):
        raise ValueError("no array")  # noqa: TRY004 one of UNREADABLE
    return values


def _record(value: object) -> msgspec.Struct:
    given = {**_mapping(value)}
    if given.get("ph") is None:
        raise ValueError("no record")
    given["args"] = _mapping(given.get("args"))
    try:
        found: msgspec.Struct = msgspec.convert(given, _ANY)
    except msgspec.ValidationError:
        return Unknown()
    return found


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

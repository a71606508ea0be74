"""Records of a JSON trace: the fields that are read, and lenient reading of damaged ones.

The fields that exporters disagree about are read as whatever they are; `columns` makes numbers
of them. Fields that are not named here are skipped without being built.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchorch.trace.events import NOTHING

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

"""Fuzzed files: consistent events or a TraceError, whatever is in a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchorch.errors import TraceError
from benchorch.trace.events import Events
from benchorch.trace.nesting import nest
from benchorch.trace.readers.nsight import TABLES
from benchorch.trace.readers.open import read_events, read_json
from benchorch.trace.steps import find_steps
from support.trace_files import COLUMNS, same, steps, write_tables

WHOLE = json.dumps({"traceEvents": steps(2), "traceName": "x"}).encode()
LIST = json.dumps(steps(1), indent=1).encode()
SPLINTERS = [
    *(b"NaN", b"Infinity", b"1e400", b"1" + b"0" * 400, b"null", b"[]", b"{}", b'"\\ud800"'),
    *(b"\xff\xfe", b"[" * 3000, b'{"a":' * 2000, b"-1", b"18446744073709551616", b"9.3e18"),
    *(b'},{"ph":"X"', b"}", b"{", b",", b'"', b"\\", b"]", b"[", b"\0", b"\n", b'"B"', b'"E"'),
]
FIELDS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
ARGUMENTS = ["correlation", "External id", "stream", "device", "Sequence number", "Fwd thread id"]
SETTINGS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=80,  # `make fuzz` tries thousands
)


def assert_consistent(events: Events) -> None:
    assert len(events) > 0
    for name in COLUMNS:
        assert getattr(events, name).shape == (len(events),)
    assert (events.duration_ns >= 0).all()
    assert set(np.unique(events.name)) <= set(range(len(events.names)))
    assert set(np.unique(events.lane)) == set(range(len(events.lanes)))
    assert list(events.names) == sorted(set(events.names))
    "".join(events.names).encode()
    assert set(events.details(range(len(events)))) == set(range(len(events)))
    assert (nest(events).end_ns <= events.end_ns).all()
    steps = find_steps(events)
    assert (steps.start_ns <= steps.done_ns).all()


def read_or_reject(path: Path, block_bytes: int) -> None:
    try:
        events = read_json(path, block_bytes)
    except TraceError:
        return
    assert_consistent(events)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A profile of which pieces are cut out, put elsewhere or replaced by splinters."""
    text = bytearray(draw(st.sampled_from([WHOLE, LIST])))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["cut", "end", "flip", "insert", "move"]))
        if kind == "cut":
            del text[at : at + draw(st.integers(1, 300))]
        elif kind == "end":
            del text[at:]
        elif kind == "flip" and text:
            text[at % len(text)] = draw(st.integers(0, 255))
        elif kind == "insert":
            text[at:at] = draw(st.sampled_from(SPLINTERS))
        else:
            start = draw(st.integers(0, len(text)))
            text[at:at] = text[start : start + 400]
    return bytes(text)


@SETTINGS
@given(damaged(), st.sampled_from([1, 100, 5000, 10**6]), st.booleans())
def test_a_damaged_profile(tmp_path: Path, text: bytes, block_bytes: int, packed: bool) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    read_or_reject(path, block_bytes)


@SETTINGS
@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_a_damaged_packing(tmp_path: Path, at: int, value: int, cut: bool) -> None:
    packed = bytearray(gzip.compress(WHOLE))
    at %= len(packed)
    packed[at] = value
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[:at] if cut else packed)
    read_or_reject(path, 1000)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["X", "B", "E", "M", "0x7", "stream 3", "kernel", "cuda_sync", 7, 1e15]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


@SETTINGS
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(FIELDS, ANYTHING),
                "args": st.dictionaries(st.sampled_from(ARGUMENTS), ANYTHING) | ANYTHING,
            },
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_records_of_wrong_types(tmp_path: Path, lies: list[Any], kept: bool) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [*lies, *(steps(1) if kept else [])]}))
    read_or_reject(path, 10**6)


@SETTINGS
@given(st.permutations(steps(1)), st.integers(1, 3000))
def test_any_order_in_blocks_of_any_size(
    tmp_path: Path, records: list[Any], block_bytes: int
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": records}))
    assert same(read_json(path), read_json(path, block_bytes))


CELLS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary(max_size=3)
COLUMN_NAMES = ["start", "end", "globalTid", "deviceId", "streamId", "correlationId", "nameId"]


@settings(SETTINGS, max_examples=40)
@given(st.sampled_from(TABLES), st.lists(st.lists(CELLS, min_size=7, max_size=7), min_size=1))
def test_tables_of_wrong_types(
    tmp_path_factory: pytest.TempPathFactory, table: Any, cells: list[list[Any]]
) -> None:
    rows = [dict(zip(COLUMN_NAMES, row, strict=True)) for row in cells]
    path = write_tables(tmp_path_factory.mktemp("nsight") / "t.sqlite", {table.name: rows})
    try:
        events = read_events(path)
    except TraceError:
        return
    assert_consistent(events)


@pytest.mark.parametrize(
    "records",
    [
        b"1," * 10**6,
        b'{},{"ph":[' * 30_000,
        b'{"ph":[' * 10**5,
        b'},{"ph"' * 30_000,
        b'{"ph":"X","name":"' + b"x" * 10**7,
        b'{"ph":"X","ts":1,"args":{"l":[' + b'{"name":1},' * 10_000 + b"0]}}",
        b'{"ph":"X","ts":1}' + b" " * 10**7,
    ],
)
def test_hostile_text_is_read_or_rejectd(tmp_path: Path, records: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents":[' + records)
    read_or_reject(path, 2**20)

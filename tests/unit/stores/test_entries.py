from __future__ import annotations

import json
from typing import Any

import pytest

from benchorch.domain.artifact import Format
from benchorch.domain.codec import encode
from benchorch.stores.entries import parse_reason
from benchorch.stores.manifest import CorruptEntry, FileRecord, Manifest, parse_manifest

UNKNOWN = ("the reason was not recorded", "")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"reason": "damaged", "at": "2026-11-27"}', ("damaged", "2026-11-27")),
        (b"", UNKNOWN),
        (b"{", UNKNOWN),
        (b'{"reason": "damaged"}', UNKNOWN),
        (b"[1]", UNKNOWN),
        (b"[" * 100_000, UNKNOWN),
    ],
)
def test_a_reason_is_read_however_damaged_its_note_is(data: bytes, found: tuple[str, str]) -> None:
    assert parse_reason(data) == found


HASH = "0" * 64
FILE = FileRecord(path="model.onnx", size_bytes=3, sha256=HASH)
SOUND = Manifest(
    key=HASH, name="mlp", format=Format.ONNX, fields={"a": 1}, created_at="2026", files=(FILE,)
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("build_s", float("inf")),
        ("build_s", -1),
        ("build_s", "1"),
        ("key", 5),
        ("name", None),
        ("fields", [1]),
        ("signature", {"key": 5}),
        ("files", {"path": "a"}),
        ("files", [{**encode(FILE), "size_bytes": -1}]),  # type: ignore[dict-item]
        ("files", [{**encode(FILE), "size_bytes": True}]),  # type: ignore[dict-item]
        ("files", [{**encode(FILE), "size_bytes": 10**30}]),  # type: ignore[dict-item]
        ("files", [{**encode(FILE), "sha256": "0"}]),  # type: ignore[dict-item]
        ("files", [{**encode(FILE), "path": "../x"}]),  # type: ignore[dict-item]
        ("files", [encode(FILE), encode(FILE)]),
    ],
)
def test_a_manifest_of_odd_values_is_none(name: str, value: Any) -> None:
    tree: Any = encode(SOUND)
    assert parse_manifest(json.dumps(tree).encode()) == SOUND
    with pytest.raises(CorruptEntry):
        parse_manifest(json.dumps({**tree, name: value}).encode())

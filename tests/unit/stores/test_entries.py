from __future__ import annotations

import pytest

from benchorch.stores.entries import parse_reason

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

"""What stands around the records of a JSON trace: the text before them and after them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice

from benchorch.trace.readers.records import UNREADABLE

LONGEST_OPENING_BYTES = 1024
"""Of the key, the colon and the bracket; how far back to look again when more text came."""

Facts = Mapping[str, object]

_OPENING = re.compile(rb'(?<!\\)"traceEvents"\s{0,256}:\s{0,256}\[')
_MOST_OPENINGS = 16
_SPACE = re.compile(r"\s*")


def opening(text: bytearray, searched: int) -> tuple[int, Facts] | None:
    """Where the list ``traceEvents`` opens, and what the object says before it.

    A key of that name inside another value does not count, for what stands before it is no
    object when closed there.

    Args:
        text: from the start of the file.
        searched: how much of it had no opening before it grew.
    """
    for match in islice(_OPENING.finditer(text, searched), _MOST_OPENINGS):
        header = bytes(text[text.index(b"{") : match.start()])
        facts = json_object(header.rstrip().removesuffix(b",") + b"}")
        if facts is not None:
            return match.end() - 1, facts
    return None


def closing(text: bytes) -> tuple[int, bytes | None]:
    """Where the records that a text begins with end, and what follows the bracket after them.

    Without that bracket the second is None; then, where something is no record, the first is
    the end of the text.
    """
    readable = text.decode("latin-1")  # one character a byte
    decoder = json.JSONDecoder(strict=False)
    at = end = _after_space(readable, 0)
    while at < len(readable) and readable[at] != "]":
        try:
            record, end = decoder.raw_decode(readable, at)
        except UNREADABLE:
            return len(text), None
        if not isinstance(record, dict) or not isinstance(record.get("ph"), str):
            return len(text), None
        at = _after_space(readable, end)
        if readable[at : at + 1] == ",":
            at = _after_space(readable, at + 1)
        elif readable[at : at + 1] != "]":
            return end, None
    return end, text[at + 1 :] if at < len(text) else None


def after_list(footer: bytes) -> Facts | None:
    """What an object says after its list ``traceEvents``; None if it is not closed properly."""
    return json_object(b"{" + footer.lstrip().removeprefix(b","))


def json_object(text: bytes) -> Facts | None:
    """A JSON object, read leniently; None if it is none."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()

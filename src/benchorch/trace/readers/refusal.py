"""A file that holds no trace: what it holds instead, and what would be read."""

from __future__ import annotations

from pathlib import Path

from benchorch.errors import TraceError
from benchorch.trace.readers.frame import json_object

ACCEPTED = (
    "a profile of PyTorch (a JSON object with a list traceEvents) or of ONNX Runtime (a JSON "
    "list), plain or gzip, or an SQLite export of Nsight Systems"
)
_REPORTS = (".nsys-rep", ".qdrep")  # Nsight Systems' own, in a format of its own
_MOST_SHOWN_BYTES = 2**20
_MOST_SHOWN_KEYS = 8
_QUOTED_BYTES = 40


def no_trace(path: Path, found: str) -> TraceError:
    """The error that says so."""
    remedy = ""
    if path.suffix in _REPORTS:
        remedy = f" Export it first: nsys export --type sqlite {path}."
    return TraceError(f"{path} holds no trace: found {found}. Accepted: {ACCEPTED}.{remedy}")


def described(text: bytes) -> str:
    """What a text is that begins with neither bracket."""
    if not text:
        return "nothing in it"
    if text.startswith(b"PK\x03\x04"):
        return "a zip archive"
    start = text[:_QUOTED_BYTES].decode("utf-8", "replace")
    if all(character.isprintable() or character.isspace() for character in start):
        return f"text that begins with {start!r}"
    return "binary data"


def object_without_events(text: bytes) -> str:
    """What an object is in which no list of events opens."""
    facts = json_object(text) if len(text) <= _MOST_SHOWN_BYTES else None
    if facts is None:
        return "what begins like a JSON object, but no list traceEvents in it"
    keys = ", ".join(repr(key) for key in list(facts)[:_MOST_SHOWN_KEYS]) or "none"
    return f"a JSON object without a list traceEvents (keys: {keys})"

"""A JSON trace as runs of records, read in blocks of bounded size.

A block is cut where a record seems to begin and taken only if it decodes; the rest waits for more
of the file. So records are the same whatever the size of a block.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from benchorch.errors import TraceError
from benchorch.trace.readers.records import UNREADABLE, Record, decoded
from benchorch.trace.readers.salvage import BOUNDARY, LONGEST_BOUNDARY_BYTES, salvage
from benchorch.trace.readers.source import Source

BLOCK_BYTES = 32 * 2**20
ACCEPTED = (
    "a profile of PyTorch (JSON with traceEvents), of ONNX Runtime (a JSON list), plain or "
    "gzip, or an SQLite export of Nsight Systems"
)
_MOST_HEADER_BYTES = 64 * 2**20
_MOST_RECORD_BYTES = 64 * 2**20
_SEARCHED_BYTES = 2**16
_EVENTS = re.compile(rb'(?<!\\)"traceEvents"\s{0,256}:\s{0,256}\[')
_FIRST_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Records that follow each other, and where in the unpacked file they stand."""

    start: int
    end: int
    rows: list[Record]


@final
class Blocks:
    """The records of one file, in its order; once through.

    Attributes:
        facts: what the file says beside its records; whole after the last block.
        is_object: whether the records are in an object, as PyTorch writes them.
        repairs: what had to be mended so far.
    """

    def __init__(self, source: Source, block_bytes: int = BLOCK_BYTES) -> None:
        self.facts: dict[str, object] = {}
        self.is_object = False
        self.repairs: Counter[str] = Counter()
        self._source = source
        self._block_bytes = max(block_bytes, 1)
        self._buffer = bytearray()  # begins with the bracket or comma before a record
        self._offset = 0  # of the buffer in the file
        self._searched = 1
        self._skipping = False  # a record that is too long

    def __iter__(self) -> Iterator[Block]:
        """Each block; TraceError if the file holds no array of records."""
        self._open()
        more = True
        while more:
            yield from self._taken()
            more = self._grow()
        yield from self._last()

    def _open(self) -> None:
        """Read up to the bracket before the first record."""
        self._grow()
        while not self._buffer.strip() and self._grow():
            _bounded(self._source, len(self._buffer))
        text = bytes(self._buffer[:_FIRST_BYTES]).removeprefix(b"\xef\xbb\xbf").lstrip()
        if text.startswith(b"["):
            self._drop(self._buffer.index(b"["))
        elif text.startswith(b"{"):
            self._open_object()
        else:
            raise TraceError(_no_trace(self._source, _described(text)))

    def _open_object(self) -> None:
        searched = 0
        while (found := self._header(searched)) is None:
            searched = max(0, len(self._buffer) - LONGEST_BOUNDARY_BYTES)
            if len(self._buffer) > _MOST_HEADER_BYTES or not self._grow():
                raise TraceError(_no_trace(self._source, _keys(bytes(self._buffer))))
        bracket, facts = found
        self.facts.update(facts)
        self.is_object = True
        self._drop(bracket)

    def _header(self, searched: int) -> tuple[int, Mapping[str, object]] | None:
        """Where the list of records begins, and what stands before it."""
        for match in _EVENTS.finditer(self._buffer, searched):
            header = self._buffer[self._buffer.index(b"{") : match.start()]
            facts = _object(bytes(header.rstrip().removesuffix(b",")) + b"}")
            if facts is not None:
                return match.end() - 1, facts
        return None

    def _grow(self) -> bool:
        """Read more, at least as much as waits already, so that searching stays linear."""
        found = self._source.read(max(self._block_bytes, len(self._buffer)))
        self._buffer += found
        return bool(found)

    def _drop(self, size: int) -> None:
        """Forget what was used; what is left begins with a bracket or comma."""
        del self._buffer[:size]
        self._offset += size
        self._searched = 1

    def _taken(self) -> Iterator[Block]:
        """The records up to where the last one may still go on."""
        if self._skipping and not self._skipped():
            return
        cut = self._last_cut()
        if cut is None:
            self._searched = max(1, len(self._buffer) - LONGEST_BOUNDARY_BYTES)
            self._skip_what_is_too_long()
            return
        rows = self._decoded(cut)
        if rows is None:
            yield from self._salvaged(cut)
        else:
            yield Block(start=self._offset + 1, end=self._offset + cut, rows=rows)
            self._drop(cut)

    def _last_cut(self) -> int | None:
        """The comma before the last record that begins in the buffer."""
        size = _SEARCHED_BYTES
        while True:
            start = max(self._searched, len(self._buffer) - size)
            cut = None
            for match in BOUNDARY.finditer(self._buffer, start):
                cut = match.start(1)
            if cut is not None or start == self._searched:
                return cut
            size *= 8

    def _decoded(self, cut: int) -> list[Record] | None:
        self._buffer[0], self._buffer[cut] = b"[]"
        try:
            with memoryview(self._buffer) as whole, whole[: cut + 1] as text:
                return decoded(text)
        except UNREADABLE:
            return None
        finally:
            self._buffer[cut] = ord(",")

    def _salvaged(self, cut: int, *, at_end: bool = False) -> Iterator[Block]:
        found = salvage(bytes(self._buffer[1:cut]))
        base = self._offset + 1
        for stretch in found.stretches:
            yield Block(start=base + stretch.start, end=base + stretch.end, rows=stretch.rows)
        lost = found.lost + (at_end and found.open_from < cut - 1)
        if lost:
            self.repairs["undecodable record"] += lost
        searched = cut - found.open_from
        self._drop(found.open_from)
        if searched > 1:
            self._searched = searched  # the boundaries before it were tried

    def _skip_what_is_too_long(self) -> None:
        if len(self._buffer) > max(_MOST_RECORD_BYTES, 2 * self._block_bytes):
            self.repairs["record too long"] += 1
            self._skipping = True
            self._drop(len(self._buffer) - LONGEST_BOUNDARY_BYTES)

    def _skipped(self) -> bool:
        """Whether the record that is too long has ended."""
        match = BOUNDARY.search(self._buffer, 1)
        if match is None:
            self._drop(max(0, len(self._buffer) - LONGEST_BOUNDARY_BYTES))
            return False
        self._drop(match.start(1))
        self._skipping = False
        return True

    def _last(self) -> Iterator[Block]:
        """The record that ends the file, and what it says after its records."""
        if self._skipping:
            return
        end, footer = _tail(bytes(self._buffer[1:]))
        if footer is None or (self.is_object and not self._closed(footer)):
            self.repairs["truncated file"] += 1
        if not self._buffer[1 : 1 + end].strip():
            return
        self._buffer[1 + end :] = b"]"
        rows = self._decoded(1 + end)
        if rows is None:
            yield from self._salvaged(1 + end, at_end=True)
        else:
            yield Block(start=self._offset + 1, end=self._offset + 1 + end, rows=rows)

    def _closed(self, footer: bytes) -> bool:
        facts = _object(b"{" + footer.lstrip().removeprefix(b","))
        self.facts.update(facts or {})
        return facts is not None


def _tail(text: bytes) -> tuple[int, bytes | None]:
    """Where the last records end, and what follows the bracket that closes them, if it is there."""
    readable = text.decode("latin-1")  # one character a byte
    decoder = json.JSONDecoder(strict=False)
    at = end = _after_space(readable, 0)
    while at < len(readable) and readable[at] != "]":
        try:
            _, end = decoder.raw_decode(readable, at)
        except UNREADABLE:
            return len(text), None
        at = _after_space(readable, end)
        if readable[at : at + 1] == ",":
            at = _after_space(readable, at + 1)
        elif readable[at : at + 1] != "]":
            return end, None
    return end, text[at + 1 :] if at < len(text) else None


def _after_space(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _object(text: bytes) -> Mapping[str, object] | None:
    """A JSON object read leniently; None if it is none."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def _bounded(source: Source, size: int) -> None:
    if size > _MOST_HEADER_BYTES:
        raise TraceError(_no_trace(source, "nothing but white space"))


def _no_trace(source: Source, found: str) -> str:
    return f"{source.path} holds no trace: found {found}. Accepted: {ACCEPTED}."


def _described(text: bytes) -> str:
    if not text:
        return "nothing in it"
    if text.startswith(b"PK\x03\x04"):
        return "a zip archive"
    printable = text[:40].decode("utf-8", "replace")
    if all(character.isprintable() or character.isspace() for character in printable):
        return f"text that begins with {printable!r}"
    return "binary data"


def _keys(text: bytes) -> str:
    facts = _object(text)
    if facts is None:
        return "what begins like a JSON object, but no list called traceEvents in it"
    keys = ", ".join(repr(key) for key in list(facts)[:8]) or "none"
    return f"a JSON object without a list called traceEvents (keys: {keys})"

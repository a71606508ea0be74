"""A JSON trace as runs of records, read in blocks of bounded size.

A block is cut where a record seems to begin and taken only if it decodes; the rest waits for more
of the file. So records are the same whatever the size of a block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from benchorch.trace.readers.frame import LONGEST_OPENING_BYTES, after_list, closing, opening
from benchorch.trace.readers.records import UNREADABLE, Record, decoded
from benchorch.trace.readers.refusal import described, no_trace, object_without_events
from benchorch.trace.readers.salvage import BOUNDARY, LONGEST_BOUNDARY_BYTES, salvage
from benchorch.trace.readers.source import TraceFile

BLOCK_BYTES = 4 * 2**20
"""Of text decoded at once: 32 MiB take a third longer, for they leave the processor's caches."""

_MOST_AROUND_BYTES = 64 * 2**20
"""Before or after the records, and in one record."""

_FIRST_BYTES = 2**16
_SEARCHED_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOST = "undecodable record"
_MOST_LOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBlock:
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

    def __init__(self, source: TraceFile, block_bytes: int = BLOCK_BYTES) -> None:
        self.facts: dict[str, object] = {}
        self.is_object = False
        self.repairs: Counter[str] = Counter()
        self._source = source
        self._block_bytes = max(block_bytes, 1)
        self._buffer = bytearray()  # once open, begins with the bracket or comma before a record
        self._offset = 0  # of the buffer in the file
        self._searched = 1  # of the buffer, for where a record begins
        self._skipping = False  # inside a record that is too long
        self._closed = False  # the list of records ends in the buffer

    def __iter__(self) -> Iterator[RecordBlock]:
        """Each block; TraceError if the file holds no list of records."""
        self._open()
        more = True
        while more:
            yield from self._taken()
            more = not self._closed and self._grow()
        yield from self._last()

    def _open(self) -> None:
        """Read up to the bracket before the first record."""
        while self._grow() and not self._buffer.strip():
            if len(self._buffer) > _MOST_AROUND_BYTES:
                raise no_trace(self._source.path, "nothing but white space")
        start = self._buffer[:_FIRST_BYTES].removeprefix(_BYTE_ORDER_MARK).lstrip()
        if start.startswith(b"["):
            self._drop(self._buffer.index(b"["))
        elif start.startswith(b"{"):
            self._open_object()
        else:
            raise no_trace(self._source.path, described(bytes(start)))

    def _open_object(self) -> None:
        searched = 0
        while (found := opening(self._buffer, searched)) is None:
            searched = max(0, len(self._buffer) - LONGEST_OPENING_BYTES)
            if len(self._buffer) > _MOST_AROUND_BYTES or not self._grow():
                raise no_trace(self._source.path, object_without_events(bytes(self._buffer)))
        bracket, facts = found
        self.facts.update(facts)
        self.is_object = True
        self._drop(bracket)

    def _grow(self) -> bool:
        """Read more, at least as much as waits already, so that searching stays linear."""
        found = self._source.read(max(self._block_bytes, len(self._buffer)))
        self._buffer += found
        return bool(found)

    def _drop(self, size: int) -> None:
        """Forget what was used."""
        del self._buffer[:size]
        self._offset += size
        self._searched = 1

    def _taken(self) -> Iterator[RecordBlock]:
        """The records up to the last one that begins, which may still go on."""
        if self._skipping and not self._skipped():
            return
        cut = self._last_cut()
        if cut is None:
            self._searched = max(1, len(self._buffer) - LONGEST_BOUNDARY_BYTES)
            self._skip_what_is_too_long()
        else:
            yield from self._block(cut)

    def _last_cut(self) -> int | None:
        """The comma before the last record that begins in the buffer."""
        size = _SEARCHED_BYTES
        while True:
            start = max(self._searched, len(self._buffer) - size)
            cuts = [match.start(1) for match in BOUNDARY.finditer(self._buffer, start)]
            if cuts or start == self._searched:
                return cuts[-1] if cuts else None
            size *= 8

    def _block(self, cut: int) -> Iterator[RecordBlock]:
        rows = self._decoded(cut)
        if rows is None:
            yield from self._salvaged(cut)
        else:
            yield RecordBlock(start=self._offset + 1, end=self._offset + cut, rows=rows)
            self._drop(cut)

    def _decoded(self, cut: int) -> list[Record] | None:
        """The records up to a comma, if all of them are whole."""
        self._buffer[0], self._buffer[cut] = b"[]"
        try:
            with memoryview(self._buffer) as whole, whole[: cut + 1] as text:
                return decoded(text)
        except UNREADABLE:
            return None
        finally:
            self._buffer[cut] = ord(",")

    def _salvaged(self, cut: int) -> Iterator[RecordBlock]:
        """The records up to a comma that can be read; what is bad at their end may wait."""
        found = salvage(bytes(self._buffer[1:cut]))
        base = self._offset + 1
        for stretch in found.stretches:
            yield RecordBlock(start=base + stretch.start, end=base + stretch.end, rows=stretch.rows)
        if found.bad_from < cut - 1 and closing(bytes(self._buffer[1 + found.bad_from :]))[1]:
            self._closed = True
            self._lose(found.lost_before)
            self._drop(found.bad_from)
            return
        waits = found.bad_from < cut and found.bad_is_little
        self._lose(found.lost_before + (0 if waits else found.lost_at_end))
        self._drop(found.bad_from if waits else cut)
        self._searched = max(1, cut - found.bad_from) if waits else 1

    def _lose(self, count: int) -> None:
        if count:
            self.repairs[_LOST] += count
        if self.repairs[_LOST] > _MOST_LOST:
            found = f"more than {_MOST_LOST} places that cannot be decoded"
            raise no_trace(self._source.path, found)

    def _skip_what_is_too_long(self) -> None:
        if len(self._buffer) > max(_MOST_AROUND_BYTES, 2 * self._block_bytes):
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

    def _last(self) -> Iterator[RecordBlock]:
        """The records that end the list, and what the file says after it."""
        while self._closed and len(self._buffer) < _MOST_AROUND_BYTES and self._grow():
            pass
        end, footer = closing(bytes(self._buffer[1:]))
        facts = after_list(footer) if footer is not None and self.is_object else {}
        self.facts.update(facts or {})
        if footer is None or facts is None:
            self.repairs["truncated file"] += 1
        del self._buffer[1 + end :]
        self._buffer += b","
        if self._buffer[1:-1].strip() and not self._skipping:
            yield from self._block(1 + end)
        if len(self._buffer) > 1 and not self._skipping:  # what waited for more in vain
            self._lose(1)

"""The records of a JSON trace, read in blocks of bounded size; damaged ones are left out.

A block is cut where a record seems to begin and taken only if it decodes; the rest waits for more
of the file. So records are the same whatever the size of a block.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

from benchorch.errors import TraceError
from benchorch.trace.readers.records import UNREADABLE, decoded, mended
from benchorch.trace.readers.source import TraceFile

BLOCK_BYTES = 4 * 2**20
"""Size of text decoded at once; 32 MiB exceed the caches and take a third longer."""

_ACCEPTED = (
    "a profile of PyTorch (a JSON object with a list traceEvents) or of ONNX Runtime (a JSON "
    "list), plain or gzip, or an SQLite export of Nsight Systems"
)
_REPORTS = (".nsys-rep", ".qdrep")  # Nsight Systems' own, in a format of its own

_KEYS = (
    "ph|cat|name|pid|tid|ts|dur|args|id|id2|s|bp|cname|sf|stack|scope|bind_id|tts|tdur"
    "|flow_in|flow_out"
)
_BOUNDARY = re.compile(rb'\}\s{0,256}(,)\s{0,256}\{\s{0,256}"(?:' + _KEYS.encode() + rb')"')
"""Between two records; inside a string it cannot be, for there the quote would be escaped."""

_OPENING = re.compile(rb'(?<!\\)"traceEvents"\s{0,256}:\s{0,256}\[')
_SEPARATOR = re.compile(r"\s*(?:,\s*|(?=\]))")
_LONGEST_MATCH_BYTES = 1024  # of both; how far back to search again when more text came
_SEARCHED_BYTES = 2**16
_MOST_BYTES = 64 * 2**20  # before or after the records, and in one record
_MOST_SKIPPED_BYTES = 2**30
_MOST_OPENINGS = 16
_MOST_LOST = 100_000
_MOST_JOINED = 16
_MOST_JOINS = 2_000  # in one block: damage is rare, or the file is not worth more
_MOST_WAITING = 64
_MOST_WAITING_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBlock:
    """Consecutive records, with their offset in the unpacked file."""

    start: int
    end: int
    rows: list[Any]


@final
class RecordBlocks:
    """The records of one file, in its order; once through.

    Attributes:
        facts: what the file holds beside its records; whole after the last block.
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
        self._closed = False  # the list of records ends in the buffer

    def __iter__(self) -> Iterator[RecordBlock]:
        """Each block; TraceError if the file holds no list of records."""
        self._open()
        more = True
        while more:
            cut = self._last_boundary()
            if cut is not None:
                yield from self._block(cut)
            elif len(self._buffer) > max(_MOST_BYTES, 2 * self._block_bytes):
                self._skip_record()
            else:
                self._searched = max(1, len(self._buffer) - _LONGEST_MATCH_BYTES)
            more = not self._closed and self._grow()
        yield from self._last()

    def _open(self) -> None:
        """Read up to the bracket before the first record."""
        while self._grow() and not self._buffer.strip():
            if len(self._buffer) > _MOST_BYTES:
                raise no_trace(self._source.path, "nothing but white space")
        start = self._buffer[:_SEARCHED_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"["):
            self._drop(self._buffer.index(b"["))
            return
        if not start.startswith(b"{"):
            raise no_trace(self._source.path, _described(bytes(start)))
        self.is_object = True
        searched = 0
        while (bracket := self._opening(searched)) is None:
            searched = max(0, len(self._buffer) - _LONGEST_MATCH_BYTES)
            if len(self._buffer) > _MOST_BYTES or not self._grow():
                raise no_trace(self._source.path, _object_without_events(bytes(self._buffer)))
        self._drop(bracket)

    def _opening(self, searched: int) -> int | None:
        """The bracket of the list ``traceEvents``, once it is there; facts before it are kept.

        A key of that name inside another value does not count, for what stands before it is no
        object when closed there.
        """
        for match in islice(_OPENING.finditer(self._buffer, searched), _MOST_OPENINGS):
            header = bytes(self._buffer[self._buffer.index(b"{") : match.start()])
            facts = _json_object(header.rstrip().removesuffix(b",") + b"}")
            if facts is not None:
                self.facts.update(facts)
                return match.end() - 1
        return None

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

    def _last_boundary(self) -> int | None:
        """The comma before the last record that begins in the buffer."""
        for start in (max(self._searched, len(self._buffer) - _SEARCHED_BYTES), self._searched):
            cuts = [match.start(1) for match in _BOUNDARY.finditer(self._buffer, start)]
            if cuts:
                return cuts[-1]
        return None

    def _block(self, cut: int) -> Iterator[RecordBlock]:
        """The records up to a comma that can be read; what is bad at their end may wait."""
        ends = self._buffer[:1], self._buffer[cut : cut + 1]  # the second may be empty
        self._buffer[:1], self._buffer[cut : cut + 1] = b"[", b"]"
        try:
            with memoryview(self._buffer) as whole, whole[: cut + 1] as array:  # copies nothing
                rows: list[Any] | None = decoded(array)
        except UNREADABLE:
            rows = None
        self._buffer[:1], self._buffer[cut : cut + 1] = ends
        base = self._offset + 1
        if rows is None:
            yield from self._salvaged(bytes(self._buffer[1:cut]), base)
        else:
            yield RecordBlock(start=base, end=self._offset + cut, rows=rows)
            self._drop(cut)

    def _salvaged(self, text: bytes, base: int) -> Iterator[RecordBlock]:
        cuts = [match.start(1) for match in _BOUNDARY.finditer(text)]
        starts, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(text)]
        runs = _salvage(text, starts, ends)
        for first, last, rows in runs:
            yield RecordBlock(start=base + starts[first], end=base + ends[last - 1], rows=rows)
        lost = len(starts) - sum(last - first for first, last, _ in runs)
        trailing = len(starts) - (runs[-1][1] if runs else 0)
        after = len(text) + 1
        bad_from = starts[-trailing] if trailing else after
        if bad_from < len(text):
            self._closed = bool(_end_of_records(bytes(self._buffer[1 + bad_from :]))[1])
        few = trailing <= _MOST_WAITING and after - bad_from <= _MOST_WAITING_BYTES
        if self._closed or few:  # a cut may have gone through a record: more text may help
            self._lose(lost - trailing)
            self._drop(bad_from)
            self._searched = max(1, after - bad_from)
        else:
            self._lose(lost)
            self._drop(after)

    def _lose(self, count: int) -> None:
        if count:
            self.repairs["undecodable record"] += count
        if self.repairs["undecodable record"] > _MOST_LOST:
            found = f"more than {_MOST_LOST} places that cannot be decoded"
            raise no_trace(self._source.path, found)

    def _skip_record(self) -> None:
        """Forget a record that is too long, up to the comma before the next one."""
        self.repairs["record too long"] += 1
        start = self._offset
        while (match := _BOUNDARY.search(self._buffer, 1)) is None:
            self._drop(max(0, len(self._buffer) - _LONGEST_MATCH_BYTES))
            if self._offset - start > _MOST_SKIPPED_BYTES:  # such as a hole in the file
                raise no_trace(self._source.path, "a record of more than a gibibyte")
            if not self._grow():
                self._drop(len(self._buffer))
                return
        self._drop(match.start(1))

    def _last(self) -> Iterator[RecordBlock]:
        """The records that end the list, and what the file holds after it."""
        while self._closed and len(self._buffer) < _MOST_BYTES and self._grow():
            pass
        end, footer = _end_of_records(bytes(self._buffer[1:]))
        facts: Mapping[str, object] | None = {}
        if footer is not None and self.is_object:
            facts = _json_object(b"{" + footer.lstrip().removeprefix(b","))
        self.facts.update(facts or {})
        if footer is None or facts is None:
            self.repairs["truncated file"] += 1
        del self._buffer[1 + end :]
        if self._buffer[1:].strip():
            yield from self._block(1 + end)
            if self._buffer:  # what waited for more in vain
                self._lose(1)


def _salvage(
    text: bytes, starts: Sequence[int], ends: Sequence[int]
) -> list[tuple[int, int, list[Any]]]:
    """Runs of pieces that hold nothing but records: first piece, the one after the last, records.

    Each piece is read for itself, at last leniently; those that are none are joined with their bad
    neighbours in case a cut went through a record.
    """
    found: dict[tuple[int, int], list[Any]] = {}

    def take(first: int, last: int) -> bool:
        rows = _rows(b"[%b]" % text[starts[first] : ends[last - 1]])
        if not rows:
            return False
        found[first, last] = rows
        return True

    bad = {piece for piece in range(len(starts)) if not take(piece, piece + 1)}
    joins = _MOST_JOINS
    for first in sorted(bad):
        last = first + 2
        while joins and {first, last - 1} <= bad and last - first <= _MOST_JOINED:
            joins -= 1
            if take(first, last):
                bad.difference_update(range(first, last))
            last += 1
    runs: list[tuple[int, int, list[Any]]] = []
    for first, last in sorted(found):
        if runs and runs[-1][1] == first:
            begin, _, rows = runs.pop()
            rows += found[first, last]
            runs.append((begin, last, rows))
        else:
            runs.append((first, last, found[first, last]))
    return runs


def _rows(text: bytes) -> list[Any]:
    """The records of an array, read strictly or else leniently; none where neither can."""
    for decode in (decoded, mended):
        try:
            return decode(text)
        except UNREADABLE:
            pass
    return []


def _end_of_records(text: bytes) -> tuple[int, bytes | None]:
    """End of the leading records, and the rest after their closing bracket.

    Without that bracket the second is None; then, where something is no record, the first is
    the end of the text.
    """
    readable = text.decode("latin-1")  # one character a byte
    decoder = json.JSONDecoder(strict=False)
    at = end = len(readable) - len(readable.lstrip())
    while at < len(readable) and readable[at] != "]":
        try:
            record, end = decoder.raw_decode(readable, at)
        except UNREADABLE:
            return len(text), None
        if not isinstance(record, dict) or not isinstance(record.get("ph"), str):
            return len(text), None
        separator = _SEPARATOR.match(readable, end)
        if separator is None:
            return end, None
        at = separator.end()
    return end, text[at + 1 :] if at < len(text) else None


def _json_object(text: bytes) -> Mapping[str, object] | None:
    """A JSON object, read leniently; None if it is none."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def no_trace(path: Path, found: str) -> TraceError:
    """The error of a file that holds no trace: what it holds instead, and what is accepted."""
    remedy = ""
    if path.suffix in _REPORTS:
        remedy = f" Export it first: nsys export --type sqlite {path}."
    return TraceError(f"{path} holds no trace: found {found}. Accepted: {_ACCEPTED}.{remedy}")


def _described(text: bytes) -> str:
    """Description of a text that begins with neither bracket."""
    if not text:
        return "nothing in it"
    if text.startswith(b"PK\x03\x04"):
        return "a zip archive"
    start = text[:40].decode("utf-8", "replace")
    if all(character.isprintable() or character.isspace() for character in start):
        return f"text that begins with {start!r}"
    return "binary data"


def _object_without_events(text: bytes) -> str:
    """Description of an object without a list of events."""
    facts = _json_object(text) if len(text) <= 2**20 else None
    if facts is None:
        return "what begins like a JSON object, but no list traceEvents in it"
    keys = ", ".join(repr(key) for key in list(facts)[:8]) or "none"
    return f"a JSON object without a list traceEvents (keys: {keys})"

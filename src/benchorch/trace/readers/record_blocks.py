"""The records of a JSON trace, read in blocks of bounded size; damaged ones are left out.

A block is cut where a record seems to begin and taken only if it decodes; the rest waits for more
of the file. So records are the same whatever the size of a block.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

from benchorch.errors import TraceError
from benchorch.trace.readers.records import UNREADABLE, decoded, escaped, mended
from benchorch.trace.readers.source import TraceFile

BLOCK_BYTES = 4 * 2**20  # decoded at once; 32 MiB exceed the caches and take a third longer
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
_SEPARATOR = re.compile(r"[ \t\n\r]*(?:,[ \t\n\r]*|(?=\]))")  # JSON has no other white space
_LONGEST_MATCH_BYTES = 1024  # of both; how far back to search again when more text came
_SEARCHED_BYTES = 2**16
_MOST_BYTES = 64 * 2**20  # before or after the records, and in one record
_MOST_SKIPPED_BYTES = 2**30
_MOST_OPENINGS = 16
_MOST_LOST, _LOST_IN_DEPTH = 100_000, 1_000  # places; a value that nests too deeply counts as many
_LONGEST_WORD = len("-Infinity")


class RecordBlock(NamedTuple):
    """Consecutive records, with their offset in the unpacked file."""

    start: int
    end: int
    rows: list[Any]


@final
class RecordBlocks:
    """The records of one file, in its order; once through.

    `repairs` counts what was left out so far; `header` has what stands before them in an object,
    in the end also what stands behind.
    """

    def __init__(self, source: TraceFile, block_bytes: int = BLOCK_BYTES) -> None:
        self.repairs: Counter[str] = Counter()
        self.header: Mapping[str, object] = {}
        self._source = source
        self._block_bytes = max(block_bytes, 1)
        self._buffer = bytearray()  # once open, begins with the bracket or comma before a record
        self._offset = 0  # of the buffer in the file
        self._searched = 1  # of the buffer, for where a record begins
        self._is_object = False  # the list is in one, as PyTorch writes it
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
        if not self._closed:
            yield from self._one_by_one(last=True)
        self._read_footer()

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
        self._is_object = True
        searched = 0
        while (bracket := self._opening(searched)) is None:
            searched = max(0, len(self._buffer) - _LONGEST_MATCH_BYTES)
            if len(self._buffer) > _MOST_BYTES or not self._grow():
                raise no_trace(self._source.path, _object_without_events(bytes(self._buffer)))
        self._drop(bracket)

    def _opening(self, searched: int) -> int | None:
        """The bracket of the list ``traceEvents``, once it is there.

        What stands before a key of that name inside another value is no object when closed there.
        """
        for match in islice(_OPENING.finditer(self._buffer, searched), _MOST_OPENINGS):
            text = bytes(self._buffer[self._buffer.index(b"{") : match.start()])
            header = _json_object(text.rstrip().removesuffix(b",") + b"}")
            if header is not None:
                self.header = header
                return match.end() - 1
        return None

    def _grow(self) -> bool:
        """Read more, at least as much as waits already, so that searching stays linear."""
        found = self._source.read(max(self._block_bytes, len(self._buffer)))
        self._buffer += found
        return bool(found)

    def _drop(self, size: int) -> None:
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
        """The records up to a comma, at once or, where that fails, one by one."""
        ends = self._buffer[:1], self._buffer[cut : cut + 1]
        self._buffer[:1], self._buffer[cut : cut + 1] = b"[", b"]"
        try:
            with memoryview(self._buffer) as whole, whole[: cut + 1] as array:  # copies nothing
                rows: list[Any] | None = decoded(array)
        except UNREADABLE:
            rows = None
        self._buffer[:1], self._buffer[cut : cut + 1] = ends
        if rows is None:
            yield from self._one_by_one(last=False)
        else:
            yield RecordBlock(start=self._offset + 1, end=self._offset + cut, rows=rows)
            self._drop(cut)

    def _one_by_one(self, *, last: bool) -> Iterator[RecordBlock]:
        """The records that can be read; unless it is the last, what is cut off waits for more."""
        text = bytes(self._buffer[1:])
        found = _scanned(text, last)
        for start, end in found.runs:
            rows = mended(b"[%b]" % text[start:end])
            yield RecordBlock(start=self._offset + 1 + start, end=self._offset + 1 + end, rows=rows)
        if found.lost:
            self.repairs["undecodable record"] += found.lost
        if self.repairs["undecodable record"] > _MOST_LOST:
            places = f"more than {_MOST_LOST} places that cannot be decoded"
            raise no_trace(self._source.path, places)
        self._closed = found.closed
        self._drop(found.end)
        self._searched = max(1, len(self._buffer) - _LONGEST_MATCH_BYTES)

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

    def _read_footer(self) -> None:
        """Take what stands behind the list; count a file that ends in it, or is no object there."""
        while self._closed and len(self._buffer) < _MOST_BYTES and self._grow():
            pass
        rest = b"{" + self._buffer[1:].lstrip().removeprefix(b",")
        footer = _json_object(rest) if self._closed and self._is_object else {}
        if not self._closed or footer is None:
            self.repairs["truncated file"] += 1
        self.header = {**(footer or {}), **self.header}


class _Scanned(NamedTuple):
    runs: list[tuple[int, int]]  # begin and end of records that follow each other
    end: int  # of what was read
    closed: bool  # whether the list ends there
    lost: int  # how many places are no record


def _scanned(text: bytes, last: bool) -> _Scanned:
    """The records at the beginning of a text, each read for itself.

    What cannot be read is left out up to where the next record seems to begin. Where the text may
    end inside of a record, more of it is needed, unless it is the last.
    """
    readable = escaped(text, b"/").decode("latin-1")
    decode = json.JSONDecoder(strict=False).raw_decode
    runs: list[tuple[int, int]] = []
    lost, base, at, joins = 0, 0, len(readable) - len(readable.lstrip()), False
    while at < len(readable) and readable[at] != "]" and lost <= _MOST_LOST:
        if at > _SEARCHED_BYTES:  # an error counts the lines before it
            readable, base, at = readable[at:], base + at, 0
        record, separator, end = None, None, at
        try:
            record, end = decode(readable, at)
            separator = _SEPARATOR.match(readable, end)
            cut_off = separator is None and not readable[end:].strip()
        except UNREADABLE as error:
            cut_off = _is_cut_off(error, len(readable))
            lost += _LOST_IN_DEPTH * isinstance(error, RecursionError)
        boundary = None if separator else _BOUNDARY.search(text, base + end)
        waits = cut_off or not (separator or boundary)
        if waits and not last and len(readable) - at <= _MOST_BYTES:
            return _Scanned(runs, base + at, False, lost)
        good = isinstance(record, dict) and record.get("ph") is not None
        if good:
            runs.append((runs.pop()[0] if joins else base + at, base + end))
        lost += not good or not (separator or cut_off)
        joins = good and separator is not None
        at = separator.end() if separator else len(readable)
        if boundary is not None:
            at = readable.index("{", boundary.end(1) - base)
    closed = readable.startswith("]", at)
    return _Scanned(runs, base + at + closed, closed, lost)


def _is_cut_off(error: Exception, size: int) -> bool:
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= size - _LONGEST_WORD or error.msg.startswith("Unterminated string")


def _json_object(text: bytes) -> Mapping[str, object] | None:
    """A JSON object, read leniently; None if it is none."""
    try:
        value = json.loads(escaped(text).decode("utf-8", "replace"), strict=False)
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
    if not text:
        return "nothing in it"
    if text.startswith(b"PK\x03\x04"):
        return "a zip archive"
    start = text[:40].decode("utf-8", "replace")
    if all(character.isprintable() or character.isspace() for character in start):
        return f"text that begins with {start!r}"
    return "binary data"


def _object_without_events(text: bytes) -> str:
    facts = _json_object(text) if len(text) <= 2**20 else None
    if facts is None:
        return "what begins like a JSON object, but no list traceEvents in it"
    keys = ", ".join(repr(key) for key in list(facts)[:8]) or "none"
    return f"a JSON object without a list traceEvents (keys: {keys})"

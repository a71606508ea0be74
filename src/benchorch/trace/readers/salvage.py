"""Which stretches of a damaged text still hold records, found without reading it too often.

The text is cut where one record seems to end and the next to begin. Halves that decode are
taken; those that do not are halved again, so n pieces are read about log(n) times, whatever is
in them. What is left are single pieces: they are read leniently, then joined with their bad
neighbours in case a cut went through a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from benchorch.trace.readers.records import UNREADABLE, Record, decoded, mended

_KEYS = (
    "ph|cat|name|pid|tid|ts|dur|args|id|id2|s|bp|cname|sf|stack|scope|bind_id|tts|tdur"
    "|flow_in|flow_out"
)
BOUNDARY = re.compile(rb'\}\s{0,256}(,)\s{0,256}\{\s{0,256}"(?:' + _KEYS.encode() + rb')"')
"""Between two records; inside a string it cannot be, for there the quote would be escaped."""

LONGEST_BOUNDARY_BYTES = 1024
_MOST_JOINED = 16
_MOST_JOINS = 2_000
_MOST_WAITING = 64
_MOST_WAITING_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpan:
    """Records that follow each other, and where in the text they stand."""

    start: int
    end: int
    rows: list[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What could be saved.

    Attributes:
        stretches: in the order of the text.
        bad_from: where the pieces begin that end the text and hold no record; more text may
            help those. After the text if there are none.
        lost_at_end, lost_before: how many pieces hold no record, of those and of all others.
        bad_is_little: whether there are so few at the end that it is worth to wait for more.
    """

    stretches: tuple[RecordSpan, ...]
    bad_from: int
    lost_at_end: int
    lost_before: int
    bad_is_little: bool


def salvage(text: bytes) -> Salvaged:
    """The records of a text without its brackets."""
    pieces = _Pieces.of(text)
    pieces.take_halves()
    lost = pieces.take_joined()
    after = len(text) + 1
    trailing = _trailing(lost, len(pieces.starts))
    bad_from = pieces.starts[-trailing] if trailing else after
    return Salvaged(
        stretches=tuple(pieces.stretches()),
        bad_from=bad_from,
        lost_at_end=trailing,
        lost_before=len(lost) - trailing,
        bad_is_little=trailing <= _MOST_WAITING and after - bad_from <= _MOST_WAITING_BYTES,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """A text in pieces, and the runs of them that hold records.

    Attributes:
        starts, ends: of each piece.
        found: records by the first piece of their run and the one after its last.
    """

    text: bytes
    starts: Sequence[int]
    ends: Sequence[int]
    found: dict[tuple[int, int], list[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: bytes) -> _Pieces:
        """The text cut wherever a record may begin."""
        cuts = [match.start(1) for match in BOUNDARY.finditer(text)]
        return cls(text=text, starts=[0, *(cut + 1 for cut in cuts)], ends=[*cuts, len(text)])

    def take_halves(self) -> None:
        """Find what decodes by halving what does not; single pieces may need leniency."""
        waiting = [(0, len(self.starts))]
        while waiting:
            first, last = waiting.pop()
            if not self._take(first, last, lenient=last - first == 1) and last - first > 1:
                middle = (first + last) // 2
                waiting += [(first, middle), (middle, last)]

    def take_joined(self) -> list[int]:
        """Join neighbours that are no records alone; gives the pieces that stay bad."""
        good = {piece for first, last in self.found for piece in range(first, last)}
        bad = [piece for piece in range(len(self.starts)) if piece not in good]
        joins = iter(range(_MOST_JOINS))  # damage is rare, or the file is not worth more
        lost: list[int] = []
        taken = 0
        for at, first in enumerate(bad):
            if first < taken:
                continue
            neighbours = (bad[at + k] for k in range(1, min(_MOST_JOINED, len(bad) - at)))
            for count, (piece, _) in enumerate(zip(neighbours, joins, strict=False), start=2):
                if piece != first + count - 1:
                    break
                if self._take(first, first + count, lenient=True):
                    taken = first + count
                    break
            if first >= taken:
                lost.append(first)
        return lost

    def stretches(self) -> Iterator[RecordSpan]:
        """What was found in the order of the text, neighbours as one."""
        rows: list[Record] = []
        begin = end = 0
        for first, last in sorted(self.found):
            if rows and first != end:
                yield RecordSpan(start=self.starts[begin], end=self.ends[end - 1], rows=rows)
                rows = []
            begin = begin if rows else first
            rows += self.found[first, last]
            end = last
        if rows:
            yield RecordSpan(start=self.starts[begin], end=self.ends[end - 1], rows=rows)

    def _take(self, first: int, last: int, *, lenient: bool) -> bool:
        """Whether a run of pieces holds nothing but records, each with a phase."""
        text = b"[" + self.text[self.starts[first] : self.ends[last - 1]] + b"]"
        rows = _rows(text, lenient=lenient)
        if not rows or any(row.ph is None for row in rows):
            return False
        self.found[first, last] = rows
        return True


def _rows(text: bytes, *, lenient: bool) -> list[Record]:
    try:
        return decoded(text)
    except UNREADABLE:
        if not lenient:
            return []
    try:
        return mended(text)
    except UNREADABLE:
        return []


def _trailing(lost: Sequence[int], pieces: int) -> int:
    """How many of the bad pieces end the text."""
    count = 0
    while count < len(lost) and lost[-1 - count] == pieces - 1 - count:
        count += 1
    return count

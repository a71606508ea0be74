"""Which stretches of a damaged text still hold records, found without reading it too often.

The text is cut where one record seems to end and the next to begin. Halves that decode are
taken; those that do not are halved again, so n pieces are read about log(n) times, whatever is
in them. What is left are single pieces: they are read leniently, then joined with their bad
neighbours in case a cut went through a record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.trace.readers.records import UNREADABLE, Record, decoded, mended

_KEYS = (
    "ph|cat|name|pid|tid|ts|dur|args|id|id2|s|bp|cname|sf|stack|scope|bind_id|tts|tdur"
    "|flow_in|flow_out"
)
BOUNDARY = re.compile(rb'\}\s{0,256}(,)\s{0,256}\{\s{0,256}"(?:' + _KEYS.encode() + rb')"')
"""Between two records; inside of a string it cannot be, for the quote would be escaped."""

LONGEST_BOUNDARY_BYTES = 1024
_MOST_JOINED = 16
_MOST_CARRIED_PIECES = 64
_MOST_CARRIED_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Records that follow each other, and where in the text they stand."""

    start: int
    end: int
    rows: list[Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What could be saved.

    Attributes:
        stretches: in the order of the text.
        lost: how many pieces hold nothing that can be read.
        open_from: where the last of them begin, if they end the text: more of it may help.
    """

    stretches: tuple[Stretch, ...]
    lost: int
    open_from: int


def salvage(text: bytes) -> Salvaged:
    """The records of a text without its brackets."""
    cuts = [match.start(1) for match in BOUNDARY.finditer(text)]
    starts = [0, *(cut + 1 for cut in cuts)]
    ends = [*cuts, len(text)]
    found = _halved(text, starts, ends)
    bad = sorted(set(range(len(starts))) - {i for a, b in found for i in range(a, b)})
    lost = _joined(text, starts, ends, bad, found)
    stretches = tuple(
        Stretch(start=starts[first], end=ends[last - 1], rows=rows)
        for (first, last), rows in sorted(found.items(), key=lambda item: item[0])
    )
    carried = _carried(lost, starts, len(text))
    return Salvaged(
        stretches=stretches,
        lost=len(lost) - carried,
        open_from=starts[len(starts) - carried] if carried else len(text),
    )


def _halved(
    text: bytes, starts: Sequence[int], ends: Sequence[int]
) -> dict[tuple[int, int], list[Record]]:
    """Runs of pieces that decode, by first piece and the one after the last."""
    found: dict[tuple[int, int], list[Record]] = {}
    waiting = [(0, len(starts))]
    while waiting:
        first, last = waiting.pop()
        rows = _rows(text[starts[first] : ends[last - 1]], lenient=last - first == 1)
        if rows:
            found[first, last] = rows
        elif last - first > 1:
            middle = (first + last) // 2
            waiting += [(first, middle), (middle, last)]
    return found


def _joined(
    text: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    bad: Sequence[int],
    found: dict[tuple[int, int], list[Record]],
) -> list[int]:
    """The bad pieces that remain when neighbours were put together; adds the others to `found`."""
    lost = []
    at = 0
    while at < len(bad):
        first = bad[at]
        joined = 1
        for count in range(2, _MOST_JOINED + 1):
            if at + count > len(bad) or bad[at + count - 1] != first + count - 1:
                break
            if rows := _rows(text[starts[first] : ends[first + count - 1]], lenient=True):
                found[first, first + count] = rows
                joined = count
                break
        else:
            joined = 1
        if joined == 1:
            lost.append(first)
        at += joined
    return lost


def _rows(piece: bytes, *, lenient: bool) -> list[Record]:
    """The records of a piece, each with a phase; none if anything is off."""
    text = b"[" + piece + b"]"
    try:
        rows = decoded(text)
    except UNREADABLE:
        rows = _leniently(text) if lenient else []
    return rows if all(row.ph is not None for row in rows) else []


def _leniently(text: bytes) -> list[Record]:
    try:
        return mended(text)
    except UNREADABLE:
        return []


def _carried(lost: Sequence[int], starts: Sequence[int], length: int) -> int:
    """How many of the bad pieces end the text and are few enough to wait for more of it."""
    count = 0
    while (
        count < min(len(lost), _MOST_CARRIED_PIECES)
        and lost[-1 - count] == len(starts) - 1 - count
        and length - starts[lost[-1 - count]] <= _MOST_CARRIED_BYTES
    ):
        count += 1
    return count

"""Records of a JSON trace as unfinished columns: words are codes, lanes what they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, final

import msgspec
import numpy as np

from benchorch.trace.readers.categories import LEFT_OUT, ON_STREAMS, WORK, category
from benchorch.trace.readers.codes import Codes
from benchorch.trace.readers.lanes import Labels
from benchorch.trace.readers.records import Record
from benchorch.trace.readers.values import integers, nanoseconds, word

if TYPE_CHECKING:
    from numpy import int8, int64
    from numpy.typing import NDArray

    Piece = dict[str, NDArray[Any]]

JOINS = ("correlation", "external_id", "sequence", "forward_thread", "graph_node", "awaited")
ROW_BITS = 32
"""A record's place is its block's number and its row there, as one number."""

_IGNORED = frozenset("sftiIRCbneSTpFNODPvVcaO(),")
"""Phases that are no event on a lane: flows, instants, counters, asynchronous ranges."""

_PLAIN = ("cat", "name", "pid", "tid", "ph")


@final
@dataclass(slots=True, kw_only=True)
class Gathered:
    """What the records of a file give, block by block.

    Attributes:
        names, lanes: what the codes of the columns stand for; a lane is ``(pid, tid)`` or, of
            something on a stream, ``(pid, tid, device, stream, whether it works)``.
        halves: records that begin or end an event (``B`` and ``E``), with their place.
        left_out: records that are no event on a lane, by what they are.
    """

    names: Codes = field(default_factory=Codes)
    lanes: Codes = field(default_factory=Codes)
    words: Codes = field(default_factory=Codes)
    labels: Labels = field(default_factory=Labels)
    pieces: list[Piece] = field(default_factory=list)
    halves: list[tuple[int, Record]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)

    def add(self, rows: Sequence[Record], block: int) -> None:
        """Take the records of one block."""
        first = block << ROW_BITS
        complete = [row.ph == "X" for row in rows]
        if not all(complete):
            for at, row in enumerate(rows):
                if not complete[at]:
                    self._add_other(row, first + at)
        places = np.flatnonzero(np.array(complete, dtype=bool)) + first
        self.add_complete(list(compress(rows, complete)), places)

    def add_complete(self, rows: list[Record], places: NDArray[int64]) -> None:
        """Take complete events."""
        try:
            piece = self._piece(rows, places)
        except TypeError:  # a word that is a list or an object
            piece = self._piece([self._plain(row) for row in rows], places)
        if len(piece["place"]):
            self.pieces.append(piece)

    def _add_other(self, row: Record, place: int) -> None:
        if row.ph == "M":
            self.labels.add(row.name, row.pid, row.tid, row.args.name)
        elif row.ph in ("B", "E"):
            self.halves.append((place, self._plain(row)))
        elif isinstance(row.ph, str) and row.ph in _IGNORED:
            self.left_out["flow, instant or counter"] += 1
        else:
            self.repairs["record of an unknown kind"] += 1

    def _piece(self, rows: list[Record], places: NDArray[int64]) -> Piece:
        codes = self.words.encoded([row.cat for row in rows])
        kinds = np.array([category(word(each)) for each in self.words.values], dtype=np.int8)
        kind = kinds[codes] if len(rows) else np.empty(0, dtype=np.int8)
        spans = kind == LEFT_OUT
        if spans.any():
            self.left_out["span"] += int(spans.sum())
            rows = list(compress(rows, ~spans))
            kind, places = kind[~spans], places[~spans]
        piece: Piece = {"place": places, "category": kind}
        piece["name"] = self.names.encoded([row.name for row in rows])
        piece["lane"] = self.lanes.encoded(_lane_keys(rows, kind))
        piece.update(_joins(rows))
        return self._timed(piece, rows)

    def _timed(self, piece: Piece, rows: Sequence[Record]) -> Piece:
        """With its times; records without one are dropped, durations that are none become 0."""
        start, known = nanoseconds([row.ts for row in rows])
        duration, said = nanoseconds([row.dur for row in rows])
        negative = duration < 0
        self._count("missing duration", int((known & ~said).sum()))
        self._count("negative duration", int((known & negative).sum()))
        self._count("missing time", int((~known).sum()))
        piece["start_ns"] = start
        piece["duration_ns"] = np.where(negative, 0, duration)
        return piece if known.all() else {name: each[known] for name, each in piece.items()}

    def _count(self, repair: str, times: int) -> None:
        if times:
            self.repairs[repair] += times

    def _plain(self, row: Record) -> Record:
        """The record with words where it has lists and objects."""
        wrong = {
            name: word(getattr(row, name))
            for name in _PLAIN
            if isinstance(getattr(row, name), list | dict)
        }
        given = {
            name: word(getattr(row.args, name))
            for name in ("device", "stream")
            if isinstance(getattr(row.args, name), list | dict)
        }
        self._count("wrong type", len(wrong) + len(given))
        arguments = msgspec.structs.replace(row.args, **given)
        return msgspec.structs.replace(row, **wrong, args=arguments)


def _lane_keys(rows: Sequence[Record], kind: NDArray[int8]) -> list[Hashable]:
    keys: list[Hashable] = [(row.pid, row.tid) for row in rows]
    works = WORK[kind]
    for at in np.flatnonzero(ON_STREAMS[kind]).tolist():
        row = rows[at]
        keys[at] = (row.pid, row.tid, row.args.device, row.args.stream, bool(works[at]))
    return keys


def _joins(rows: Sequence[Record]) -> Piece:
    args = [row.args for row in rows]
    older = integers([each.external_id_before_1_13 for each in args])
    columns = {
        "correlation": integers([each.correlation for each in args]),
        "external_id": integers([each.external_id for each in args]),
        "sequence": integers([each.sequence for each in args]),
        "forward_thread": integers([each.forward_thread for each in args]),
        "graph_node": integers([each.graph_node for each in args]),
        "awaited": integers([each.awaited for each in args]),
    }
    columns["external_id"] = np.where(columns["external_id"] < 0, older, columns["external_id"])
    return dict(columns)

"""Which lane a record's ids mean, and what people call it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import final

from benchorch.trace.events import NOTHING, Lane
from benchorch.trace.readers.values import integer, word

SYNC_ROWS = 1_000_000
"""What newer exporters add to the stream of a synchronisation to give it a row of its own."""

_DIGITS = re.compile(r"\d+")
_MOST_STREAM = 2**31 - 1


def thread_lane(process: object, thread: object) -> Lane:
    """The lane of a host thread."""
    return Lane(process=word(process), thread=word(thread))


def stream_lane(
    device: object, stream: object, process: object, thread: object, *, works: bool
) -> Lane:
    """The lane of a stream by its own numbers, or by those of its row where it has none.

    A synchronisation of a whole device is about no stream: it gets a lane for itself.
    """
    number = integer(stream)
    if number < 0 and not works:
        return thread_lane(process, thread)
    if not 0 <= number <= _MOST_STREAM:
        number = _row(thread)
    owner = integer(device)
    owner = owner if owner >= 0 else max(_row(process), 0)
    return Lane(process=str(owner), thread=str(number), device=owner, stream=number)


def _row(spelled: object) -> int:
    """The number in what a row is called, such as ``stream 7``; 0 if there is none."""
    digits = _DIGITS.search(word(spelled))
    number = int(digits.group()[:18]) if digits else 0
    return (number - SYNC_ROWS if number >= SYNC_ROWS else number) % (_MOST_STREAM + 1)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the file calls its processes and threads, by their ids as text."""

    processes: dict[str, set[str]] = field(default_factory=dict)
    threads: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def add(self, kind: object, process: object, thread: object, name: object) -> None:
        """Keep one record of metadata, if it names something."""
        if kind == "thread_name" and word(name):
            self.threads.setdefault((word(process), word(thread)), set()).add(word(name).strip())
        elif kind == "process_name" and word(name):
            self.processes.setdefault(word(process), set()).add(word(name).strip())

    def labelled(self, lane: Lane) -> Lane:
        """The lane with its label."""
        if lane.on_device:
            return replace(lane, label=f"device {lane.device} stream {lane.stream}")
        names = self.threads.get((lane.process, lane.thread)) or {f"thread {lane.thread}"}
        return replace(lane, label=min(names))


def in_order(lanes: Iterable[Lane]) -> tuple[Lane, ...]:
    """Each lane once: host threads before streams, by number where they have one."""
    return tuple(sorted(set(lanes), key=_order))


def _order(lane: Lane) -> tuple[object, ...]:
    ids = (_natural(lane.process), _natural(lane.thread))
    return (lane.device, lane.stream, *ids)


def _natural(spelled: str) -> tuple[int, str]:
    number = integer(spelled)
    return (0 if number == NOTHING else number, spelled)


def numbered(lanes: Iterable[Lane]) -> tuple[tuple[Lane, ...], Mapping[Lane, int]]:
    """The lanes in order, and the index of each."""
    ordered = in_order(lanes)
    return ordered, {lane: index for index, lane in enumerate(ordered)}

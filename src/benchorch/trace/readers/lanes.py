"""Lanes that a record's ids mean, and their order."""

from __future__ import annotations

import re

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
    process: object, thread: object, device: object, stream: object, works: bool
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


def lane_order(lane: Lane) -> tuple[object, ...]:
    """A key that sorts host threads before streams, by number where they have one."""
    ids = []
    for spelled in (lane.process, lane.thread):
        number = integer(spelled)
        ids.append((0 if number == NOTHING else number, spelled))
    return (lane.device, lane.stream, *ids)

"""Readers by a file's first bytes, and profiles in JSON: PyTorch's object, ONNX Runtime's list."""

import gc
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path

from benchorch.errors import TraceError
from benchorch.trace.arrays import Int64s
from benchorch.trace.events import Events
from benchorch.trace.readers.columns import ROW_BITS, Gathered
from benchorch.trace.readers.finish import finished
from benchorch.trace.readers.record_blocks import BLOCK_BYTES, RecordBlocks, no_trace
from benchorch.trace.readers.records import UNREADABLE, arguments, integer
from benchorch.trace.readers.source import TraceFile

SQLITE_MAGIC = b"SQLite format 3\0"
MOST_EVENTS = 50_000_000


def read_events(path: Path) -> Events:
    """The events of a profile by what is in the file: PyTorch's, ONNX Runtime's, Nsight Systems'.

    What is damaged is mended and counted; TraceError for a file that holds no trace at all.
    """
    with TraceFile(path) as source:
        start = source.read(len(SQLITE_MAGIC))
    if start == SQLITE_MAGIC:  # brings a library of its own
        from benchorch.trace.readers.nsight import read_nsight

        return read_nsight(path)
    return read_json(path)


def read_json(path: Path, block_bytes: int = BLOCK_BYTES) -> Events:
    """The events of a JSON profile; TraceError if it holds none."""
    gathered = Gathered()
    spans, records = [], 0
    with TraceFile(path) as source, ExitStack() as stack:
        if gc.isenabled():  # of millions of objects none is in a cycle: looking takes most time
            gc.disable()
            stack.callback(gc.enable)
        blocks = RecordBlocks(source, block_bytes)
        for number, block in enumerate(blocks):
            gathered.add(block.rows, number)
            spans.append((block.start, block.end))
            records += len(block.rows)
            if records > MOST_EVENTS:
                raise TraceError(
                    f"{path} holds more than {MOST_EVENTS} records. Profile fewer iterations."
                )
        gathered.repairs += blocks.repairs + source.repairs
        distributed = blocks.header.get("distributedInfo")
        if isinstance(distributed, dict):
            gathered.rank = integer(distributed.get("rank"))
        events = finished(gathered, partial(_details, path, spans))
    if events is None:
        raise no_trace(path, f"a list of {records} records of which none is an event with a time")
    return events


def _details(
    path: Path, blocks: Sequence[tuple[int, int]], place: Int64s, indices: Sequence[int]
) -> Mapping[int, Mapping[str, object]]:
    """Arguments of events from the file's blocks, by each event's place; it must be what it was."""
    found: dict[int, Mapping[str, object]] = {}
    by_place = sorted((int(place[index]), index) for index in indices)
    with TraceFile(path) as source:
        for block, group in groupby(by_place, key=lambda item: item[0] >> ROW_BITS):
            places, events = zip(*group, strict=True)
            start, end = blocks[block]
            source.skip_to(start)
            text = b"[%b]" % source.read(end - start)
            rows = [place & ((1 << ROW_BITS) - 1) for place in places]
            try:
                found.update(zip(events, arguments(text, rows), strict=True))
            except (*UNREADABLE, IndexError) as error:
                raise TraceError(f"{path} has changed since it was read.") from error
    return found

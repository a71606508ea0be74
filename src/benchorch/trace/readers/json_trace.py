"""Profiles in JSON: PyTorch's object with ``traceEvents``, ONNX Runtime's list.

Both hold the same kind of records, so one reader does: an exporter's word for the category says
what a record is. Times are microseconds with decimals.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchorch.errors import TraceError
from benchorch.trace.events import Events
from benchorch.trace.readers.blocks import BLOCK_BYTES, Blocks
from benchorch.trace.readers.columns import Gathered
from benchorch.trace.readers.details import JsonDetails
from benchorch.trace.readers.finish import finished
from benchorch.trace.readers.refusal import no_trace
from benchorch.trace.readers.source import TraceFile

MOST_EVENTS = 50_000_000


def read_json(path: Path, block_bytes: int = BLOCK_BYTES) -> Events:
    """The events of a JSON profile; TraceError if it holds none.

    Args:
        path: plain or gzip.
        block_bytes: how much of the text is decoded at once; it changes nothing but memory.
    """
    gathered = Gathered()
    with TraceFile(path) as source, _collector_off():
        blocks = Blocks(source, block_bytes)
        spans = list(_spans(blocks, gathered, path))
        done = finished(gathered)
    if done is None:
        records = sum(gathered.left_out.values()) + sum(gathered.repairs.values())
        raise no_trace(path, f"a list of {records} records of which none is an event with a time")
    repairs = blocks.repairs + gathered.repairs + source.repairs
    return Events(
        **done.columns,
        names=done.names,
        lanes=done.lanes,
        details=JsonDetails(path=path, blocks=spans, place=done.place),
        repairs=dict(sorted(repairs.items())),
        facts={
            **blocks.facts,
            "format": "kineto" if blocks.is_object else "onnx_runtime",
            "left_out": dict(sorted(gathered.left_out.items())),
        },
    )


def _spans(blocks: Blocks, gathered: Gathered, path: Path) -> Iterator[tuple[int, int]]:
    """Gathers each block; gives where it stands."""
    records = 0
    for number, block in enumerate(blocks):
        gathered.add(block.rows, number)
        records += len(block.rows)
        if records > MOST_EVENTS:
            raise TraceError(
                f"{path} holds more than {MOST_EVENTS} records. Profile fewer iterations."
            )
        yield block.start, block.end


@contextmanager
def _collector_off() -> Iterator[None]:
    """Millions of new objects, none in a cycle: looking for cycles would be most of the work."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

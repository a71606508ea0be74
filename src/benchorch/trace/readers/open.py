"""Choice of the reader by a file's first bytes."""

from pathlib import Path

from benchorch.trace.events import Events
from benchorch.trace.readers.source import TraceFile

SQLITE_MAGIC = b"SQLite format 3\0"


def read_events(path: Path) -> Events:
    """The events of a profile by what is in the file, not by its name.

    Read are profiles of PyTorch and ONNX Runtime in JSON, plain or gzip, and SQLite exports of
    Nsight Systems. What is damaged is mended and counted in `Events.repairs`; a file that holds
    no trace at all is a TraceError.
    """
    with TraceFile(path) as source:
        start = source.read(len(SQLITE_MAGIC))
    # Each brings a library of its own, whose import takes as long as a small trace.
    if start == SQLITE_MAGIC:
        from benchorch.trace.readers.nsight import read_nsight

        return read_nsight(path)
    from benchorch.trace.readers.json_trace import read_json

    return read_json(path)

"""Which reader reads this file?"""

from __future__ import annotations

from pathlib import Path

from benchorch.trace.events import Events
from benchorch.trace.readers.json_trace import read_json


def read_events(path: Path) -> Events:
    """The events of a profile, whatever tool wrote it; TraceError if the file holds none."""
    return read_json(path)

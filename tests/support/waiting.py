"""What tests ask of other processes, and how they wait for what those do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], limit_s: float) -> bool:
    """Whether a condition came true in time."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.05)
    return False


def wait_for(path: Path) -> None:
    """Until a file is there; an AssertionError if it does not come."""
    assert until(path.exists, 400), f"{path.name} never appeared"


def children_of(pid: int) -> list[int]:
    """The processes that a process has started; none of one that is gone."""
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in told.split()]


def is_there(pid: int) -> bool:
    """Whether a process has that number, be it only to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

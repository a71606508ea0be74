"""Work that starts from what a process held earlier."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchorch.host.processes import template
from benchorch.host.processes.earlier_state import kept_state
from support.waiting import until

pytestmark = pytest.mark.skipif(not template.is_possible(), reason="needs Linux")


def test_work_begins_each_time_with_what_was_in_memory_then(tmp_path: Path) -> None:
    held = ["at first"]

    def work(number: int) -> None:
        (tmp_path / str(number)).write_text(" ".join(held))
        held.append("changed by work")

    with kept_state(work) as run:
        held.append("changed later")
        assert run(1, 60)
        assert run(2, 60)
    assert [(tmp_path / name).read_text() for name in "12"] == ["at first", "at first"]
    assert held == ["at first", "changed later"]


def test_work_that_fails_or_takes_too_long_costs_nothing_else(tmp_path: Path) -> None:
    def work(number: int) -> None:
        (tmp_path / str(number)).write_text(str(os.getpid()))
        if number == 1:
            raise ValueError
        if number == 2:
            time.sleep(600)

    started = tmp_path / "2"
    with kept_state(work) as run:
        assert not run(1, 60)
        assert run(3, 60)
        assert not run(2, 0.5)
        assert until(lambda: started.exists() and started.read_text(), 400)
        assert not run(3, 60)
    process = Path("/proc", started.read_text(), "stat")
    assert until(lambda: not process.exists(), 60)  # the kernel ends it after its parent

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.dag import Window
from benchorch.trace.readers.open import read_events
from benchorch.trace.windows import windows
from support.trace_files import event, steps, write


def test_a_window_ends_with_the_last_device_work_launched_inside(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(2)))
    assert windows(events) == (
        Window(start_ns=125, end_ns=960_125, name="ProfilerStep#0", iteration=0),
        Window(start_ns=1_000_125, end_ns=1_960_125, name="ProfilerStep#1", iteration=1),
    )


def test_without_device_work_a_window_is_its_range(tmp_path: Path) -> None:
    marks = [event("user_annotation", "benchorch:call", 10 * k, 5) for k in (2, 0, 1)]
    found = windows(read_events(write(tmp_path / "t.json", marks)))
    assert [(window.start_ns, window.end_ns) for window in found] == [
        (0, 5000),
        (10_000, 15_000),
        (20_000, 25_000),
    ]
    assert [window.iteration for window in found] == [0, 1, 2]


def test_a_timed_call_tells_more_than_a_step(tmp_path: Path) -> None:
    call = event("user_annotation", "benchorch:call", 100, 50)
    events = read_events(write(tmp_path / "t.json", [*steps(1), call]))
    assert [window.name for window in windows(events)] == ["benchorch:call"]


def test_without_marks_the_window_is_the_whole_trace(tmp_path: Path) -> None:
    records = [event("cpu_op", "a", 1, 2), event("cpu_op", "b", 5, 2)]
    overhead = event("overhead", "Buffer Flush", 0, 100, pid=-1, tid=0)
    events = read_events(write(tmp_path / "t.json", [*records, overhead]))
    assert windows(events) == (Window(start_ns=1000, end_ns=7000),)


@pytest.mark.parametrize("name", ["fwd[0]", "fwd*"])
def test_a_window_may_be_requested_by_name_or_pattern(tmp_path: Path, name: str) -> None:
    inside = event("cpu_op", "fwd[0]", 3, 1)
    events = read_events(write(tmp_path / "t.json", [event("cpu_op", "fwd[0]", 1, 9), inside]))
    assert windows(events, name) == (Window(start_ns=1000, end_ns=10_000, name="fwd[0]"),)


def test_an_unknown_name_is_answered_with_those_there_are(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(1)))
    with pytest.raises(TraceError, match=r"'nothing'.*'ProfilerStep#0'"):
        windows(events, "nothing")

"""Who drives a run: the lock says whether anybody does, driver.json who it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.session import Event
from benchorch.errors import ConfigError
from benchorch.journal import lock
from benchorch.journal.lock import (
    StatusFile,
    acquire_lock,
    is_coordinator_process,
    is_running,
    read_coordinator,
)


def events(*messages: str, trial: str = "t1") -> list[Event]:
    return [Event(trial_id=trial, stage="measure", message=message) for message in messages]


def test_a_directory_is_driven_for_as_long_as_its_lock_is_held(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with acquire_lock(tmp_path):
        assert is_running(tmp_path)
        with pytest.raises(ConfigError, match="still going on"):
            acquire_lock(tmp_path)
    assert not is_running(tmp_path)


def test_a_lock_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from benchorch.journal.lock import acquire_lock\n"
        "lock = acquire_lock(Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert held.stdout is not None
    assert held.stdout.readline() == b"taken\n"
    assert is_running(tmp_path)
    held.kill()
    held.wait()
    assert not is_running(tmp_path)


def test_somebody_who_only_looks_does_not_keep_a_driver_out(tmp_path: Path) -> None:
    acquire_lock(tmp_path).close()
    code = (
        "import sys; from pathlib import Path; from benchorch.journal.lock import is_running\n"
        "while True: is_running(Path(sys.argv[1]))"
    )
    looking = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        for _ in range(200):
            acquire_lock(tmp_path).close()
    finally:
        looking.kill()
        looking.wait()


def test_a_diary_tells_who_drives_and_what_is_busy(tmp_path: Path) -> None:
    diary = StatusFile(tmp_path)
    diary.begin()
    for event in (*events("process 1"), *events("loading", trial="t2")):
        diary.event(event)
    told = read_coordinator(tmp_path)
    assert told is not None
    assert told.pid == os.getpid()
    assert {k: doing.text for k, doing in told.busy.items()} == {
        "t1": "measure process 1",
        "t2": "measure loading",
    }
    diary.result("t1")
    told = read_coordinator(tmp_path)
    assert told is not None
    assert list(told.busy) == ["t2"]
    assert told.ended_at is None
    diary.end(complete=True)
    told = read_coordinator(tmp_path)
    assert told is not None
    assert told.complete
    assert told.ended_at
    assert not told.busy


def test_a_diary_keeps_since_when_a_trial_waits_and_since_when_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(lock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lock, "_now", lambda: str(now[0]))
    diary = StatusFile(tmp_path)
    diary.begin()
    seen = []
    for stage in ("wait", "wait", "build", "measure", "wait"):
        now[0] += 10
        diary.event(Event(trial_id="t1", stage=stage))
        told = read_coordinator(tmp_path)
        assert told is not None
        seen.append((told.busy["t1"].since, told.busy["t1"].waits))
    assert seen == [
        *[("10.0", True), ("10.0", True)],
        *[("30.0", False), ("30.0", False)],
        ("50.0", True),
    ]


def test_what_a_trial_says_is_written_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(lock.time, "monotonic", lambda: now[0])
    diary = StatusFile(tmp_path)
    diary.begin()
    diary.event(events("first")[0])

    def told() -> str:
        found = read_coordinator(tmp_path)
        assert found is not None
        return found.busy["t1"].text

    diary.event(events("too soon")[0])
    assert told() == "measure first"
    now[0] += 1.5
    diary.event(events("later")[0])
    assert told() == "measure later"


def test_a_diary_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    diary = StatusFile(tmp_path / "gone")
    diary.begin()
    diary.event(events("x")[0])
    diary.result("t1")
    diary.end(complete=True)
    assert read_coordinator(tmp_path / "gone") is None


def test_a_diary_that_was_not_begun_writes_nothing(tmp_path: Path) -> None:
    diary = StatusFile(tmp_path)
    diary.event(events("x")[0])
    diary.result("t1")
    diary.end(complete=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "3", '{"pid": 3}'])
def test_a_damaged_diary_is_nobodys(tmp_path: Path, text: str) -> None:
    (tmp_path / lock.FILE).write_text(text)
    assert read_coordinator(tmp_path) is None


def test_a_process_is_known_by_its_number_its_start_and_the_lock_it_has_open(
    tmp_path: Path,
) -> None:
    StatusFile(tmp_path).begin()
    told = read_coordinator(tmp_path)
    assert told is not None
    assert not is_coordinator_process(told, tmp_path), "it has no lock"
    with acquire_lock(tmp_path):
        assert is_coordinator_process(told, tmp_path)
        assert not is_coordinator_process(replace(told, begun_s=told.begun_s - 60), tmp_path)
        assert not is_coordinator_process(replace(told, pid=os.getppid()), tmp_path)
        assert not is_coordinator_process(replace(told, pid=2**22 - 7), tmp_path)
        assert not is_coordinator_process(replace(told, host="elsewhere"), tmp_path)
        for pid in (-1, 0, 2**31, 2**70):  # as a damaged file may hold them
            assert not is_coordinator_process(replace(told, pid=pid), tmp_path)


def test_nothing_secret_is_told(tmp_path: Path) -> None:
    StatusFile(tmp_path).begin()
    told = json.loads((tmp_path / lock.FILE).read_text())
    assert sorted(told) == [
        *("begun_s", "busy", "complete", "ended_at", "expected_end", "host", "pid"),
        *("spending", "started_at"),
    ]

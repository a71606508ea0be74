"""The end of a sidecar process: what is waited for, what ends the wait, and who gets a core."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from benchorch.run import sidecar
from benchorch.run.sidecar import Sidecar
from support.waiting import wait_for


@contextmanager
def running(source: str, *arguments: str) -> Iterator[Sidecar]:
    """A sidecar that runs this source."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    beside = Sidecar(process)
    try:
        yield beside
    finally:
        beside.process.kill()
        beside.process.communicate()


INTERRUPTS_ONCE_IT_IS_WAITED_FOR = """
import os, signal, sys, time
sys.stdin.readline()
os.kill(os.getppid(), signal.SIGINT)
time.sleep(600)
"""


def test_an_interrupt_ends_the_wait_from_its_first_moment_on() -> None:
    with running(INTERRUPTS_ONCE_IT_IS_WAITED_FOR) as beside:
        assert not beside.finish(complete=True, waiting=lambda: None)
        assert beside.process.wait(60) == -signal.SIGTERM
    assert beside.reason == "the wait for it was interrupted"


ENDS_AT_ITS_SECOND_START = """
import sys, time
from pathlib import Path
started = Path(sys.argv[1])
if not started.exists():
    started.touch()
    time.sleep(float(sys.argv[2]))
else:
    sys.exit(sys.stdin.readline() != '{"complete": true}\\n')
"""


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was made idle stays it, as without a privilege."""
    monkeypatch.setattr(sidecar, "_schedule", lambda pid, policy: policy != "SCHED_OTHER")
    monkeypatch.setattr(sidecar, "_SILENT_S", 0.1)
    monkeypatch.setattr(sidecar, "_IDLE_S", 0.3)


@pytest.mark.usefixtures("idle")
def test_a_process_that_gets_no_core_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = count(step=5)
    monkeypatch.setattr(sidecar, "_waited_s", lambda pid: float(next(readings)))
    with running(ENDS_AT_ITS_SECOND_START, str(tmp_path / "started"), "600") as beside:
        assert beside.finish(complete=True, waiting=lambda: wait_for(tmp_path / "started"))
    assert beside.reason == ""


@pytest.mark.usefixtures("idle")
def test_a_process_that_waits_for_something_else_than_a_core_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar, "_waited_s", lambda pid: 0.0)
    with running(ENDS_AT_ITS_SECOND_START, str(tmp_path / "started"), "1") as beside:
        first = beside.process
        assert beside.finish(complete=True, waiting=lambda: wait_for(tmp_path / "started"))
    assert beside.process is first


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not say")
def test_the_time_that_a_process_waited_for_a_core_is_read() -> None:
    assert sidecar._waited_s(os.getpid()) > 0
    assert sidecar._waited_s(2**31 - 1) == 0

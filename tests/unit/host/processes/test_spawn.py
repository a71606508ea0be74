"""What a killed supervisor leaves behind: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.waiting import until

SUPERVISING = """
import sys
from pathlib import Path
from benchorch.host.processes.run_child import ChildLimits, run_child
child = '''
import subprocess, sys, time
for own_session in (False, True):
    subprocess.Popen(["sleep", "300"], start_new_session=own_session)
time.sleep(300)
'''
run_child("build", {}, int, log=Path("log"), limits=ChildLimits(timeout_s=300, memory_bytes=None),
          environment={sys.argv[1]: "1"}, on_message=print, command=[sys.executable, "-c", child])
"""


def carrying(mark: str) -> list[int]:
    """Living processes with a variable of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"\0{mark}=1\0".encode() in b"\0" + (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:  # gone, or somebody else's
            continue
    return found


@pytest.mark.parametrize("at_its_end", [False, True])
def test_what_a_child_has_started_ends_with_a_killed_supervisor(
    tmp_path: Path, at_its_end: bool
) -> None:
    mark = f"BENCHORCH_TEST_{os.getpid()}_{at_its_end}"
    command = [sys.executable, "-c", SUPERVISING, mark]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True) as supervisor:
        try:
            assert until(lambda: len(carrying(mark)) == 3, 90)
            if at_its_end:  # as a Ray worker does whose node is gone
                for child in psutil.Process(supervisor.pid).children():
                    child.kill()
        finally:
            supervisor.send_signal(signal.SIGKILL)
    gone = until(lambda: not carrying(mark), 90)
    for pid in carrying(mark):
        os.kill(pid, signal.SIGKILL)
    assert gone

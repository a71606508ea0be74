from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.host import memory

STATUS = "Name:\tpython\nVmPeak:\t  999 kB\nVmHWM:\t    300 kB\nVmRSS:\t    200 kB\nThreads:\t1\n"


def test_sizes_are_bytes_of_what_the_system_tells(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(STATUS)
    assert memory.own_rss_bytes(status) == 200 * 1024
    assert memory.own_peak_bytes(status) == 300 * 1024


@pytest.mark.parametrize("content", [None, "Name:\tpython\n"])
def test_a_system_that_does_not_tell_is_asked_in_another_way(
    tmp_path: Path, content: str | None
) -> None:
    status = tmp_path / "status"
    if content:
        status.write_text(content)
    assert memory.own_rss_bytes(status) > 2**20
    assert memory.own_peak_bytes(status) > 2**20


def test_a_peak_that_cannot_be_reset_says_so(tmp_path: Path) -> None:
    assert memory.reset_own_peak(tmp_path / "none" / "clear_refs") is False


def test_resetting_asks_for_the_peak_and_nothing_else(tmp_path: Path) -> None:
    request = tmp_path / "clear_refs"
    assert memory.reset_own_peak(request) is True
    assert request.read_text() == "5"  # 1 to 4 would clear bits that cost page faults


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets a peak")
def test_a_reset_peak_forgets_what_was_given_back_before() -> None:
    # In a process of its own: this one's peak belongs to whoever runs the tests.
    script = """
from benchorch.host.memory import own_peak_bytes, own_rss_bytes, reset_own_peak
block = bytearray(64 << 20)
del block
before = own_peak_bytes()
done = reset_own_peak()
after = own_peak_bytes()
resident = own_rss_bytes()
print(int(done), before - after, own_peak_bytes() - resident)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    done, forgotten, above = map(int, told.stdout.split())
    if not done:
        pytest.skip("this system forbids resetting the peak")
    assert forgotten > 32 << 20
    assert 0 <= above < 8 << 20

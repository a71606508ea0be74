"""One process records a directory, and a new run's ends the one that a dead run left."""

import subprocess
import sys

import pytest

from benchorch.errors import RecordError
from benchorch.journal.lease import lease

HOLD = """
import sys, time
from pathlib import Path
from benchorch.journal.lease import lease
with lease(Path(sys.argv[1]), take_over=False):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_told_who_records(tmp_path, holder):
    told = rf"is being recorded by process {holder.pid} on "
    with pytest.raises(RecordError, match=told), lease(tmp_path, take_over=False):
        pass
    assert holder.poll() is None


def test_a_new_run_takes_over(tmp_path, holder):
    with lease(tmp_path, take_over=True):
        assert holder.wait(60) != 0


def test_a_process_that_merely_has_the_number_is_left_alone(tmp_path, holder, monkeypatch):
    monkeypatch.setattr("benchorch.journal.lease._GRACE_S", 0.1)
    monkeypatch.setattr("benchorch.journal.lease._GIVE_UP_S", 0.1)
    path = tmp_path / "recorder.json"
    path.write_text(path.read_text().replace('"begun_s": ', '"begun_s": 1'))
    with pytest.raises(RecordError, match="is being recorded"), lease(tmp_path, take_over=True):
        pass
    assert holder.poll() is None


def test_it_is_free_once_it_ends(tmp_path):
    for _ in range(2):
        with lease(tmp_path, take_over=False):
            assert (tmp_path / "recorder.json").exists()

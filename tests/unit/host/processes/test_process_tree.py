"""Who belongs to a child, told from /proc."""

import os
import threading
import time
from pathlib import Path

import pytest

from benchorch.host.processes import process_tree
from benchorch.host.processes.process_tree import ProcessTree

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")

MARK = "BENCHORCH_CHILD=here"
_STARTED, _VSIZE, _ENV_START = 19, 20, 47  # places in what follows the name


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc that the test writes."""
    monkeypatch.setattr(process_tree, "_PROC", tmp_path)
    return tmp_path


def write(
    at: Path,
    pid: int,
    *,
    environment: bytes,
    env_start: int,
    vsize: int = 4096,
    started: int = 1,
    pages: int = 0,
) -> None:
    """A process that is in no group, session or list of children of the child."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    fields[2:4] = [str(pid), str(pid)]
    fields[_STARTED] = str(started)
    fields[_VSIZE], fields[_ENV_START] = str(vsize), str(env_start)
    (at / str(pid)).mkdir(exist_ok=True)
    (at / str(pid) / "environ").write_bytes(environment)
    (at / str(pid) / "statm").write_text(f"{pages} {pages} 0 0 0 0 0")
    fresh = at / f".{pid}"
    fresh.write_text(f"{pid} (a (b) c) {' '.join(fields)}")
    fresh.rename(at / str(pid) / "stat")


def test_a_program_that_is_just_being_executed_belongs_by_its_mark(processes: Path) -> None:
    write(processes, 11, environment=b"", env_start=0)

    def execute() -> None:
        time.sleep(0.1)
        write(processes, 11, environment=f"A=b\0{MARK}\0".encode(), env_start=4096)

    kernel = threading.Thread(target=execute)
    kernel.start()
    living = ProcessTree(os.getpid(), MARK).living()
    kernel.join()
    assert living == [11]


@pytest.mark.parametrize("fields", [{"env_start": 4096}, {"env_start": 0, "vsize": 0}])
def test_nobody_waits_for_an_empty_environment_or_the_kernels_own(
    processes: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, int]
) -> None:
    write(processes, 11, environment=b"", **fields)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waited"))
    assert ProcessTree(os.getpid(), MARK).living() == []


def test_memory_of_a_number_that_was_given_to_another_process_does_not_count(
    processes: Path,
) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    write(processes, 11, environment=b"", env_start=4096, pages=3)
    write(processes, 12, environment=b"", env_start=4096, pages=5)
    children = processes / "11/task/11/children"
    children.parent.mkdir(parents=True)
    children.write_text("12 ")
    tree = ProcessTree(11, MARK)
    tree.scan()
    assert tree.resident_bytes() == tree.proportional_bytes() == 8 * page

    write(processes, 12, environment=b"", env_start=4096, started=2, pages=500)
    assert tree.resident_bytes() == tree.proportional_bytes() == 3 * page

"""What every test may rely on: nothing is fetched, and compilers share one cache."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchorch.run import sidecar
from support.command_lines import Commands, started
from support.ray_machines import KINDS, Machines, ray_settings

# Set here rather than in a fixture: children are spawned with this environment, and the packages
# read it while they are imported.
os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"})
os.environ["COLUMNS"] = "160"  # tables as in a pipe, whatever terminal the tests were started in
# A thread without work waits instead of spinning, which takes the processor from other tests.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR",
    str(Path(tempfile.gettempdir(), f"benchorch-tests-inductor-{os.getuid()}")),
)
# Neither what a developer trusts nor their key plays a part, nor do the runs of this machine, whose
# durations every plan would read; what its compiler can do is found out once.
STATE = Path(tempfile.mkdtemp(prefix="benchorch-tests-state-"))
atexit.register(shutil.rmtree, STATE, ignore_errors=True)
os.environ["XDG_STATE_HOME"] = str(STATE)
os.environ["XDG_CONFIG_HOME"] = str(STATE / "config")
CHECKED = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "instruction-sets")
CHECKED.mkdir(parents=True, exist_ok=True)
(STATE / "benchorch").mkdir(mode=0o700)
(STATE / "benchorch" / CHECKED.name).symlink_to(CHECKED)

# No test cuts the power, so none waits for the disk: a file is written with two such waits.
os.fsync = lambda descriptor: None

# A suite that was started in the background ignores interrupts, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

UNFREEZE, FREEZE_COUNT = gc.unfreeze, gc.get_freeze_count

# Ten thousand tests are no garbage: collections over them took a quarter of their collection.
gc.disable()

# A busy machine is no failure, and a failure must come back.
settings.register_profile(
    "benchorch",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("benchorch")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)  # a worker may end without its exit handlers


@pytest.fixture(scope="session", autouse=True)
def _keeps_its_share() -> Iterator[None]:
    """A command in a test's process leaves that its share of the processor.

    `status` and `logs` run when a core is idle only, and so would all tests after them: beside
    another program a compiler took ten minutes.
    """
    scheduled = sidecar._schedule

    def of_others(pid: int, policy: str) -> bool:
        return pid == os.getpid() or scheduled(pid, policy)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sidecar, "_schedule", of_others)
        before = _policy()
        yield
        assert _policy() == before


def _policy() -> int | None:
    """How this process is scheduled; None where the system has no such policies."""
    return os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> Iterator[None]:
    """Collections in a file's tests look at what they made, not at every package of the worker.

    A measurement collects before it begins, which takes half a second with torch imported; and it
    asks whether anything is frozen, for which the interpreter counts all that is.
    """
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        patch.setattr(gc, "get_freeze_count", lambda: 1)
        yield


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The garbage collector as it is elsewhere, for one test; the collections made by request.

    They look at the youngest objects alone: at every package of the worker they take seconds.
    """
    collect, requested = gc.collect, list[int]()

    def youngest(generation: int = 2) -> int:
        requested.append(generation)
        return collect(0)

    monkeypatch.setattr(gc, "collect", youngest)
    monkeypatch.setattr(gc, "unfreeze", UNFREEZE)
    monkeypatch.setattr(gc, "get_freeze_count", FREEZE_COUNT)
    gc.unfreeze()
    yield requested
    gc.freeze()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line in forks of a process that has imported what most commands import."""
    # Reading a run takes two of them; trials in the command's own process the third.
    packages = ("scipy.special", "rich.console", "torch")
    with started(tmp_path_factory.mktemp("commands"), *packages) as commands:
        yield commands


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """One Ray cluster for all tests that leave its head alive and replace nodes that they kill."""
    with ray_settings():
        machines = Machines(*KINDS)
    yield machines
    machines.close()

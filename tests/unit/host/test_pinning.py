from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchorch.host import pinning
from benchorch.host.pinning import cpu_list, pinned, placement

CAN_PIN = hasattr(os, "sched_setaffinity")
linux_only = pytest.mark.skipif(not CAN_PIN, reason="this platform cannot pin")


@pytest.fixture(autouse=True)
def platform_that_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int]], None]:
    def allow(cpus: set[int]) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: cpus, raising=False)

    return allow


def machine(root: Path, cores: Sequence[Sequence[int]], nodes: Sequence[str] = ()) -> Path:
    """A fake root: cores by their hyperthreads, memory nodes by their processors."""
    for siblings in cores:
        for cpu in siblings:
            file = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            file.parent.mkdir(parents=True)
            file.write_text(",".join(map(str, siblings)) + "\n")
    for number, listed in enumerate(nodes):
        file = root / f"sys/devices/system/node/node{number}/cpulist"
        file.parent.mkdir(parents=True)
        file.write_text(listed + "\n")
    return root


def test_one_hyperthread_of_each_core_and_rather_not_processor_0(tmp_path, allow) -> None:
    allow(set(range(8)))
    root = machine(tmp_path, [(0, 4), (1, 5), (2, 6), (3, 7)])
    assert placement(2, root).cpus == (1, 2)
    assert placement(3, root).cpus == (1, 2, 3)


def test_where_every_core_is_needed_every_core_it_is_without_second_hyperthreads(
    tmp_path, allow
) -> None:
    allow(set(range(8)))
    root = machine(tmp_path, [(0, 4), (1, 5), (2, 6), (3, 7)])
    assert placement(4, root).cpus == (0, 1, 2, 3)


def test_cores_come_from_one_memory_node_where_one_suffices(tmp_path, allow) -> None:
    allow(set(range(8)))
    root = machine(tmp_path, [(cpu,) for cpu in range(8)], ["0-1,7", "2-6"])
    assert placement(3, root).cpus == (2, 3, 4)
    assert placement(2, root).cpus == (2, 3)


def test_more_threads_than_a_node_has_take_whole_nodes_first(tmp_path, allow) -> None:
    allow(set(range(6)))
    root = machine(tmp_path, [(cpu,) for cpu in range(6)], ["0-1", "2-5"])
    assert placement(5, root).cpus == (1, 2, 3, 4, 5)


def test_a_core_of_which_somebody_else_may_use_the_other_half_comes_last(tmp_path, allow) -> None:
    allow({1, 2, 3, 6, 7})
    root = machine(tmp_path, [(0, 4), (1, 5), (2, 6), (3, 7)])
    assert placement(2, root).cpus == (2, 3)
    assert placement(3, root).cpus == (1, 2, 3)


@pytest.mark.parametrize("threads", [0, 3])
def test_a_process_that_does_not_fit_is_not_pinned_and_the_reason_has_both_numbers(
    tmp_path, allow, threads
) -> None:
    allow({0, 1})
    found = placement(threads, machine(tmp_path, [(0,), (1,)]))
    assert found.cpus == ()
    assert f"{threads} threads need as many cores; there are 2" in found.reason


def test_without_a_topology_every_processor_counts_as_a_core(tmp_path, allow) -> None:
    allow({0, 1, 2})
    assert placement(2, tmp_path).cpus == (1, 2)


def test_a_platform_without_affinities_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    assert "platform" in placement(1, tmp_path).reason
    assert pinning.pin(1) == ()
    with pinned(1) as cpus:
        assert cpus == ()


def test_where_pinning_is_forbidden_nothing_is_claimed(monkeypatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", forbid, raising=False)
    assert pinning.pin(1) == ()
    with pinned(1) as cpus:
        assert cpus == ()


@pytest.mark.parametrize(
    ("text", "cpus"), [("", set()), ("3", {3}), ("0-2,8", {0, 1, 2, 8}), ("1,5", {1, 5})]
)
def test_a_kernels_list_is_read(text: str, cpus: set[int]) -> None:
    assert cpu_list(text) == cpus


PINS_AFTER_STARTING_A_THREAD = """
import os, threading
from benchorch.host.pinning import pin
stop = threading.Event()
threading.Thread(target=stop.wait).start()
cpus = set(pin(1))
seen = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
stop.set()
print(len(cpus), len(seen), all(each == cpus for each in seen))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and affinities")
def test_pinning_holds_for_threads_that_exist_already() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PINS_AFTER_STARTING_A_THREAD],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "2", "True"]


def test_afterwards_a_pinned_thread_is_where_it_was(monkeypatch) -> None:
    confined: list[set[int]] = [{0, 1, 2}]
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda _, cpus: confined.append(set(cpus)), raising=False
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: confined[-1], raising=False)
    with pinned(1) as cpus:
        assert confined[-1] == set(cpus) != {0, 1, 2}
    assert confined[-1] == {0, 1, 2}

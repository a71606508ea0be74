from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchorch.host import pinning
from benchorch.host.pinning import cpu_list, crowded_cpus, part_of_cpus, pinned, placement

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


def test_parts_of_a_machine_are_whole_cores_of_one_memory_node_and_overlap_nowhere(
    tmp_path, allow
) -> None:
    allow(set(range(16)))
    root = machine(tmp_path, [(cpu, cpu + 8) for cpu in range(8)], ["0-3,8-11", "4-7,12-15"])
    parts = [part_of_cpus(number, 4, root) for number in range(4)]
    assert parts == [{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}]
    assert part_of_cpus(0, 9, root) == frozenset()


def test_p_cores_come_before_e_cores_even_processor_0(tmp_path, allow) -> None:
    allow(set(range(8)))
    root = machine(tmp_path, [(0, 1), (2, 3), (4,), (5,), (6,), (7,)])
    p_cores = root / "sys/devices/cpu_core/cpus"
    p_cores.parent.mkdir()
    p_cores.write_text("0-3\n")
    assert placement(1, root).cpus == (2,)
    assert placement(2, root).cpus == (0, 2)
    assert placement(3, root).cpus == (0, 2, 4)
    assert placement(2, root, lambda: {2: (0, True), 3: (0, True)}).cpus == (0, 2)


def test_a_slower_kind_comes_before_a_core_that_somebody_busy_is_kept_to(tmp_path, allow) -> None:
    allow(set(range(8)))
    root = machine(tmp_path, [(cpu,) for cpu in range(8)])
    p_cores = root / "sys/devices/cpu_core/cpus"
    p_cores.parent.mkdir()
    p_cores.write_text("0-3\n")
    assert placement(4, root, lambda: dict.fromkeys(range(4), (1, True))).cpus == (4, 5, 6, 7)
    assert placement(4, root, lambda: dict.fromkeys(range(4), (0, True))).cpus == (0, 1, 2, 3)
    assert placement(4, root, lambda: dict.fromkeys(range(4), (1, False))).cpus == (0, 1, 2, 3)
    assert placement(2, root, lambda: {0: (1, False), 3: (0, True)}).cpus == (1, 2)


@pytest.mark.parametrize(
    ("capacities", "cpus"),
    [
        ([446, 446, 1024, 1024], (2, 3)),
        ([1024, 1024, 446, 446], (0, 1)),
        ([1024, 1020, 1020, 1024], (1, 2)),  # one kind, some a little better
    ],
)
def test_cores_of_a_kind_with_more_capacity_come_first(tmp_path, allow, capacities, cpus) -> None:
    allow(set(range(4)))
    root = machine(tmp_path, [(cpu,) for cpu in range(4)])
    for cpu, capacity in enumerate(capacities):
        (root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity").write_text(f"{capacity}\n")
    assert placement(2, root).cpus == cpus


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


def proc(root: Path, *, busy: dict[int, int], kept: Sequence[tuple[int, str, bool]] = ()) -> Path:
    """A fake /proc: of each processor its busy ticks of 100, of each program where it may run."""
    root.mkdir(exist_ok=True)
    lines = [f"cpu{cpu} {ticks} 0 0 {100 - ticks} 0 0 0 0 0 0" for cpu, ticks in busy.items()]
    (root / "stat").write_text("\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 1"]))
    for pid, cpus, program in kept:
        (root / str(pid)).mkdir()
        memory = "VmSize:\t 9 kB\n" if program else ""
        (root / str(pid) / "status").write_text(f"Name:\tx\n{memory}Cpus_allowed_list:\t{cpus}\n")
    return root


def test_a_core_that_somebody_is_kept_to_is_left_for_an_idle_one(tmp_path, allow) -> None:
    allow({0, 1})
    cores = machine(tmp_path, [(0,), (1,)])
    assert placement(1, cores).cpus == (1,)
    assert placement(1, cores, crowded=lambda: {1: (1, False)}).cpus == (0,)
    assert placement(1, cores, crowded=lambda: {0: (1, False), 1: (1, False)}).cpus == (1,)


def test_a_busy_second_hyperthread_makes_its_core_busy(tmp_path, allow) -> None:
    allow(set(range(8)))
    cores = machine(tmp_path, [(0, 4), (1, 5), (2, 6), (3, 7)])
    assert placement(2, cores, crowded=lambda: {5: (0, True)}).cpus == (2, 3)


def test_where_every_core_is_needed_nobody_is_asked(tmp_path, allow) -> None:
    allow({0, 1})

    def asked() -> dict[int, tuple[int, bool]]:
        raise AssertionError

    assert placement(2, machine(tmp_path, [(0,), (1,)]), crowded=asked).cpus == (0, 1)


def test_programs_that_are_kept_to_a_processor_crowd_it_and_kernel_threads_do_not(
    tmp_path, allow
) -> None:
    allow({0, 1, 2})
    kept = [(11, "1", True), (12, "0", False), (13, "0-2", True), (os.getpid(), "2", True)]
    found = crowded_cpus(proc(tmp_path, busy={0: 0, 1: 0, 2: 0}, kept=kept))
    assert found == {1: (1, False)}


def test_a_processor_that_works_most_of_the_time_is_crowded(tmp_path, monkeypatch, allow) -> None:
    allow({0, 1})
    folder = proc(tmp_path, busy={0: 0, 1: 0})

    def later(_: float) -> None:
        lines = ["cpu0 60 0 0 140 0 0 0 0 0 0", "cpu1 40 0 0 160 0 0 0 0 0 0"]
        (folder / "stat").write_text("\n".join(lines))

    monkeypatch.setattr(pinning.time, "sleep", later)
    assert crowded_cpus(folder) == {0: (0, True)}


def test_a_program_that_works_makes_all_processors_busy_to_which_it_is_kept(
    tmp_path, monkeypatch, allow
) -> None:
    allow(set(range(6)))
    kept = [(11, "0-1", True), (12, "2-3", True), (13, "4", True)]
    folder = proc(tmp_path, busy=dict.fromkeys(range(6), 0), kept=kept)

    def work(pid: int, ticks: int) -> None:
        before = " ".join(["0"] * 10)
        (folder / str(pid) / "stat").write_text(f"{pid} (a) S x) S {before} {ticks} {ticks} 9 9")

    work(11, 5)
    work(12, 5)

    def later(_: float) -> None:
        work(11, 5 + os.sysconf("SC_CLK_TCK"))
        work(12, 6)

    monkeypatch.setattr(pinning.time, "sleep", later)
    idle = dict.fromkeys((2, 3, 4), (1, False))
    assert crowded_cpus(folder) == {0: (1, True), 1: (1, True), **idle}


PINS = """
import sys
from benchorch.host.pinning import pin
print(*pin(1), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2,
    reason="needs /proc and two processors",
)
def test_a_process_that_is_kept_to_a_processor_crowds_it_for_others() -> None:
    command = [sys.executable, "-c", PINS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:
        taken = int(first.stdout.readline())
        kept, _ = crowded_cpus()[taken]
        assert kept >= 1
        first.stdin.close()

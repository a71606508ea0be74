from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from benchorch.host import interference
from benchorch.host.interference import (
    Interference,
    SchedulerTimes,
    scheduled,
    steal_ratio,
    usage,
    waited_ratio,
)
from benchorch.host.reference_workload import Speed
from support.waiting import until

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def write(root: Path, name: str, text: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def processors(root: Path, *, busy_s: float, idle_s: float, stolen_s: float = 0.0) -> None:
    """The kernel's account; guests are in the user's time already."""
    ticks = [round(s * TICKS_PER_S) for s in (busy_s / 2, 0, busy_s / 2, idle_s, 0, 0, 0, stolen_s)]
    write(root, "proc/stat", f"cpu  {' '.join(map(str, ticks))} 777 0\ncpu0 1 2 3 4")


@pytest.fixture
def own_cpu_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    used = [0.0]
    monkeypatch.setattr(interference, "_own_cpu_s", lambda: used[0])
    return used


def test_what_others_used_is_what_was_used_less_our_own(tmp_path, own_cpu_s) -> None:
    processors(tmp_path, busy_s=100, idle_s=300)
    around = Interference(tmp_path)
    processors(tmp_path, busy_s=102, idle_s=302)
    own_cpu_s[0] = 1.5
    conditions = around.conditions(Speed(1.0, 3.0), Speed(2.0, 4.0), (), {})
    assert conditions.foreign_ratio == pytest.approx(0.5 / 4)
    assert conditions.steal_ratio == 0
    assert (conditions.canary_before_ns, conditions.canary_after_ns) == (1.0, 2.0)
    assert (conditions.memory_before_ns, conditions.memory_after_ns) == (3.0, 4.0)


def test_our_own_work_is_never_others_even_where_the_kernel_counts_roughly(
    tmp_path, own_cpu_s
) -> None:
    processors(tmp_path, busy_s=100, idle_s=300)
    around = Interference(tmp_path)
    processors(tmp_path, busy_s=101, idle_s=301)
    own_cpu_s[0] = 1.02
    assert around.conditions(None, None, (), {}).foreign_ratio == 0


def test_stolen_time_is_a_share_of_what_was_wanted_not_of_idle_processors(
    tmp_path, own_cpu_s
) -> None:
    processors(tmp_path, busy_s=10, idle_s=1000, stolen_s=5)
    before = usage(tmp_path)
    processors(tmp_path, busy_s=13, idle_s=1900, stolen_s=6)
    assert steal_ratio(before, usage(tmp_path)) == pytest.approx(1 / 4)


def test_a_stretch_of_a_few_ticks_says_nothing_of_others(tmp_path, own_cpu_s) -> None:
    processors(tmp_path, busy_s=100, idle_s=300)
    around = Interference(tmp_path)
    processors(tmp_path, busy_s=100.05, idle_s=300.05)
    assert around.conditions(None, None, (), {}).foreign_ratio is None


def test_throttling_clocks_and_threads_are_told_as_far_as_the_kernel_tells(
    tmp_path, own_cpu_s, monkeypatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2}, raising=False)

    def clocks(*khz: int) -> None:
        for cpu, value in enumerate(khz, start=1):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            write(tmp_path, f"{folder}/scaling_cur_freq", value)

    write(tmp_path, "proc/self/cgroup", "0::/mine")
    write(tmp_path, "sys/fs/cgroup/mine/cpu.stat", "nr_periods 9\nnr_throttled 4")
    for task in (17, 18, 19):
        (tmp_path / f"proc/self/task/{task}").mkdir(parents=True)
    clocks(3_000_000, 3_200_000)
    around = Interference(tmp_path)
    clocks(2_000_000, 2_200_000)
    write(tmp_path, "sys/fs/cgroup/mine/cpu.stat", "nr_periods 20\nnr_throttled 7")
    conditions = around.conditions(None, None, (1, 2), {"sm_clock_mhz": 1410})
    assert conditions.throttled_periods == 3
    assert conditions.frequency_khz == (3_100_000, 2_100_000)
    assert conditions.threads == 3
    assert conditions.device == {"sm_clock_mhz": 1410}
    assert around.conditions(None, None, (2,), {}).frequency_khz == (3_200_000, 2_200_000)


def test_where_the_platform_does_not_tell_nothing_is_made_up(tmp_path) -> None:
    conditions = Interference(tmp_path).conditions(None, None, (), {})
    assert conditions.steal_ratio is None
    assert conditions.foreign_ratio is None
    assert conditions.throttled_periods is None
    assert conditions.threads is None
    assert conditions.frequency_khz == ()


def test_here_the_account_grows(tmp_path) -> None:
    if not Path("/proc/stat").exists():
        pytest.skip("no /proc here")
    first = usage()
    assert first is not None
    assert 0 < first.busy <= first.total
    assert until(lambda: (now := usage()) and now.total > first.total, 60)


def test_threads_waited_for_the_part_of_the_time_in_which_they_were_ready(tmp_path) -> None:
    write(tmp_path, "proc/self/task/1/schedstat", "1000 500 3")
    write(tmp_path, "proc/self/task/2/schedstat", "7000 9000 3")
    around = Interference(tmp_path)
    write(tmp_path, "proc/self/task/1/schedstat", "3500 1000 9")
    write(tmp_path, "proc/self/task/3/schedstat", "500 1500 9")
    (tmp_path / "proc/self/task/2/schedstat").unlink()
    assert around.conditions(None, None, (), {}).waited_ratio == pytest.approx(2000 / 5000)


def test_a_kernel_without_an_account_of_threads_says_nothing_of_waiting(tmp_path) -> None:
    assert Interference(tmp_path).conditions(None, None, (), {}).waited_ratio is None
    alike = {"1": SchedulerTimes(ran=5, waited=5)}
    assert waited_ratio(alike, alike) is None


def test_a_busy_thread_is_in_the_account() -> None:
    own = str(threading.get_native_id())
    before = scheduled().get(own)
    if before is None or not before.ran:
        pytest.skip("this kernel keeps no account of threads")
    sum(range(10**7))
    assert scheduled()[own].ran > before.ran

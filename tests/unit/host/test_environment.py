from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.host import cgroup
from benchorch.host.environment import (
    _is_installed_here,
    _named_by_folders,
    available_memory_bytes,
    describe_host,
    git_revision,
    is_installed,
    package_versions,
    physical_cores,
    release,
)

GIB = 1024**3


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A fake root with eight hyperthreads on four cores and 16 GiB."""
    write(tmp_path, "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nHuge: 0\n")
    write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name : A CPU\n\nprocessor : 1\n")
    write(tmp_path, "proc/stat", "cpu  1 2 3 4 5 6 7 250 0 0\ncpu0 1 2 3 4 5 6 7 125 0 0\n")
    write(tmp_path, "proc/sys/kernel/randomize_va_space", "2\n")
    write(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    for cpu in range(8):
        siblings = f"{cpu % 4},{cpu % 4 + 4}\n"
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(tmp_path, f"{folder}/thread_siblings_list", siblings)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def unified(root: Path, **files: str) -> None:
    write(root, "proc/self/cgroup", "0::/outer/inner\n")
    (root / "sys/fs/cgroup/outer/inner").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write(root, f"sys/fs/cgroup/outer/{name.replace('__', '.')}", text)


def version_one(root: Path, controller: str, **files: str) -> None:
    write(root, "proc/self/cgroup", f"7:{controller}:/host/path/of/a/container\n0::/\n")
    for name, text in files.items():
        write(root, f"sys/fs/cgroup/{controller}/{name.replace('__', '.')}", text)


def allow(monkeypatch: pytest.MonkeyPatch, cpus: set[int]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cpus, raising=False)


def test_this_machine_is_described_in_json() -> None:
    host = describe_host()
    assert json.loads(json.dumps(host)) == host
    assert host["python"] == ".".join(map(str, sys.version_info[:3]))
    assert host["cpu_logical_count"] == os.cpu_count()


def test_settings_that_sway_a_measurement_are_read(machine: Path) -> None:
    write(machine, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    write(machine, "sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
    host = describe_host(machine)
    assert host["cpu_model"] == "A CPU"
    assert host["cpu_governor"] == "performance"
    assert host["cpu_boost"] is False
    assert host["transparent_huge_pages"] == "madvise"
    assert host["address_randomisation"] == 2
    assert host["cpu_steal_s"] == 250 / os.sysconf("SC_CLK_TCK")
    assert host["memory_total_bytes"] == 16 * GIB


def test_boost_is_read_from_the_generic_driver_too(machine: Path) -> None:
    write(machine, "sys/devices/system/cpu/cpufreq/boost", "1\n")
    assert describe_host(machine)["cpu_boost"] is True


def test_a_part_of_a_machine_may_use_its_part_of_the_memory(tmp_path, monkeypatch) -> None:
    write(tmp_path, "proc/meminfo", "MemTotal: 800 kB\nMemAvailable: 700 kB\n")
    assert available_memory_bytes(tmp_path) == 700 * 1024
    monkeypatch.setenv("BENCHORCH_PART", "2/4")
    assert available_memory_bytes(tmp_path) == 200 * 1024


def test_what_can_move_a_clock_or_a_page_is_read(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, {2, 3})
    governors = {"cpu2": "performance", "cpu3": "powersave", "cpu1": "not of ours"}
    for cpu, governor in governors.items():
        write(machine, f"sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor", f"{governor}\n")
    preference = "sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference"
    write(machine, preference, "balance_power\n")
    write(machine, "sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n")
    source = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    write(machine, source, "hpet\n")
    write(machine, "proc/sys/kernel/numa_balancing", "1\n")
    write(machine, "proc/cpuinfo", "model name : A CPU\nflags : fpu hypervisor sse\n")
    write(machine, "proc/meminfo", "MemAvailable: 8 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n")
    for node in (0, 1):
        write(machine, f"sys/devices/system/node/node{node}/cpulist", "0-3\n")
    described = describe_host(machine)
    assert described["cpu_governor"] == "performance, powersave"
    assert described["cpu_energy_preference"] == "balance_power"
    assert described["cpu_idle_driver"] == "intel_idle"
    assert described["clock_source"] == "hpet"
    assert described["numa_balancing"] is True
    assert described["virtual_machine"] is True
    assert described["swap_total_bytes"] == 100 * 1024
    assert described["swap_used_bytes"] == 60 * 1024
    assert described["memory_node_count"] == 2


def test_what_cannot_be_read_is_none_and_not_false(tmp_path: Path) -> None:
    host = describe_host(tmp_path)
    for key in ("cpu_boost", "cpu_governor", "cpu_steal_s", "transparent_huge_pages"):
        assert host[key] is None


def test_only_harmless_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    host = describe_host()
    assert isinstance(host["variables"], dict)
    assert host["variables"]["OMP_NUM_THREADS"] == "3"
    assert "do-not-tell" not in json.dumps(host)


def test_describing_the_host_imports_nothing_heavy() -> None:
    code = (
        "import sys; from benchorch.host.environment import *; describe_host(); physical_cores();"
        "package_versions(['torch']); available_memory_bytes();"
        "print([name for name in ('torch', 'numpy', 'psutil') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_free_memory_counts_without_a_control_group(machine: Path) -> None:
    assert available_memory_bytes(machine) == 8 * GIB


def test_the_tightest_group_decides_what_is_available(machine: Path) -> None:
    unified(machine, memory__max=f"{4 * GIB}\n", memory__current=f"{3 * GIB}\n")
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", f"{6 * GIB}\n")
    assert available_memory_bytes(machine) == GIB
    assert describe_host(machine)["memory_limit_bytes"] == 4 * GIB


def test_pages_the_kernel_can_drop_count_as_available(machine: Path) -> None:
    unified(
        machine,
        memory__max=f"{4 * GIB}\n",
        memory__current=f"{3 * GIB}\n",
        memory__stat=f"anon 5\ninactive_file {2 * GIB}\n",
    )
    assert available_memory_bytes(machine) == 3 * GIB


def test_a_group_over_its_limit_has_no_room(machine: Path) -> None:
    unified(machine, memory__max="100\n", memory__current="200\n")
    assert available_memory_bytes(machine) == 0


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_no_limit_is_spelled_in_two_ways(machine: Path, limit: str) -> None:
    unified(machine, memory__max=f"{limit}\n", memory__current="5\n")
    assert cgroup.memory_limit_bytes(machine) is None


def test_a_container_sees_its_version_one_limit_at_the_root(machine: Path) -> None:
    version_one(machine, "memory", memory__limit_in_bytes=f"{GIB}\n", memory__usage_in_bytes="24\n")
    assert available_memory_bytes(machine) == GIB - 24


def test_out_of_memory_kills_are_counted_in_both_versions(machine: Path) -> None:
    assert cgroup.oom_kills(machine) is None
    unified(machine, memory__events="low 0\noom_kill 2\n")
    assert cgroup.oom_kills(machine) == 2
    version_one(machine, "memory", memory__oom_control="oom_kill_disable 0\noom_kill 3\n")
    write(machine, "proc/vmstat", "nr_free_pages 7\noom_kill 1\n")
    assert cgroup.oom_kills(machine) == 4


def test_hyperthreads_are_not_cores(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, set(range(8)))
    assert physical_cores(machine) == 4


def test_cores_outside_the_affinity_do_not_count(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, {0, 4, 5})
    assert physical_cores(machine) == 2


@pytest.mark.parametrize(("quota", "cores"), [("250000 100000", 2), ("50000 100000", 1)])
def test_a_quota_limits_the_cores_but_leaves_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    allow(monkeypatch, set(range(8)))
    unified(machine, cpu__max=f"{quota}\n", cpu__stat="nr_periods 9\nnr_throttled 4\n")
    write(machine, "sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
    assert physical_cores(machine) == cores


def test_a_version_one_quota_is_read(machine: Path) -> None:
    version_one(machine, "cpu", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    write(machine, "sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 4\n")
    assert cgroup.cpu_quota_cores(machine) == 1.5
    assert cgroup.throttled_periods(machine) == 4


@pytest.mark.parametrize("inner", ["usage_usec 9\n", "nr_periods 0\nnr_throttled 0\n"])
def test_throttling_by_an_outer_groups_quota_is_counted(machine: Path, inner: str) -> None:
    unified(machine, cpu__max="max 100000\n", cpu__stat=inner)
    write(machine, "sys/fs/cgroup/outer/cpu.max", "200000 100000\n")
    write(machine, "sys/fs/cgroup/outer/cpu.stat", "nr_periods 9\nnr_throttled 4\n")
    assert cgroup.cpu_quota_cores(machine) == 2
    assert cgroup.throttled_periods(machine) == 4


def test_groups_without_a_count_do_not_tell_of_throttling(machine: Path) -> None:
    unified(machine, cpu__stat="usage_usec 9\n")
    assert cgroup.throttled_periods(machine) is None


def test_a_version_one_group_without_quota_has_none(machine: Path) -> None:
    version_one(machine, "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert cgroup.cpu_quota_cores(machine) is None


def test_a_machine_without_topology_has_at_least_one_core(tmp_path: Path) -> None:
    assert physical_cores(tmp_path) >= 1


def test_versions_of_missing_packages_are_absent() -> None:
    versions = package_versions(["pytest", "no-such-distribution"])
    assert versions == {"pytest": pytest.__version__}


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("2.13.0", "2.13.0"),
        ("2.13.0+cpu", "2.13.0"),
        ("2.13.0+cu130", "2.13.0"),
        ("2.13.0+rocm7.1", "2.13.0"),
        ("2.13.0+git1a2b3c", "2.13.0+git1a2b3c"),
        ("2.13.0a0+cpu.fork", "2.13.0a0+cpu.fork"),
    ],
)
def test_a_release_is_told_without_the_device_it_was_built_for(version: str, told: str) -> None:
    assert release(version) == told


def test_the_revision_says_whether_files_differ_from_it(tmp_path: Path) -> None:
    assert git_revision(tmp_path) is None
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    write(tmp_path, "file", "one")
    for command in (["init", "-q"], ["add", "file"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    clean = git_revision(tmp_path)
    assert clean is not None
    assert len(clean) == 40
    write(tmp_path, "file", "two")
    assert git_revision(tmp_path) == f"{clean}-dirty"


def test_a_node_names_its_machine_its_image_and_whether_it_is_only_played(monkeypatch):
    assert not {"instance", "image", "rehearsed"} & describe_host().keys()
    monkeypatch.setenv("RAY_CLOUD_INSTANCE_ID", "i-1")
    monkeypatch.setenv("BENCHORCH_IMAGE_ID", "ami-1")
    monkeypatch.setenv("BENCHORCH_REHEARSED", "1")
    host = describe_host()
    assert (host["instance"], host["image"], host["rehearsed"]) == ("i-1", "ami-1", True)


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("Some.Made_up-1.2.3.dist-info", True),
        ("some_made_up-1.2.3-py3.11.egg-info", True),
        ("some_made_up", False),
        ("some_made_up_more-1.2.3.dist-info", False),
    ],
)
def test_a_distribution_is_installed_by_the_name_of_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, found: bool
) -> None:
    _is_installed_here.cache_clear()
    _named_by_folders.cache_clear()
    (tmp_path / folder).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "missing")
    assert is_installed("some-made-up") is found
    _is_installed_here.cache_clear()
    _named_by_folders.cache_clear()

"""Description of this machine and its software, as far as it can sway a measurement.

Nothing heavy is imported and no environment variable is recorded that is not named here.
What cannot be read is None: unknown is not the same as off.
"""

import contextlib
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.host import cgroup
from benchorch.host.cgroup import ROOT, read_number, read_text
from benchorch.host.processor_name import processor_name

_STEADY_NS = 2 * 10**9
"""Age of a change from which another one leaves another time, however coarse the file system's."""

VARIABLES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "CUBLAS_WORKSPACE_CONFIG",
    "GLIBC_TUNABLES",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)
"""The only environment variables that are ever recorded: none of them can hold a secret."""

PART = "BENCHORCH_PART"
"""Set where trials are measured side by side: which equal part of the machine, such as ``2/8``."""

LAUNCHED = {"instance": "RAY_CLOUD_INSTANCE_ID", "image": "BENCHORCH_IMAGE_ID", "part": PART}
"""Which machine of a cloud this is, the image it started from and the part of it that measures, by
the variables that say so."""

REHEARSED = "BENCHORCH_REHEARSED"
"""Set where machines are only played, so that what they measure is never taken for theirs."""

ONNX_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino")
"""Distributions of the one import package ``onnxruntime``, each with other providers."""

_METADATA = (".dist-info", ".egg-info")
_DEVICE_TAG = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)$")

_CPU = "sys/devices/system/cpu"
_CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_NODES = "sys/devices/system/node"


def describe_host(root: Path = ROOT) -> dict[str, Json]:
    """The machine as it is now.

    Args:
        root: where ``proc`` and ``sys`` are.
    """
    return {
        "host": platform.node(),
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "libc": " ".join(filter(None, platform.libc_ver())) or None,
        "clock_source": read_text(root / _CLOCK_SOURCE) or None,
        **_processor(root),
        **_processor_settings(root),
        **_memory(root),
        **_neighbours(root),
        "address_randomisation": read_number(root / "proc/sys/kernel/randomize_va_space"),
        "transparent_huge_pages": _chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        **_launched_as(),
    }


def _launched_as() -> dict[str, Json]:
    """Facts from the node's start script and agent; empty where there are none."""
    facts = {name: os.environ.get(variable) for name, variable in LAUNCHED.items()}
    rehearsed: dict[str, Json] = {"rehearsed": True} if os.environ.get(REHEARSED) else {}
    return {**{name: value for name, value in facts.items() if value}, **rehearsed}


_packages_of_node: ContextVar[Mapping[str, str] | None] = ContextVar("packages", default=None)


@contextlib.contextmanager
def on_node_with(packages: Mapping[str, str] | None) -> Iterator[None]:
    """Context in which `is_installed` refers to a node's packages; None: this machine's.

    Which conversions a sweep may try is decided where it is planned, and there other packages are
    installed than on a node with a GPU.
    """
    before = _packages_of_node.set(packages)
    try:
        yield
    finally:
        _packages_of_node.reset(before)


def packages_of_node() -> Mapping[str, str] | None:
    """Versions of the distributions on the node spoken of; None where that is this machine."""
    return _packages_of_node.get()


def alternatives(distribution: str) -> tuple[str, ...]:
    """The distributions of which any one will do where this one is required."""
    return ONNX_RUNTIMES if distribution in ONNX_RUNTIMES else (distribution,)


def is_installed(distribution: str) -> bool:
    """Whether a distribution is installed, here or on the node spoken of; imports nothing of it."""
    packages = _packages_of_node.get()
    return _is_installed_here(distribution) if packages is None else distribution in packages


@cache
def _is_installed_here(distribution: str) -> bool:
    if _normalised(distribution) in _named_by_folders():
        return True
    from importlib import metadata

    try:
        metadata.distribution(distribution)  # its version would have to be parsed
    except metadata.PackageNotFoundError:
        return False
    return True


@cache
def _named_by_folders() -> frozenset[str]:
    """Distributions after which a folder of metadata is called, as after most; normalised.

    Without `importlib.metadata`, whose import takes longer than all of this in a measuring process.
    """
    found = set()
    for place in sys.path:
        with contextlib.suppress(OSError):
            entries = os.listdir(place or ".")  # noqa: PTH208 - a path for each is slow
            found |= {entry.partition("-")[0] for entry in entries if entry.endswith(_METADATA)}
    return frozenset(map(_normalised, found))


def _normalised(distribution: str) -> str:
    """The name by which equal distributions are found, whatever stands between its words."""
    return re.sub(r"[-_.]+", "_", distribution).lower()


def is_steady(state: os.stat_result) -> bool:
    """Whether a further change of a file would leave another state than this one."""
    return time.time_ns() - state.st_ctime_ns >= _STEADY_NS


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each distribution, local tag included; missing ones are absent."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def release(version: str) -> str:
    """A version without the tag of the device it was built for: ``2.13.0`` of ``2.13.0+cpu``.

    Any other local tag, such as a commit's, stays: it tells of other code.
    """
    return _DEVICE_TAG.sub("", version)


WITHOUT_HOOKS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
"""Options of git that run neither a repository's hooks nor a program that watches its files."""


def git_revision(path: Path) -> str | None:
    """The commit checked out at a path, ``-dirty`` if files differ from it; None outside git."""
    commit = _git(path, "rev-parse", "--verify", "HEAD")
    settings = commit and _git(path, "config", "--show-scope", "--null", "--name-only", "--list")
    if not settings:  # git older than 2.26 has no scopes
        return None
    # A submodule's own files are left out: git would run what that repository's settings name.
    words = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    changes = _git(path, *_without_filters(settings), *words)
    if changes is None:
        return None
    return f"{commit}-dirty" if changes else commit


_NO_FILTER, _NOT_REQUIRED = "BENCHORCH_NO_FILTER", "BENCHORCH_FILTER_NOT_REQUIRED"


def _without_filters(settings: str) -> Iterator[str]:
    """Options against the programs by which a repository, not its user, would convert files.

    A filter's name may hold any character: ``-c`` ends it at the first ``=``, ``--config-env`` at
    the last, and git older than 2.31 refuses that option.
    """
    listed = settings.split("\0")
    for scope, name in zip(listed[::2], listed[1::2], strict=False):
        if scope in ("local", "worktree") and name.startswith("filter."):
            is_required = name.endswith(".required")
            if "=" in name:
                yield f"--config-env={name}={_NOT_REQUIRED if is_required else _NO_FILTER}"
            else:
                yield from ("-c", f"{name}={'false' if is_required else ''}")


def _git(path: Path, *words: str) -> str | None:
    """Output of git, run without hooks or filters of the repository; None if it fails."""
    import subprocess

    command = ["git", "-C", str(path), *WITHOUT_HOOKS, "-c", "protocol.allow=never", *words]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            timeout=10,
            check=True,
            env={
                **os.environ,
                "GIT_OPTIONAL_LOCKS": "0",  # leave the user's index alone
                "GIT_NO_LAZY_FETCH": "1",
                _NO_FILTER: "",
                _NOT_REQUIRED: "false",
            },
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(answer.stdout).strip()


def available_memory_bytes(root: Path = ROOT) -> int:
    """Memory that a new process can use: the machine's free part or the control group's.

    Where trials are measured side by side, no more than this one's part of all.
    """
    memory = _meminfo(root)
    if "MemAvailable" not in memory:
        import psutil

        found = psutil.virtual_memory()
        memory = {"MemAvailable": int(found.available), "MemTotal": int(found.total)}
    room = cgroup.memory_headroom_bytes(root)
    limits = [memory["MemAvailable"]] if room is None else [memory["MemAvailable"], room]
    if PART in os.environ:
        limits.append(memory["MemTotal"] // int(os.environ[PART].partition("/")[2]))
    return min(limits)


def physical_cores(root: Path = ROOT) -> int:
    """Cores this process may really use: its affinity and quota counted, hyperthreads not."""
    cores = _cores_of(allowed_cpus(), root)
    quota = cgroup.cpu_quota_cores(root)
    return max(1, cores if quota is None else min(cores, int(quota)))


def allowed_cpus() -> frozenset[int]:
    """The logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _cores_of(cpus: frozenset[int], root: Path) -> int:
    """Number of physical cores of these logical ones."""
    siblings = {read_text(root / _CPU / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    if "" not in siblings:
        return len(siblings)
    import psutil

    return min(len(cpus), psutil.cpu_count(logical=False) or len(cpus))


def _processor(root: Path) -> dict[str, Json]:
    info = _fields(root / "proc/cpuinfo")
    return {
        "cpu_model": processor_name(info) or platform.processor() or None,
        "cpu_microcode": info.get("microcode"),
        "cpu_logical_count": os.cpu_count(),
        "cpu_allowed_count": len(allowed_cpus()),
        "cpu_physical_count": _cores_of(allowed_cpus(), root),
        "cpu_quota_cores": cgroup.cpu_quota_cores(root),
        "virtual_machine": "hypervisor" in info["flags"].split() if "flags" in info else None,
    }


def _processor_settings(root: Path) -> dict[str, Json]:
    cpu = root / _CPU
    frequency = cpu / f"cpu{min(allowed_cpus())}/cpufreq"
    vulnerabilities = cpu / "vulnerabilities"
    files = sorted(vulnerabilities.iterdir()) if vulnerabilities.is_dir() else []
    return {
        "cpu_governor": _governors(cpu),
        "cpu_energy_preference": read_text(frequency / "energy_performance_preference") or None,
        "cpu_frequency_driver": read_text(frequency / "scaling_driver") or None,
        "cpu_min_frequency_khz": read_number(frequency / "scaling_min_freq"),
        "cpu_max_frequency_khz": read_number(frequency / "scaling_max_freq"),
        "cpu_boost": _boost(cpu),
        "cpu_idle_driver": read_text(cpu / "cpuidle/current_driver") or None,
        "cpu_hyperthreads": _as_bool(read_number(cpu / "smt/active")),
        "cpu_isolated": read_text(cpu / "isolated"),
        "cpu_mitigations": {file.name: read_text(file) for file in files},
    }


def _governors(cpu: Path) -> str | None:
    """Frequency governors of the processors allowed here; several names where they differ."""
    files = (cpu / f"cpu{number}/cpufreq/scaling_governor" for number in allowed_cpus())
    return ", ".join(sorted({read_text(file) for file in files} - {""})) or None


def _boost(cpu: Path) -> bool | None:
    """Whether clocks may rise above nominal; each driver family has its own file."""
    no_turbo = _as_bool(read_number(cpu / "intel_pstate/no_turbo"))
    return _as_bool(read_number(cpu / "cpufreq/boost")) if no_turbo is None else not no_turbo


def _memory(root: Path) -> dict[str, Json]:
    info = _meminfo(root)
    swap, unused = info.get("SwapTotal"), info.get("SwapFree")
    return {
        "memory_total_bytes": info.get("MemTotal"),
        "memory_available_bytes": available_memory_bytes(root),
        "memory_limit_bytes": cgroup.memory_limit_bytes(root),
        "memory_node_count": len(list((root / _NODES).glob("node[0-9]*"))) or None,
        "numa_balancing": _as_bool(read_number(root / "proc/sys/kernel/numa_balancing")),
        "swap_total_bytes": swap,
        "swap_used_bytes": None if swap is None or unused is None else swap - unused,
    }


def _neighbours(root: Path) -> dict[str, Json]:
    """Load, stolen time and throttling by others."""
    return {
        "load_average": list(os.getloadavg()),
        "cpu_steal_s": _steal_s(root),
        "cpu_throttled_periods": cgroup.throttled_periods(root),
    }


def _steal_s(root: Path) -> float | None:
    """Seconds since boot in which the hypervisor ran other guests, over all processors."""
    first = read_text(root / "proc/stat").partition("\n")[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK") if len(first) > 8 else None


def _meminfo(root: Path) -> dict[str, int]:
    """Sizes in bytes; the file's kB are KiB."""
    fields = _fields(root / "proc/meminfo")
    return {key: int(text.split()[0]) * 1024 for key, text in fields.items() if text.endswith("kB")}


def _fields(path: Path) -> dict[str, str]:
    """``key : value`` lines up to the first empty one."""
    block = read_text(path).partition("\n\n")[0]
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _chosen(path: Path) -> str | None:
    """The word in brackets of a kernel choice such as ``always [madvise] never``."""
    _, bracket, rest = read_text(path).partition("[")
    return rest.partition("]")[0] if bracket else None


def _as_bool(value: int | None) -> bool | None:
    return None if value is None else value != 0

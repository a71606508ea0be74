"""Limits of the control groups above this process: memory, processor time, kills.

Both versions are read. A limit may sit on any level above a process, so every level that is
visible here is asked and the tightest answer counts. ``root`` is where ``proc`` and ``sys`` are.
"""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
_UNLIMITED = 1 << 60  # version 1 writes "no limit" as a number near 2**63


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """The tightest memory limit of any level, or None."""
    return min((limit for _, limit in _limited_levels(root)), default=None)


def memory_headroom_bytes(root: Path = ROOT) -> int | None:
    """Memory that may still be allocated below every level's limit, or None without a limit."""
    rooms = (limit - _working_set(level) for level, limit in _limited_levels(root))
    return min((max(0, room) for room in rooms), default=None)


def cpu_quota_cores(root: Path = ROOT) -> float | None:
    """Processor time per wall time that is granted, e.g. 1.5, or None without a quota."""
    quotas = (_quota(level) for level in _levels("cpu", root))
    return min((quota for quota in quotas if quota is not None), default=None)


def throttled_periods(root: Path = ROOT) -> int | None:
    """Periods in which the quota of any level has stopped its group; None where no level tells.

    The kernel counts them at the level that has the quota alone.
    """
    stats = (read_keyed(level / "cpu.stat") for level in _levels("cpu", root))
    counts = [stat["nr_throttled"] for stat in stats if "nr_throttled" in stat]
    return sum(counts) if counts else None


def oom_kills(root: Path = ROOT) -> int | None:
    """Count of out-of-memory kills visible from here; None where none is kept."""
    files = [root / "proc/vmstat"]
    for level in _levels("memory", root):
        files += [level / "memory.events", level / "memory.oom_control"]
    counts = (read_keyed(file).get("oom_kill") for file in files)
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def read_text(path: Path) -> str:
    """A kernel file's content without its last newline; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace", encoding="utf-8").strip()
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """The whole number in a kernel file, or None."""
    text = read_text(path)
    return int(text) if text.removeprefix("-").isdigit() else None


def read_keyed(path: Path) -> dict[str, int]:
    """A kernel file of ``key number`` lines."""
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _levels(controller: str, root: Path) -> Iterator[Path]:
    """Directories from this process's own group up to the visible root.

    Inside a container the path may be the host's and not exist here; the root still does.
    """
    base, path = _hierarchy(controller, root)
    own = base / path.strip("/")
    for level in (own, *own.parents):
        if level.is_dir():
            yield level
        if level == base:
            return


def _hierarchy(controller: str, root: Path) -> tuple[Path, str]:
    """Mount point of a controller and this process's path in it; version 1 first."""
    mount, unified_path = root / "sys/fs/cgroup", ""
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return mount / controller, path
        if not controllers:
            unified_path = path
    hybrid = mount / "unified"
    return (hybrid if hybrid.is_dir() else mount), unified_path


def _limited_levels(root: Path) -> Iterator[tuple[Path, int]]:
    for level in _levels("memory", root):
        limit = read_number(level / "memory.max")
        if limit is None:
            limit = read_number(level / "memory.limit_in_bytes")
        if limit is not None and limit < _UNLIMITED:
            yield level, limit


def _working_set(level: Path) -> int:
    """Bytes in use that the kernel cannot simply drop: usage without inactive file pages."""
    usage = read_number(level / "memory.current")
    if usage is None:
        usage = read_number(level / "memory.usage_in_bytes") or 0
    stat = read_keyed(level / "memory.stat")
    return usage - stat.get("total_inactive_file", stat.get("inactive_file", 0))


def _quota(level: Path) -> float | None:
    unified = read_text(level / "cpu.max").split()
    if len(unified) == 2 and unified[0].isdigit():
        return int(unified[0]) / int(unified[1])
    quota = read_number(level / "cpu.cfs_quota_us")
    period = read_number(level / "cpu.cfs_period_us")
    return quota / period if quota and quota > 0 and period else None

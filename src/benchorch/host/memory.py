"""Resident memory of this process, now and at its peak."""

import contextlib
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
# What proc(5) calls resetting the peak resident set size; since Linux 4.0.
_RESET_PEAK = "5"
_KIB = 1024


def own_rss_bytes(status: Path = _STATUS) -> int:
    """Resident bytes of this process now."""
    resident = _field_bytes(status, "VmRSS")
    if resident is not None:
        return resident
    import psutil

    return int(psutil.Process().memory_info().rss)


def own_peak_bytes(status: Path = _STATUS) -> int:
    """Peak resident bytes of this process since its start, or since `reset_own_peak`.

    Not from getrusage where it can be helped: Linux starts that count at the parent's size, and
    nothing resets it.
    """
    told = _field_bytes(status, "VmHWM")
    if told is not None:
        return told
    import resource  # absent on Windows, which plans and reports

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB


def reset_own_peak(clear_refs: Path = _CLEAR_REFS) -> bool:
    """Restart counting the peak; False where the system cannot."""
    try:
        clear_refs.write_text(_RESET_PEAK, encoding="utf-8")
    except OSError:
        return False
    return True


def _field_bytes(status: Path, name: str) -> int | None:
    """A size from Linux's status of a process; None elsewhere."""
    with contextlib.suppress(OSError):
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * _KIB
    return None

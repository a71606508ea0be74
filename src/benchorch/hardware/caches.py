"""Size and associativity of the last-level cache."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import uint8
    from numpy.typing import NDArray

# Twice the cache: replacement is not strictly by age.
FLUSH_FACTOR = 2
# What is taken where the kernel tells no size, as in some virtual machines on arm64.
FALLBACK_BYTES = 64 * 2**20

_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@cache
def last_level_bytes() -> int:
    """Size of the largest cache of a processor that this process may run on, in bytes.

    `FALLBACK_BYTES` where the kernel does not tell.
    """
    sizes = [
        _bytes(path.read_text(encoding="utf-8").strip())
        for path in (_CPUS / f"cpu{_own_cpu()}" / "cache").glob("index*/size")
    ]
    return max(sizes, default=0) or FALLBACK_BYTES


def flush_host_caches() -> None:
    """Read and write a buffer twice the last cache's size on the calling thread's core.

    Every line is read before it is written: stores alone may go past the caches. Caches that
    other cores have to themselves keep what they hold.
    """
    buffer = _buffer()
    buffer += 1


@cache
def _buffer() -> NDArray[uint8]:
    import numpy as np

    return np.zeros(FLUSH_FACTOR * last_level_bytes(), dtype=np.uint8)


def _own_cpu() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return min(affinity(0)) if affinity else 0


def _bytes(size: str) -> int:
    """Bytes in the kernel's words: ``32768K``; 0 where they are not understood."""
    number, unit = size.rstrip("KMG"), size[-1:]
    return int(number) * _UNITS.get(unit, 1) if number.isdigit() else 0

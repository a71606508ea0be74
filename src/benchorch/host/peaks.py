"""Measured peak rates of this machine: matrix products of each dtype, and memory.

Measured once for a device, a number of threads and a version of torch, then read from the user's
own state directory: a roofline from a data sheet would promise what no library here delivers.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json, decode, encode
from benchorch.files import write_json
from benchorch.host.cgroup import ROOT
from benchorch.host.environment import available_memory_bytes, describe_host, package_versions
from benchorch.host.noise_grade import grade
from benchorch.journal.registry import state_directory
from benchorch.trace.operators.roofline import Peaks
from benchorch.units import NS_PER_S

DTYPES = ("float32", "bfloat16", "float16", "int8")

_SIDES = {"cpu": 1024, "cuda": 8192}  # of square matrices: large enough to keep all cores busy
_VECTOR_BYTES = {"cpu": 256 * 2**20, "cuda": 2**30}  # beyond any cache
_MEMORY_SHARE = 16  # of what is free, one vector takes at most one part of so many
_LEAST_TURNS = 3
_WINDOW_NS = NS_PER_S // 2
_LAUNCHES = 1000
_TRUSTED_S = 3600
_NOT_ITSELF = "measured while the machine was not itself"
_GPUS = "proc/driver/nvidia/gpus"
_PROCESSOR = ("architecture", "cpu_model", "cpu_physical_count", "cpu_quota_cores")


def find_peaks(device: str, threads: int) -> Peaks:
    """The machine's peaks, measured now unless cached; measuring takes seconds."""
    known = known_peaks(device, threads)
    if known is not None:
        return known
    before = _read(device, threads)
    found = measure_peaks(device, threads)
    if before is not None:
        found = _better(before, found)
    path = _file(device, threads)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, encode(found))
    return found


def known_peaks(device: str, threads: int) -> Peaks | None:
    """Peaks measured before, or None; imports nothing heavy.

    Those of a disturbed machine are known for an hour: then it may have come to rest.
    """
    found = _read(device, threads)
    if found is None or not any(caveat.startswith(_NOT_ITSELF) for caveat in found.caveats):
        return found
    return found if time.time() - _file(device, threads).stat().st_mtime < _TRUSTED_S else None


def _read(device: str, threads: int) -> Peaks | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = decode(Peaks, json.loads(_file(device, threads).read_text()))
        return found if isinstance(found, Peaks) else None
    return None


def _better(known: Peaks, found: Peaks) -> Peaks:
    """The higher figure of each kind: what disturbs a measurement only makes it slower."""
    dtypes = known.flops_per_s.keys() | found.flops_per_s.keys()
    return replace(
        found,
        flops_per_s={
            dtype: max(known.flops_per_s.get(dtype, 0.0), found.flops_per_s.get(dtype, 0.0))
            for dtype in dtypes
        },
        bytes_per_s=max(known.bytes_per_s, found.bytes_per_s),
        launch_floor_ns=min(known.launch_floor_ns, found.launch_floor_ns),
    )


def measure_peaks(device: str, threads: int) -> Peaks:
    """The best of repeated turns: what disturbs a turn only makes it slower.

    Args:
        device: ``cpu`` or ``cuda``.
        threads: of one call.
    """
    import torch

    torch.set_num_threads(threads)
    rates = {dtype: _products_per_s(device, dtype) for dtype in DTYPES}
    known = {dtype: rate for dtype, rate in rates.items() if rate is not None}
    caveats = [f"no product of {dtype} matrices on this device" for dtype in rates.keys() - known]
    if grade().letter == "C":
        caveats.append(f"{_NOT_ITSELF}: {grade().reasons[0]}")
    return Peaks(
        flops_per_s=known,
        bytes_per_s=_triad_bytes_per_s(device),
        launch_floor_ns=_launch_ns() if device == "cuda" else 0.0,
        source="measured",
        caveats=tuple(sorted(caveats)),
    )


def _file(device: str, threads: int) -> Path:
    told = describe_host()
    fingerprint: dict[str, Json] = {
        "device": device,
        "threads": threads,
        "processor": {name: told.get(name) for name in _PROCESSOR},
        "gpus": sorted(_gpus()) if device == "cuda" else [],
        "packages": dict(package_versions(["torch"])),
    }
    return state_directory() / "peaks" / f"{digest_of(fingerprint)[:16]}.json"


def _gpus(root: Path = ROOT) -> Iterator[str]:
    """The models of this machine's NVIDIA devices, as their driver names them."""
    for path in (root / _GPUS).glob("*/information"):
        with contextlib.suppress(OSError):
            lines = path.read_text().splitlines()
            yield next((line for line in lines if line.startswith("Model:")), "")


def _products_per_s(device: str, dtype: str) -> float | None:
    """Operations a second of a square matrix product; None where torch has none for the dtype."""
    import torch

    side = _SIDES[device]
    kind = getattr(torch, dtype)
    left = torch.ones((side, side), device=device).to(kind)
    right = torch.ones((side, side), device=device).to(kind).t()
    multiply = torch._int_mm if dtype == "int8" else torch.mm
    try:
        multiply(left, right)
    except (RuntimeError, NotImplementedError):
        return None
    return 2.0 * side**3 * NS_PER_S / _best_ns(lambda: multiply(left, right), device)


def _triad_bytes_per_s(device: str) -> float:
    """Bytes a second of ``a = b + s * c``: two vectors read, one written.

    What a write brings into the cache before it is not counted, as in STREAM.
    """
    import torch

    room = available_memory_bytes() // _MEMORY_SHARE
    length = max(1, min(_VECTOR_BYTES[device], room) // 4)
    first, second = (torch.ones(length, device=device) for _ in range(2))
    result = torch.empty_like(first)
    taken_ns = _best_ns(lambda: torch.add(first, second, alpha=3.0, out=result), device)
    return 3.0 * 4 * length * NS_PER_S / taken_ns


def _launch_ns() -> float:
    """Time per launch of a nearly empty kernel."""
    import torch

    one = torch.ones(1, device="cuda")

    def launch() -> None:
        for _ in range(_LAUNCHES):
            one.add_(1.0)

    return _best_ns(launch, "cuda") / _LAUNCHES


def _best_ns(work: Callable[[], object], device: str) -> int:
    """The shortest of at least 3 turns, and of as many as fit into half a second."""
    drain = _drain(device)
    work()
    drain()
    turns: list[int] = []
    until_ns = perf_counter_ns() + _WINDOW_NS
    while len(turns) < _LEAST_TURNS or perf_counter_ns() < until_ns:
        started_ns = perf_counter_ns()
        work()
        drain()
        turns.append(perf_counter_ns() - started_ns)
    return max(1, min(turns))


def _drain(device: str) -> Callable[[], object]:
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None

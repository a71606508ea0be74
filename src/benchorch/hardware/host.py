"""Identity of this machine: kind, architecture, processor."""

import os
import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_ISA_FLAGS = frozenset(
    {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"}
    | {"asimddp", "asimdhp", "sve", "sve2", "i8mm", "bf16"}
)
_ISA_PREFIXES = ("amx_",)


def architecture() -> str:
    """``x86_64`` or ``aarch64``, whatever the system calls it."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def hides_gpus() -> bool:
    """Whether the environment hides CUDA devices from this process."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")


def cpu_model(cpuinfo: str | None = None) -> str:
    """The processor's name, or an empty string where the system gives none."""
    return _cpu_field(_read_cpuinfo() if cpuinfo is None else cpuinfo, "model name")


def cpu_isa(cpuinfo: str | None = None) -> list[str]:
    """Instruction sets that generated code may use, sorted; empty where unknown."""
    text = _read_cpuinfo() if cpuinfo is None else cpuinfo
    flags = (_cpu_field(text, "flags") or _cpu_field(text, "Features")).split()
    return sorted({f for f in flags if f in _ISA_FLAGS or f.startswith(_ISA_PREFIXES)})


def _read_cpuinfo() -> str:
    try:
        return _CPUINFO.read_text(encoding="utf-8")
    except OSError:
        return ""


def _cpu_field(cpuinfo: str, name: str) -> str:
    """The first processor's value of a field."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""

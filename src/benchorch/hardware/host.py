"""Identity of this machine: kind, architecture, processor."""

import os
import platform
from pathlib import Path

from benchorch.host.processor_name import processor_name

_CPUINFO = Path("/proc/cpuinfo")
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
# Inductor compiles with -march=native, which lets a compiler use whatever the processor has.
_ISA_FLAGS = frozenset({"fma", "gfni", "vaes", "asimddp", "asimdhp", "sve", "sve2", "i8mm", "bf16"})
_ISA_PREFIXES = ("amx_", "avx", "bmi")


def architecture() -> str:
    """``x86_64`` or ``aarch64``, whatever the system calls it."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def hides_gpus() -> bool:
    """Whether the environment hides CUDA devices from this process."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")


def cpu_model(cpuinfo: str | None = None) -> str:
    """The processor's name, or an empty string where the system gives none."""
    return processor_name(_fields(_read_cpuinfo() if cpuinfo is None else cpuinfo))


def cpu_isa(cpuinfo: str | None = None) -> list[str]:
    """Instruction sets that generated code may use, sorted; empty where unknown."""
    fields = _fields(_read_cpuinfo() if cpuinfo is None else cpuinfo)
    flags = (fields.get("flags") or fields.get("Features", "")).split()
    return sorted({f for f in flags if f in _ISA_FLAGS or f.startswith(_ISA_PREFIXES)})


def _read_cpuinfo() -> str:
    try:
        return _CPUINFO.read_text(encoding="utf-8")
    except OSError:
        return ""


def _fields(cpuinfo: str) -> dict[str, str]:
    """The fields of processors; where several have one, it is the first's."""
    pairs = (line.partition(":") for line in reversed(cpuinfo.splitlines()))
    return {key.strip(): value.strip() for key, _, value in pairs}

"""Energy and memory counters of a machine without an accelerator."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import DeviceMemory
from benchorch.errors import MeasureError
from benchorch.host.environment import allowed_cpus
from benchorch.interfaces.hardware import Meter

_POWERCAP = Path("/sys/class/powercap")
_STAT = Path("/proc/stat")
_UJ_PER_J = 1_000_000
# Columns of a processor in proc_stat(5) in which it is not running anything.
_IDLE_COLUMNS = (3, 4)
# What follows is stolen, or guests' time, which is in the user's already.
_COLUMNS = 7


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HostMeter(Meter):
    """The processor's own counters: RAPL's energy, and the time in which it was busy.

    Energy is that of whole packages, with their memory where the machine counts it: of everything
    that runs on them. Intel's and AMD's processors have it, virtual machines rarely.

    Attributes:
        powercap: where the kernel shows RAPL.
        stat: where it shows how busy the processors were.
        counters: those of RAPL that were read, with what they have risen by since.
    """

    powercap: Path = _POWERCAP
    stat: Path = _STAT
    counters: dict[Path, Counter] = field(default_factory=dict)

    def no_energy(self) -> str | None:
        """Reason why there is no energy counter, or None."""
        zones = _zones(self.powercap)
        if not zones:
            return (
                f"this machine shows no energy counter: {self.powercap} has no RAPL package; "
                "virtual machines usually have none."
            )
        for zone in zones:
            try:
                _microjoules(zone / "energy_uj")
            except PermissionError:
                return (
                    f"{zone / 'energy_uj'} may not be read; "
                    f"to allow it until the next boot: "
                    f"sudo chmod a+r {self.powercap}/intel-rapl:*/energy_uj"
                )
            except (OSError, ValueError) as error:
                return f"{zone / 'energy_uj'} cannot be read: {error}"
        return None

    @property
    def energy_source(self) -> str:
        """``rapl package``, ``rapl package+dram``; empty without a counter."""
        names = dict.fromkeys(_kind(zone) for zone in _zones(self.powercap))
        return f"rapl {'+'.join(names)}" if names else ""

    def energy_j(self) -> float:
        """Joules of all packages since the first reading; MeasureError where one cannot be read."""
        zones = _zones(self.powercap)
        if not zones:
            raise MeasureError("There is no energy counter on this machine.", kind="no_energy")
        return sum(self._risen_uj(zone) for zone in zones) / _UJ_PER_J

    def _risen_uj(self, zone: Path) -> int:
        try:
            now_uj = _microjoules(zone / "energy_uj")
            if zone not in self.counters:
                range_uj = _microjoules(zone / "max_energy_range_uj")
                self.counters[zone] = Counter(last_uj=now_uj, range_uj=range_uj)
        except (OSError, ValueError) as error:
            raise MeasureError(
                f"The energy counter cannot be read: {error}", kind="no_energy"
            ) from error
        return self.counters[zone].risen_uj(now_uj)

    def busy_s(self) -> float | None:
        """Seconds for which the processors that this process may use were busy, their mean."""
        return _busy_s(self.stat, allowed_cpus())

    def device_memory(self) -> DeviceMemory | None:
        """None: there is no device."""
        return None

    def reset_device_memory(self) -> None:
        """No operation: a host has no device memory to reset."""

    def device_state(self) -> Mapping[str, Json]:
        """Empty: there is no device."""
        return {}


@dataclass(slots=True, kw_only=True)
class Counter:
    """A counter that begins again at 0 when it is full.

    Attributes:
        last_uj: the reading before.
        range_uj: the highest value it can have.
        total_uj: what it has risen by since the first reading.
    """

    last_uj: int
    range_uj: int
    total_uj: int = 0

    def risen_uj(self, now_uj: int) -> int:
        """Total increase; right if read once per wrap-around, which takes minutes at full load."""
        rise = now_uj - self.last_uj
        self.total_uj += rise if rise >= 0 else rise + self.range_uj
        self.last_uj = now_uj
        return self.total_uj


def _zones(powercap: Path) -> list[Path]:
    """RAPL's zones of packages and of memory beside them; not the parts of a package.

    ``intel-rapl-mmio`` counts the packages again, and ``psys`` the whole board.
    """
    return [zone for zone in sorted(powercap.glob("intel-rapl:*")) if _kind(zone)]


def _kind(zone: Path) -> str:
    """``package``, ``dram`` or empty."""
    try:
        name = (zone / "name").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    if name.startswith("package"):
        return "package"
    return name if name == "dram" else ""


def _microjoules(file: Path) -> int:
    return int(file.read_text(encoding="utf-8"))


def _busy_s(stat: Path, processors: Collection[int]) -> float | None:
    """The mean over processors, from the kernel's ticks; None where there are none to be seen."""
    names = {f"cpu{index}" for index in processors}
    try:
        lines = [line.split() for line in stat.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    ticks = [_busy_ticks(line[1:]) for line in lines if line and line[0] in names]
    return sum(ticks) / len(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _busy_ticks(columns: list[str]) -> int:
    counts = [int(column) for column in columns[:_COLUMNS]]
    return sum(count for index, count in enumerate(counts) if index not in _IDLE_COLUMNS)

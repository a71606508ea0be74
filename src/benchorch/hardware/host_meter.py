"""What a machine without an accelerator counts about itself besides time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import DeviceMemory
from benchorch.interfaces.hardware import Meter


@final
@dataclass(frozen=True, slots=True)
class HostMeter(Meter):
    """The processor's own counters."""

    def no_energy(self) -> str | None:
        """Why there is no energy counter, or None where there is one."""
        return "nobody has looked for one yet."

    @property
    def energy_source(self) -> str:
        """The counter's name; empty without one."""
        return ""

    def energy_j(self) -> float:
        """Joules since an origin of its own; never falls."""
        raise NotImplementedError

    def busy_s(self) -> float | None:
        """Seconds for which the processors have been busy, or None."""
        return None

    def device_memory(self) -> DeviceMemory | None:
        """None: there is no device."""
        return None

    def reset_device_memory(self) -> None:
        """Nothing to reset."""

    def device_state(self) -> Mapping[str, Json]:
        """Empty: there is no device."""
        return {}

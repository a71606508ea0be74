"""The declared machine kind, and the clock of the machine actually used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from benchorch.domain.codec import Json
from benchorch.domain.measurement import Calibration


class Clock(ABC):
    """Reads time on one host and knows when its device is idle."""

    @abstractmethod
    def now_ns(self) -> int:
        """A monotonic time in nanoseconds."""

    @abstractmethod
    def drain(self) -> None:
        """Return when the device has finished everything issued so far."""

    @abstractmethod
    def time_block(self, call: Callable[[], object], repeats: int) -> int:
        """Nanoseconds for `repeats` calls, drained before the first read and before the last."""

    @abstractmethod
    def preemptions(self) -> int:
        """How often this thread was switched out against its will, so far."""

    @abstractmethod
    def calibrate(self) -> Calibration:
        """What a read costs here."""


class Hardware(ABC):
    """A kind of machine.

    Class attributes:
        device: ``cpu`` or ``cuda``.
    """

    device: ClassVar[str]

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name by which nodes of this kind are matched, e.g. ``g5.xlarge`` or ``local``."""

    @property
    @abstractmethod
    def conversions(self) -> tuple[str, ...]:
        """The conversions tried on it when none are named."""

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """Threads per call; None means the node's physical cores."""

    @abstractmethod
    def mismatch(self) -> str | None:
        """Why the machine this runs on is not of this kind, or None."""

    @abstractmethod
    def facts(self) -> Mapping[str, Json]:
        """Facts of this host that formats may depend on: ``cpu_isa``, ``arch``, ..."""

    @abstractmethod
    def clock(self) -> Clock:
        """The clock of this host."""

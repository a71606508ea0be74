"""Stopping rules, hardware and clusters that do only what a test says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchorch.domain.codec import Json
from benchorch.executors.scheduling.cluster_status import LaunchStatus
from benchorch.interfaces.hardware import Clock, Hardware, Meter
from benchorch.interfaces.stopping import Stopping


@dataclass
class Blocks(Stopping):
    """Enough after so many blocks."""

    count: int

    def enough_calls(self, durations_ns: Sequence[int], calls_per_block: int) -> bool:
        return len(durations_ns) >= self.count

    def enough_processes(
        self,
        medians_ns: Sequence[float],
        elapsed_s: float,
        log_ratios: Sequence[float] = (),
        delta_ratio: float = 0.01,
    ) -> str | None:
        return "fixed"


@dataclass
class Bench(Hardware):
    """A machine of which only the clock is known."""

    device: ClassVar[str] = "cpu"

    its: Clock

    @property
    def kind(self) -> str:
        return "local"

    @property
    def conversions(self) -> tuple[str, ...]:
        return ("eager",)

    @property
    def threads(self) -> int | None:
        return 1

    def mismatch(self) -> str | None:
        return None

    def facts(self) -> Mapping[str, Json]:
        return {}

    def clock(self) -> Clock:
        return self.its

    def meter(self) -> Meter:
        raise NotImplementedError


class QuietAutoscaler:
    """A cluster that reports nothing but its nodes."""

    def is_alive(self) -> bool:
        return True

    def draining(self) -> tuple[str, ...]:
        return ()

    def agents_of_others(self) -> tuple[str, ...]:
        return ()

    def drain(self, node: str, reason: str) -> None:
        del node, reason

    def end_booting(self, kinds: Collection[str], joined: Collection[str]) -> None:
        del kinds, joined

    def launches(self) -> LaunchStatus:
        return LaunchStatus()

"""A CUDA device that exists only here, as far as the clock has to do with one."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from benchorch.hardware import cuda
from support.clocks import VirtualClock

READ_NS, RECORD_NS, L2_BYTES = 40, 1_000, 1_000


@dataclass
class Device:
    """One stream of work behind a host whose time is the virtual clock's."""

    host: VirtualClock = field(default_factory=lambda: VirtualClock(read_ns=READ_NS))
    steps: list[str] = field(default_factory=list)
    stats: dict[str, object] = field(default_factory=dict)
    asked: int = 0
    scale: float = 1.0

    def read(self) -> int:
        self.steps.append("read")
        return self.host.now_ns()

    def synchronize(self) -> None:
        self.steps.append("drain")
        self.host.drain()

    def work(self, host_ns: float, device_ns: float) -> None:
        self.steps.append("call")
        self.host.issue(host_ns, device_ns)

    def memory_stats_as_nested_dict(self) -> dict[str, object]:
        self.asked += 1
        return self.stats


@dataclass
class Event:
    """Stamped when the stream gets to it; tells milliseconds, as torch does."""

    device: Device
    stamp_ns: float | None = None

    def record(self) -> None:
        self.device.steps.append("event")
        self.device.host.spend(RECORD_NS)
        self.stamp_ns = max(self.device.host.true_ns, self.device.host.free_ns)

    def elapsed_time(self, end: Event) -> float:
        assert self.stamp_ns is not None
        assert end.stamp_ns is not None
        return self.device.scale * (end.stamp_ns - self.stamp_ns) / 1e6


class Wiped:
    """A buffer on the device; filling it is work on the current stream."""

    def __init__(self, device: Device, size: int) -> None:
        self.device, self.size = device, size

    def zero_(self) -> None:
        self.device.steps.append(f"fill {self.size}")
        self.device.host.issue(1_000, 50_000)


def install(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A fresh device that `CudaClock` takes for the real one until the test is over."""
    made = Device()
    module, torch = types.ModuleType("torch.cuda"), types.ModuleType("torch")
    module.synchronize = made.synchronize  # type: ignore[attr-defined]
    module.Event = lambda *, enable_timing: Event(made) if enable_timing else None  # type: ignore[attr-defined]
    module.memory_stats_as_nested_dict = made.memory_stats_as_nested_dict  # type: ignore[attr-defined]
    module.get_device_properties = lambda: types.SimpleNamespace(L2_cache_size=L2_BYTES)  # type: ignore[attr-defined]
    torch.cuda, torch.uint8 = module, "uint8"  # type: ignore[attr-defined]
    torch.empty = lambda size, *, dtype, device: Wiped(made, size)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.cuda", module)
    monkeypatch.setattr(cuda, "perf_counter_ns", made.read)
    monkeypatch.setattr(cuda, "process_time_ns", lambda: round(made.host.cpu_ns))
    return made


def issues(device: Device, host_ns: float, device_ns: float) -> Callable[[], None]:
    return lambda: device.work(host_ns, device_ns)

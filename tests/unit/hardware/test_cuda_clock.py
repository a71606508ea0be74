"""The CUDA clock on a device that exists only here."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware import cuda
from benchorch.hardware.cuda import CudaClock
from benchorch.units import ms_to_ns
from virtual_clock import VirtualClock

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


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
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
    monkeypatch.setattr(cuda, "process_time_ns", lambda: made.host.tally.cpu_ns)
    return made


def issues(device: Device, host_ns: float, device_ns: float) -> Callable[[], None]:
    return lambda: device.work(host_ns, device_ns)


def test_one_call_is_drained_before_both_reads_and_between_two_events(device: Device) -> None:
    CudaClock().time_block(issues(device, 5_000, 2e6), 1)
    order = ["drain", "event", "read", "call", "read", "event", "drain", "read"]
    assert device.steps == order


def test_wall_issue_and_device_time_are_told_apart(device: Device) -> None:
    timing = CudaClock().time_block(issues(device, 5_000, 2_000_000), 1)
    assert timing.issue == 5_000 + READ_NS
    assert timing.wall == READ_NS + 5_000 + 2_000_000 + READ_NS - READ_NS
    assert timing.device == READ_NS + 5_000 + 2_000_000, "the gap before the work is in it"
    assert timing.cpu == 5_000 + 2 * RECORD_NS


def test_c5_the_device_s_milliseconds_become_nanoseconds_once(device: Device) -> None:
    first, last = Event(device, stamp_ns=0.0), Event(device, stamp_ns=2_854_000.0)
    assert first.elapsed_time(last) == pytest.approx(2.854)
    assert cuda._between_ns(first, last) == 2_854_000  # type: ignore[arg-type]
    assert ms_to_ns(2.854) == 2_854_000


def test_c5_events_in_reverse_are_an_instrument_fault(device: Device) -> None:
    first, last = Event(device, stamp_ns=0.0), Event(device, stamp_ns=2_854_000.0)
    with pytest.raises(MeasureError, match=r"-2\.854 ms") as caught:
        cuda._between_ns(last, first)  # type: ignore[arg-type]
    assert caught.value.kind == "instrument_fault"


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_c5_a_device_time_that_cannot_be_is_an_instrument_fault(
    device: Device, scale: float
) -> None:
    device.scale = scale
    with pytest.raises(MeasureError, match="events contradict") as caught:
        CudaClock().time_block(issues(device, 5_000, 2e6), 1)
    assert caught.value.kind == "instrument_fault"


def test_several_calls_each_wait_for_the_one_before(device: Device) -> None:
    timing = CudaClock().time_block(issues(device, 5_000, 20_000), 3)
    assert device.steps == ["drain", "read", *["call", "drain"] * 3, "read"]
    assert timing.wall == 3 * 25_000 + READ_NS
    assert timing.issue is timing.device is None


def test_calls_at_hand_are_all_issued_before_anything_is_waited_for(device: Device) -> None:
    timing = CudaClock().time_block(issues(device, 5_000, 20_000), 3, at_once=True)
    assert device.steps.count("drain") == 2
    assert device.steps[2:7] == ["read", "call", "call", "call", "read"]
    assert timing.issue == 3 * 5_000 + READ_NS
    assert timing.wall == READ_NS + 5_000 + 3 * 20_000 + READ_NS - READ_NS
    assert timing.device == timing.wall


def test_what_was_issued_before_a_block_is_not_in_it(device: Device) -> None:
    device.work(1_000, 5e6)
    timing = CudaClock().time_block(issues(device, 5_000, 20_000), 1)
    assert timing.wall < 30_000
    assert timing.device is not None
    assert timing.device < 30_000


def test_the_second_level_cache_is_filled_twice_over_before_the_events(device: Device) -> None:
    clock = CudaClock()
    clock.flush_caches()
    timing = clock.time_block(issues(device, 5_000, 20_000), 1)
    assert device.steps[:3] == [f"fill {2 * L2_BYTES}", "drain", "event"]
    assert timing.wall < 30_000


def test_the_allocator_is_asked_at_most_once_a_millisecond(device: Device) -> None:
    clock = CudaClock()
    device.stats = {"num_alloc_retries": 2, "segment": {"all": {"allocated": 5}}}
    assert [clock.counts().allocator_retries for _ in range(3)] == [7, 7, 7]
    assert device.asked == 1
    device.stats = {"num_alloc_retries": 3, "segment": {"all": {"allocated": 5}}}
    device.host.spend(1e6)
    assert clock.counts().allocator_retries == 8


def test_an_allocator_without_statistics_never_retries(device: Device) -> None:
    assert CudaClock().counts().allocator_retries == 0

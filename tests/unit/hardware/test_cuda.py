"""The CUDA clock on a device that exists only here."""

from __future__ import annotations

import pytest

from benchorch.hardware.cuda import CudaClock
from support.cuda import L2_BYTES, READ_NS, RECORD_NS, Device, install, issues


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return install(monkeypatch)


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

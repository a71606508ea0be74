from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from benchorch.domain.codec import Json
from benchorch.interfaces.runtime import Executable
from benchorch.trial.transfer_breakdown import transfer_breakdown
from benchorch.units import ms_to_ns
from support.clocks import VirtualClock

STAGES_MS = (3, 7, 2)
BATCH = {"x": np.ones((2, 3), np.float32), "ids": np.ones((2, 1), np.int64)}


@dataclass
class Spends(Executable):
    """Binding, calling and fetching each take a known time on the host."""

    clock: VirtualClock
    stages_ms: tuple[float, float, float] = STAGES_MS
    dtype: str = "float32"
    seen: list[str] = field(default_factory=list)

    def bind(self, arrays: Mapping[str, Any]) -> Callable[[], object]:
        self._spend("bind", 0)

        def call() -> object:
            self._spend("call", 1)
            return arrays

        return call

    def outputs(self, raw: object) -> Mapping[str, Any]:
        self._spend("outputs", 2)
        return {"0": np.ones((2, 5), np.float32), "1": np.ones(2, np.int64)}

    def facts(self) -> Mapping[str, Json]:
        return {"dtype": self.dtype}

    def close(self) -> None:
        raise AssertionError("whoever opened it closes it")

    def _spend(self, name: str, index: int) -> None:
        self.seen.append(name)
        self.clock.spend(ms_to_ns(self.stages_ms[index]))


def silent_clock() -> VirtualClock:
    return VirtualClock(read_ns=0, turn_ns=0)


def passes_of(executable: Spends, passes: int, device: str = "cpu") -> Any:
    return transfer_breakdown(
        executable, [BATCH], clock=executable.clock, device=device, passes=passes
    )


def test_on_the_cpu_nothing_is_copied_between_memories() -> None:
    found = passes_of(Spends(silent_clock()), 3)
    assert found.stages_ns == {
        "prepare": (3_000_000,) * 3,
        "compute": (7_000_000,) * 3,
        "post": (2_000_000,) * 3,
    }
    assert found.joined_ns == (12_000_000,) * 3
    assert (found.stage_bytes, found.host_memory) == ({}, "")


def test_on_a_device_the_copies_and_what_they_moved_are_told() -> None:
    found = passes_of(Spends(silent_clock()), 2, device="cuda")
    assert tuple(found.stages_ns) == ("h2d", "compute", "d2h")
    assert found.stage_bytes == {"h2d": 6 * 4 + 2 * 8, "d2h": 10 * 4 + 2 * 8}
    assert found.host_memory == "pageable"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_cross_as_halves(dtype: str) -> None:
    found = passes_of(Spends(silent_clock(), dtype=dtype), 2, device="cuda")
    assert found.stage_bytes == {"h2d": 6 * 2 + 2 * 8, "d2h": 10 * 2 + 2 * 8}


def test_bytes_are_those_of_the_median_pass_where_inputs_differ_in_size() -> None:
    """They are divided by the median time of the same passes."""

    class Echoes(Spends):
        def outputs(self, raw: Any) -> Mapping[str, Any]:
            return {"0": raw["x"], "1": raw["x"]}

    batches = [{"x": np.ones(size, np.float32)} for size in (100, 3, 5, 4)]
    executable = Echoes(silent_clock())

    def copied(passes: int) -> Mapping[str, int]:
        return transfer_breakdown(
            executable, batches, clock=executable.clock, device="cuda", passes=passes
        ).stage_bytes

    assert copied(3) == {"h2d": 5 * 4, "d2h": 2 * 5 * 4}
    assert copied(7) == {"h2d": 5 * 4, "d2h": 2 * 5 * 4}  # 100, 3, 5, 4, 100, 3, 5


def test_every_stage_is_drained_apart_and_joined_passes_once() -> None:
    clock = silent_clock()
    passes_of(Spends(clock), 2)
    # Before a pass, and after each of three stages or after all of them.
    assert clock.drains == 2 * (4 + 2)


def test_the_device_is_waited_for_where_calls_return_at_once() -> None:
    clock = silent_clock()

    class Issues(Spends):
        def _spend(self, name: str, index: int) -> None:
            clock.issue(host_ns=1_000, device_ns=ms_to_ns(self.stages_ms[index]))

    found = passes_of(Issues(clock), 2, device="cuda")
    assert found.stages_ns["compute"] == (7_001_000,) * 2
    assert found.joined_ns == (12_001_000,) * 2


def test_the_two_kinds_of_pass_take_turns_to_be_first() -> None:
    clock = silent_clock()
    order: list[str] = []

    class Drained(VirtualClock):
        def drain(self) -> None:
            order.append("|")

    executable = Spends(Drained(read_ns=0, turn_ns=0), seen=order)
    transfer_breakdown(executable, [BATCH], clock=executable.clock, device="cpu", passes=2)
    apart = "|", "bind", "|", "call", "|", "outputs", "|"
    joined = "|", "bind", "call", "outputs", "|"
    assert tuple(order) == (*apart, *joined, *joined, *apart)
    assert clock.drains == 0


def test_batches_rotate_and_getting_hold_of_one_is_not_timed() -> None:
    clock = silent_clock()
    asked: list[int] = []

    class Loads(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            clock.spend(ms_to_ns(500))
            asked.append(index)
            return BATCH

    executable = Spends(clock, stages_ms=(0.003, 0.007, 0.002))
    found = transfer_breakdown(executable, Loads([0, 1]), clock=clock, device="cpu", passes=3)
    assert asked[:2] == [0, 1]
    assert set(found.joined_ns) == {12_000}
    assert set(found.stages_ns["prepare"]) == {3_000}


@pytest.mark.parametrize(
    ("call_ms", "passes", "made"),
    [(7, 10, 10), (700, 10, 2), (60_000, 10, 2), (60_000, 1, 1), (100, 10, 3)],
)
def test_slow_models_make_fewer_passes_but_two(call_ms: float, passes: int, made: int) -> None:
    found = passes_of(Spends(silent_clock(), stages_ms=(3, call_ms, 2)), passes)
    assert len(found.joined_ns) == len(found.stages_ns["compute"]) == made

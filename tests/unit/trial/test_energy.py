from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from benchorch.domain.codec import Json
from benchorch.domain.measurement import DeviceMemory
from benchorch.domain.result import EnergyRecord
from benchorch.interfaces.hardware import Meter
from benchorch.trial.energy import measure_energy, no_energy
from benchorch.units import ms_to_ns, ns_to_s
from support.clocks import VirtualClock

IDLE_W, CALLING_W = 20.0, 120.0


@dataclass
class Machine:
    """A machine whose power depends on whether it calls, and a counter that follows in steps."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(read_ns=0, turn_ns=0))
    call_ms: float = 5.0
    busy_ns: float = 0.0
    made: list[int] = field(default_factory=list)

    def calls(self, count: int = 2) -> list[Callable[[], object]]:
        return [lambda index=index: self._call(index) for index in range(count)]

    def _call(self, index: int) -> None:
        self.made.append(index)
        self.busy_ns += ms_to_ns(self.call_ms)
        self.clock.spend(ms_to_ns(self.call_ms))

    def joules(self) -> float:
        idle_ns = self.clock.true_ns - self.busy_ns
        return ns_to_s(idle_ns) * IDLE_W + ns_to_s(self.busy_ns) * CALLING_W


@dataclass
class Counts(Meter):
    """The counter: read at its last step."""

    machine: Machine
    step_ms: float = 1.0
    reason: str | None = None
    tells_busy: bool = True
    at_step: tuple[float, float] = (-1.0, 0.0)

    def no_energy(self) -> str | None:
        return self.reason

    @property
    def energy_source(self) -> str:
        return "rapl package"

    def energy_j(self) -> float:
        step = self.machine.clock.true_ns // ms_to_ns(self.step_ms)
        if step > self.at_step[0]:
            self.at_step = step, self.machine.joules()
        return self.at_step[1]

    def busy_s(self) -> float | None:
        return ns_to_s(self.machine.busy_ns) if self.tells_busy else None

    def device_memory(self) -> DeviceMemory | None:
        return None

    def reset_device_memory(self) -> None:
        pass

    def device_state(self) -> Mapping[str, Json]:
        return {}


def measured(machine: Machine, meter: Meter | None = None, *, windows: int = 5) -> EnergyRecord:
    return measure_energy(
        machine.calls(),
        clock=machine.clock,
        meter=meter or Counts(machine),
        windows=windows,
        window_s=10.0,
        items_per_call=8,
    )


def test_windows_follow_an_idle_one() -> None:
    machine = Machine()
    found = measured(machine)
    assert found.source == "rapl package"
    assert found.items_per_call == 8
    assert found.unavailable == ""
    assert found.idle_w == pytest.approx(IDLE_W)
    assert len(found.windows) == 5
    for window in found.windows:
        assert window.seconds == pytest.approx(10.0)
        assert window.joules == pytest.approx(CALLING_W * 10, rel=1e-3)
        assert window.calls == 2000
        assert window.updates >= 100
        assert window.busy_ratio == pytest.approx(1.0)
    # Two calls before anything is counted, ten seconds of none, then the windows.
    assert len(machine.made) == 2 + 5 * 2000
    assert machine.made[:6] == [0, 1, 0, 1, 0, 1]
    assert ns_to_s(machine.clock.true_ns) == pytest.approx(60, abs=0.1)


def test_a_counter_that_is_missing_is_known_before_anything_is_loaded() -> None:
    assert no_energy(Counts(Machine()), 10.0) == ""
    assert no_energy(Counts(Machine(), reason="no RAPL here"), 9.9) == "no RAPL here"


def test_a_window_below_ten_seconds_is_refused_with_the_value_that_is_enough() -> None:
    reason = no_energy(Counts(Machine()), 9.9)
    assert reason.startswith("a window of 9.9 s is below the 10 s")
    assert reason.endswith("protocol.energy_window_s=10")


def test_a_counter_that_changes_too_rarely_is_refused_after_one_window() -> None:
    machine = Machine()
    found = measured(machine, Counts(machine, step_ms=1_000))
    assert found.windows == ()
    assert found.unavailable.startswith("the counter (rapl package) changed 20 times in 20 s")
    assert found.idle_w is not None
    assert ns_to_s(machine.clock.true_ns) == pytest.approx(30, abs=0.1)


def test_a_window_goes_on_until_the_counter_has_changed_often_enough() -> None:
    machine = Machine()
    found = measured(machine, Counts(machine, step_ms=150), windows=1)
    (window,) = found.windows
    assert window.updates == 100
    assert window.seconds == pytest.approx(15.0, abs=0.2)


def test_calls_longer_than_the_counters_step_do_not_hide_its_changes() -> None:
    machine = Machine(call_ms=1_500)
    found = measured(machine, windows=1)
    (window,) = found.windows
    # Seen between calls: 14 times. Known from the idle window: 20 times a second.
    assert window.calls == 14
    assert window.updates >= 100
    assert window.joules == pytest.approx(CALLING_W * window.seconds, rel=1e-3)


def test_a_counter_that_stands_still_is_no_counter() -> None:
    machine = Machine()

    class Stuck(Counts):
        def energy_j(self) -> float:
            return 7.0

    found = measured(machine, Stuck(machine))
    assert "changed 0 times" in found.unavailable


def test_utilisation_is_unknown_where_the_machine_does_not_tell() -> None:
    machine = Machine()
    found = measured(machine, Counts(machine, tells_busy=False), windows=1)
    assert found.windows[0].busy_ratio is None


def test_utilisation_never_exceeds_the_whole() -> None:
    machine = Machine()

    class Coarse(Counts):
        def busy_s(self) -> float | None:
            return 1.01 * ns_to_s(machine.busy_ns)

    found = measured(machine, Coarse(machine), windows=1)
    assert found.windows[0].busy_ratio == 1.0


def test_calls_of_a_device_are_waited_for_one_by_one() -> None:
    machine = Machine()

    def issue() -> None:
        machine.clock.issue(host_ns=1_000, device_ns=ms_to_ns(5))

    found = measure_energy(
        [issue],
        clock=machine.clock,
        meter=Counts(machine),
        windows=1,
        window_s=10.0,
        items_per_call=1,
    )
    assert found.windows[0].calls == pytest.approx(2_000, rel=1e-3)

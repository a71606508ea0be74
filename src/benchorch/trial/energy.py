"""Energy of uninterrupted calls, by the machine's own counter."""

from collections.abc import Callable, Sequence
from itertools import cycle

from benchorch.domain.result import EnergyRecord, EnergyWindow
from benchorch.interfaces.hardware import Clock, Meter
from benchorch.units import ns_to_s, s_to_ns

LEAST_WINDOW_S = 10.0
LEAST_UPDATES = 100
"""Below either, the counter's own step is more than 1 % of what is read."""

# 20 readings a second show every change that matters and leave the processors alone in between.
_READING_NS = 50_000_000
# A window goes on until its counter has changed often enough, but no longer than twice as long.
_LONGEST = 2


def measure_energy(
    calls: Sequence[Callable[[], object]],
    *,
    clock: Clock,
    meter: Meter,
    windows: int,
    window_s: float,
    items_per_call: float,
) -> EnergyRecord:
    """Power of the idle machine, then windows of uninterrupted calls, one call in flight.

    Every call is made once before, so that nothing is compiled while energy is counted; then the
    machine is left alone for `window_s`.

    Args:
        meter: one for which `no_energy` has no reason.

    Returns:
        A record without windows, and with the reason, where the counter changes fewer than 100
        times in a window.
    """
    for call in calls:
        call()
    clock.drain()
    idle = _idle(clock, meter, window_s)
    reason = ""
    seen: list[EnergyWindow] = []
    for _ in range(windows):
        window = _window(calls, clock, meter, window_s, idle.updates / idle.seconds)
        reason = _too_coarse(window, meter.energy_source)
        if reason:
            break
        seen.append(window)
    return EnergyRecord(
        source=meter.energy_source,
        idle_w=idle.joules / idle.seconds,
        windows=() if reason else tuple(seen),
        items_per_call=items_per_call,
        unavailable=reason,
    )


class _Watch:
    """Follows a meter from its making on."""

    def __init__(self, clock: Clock, meter: Meter) -> None:
        self.updates = 0
        self._clock = clock
        self._meter = meter
        self._busy_from_s = meter.busy_s()
        self._from_j = self._last_j = meter.energy_j()
        self.started_ns = clock.now_ns()
        self._due_ns = self.started_ns + _READING_NS

    def update(self, now_ns: int) -> None:
        """Read the counter if it is time to."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + _READING_NS
        self._read()

    def close(self, calls: int, updates_per_s: float = 0.0) -> EnergyWindow:
        """Readings of the window; a frequently updated counter is trusted over long calls, too."""
        self._read()
        seconds = ns_to_s(self._clock.now_ns() - self.started_ns)
        return EnergyWindow(
            joules=self._last_j - self._from_j,
            seconds=seconds,
            calls=calls,
            updates=max(self.updates, int(updates_per_s * seconds)),
            busy_ratio=self._busy_ratio(seconds),
        )

    def _read(self) -> None:
        joules = self._meter.energy_j()
        self.updates += joules != self._last_j
        self._last_j = joules

    def _busy_ratio(self, seconds: float) -> float | None:
        busy_s = self._meter.busy_s()
        if busy_s is None or self._busy_from_s is None:
            return None
        return min(1.0, (busy_s - self._busy_from_s) / seconds)


def _idle(clock: Clock, meter: Meter, window_s: float) -> EnergyWindow:
    watch = _Watch(clock, meter)
    end_ns = watch.started_ns + s_to_ns(window_s)
    while (now_ns := clock.now_ns()) < end_ns:
        watch.update(now_ns)
        clock.wait_until(min(now_ns + _READING_NS, end_ns))
    return watch.close(calls=0)


def _window(
    calls: Sequence[Callable[[], object]],
    clock: Clock,
    meter: Meter,
    window_s: float,
    updates_per_s: float,
) -> EnergyWindow:
    watch = _Watch(clock, meter)
    end_ns = watch.started_ns + s_to_ns(window_s)
    last_ns = watch.started_ns + s_to_ns(_LONGEST * window_s)
    made = 0
    for call in cycle(calls):
        call()
        clock.drain()
        made += 1
        now_ns = clock.now_ns()
        watch.update(now_ns)
        if now_ns >= last_ns or (now_ns >= end_ns and watch.updates >= LEAST_UPDATES):
            break
    return watch.close(made, updates_per_s)


def no_energy(meter: Meter, window_s: float) -> str:
    """Why no energy can be measured, whatever is called; empty where it can."""
    missing = meter.no_energy()
    if missing or window_s >= LEAST_WINDOW_S:
        return missing or ""
    return (
        f"a window of {window_s:g} s is below the {LEAST_WINDOW_S:g} s that a counter needs: "
        f"protocol.energy_window_s={LEAST_WINDOW_S:g}"
    )


def _too_coarse(window: EnergyWindow, source: str) -> str:
    if window.updates >= LEAST_UPDATES:
        return ""
    return (
        f"the counter ({source}) changed {window.updates} times in {window.seconds:.3g} s, below "
        f"the {LEAST_UPDATES} that a window needs: try a longer protocol.energy_window_s"
    )

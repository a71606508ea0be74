"""A clock whose time passes only where a test says so, and calls that take a known time on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchorch.domain.measurement import Calibration
from benchorch.interfaces.hardware import Clock, Counts, Timing


@dataclass
class VirtualClock(Clock):
    """Time passes for a read, a turn of the loop around calls, and what the calls spend.

    Attributes:
        step_ns: what a read is rounded down to a multiple of.
        read_ns, turn_ns: cost of a read, and of a turn of the loop.
        late_ns: how long after its time a wait ends.
        flush_ns: how long flushing the caches takes.
        has_device: whether blocks tell `Timing.issue` and `Timing.device`.
        true_ns: the time now, which reads show rounded.
        free_ns: when the device will have done everything issued so far.
        busy_ns: how long the device has worked in all.
        cpu_ns: how long the calling thread has worked in all.
        tally: what `counts` tells.
        drains, flushes: how often each was asked for.
    """

    step_ns: int = 1
    read_ns: float = 40.0
    turn_ns: float = 9.0
    late_ns: float = 0.0
    flush_ns: float = 0.0
    has_device: bool = False
    true_ns: float = 0.0
    free_ns: float = 0.0
    busy_ns: float = 0.0
    cpu_ns: float = 0.0
    tally: Counts = field(default_factory=Counts)
    drains: int = 0
    flushes: int = 0

    def spend(self, cost_ns: float) -> None:
        """The calling thread works."""
        self.true_ns += cost_ns
        self.cpu_ns += cost_ns

    def stall(self, cost_ns: float, *, preemptions: int = 1) -> None:
        """Somebody else runs on this processor."""
        self.true_ns += cost_ns
        self.happens(preemptions=preemptions)

    def issue(self, host_ns: float, device_ns: float) -> None:
        """The thread hands work to the device, which does it after all it had before."""
        self.spend(host_ns)
        self.free_ns = max(self.free_ns, self.true_ns) + device_ns
        self.busy_ns += device_ns

    def happens(self, **more: int) -> None:
        """Raise counts by so much: ``happens(collections=1)``."""
        raised = {name: getattr(self.tally, name) + count for name, count in more.items()}
        self.tally = self.tally._replace(**raised)

    def now_ns(self) -> int:
        self.true_ns += self.read_ns
        return int(self.true_ns // self.step_ns) * self.step_ns

    def drain(self) -> None:
        self.drains += 1
        self.true_ns = max(self.true_ns, self.free_ns)

    def wait_until(self, due_ns: int) -> None:
        if self.true_ns < due_ns:
            self.true_ns = due_ns + self.late_ns

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        self.drain()
        busy_ns, cpu_ns = self.busy_ns, self.cpu_ns
        started_ns = self.now_ns()
        issued_ns = self._loop(call, repeats, at_once=at_once)
        self.drain()
        wall_ns = self.now_ns() - started_ns
        apart = self.has_device and (repeats == 1 or at_once)
        return Timing(
            wall_ns,
            issue=issued_ns - started_ns if apart else None,
            device=round(self.busy_ns - busy_ns) if apart else None,
            cpu=round(self.cpu_ns - cpu_ns),
        )

    def _loop(self, call: Callable[[], object], repeats: int, *, at_once: bool) -> int:
        """The time when the last call returned."""
        if isinstance(call, Costs):  # hundreds of millions of turns are not taken one by one
            self.spend(repeats * (call.cost_ns + self.turn_ns))
        else:
            for turn in range(repeats):
                if turn and not at_once:
                    self.drain()
                call()
                self.spend(self.turn_ns)
        return self.now_ns() if self.has_device else 0

    def counts(self) -> Counts:
        return self.tally

    def flush_caches(self) -> None:
        self.flushes += 1
        self.spend(self.flush_ns)

    def calibrate(self) -> Calibration:
        return Calibration(
            pair_cost_ns=self.read_ns, step_ns=float(self.step_ns), loop_turn_ns=self.turn_ns
        )


@dataclass
class Costs:
    """A call that takes a known time on a clock."""

    clock: VirtualClock
    cost_ns: float

    def __call__(self) -> None:
        self.clock.spend(self.cost_ns)

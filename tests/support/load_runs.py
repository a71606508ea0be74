"""Queues on virtual time, through the real generator: what tests of load share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchorch.domain.measurement import Calibration, Load, Observations, ProcessRecord
from benchorch.hardware.cpu import CpuClock
from benchorch.interfaces.hardware import Counts, Timing
from benchorch.interfaces.scenario import Scenario
from benchorch.scenarios.arrivals import Arrivals
from benchorch.scenarios.virtual_queue import QueryQueue
from benchorch.stats.queueing import LoadPhase, stretches
from benchorch.stopping.fixed import Fixed
from support.clocks import VirtualClock

NS_PER_MS = 1_000_000
_NOTHING = Counts()


@dataclass
class QuickClock(VirtualClock):
    """A virtual clock whose reads are free, for runs of a hundred thousand calls."""

    def now_ns(self) -> int:
        return int(self.true_ns)

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        started_ns = self.true_ns
        for _ in range(repeats):
            call()
        return Timing(int(self.true_ns) - int(started_ns))

    def counts(self) -> Counts:
        return _NOTHING


@dataclass
class BatchingClock(QuickClock):
    """One on which every drain costs something, however much was issued before it."""

    drain_ns: int = 800_000

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        issued = QuickClock.time_block(self, call, repeats)
        self.true_ns += self.drain_ns
        return Timing(issued.wall + self.drain_ns)


def constant(clock: VirtualClock, cost_ms: float = 1.0) -> Callable[[], object]:
    """A call that always takes the same time."""
    cost_ns = round(cost_ms * NS_PER_MS)

    def call() -> None:
        clock.true_ns += cost_ns

    return call


def varying(clock: VirtualClock, costs_ns: Iterable[int]) -> Callable[[], object]:
    """A call that takes the next of these times."""
    costs = iter(costs_ns)

    def call() -> None:
        clock.true_ns += next(costs)

    return call


def run(
    scenario: Scenario,
    call: Callable[[], object] | None = None,
    clock: VirtualClock | CpuClock | None = None,
    calls: Sequence[Callable[[], object]] = (),
) -> Observations:
    """What a scenario sees of a call of a millisecond, unless it is given another."""
    clock = clock or QuickClock()
    return scenario.run(
        calls or [call or constant(clock)],
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Fixed(),
        items_per_call=1,
    )


def only(observed: Observations) -> LoadPhase:
    """The last stretch of a run."""
    return list(stretches(observed))[-1]


def process(observed: Observations) -> ProcessRecord:
    """A process that saw this."""
    return ProcessRecord(
        load_s=1.0,
        first_call_s=0.1,
        observations=observed,
        steady_from=0,
        calibration=Calibration(pair_cost_ns=40.0, step_ns=1.0),
        peak_rss_bytes=1,
        facts={},
    )


def schedule(
    utilisation_ratio: float, count: int, seed: int, *, servers: int = 1
) -> NDArray[np.int64]:
    """When Poisson arrivals are due that keep servers of a millisecond's calls so busy."""
    rate_per_s = 1000.0 * utilisation_ratio * servers
    return np.asarray(Arrivals().due_ns(count, rate_per_s, seed), dtype=np.int64)


def queue(
    due_ns: NDArray[np.int64], started_ns: NDArray[np.int64], duration_ns: NDArray[np.int64]
) -> LoadPhase:
    """A stretch of one server with these times."""
    load = Load(rate_per_s=1.0, first=0, end=due_ns.size, seed=0, arrivals="poisson")
    return LoadPhase.of(due_ns, started_ns, duration_ns, load)


@dataclass
class Lockstep(VirtualClock):
    """Every thread has a time of its own, and whoever is earliest runs: servers side by side.

    Attributes:
        servers: how many threads there will be.
    """

    servers: int = 1
    _times: dict[int, int] = field(default_factory=dict)
    _turns: dict[int, threading.Semaphore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._together = threading.Barrier(self.servers)

    def now_ns(self) -> int:
        return self._times[self._me()]

    def wait_until(self, due_ns: int) -> None:
        self._go_to(max(due_ns, self.now_ns()))

    def time_block(
        self, call: Callable[[], object], repeats: int, *, at_once: bool = False
    ) -> Timing:
        started_ns = self.now_ns()
        cost_ns = call()
        assert isinstance(cost_ns, int)
        self._go_to(started_ns + cost_ns)
        return Timing(cost_ns)

    def counts(self) -> Counts:
        return _NOTHING

    def leave(self) -> None:
        """The calling thread is done; the others go on."""
        del self._times[self._me()]
        self._pass_on()

    def _me(self) -> int:
        me = threading.get_ident()
        if me not in self._turns:
            self._turns[me] = threading.Semaphore(0)
            self._times[me] = 0
            self._together.wait()
            if me != min(self._turns):  # all are at 0 and wait for the first, whatever it does
                self._turns[me].acquire()
        return me

    def _go_to(self, time_ns: int) -> None:
        me = threading.get_ident()
        self._times[me] = time_ns
        if self._earliest() != me:
            self._pass_on()
            self._turns[me].acquire()

    def _earliest(self) -> int:
        return min(self._times, key=lambda thread: (self._times[thread], thread))

    def _pass_on(self) -> None:
        if self._times:
            self._turns[self._earliest()].release()


class LockstepLine(QueryQueue):
    """A line that tells the clock when a server finds nothing left."""

    def __init__(self, due_ns: Sequence[int], clock: Lockstep) -> None:
        super().__init__(due_ns, 2**62)
        self._clock = clock

    def pop(self) -> int | None:
        self._clock.now_ns()  # nobody takes before its turn
        place = super().pop()
        if place is None:
            self._clock.leave()
        return place

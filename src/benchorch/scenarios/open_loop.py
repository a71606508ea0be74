"""Queries that come by a schedule: nothing about when one is done can move when the next is due."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchorch.domain.measurement import Load, Observations
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Clock
from benchorch.scenarios.options import MOST_QUERIES, Options, stream, target_of
from benchorch.scenarios.virtual_queue import Line, Served, serve
from benchorch.stats.queueing import LoadPhase
from benchorch.units import NS_PER_S, s_to_ns

CLOSED = "closed"
CAPACITY = "capacity"

# Long enough to start threads in, so that the first query is not late for that.
LEAD_NS = 5_000_000
# A run this many times as long as its schedule is given up: it is overloaded beyond doubt.
GIVE_UP_RATIO = 2.0
GIVE_UP_AFTER_S = 1.0
# As many calls tell how long one takes, however slow it is.
LEAST_ROUNDS = 10
_NEVER_NS = 2**62


class LoadRun:
    """The stretches of one run so far.

    Garbage is collected as it would be in service, and noted.

    Attributes:
        loads: what each stretch offered.
    """

    def __init__(
        self,
        options: Options,
        calls: Sequence[Callable[[], object]],
        clock: Clock,
        *,
        cold_caches: bool = False,
    ) -> None:
        """Serve with as many threads, each taking as many waiting queries at once, as asked for.

        Raises:
            ValueError: if there is nothing to call.
            MeasureError: if what is asked for cannot be had in an open loop.
        """
        _refuse_impossible(calls, options.servers, cold_caches=cold_caches)
        self.loads: list[Load] = []
        self._arrivals = stream(options)
        self._target = target_of(options)
        self._capacity_s = options.capacity_s
        self._calls = calls
        self._clock = clock
        self._servers = options.servers
        self._max_batch = options.max_batch
        self._scheduled_ns = array("q")
        self._served = Served()

    def capacity_per_s(self) -> float:
        """Capacity in queries per second: each is issued as soon as a server is free."""
        round_size = self._servers * self._max_batch
        least = LEAST_ROUNDS * round_size
        self._back_to_back(least, _NEVER_NS)
        typical_ns = sorted(self._served.durations_ns)[least // 2]
        enough_ns = max(s_to_ns(self._capacity_s), LEAST_ROUNDS * typical_ns)
        wanted = round(enough_ns / typical_ns * round_size)
        # Where calls are often disturbed, as many as were wanted would take far longer.
        self._back_to_back(min(wanted, MOST_QUERIES), self.now_ns() + 2 * enough_ns)
        return self.last().settled().completed_per_s()

    def _back_to_back(self, count: int, until_ns: int) -> None:
        load = self._load(0.0, CLOSED, CAPACITY)
        self._serve([self._clock.now_ns()] * count, load, until_ns=until_ns)

    def offer(
        self,
        rate_per_s: float,
        count: int,
        seed: int,
        *,
        purpose: str = "offered",
        utilisation_ratio: float | None = None,
    ) -> None:
        """Serve a schedule of so many queries to its end; one left far behind is given up."""
        offsets_ns = self._arrivals.due_ns(count, rate_per_s, seed)
        load = self._load(rate_per_s, self._arrivals.kind, purpose)
        load = replace(load, seed=seed, utilisation_ratio=utilisation_ratio)
        start_ns = self._clock.now_ns() + LEAD_NS
        patience_ns = GIVE_UP_RATIO * offsets_ns[-1] + GIVE_UP_AFTER_S * NS_PER_S
        due_ns = [start_ns + offset for offset in offsets_ns]
        self._serve(due_ns, load, until_ns=start_ns + round(patience_ns))

    def _load(self, rate_per_s: float, kind: str, purpose: str) -> Load:
        first = len(self._scheduled_ns)
        load = Load(
            rate_per_s=rate_per_s,
            first=first,
            end=first,
            seed=0,
            arrivals=kind,
            purpose=purpose,
            servers=self._servers,
            max_batch=self._max_batch,
        )
        target = self._target
        if target is None:
            return load
        return replace(load, target_ms=target.target_ms, quantile_ratio=target.quantile_ratio)

    def _serve(self, due_ns: Sequence[int], load: Load, until_ns: int) -> None:
        """Serve one stretch and keep it, with the load as it really was."""
        line = Line(due_ns, until_ns)
        served = serve(
            line, self._calls, self._clock, servers=self._servers, max_batch=self._max_batch
        )
        count = len(served.places)
        # Back to back, a query is due when there is room for it.
        back_to_back = load.arrivals == CLOSED
        self._scheduled_ns.extend(served.started_ns if back_to_back else due_ns[:count])
        self._served.extend(served, offset=load.first)
        unserved = 0 if back_to_back else len(due_ns) - count
        self.loads.append(replace(load, end=load.first + count, unserved=unserved))

    def now_ns(self) -> int:
        """The time now."""
        return self._clock.now_ns()

    def last(self) -> LoadPhase:
        """The queries of the last stretch."""
        load, served = self.loads[-1], self._served
        return LoadPhase.of(
            self._scheduled_ns[load.first :],
            served.started_ns[load.first :],
            served.durations_ns[load.first :],
            load,
        )

    def observations(self, items_per_call: int) -> Observations:
        """Every query so far, as they are stored."""
        served = self._served
        origin_ns = min(min(self._scheduled_ns), min(served.started_ns))
        return Observations(
            durations_ns=tuple(served.durations_ns),
            started_ns=tuple(start - origin_ns for start in served.started_ns),
            calls_per_block=1,
            items_per_call=items_per_call,
            preempted=tuple(map(bool, served.preempted)),
            # While several serve, the process's CPU time is of no single query.
            cpu_ns=served.of_each(served.cpu_ns) if self._servers == 1 else (),
            issue_ns=served.of_each(served.issue_ns),
            device_ns=served.of_each(served.device_ns),
            scheduled_ns=tuple(due - origin_ns for due in self._scheduled_ns),
            loads=tuple(self.loads),
            events={event: tuple(places) for event, places in served.events.items()},
        )


def _refuse_impossible(
    calls: Sequence[Callable[[], object]], servers: int, *, cold_caches: bool
) -> None:
    if not calls:
        raise ValueError("a scenario needs at least one call; it got none")
    if servers > len(calls):
        raise MeasureError(
            f"{servers} servers need a bound call each; there are {len(calls)}.",
            kind="refused",
            remedy=f"scenario.servers={len(calls)}",
        )
    if cold_caches:
        raise MeasureError(
            "Caches cannot be flushed before every query of a schedule: "
            "flushing would take the time in which queries wait.",
            kind="refused",
            remedy="protocol.cold_caches=false, or scenario=single_stream",
        )

"""Open-loop load: arrivals are scheduled beforehand, so no completion can delay them."""

from __future__ import annotations

import math
from abc import abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchorch.domain.measurement import LONGEST_NS, Calibration, Load, Observations
from benchorch.errors import MeasureError, check_options
from benchorch.interfaces.generation import TokenCall
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.scenario import Sampling, Scenario, likeliest
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.arrivals import Arrivals, Kind, fresh_seed
from benchorch.scenarios.series import nothing_answered, token_fields, token_times
from benchorch.scenarios.virtual_queue import QueryQueue, ServedQueries, serve
from benchorch.stats.queueing import LoadPhase
from benchorch.units import NS_PER_S, s_to_ns

CLOSED = "closed"
CAPACITY = "capacity"

# More threads wait for each other in Python.
MOST_SERVERS = 1000
# More queries of one load are neither needed nor kept.
MOST_QUERIES = 200_000
# A load that lacks queries is prolonged, up to this many times its duration.
MOST_PROLONGED = 5
# Long enough to start threads in, so that the first query is not late for that.
LEAD_NS = 5_000_000
# A load that takes this many times as long as its schedule is certainly an overload: it is ended.
GIVE_UP_RATIO = 2.0
GIVE_UP_AFTER_S = 1.0
# This many calls show how long one takes, however slow it is.
LEAST_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop(Scenario):
    """Queries at given rates; what every scenario of that kind has in common.

    A response is counted from when its query was due, so that one slow call delays, in the figures
    as in service, all that wait behind it.

    Attributes:
        arrivals: ``poisson``, ``constant`` or ``bursty``.
        cv: of the gaps of bursty arrivals.
        servers: how many calls may run side by side, each in a thread of its own.
        max_batch: how many waiting queries a server takes at once; they complete together.
        duration_s: of one load.
        min_queries: for which a load is prolonged, up to five times its duration; about 530
            independent ones show p99 with no violation, 760 with one, as the first tenth of the
            time does not count.
        target_ms: the limit of response times, or null.
        quantile_ratio: the share of responses that should keep it.
        capacity_s: duration of the measurement of the capacity.
        generate: whether a query is a prompt, whose tokens are generated one by one (greedy); one
            prompt, or one batch of prompts, at a time.
        ttft_target_ms: what a first token should stay within, from when its query was due, or null.
        tpot_target_ms: what the mean time per further token should stay within, or null.
        seed: of all schedules; null draws one for every process, and it is recorded.
    """

    pairing = "none"

    arrivals: Kind = "poisson"
    cv: float = 2.0
    servers: int = 1
    max_batch: int = 1
    duration_s: float = 60.0
    min_queries: int = 662
    target_ms: float | None = None
    quantile_ratio: float = 0.99
    capacity_s: float = 2.0
    seed: int | None = None
    generate: bool = False
    ttft_target_ms: float | None = None
    tpot_target_ms: float | None = None

    def __post_init__(self) -> None:
        check_options(self, {**self.own_rules(), **self._shared_rules()})
        self.stream()

    @property
    def sampling(self) -> Sampling | None:
        """Greedy, where queries are prompts."""
        return likeliest if self.generate else None

    @property
    def calls_at_once(self) -> int:
        """One for each server."""
        return self.servers

    @property
    def schedules_s(self) -> float:
        """Of a single load, unless a scenario offers more."""
        return self.load_s

    @property
    def load_s(self) -> float:
        """Longest that one load may take: prolonged, and so late that it is ended."""
        return GIVE_UP_RATIO * MOST_PROLONGED * self.duration_s + GIVE_UP_AFTER_S

    @abstractmethod
    def own_rules(self) -> Mapping[str, bool]:
        """Whether each rule of the scenario's own options is kept, as `check_options` takes it."""

    @abstractmethod
    def offer_loads(self, run: LoadRun) -> None:
        """Offer one load after the other."""

    def run(
        self,
        calls: Sequence[Callable[[], object]],
        *,
        clock: Clock,
        calibration: Calibration,
        stopping: Stopping,
        items_per_call: float,
        cold_caches: bool = False,
    ) -> Observations:
        """Every query of every load; `stopping` decides on the number of processes only.

        A rule that looks at completions would end loads by chance.
        """
        run = LoadRun(self, calls, clock, cold_caches=cold_caches)
        self.offer_loads(run)
        return run.observations(items_per_call)

    def stream(self) -> Arrivals:
        """The process of arrivals."""
        return Arrivals(kind=self.arrivals, cv=self.cv)

    def chosen_seed(self) -> int:
        """The given seed, or a random one."""
        return fresh_seed() if self.seed is None else self.seed

    def queries(self, rate_per_s: float) -> int:
        """Number of queries of one load, at least `min_queries` within a prolonged duration."""
        planned = rate_per_s * self.duration_s
        target = max(planned, min(self.min_queries, planned * MOST_PROLONGED))
        return max(1, math.ceil(min(target, MOST_QUERIES)))

    def _shared_rules(self) -> Mapping[str, bool]:
        return {
            **self._token_rules(),
            f"servers: at least 1, at most {MOST_SERVERS}": 1 <= self.servers <= MOST_SERVERS,
            "max_batch: at least 1": self.max_batch >= 1,
            "duration_s: above 0": positive(self.duration_s),
            "min_queries: at least 0": self.min_queries >= 0,
            "target_ms: above 0": self.target_ms is None or positive(self.target_ms),
            "quantile_ratio: between 0 and 1": 0 < self.quantile_ratio < 1,
            "capacity_s: above 0": positive(self.capacity_s),
            "seed: at least 0, or null": self.seed is None or self.seed >= 0,
        }

    def _token_rules(self) -> Mapping[str, bool]:
        alone = "1 with generate; a batch of prompts is workload.batch_size"
        in_time = "above 0, and only with generate; or null"
        return {
            f"servers: {alone}": not self.generate or self.servers == 1,
            f"max_batch: {alone}": not self.generate or self.max_batch == 1,
            f"ttft_target_ms: {in_time}": self._is_token_target(self.ttft_target_ms),
            f"tpot_target_ms: {in_time}": self._is_token_target(self.tpot_target_ms),
        }

    def _is_token_target(self, target_ms: float | None) -> bool:
        return target_ms is None or (self.generate and positive(target_ms))


def positive(value: float) -> bool:
    """Whether a number is above 0 and finite."""
    return 0 < value < math.inf


class LoadRun:
    """The loads of one run so far.

    Garbage is collected as it would be in service, and noted.

    Attributes:
        loads: what each offered.
    """

    def __init__(
        self,
        options: OpenLoop,
        calls: Sequence[Callable[[], object]],
        clock: Clock,
        *,
        cold_caches: bool = False,
    ) -> None:
        """Prepare the servers of a scenario.

        Raises:
            MeasureError: where caches should be flushed.
        """
        if cold_caches:
            raise MeasureError(
                "Caches cannot be flushed before every query of a schedule: "
                "flushing would take the time in which queries wait.",
                kind="refused",
                remedy="protocol.cold_caches=false, or scenario=single_stream",
            )
        self.loads: list[Load] = []
        self._options = options
        self._arrivals = options.stream()
        self._calls = calls
        self._streams = [call for call in calls if isinstance(call, TokenCall)]
        token_times(self._streams)  # of calls before this run
        self._clock = clock
        self._scheduled_ns = array("q")
        self._served = ServedQueries()

    def capacity_per_s(self) -> float:
        """Capacity in queries per second: each is issued as soon as a server is free."""
        round_size = self._options.servers * self._options.max_batch
        least = LEAST_ROUNDS * round_size
        self._back_to_back(least, LONGEST_NS)
        typical_ns = sorted(self._served.durations_ns)[least // 2]
        enough_ns = max(s_to_ns(self._options.capacity_s), LEAST_ROUNDS * typical_ns)
        target = round(enough_ns / typical_ns * round_size)
        # Where calls are often disturbed, as many as were target would take far longer.
        self._back_to_back(min(target, MOST_QUERIES), self.now_ns() + 2 * enough_ns)
        phase = self.last().settled()
        if not phase.answered.any():
            remedy = "scenario=server scenario.rate_per_s=RATE, which needs no full speed"
            raise nothing_answered("queries at full speed", self._served.events, remedy)
        return phase.completed_per_s()

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
        """Serve a schedule of `count` queries; one that falls far behind is ended early."""
        offsets_ns = self._arrivals.due_ns(count, rate_per_s, seed)
        load = self._load(rate_per_s, self._arrivals.kind, purpose)
        load = replace(load, seed=seed, utilisation_ratio=utilisation_ratio)
        start_ns = self._clock.now_ns() + LEAD_NS
        patience_ns = GIVE_UP_RATIO * offsets_ns[-1] + GIVE_UP_AFTER_S * NS_PER_S
        due_ns = [start_ns + offset for offset in offsets_ns]
        self._serve(due_ns, load, until_ns=start_ns + round(patience_ns))

    def _load(self, rate_per_s: float, kind: str, purpose: str) -> Load:
        options, first = self._options, len(self._scheduled_ns)
        load = Load(
            rate_per_s=rate_per_s,
            first=first,
            end=first,
            seed=0,
            arrivals=kind,
            purpose=purpose,
            servers=options.servers,
            max_batch=options.max_batch,
            ttft_target_ms=options.ttft_target_ms,
            tpot_target_ms=options.tpot_target_ms,
        )
        return replace(load, target_ms=options.target_ms, quantile_ratio=options.quantile_ratio)

    def _serve(self, due_ns: Sequence[int], load: Load, until_ns: int) -> None:
        """Serve one load and keep it with the counts observed."""
        served = serve(
            QueryQueue(due_ns, until_ns),
            self._calls,
            self._clock,
            servers=load.servers,
            max_batch=load.max_batch,
        )
        count = len(served.places)
        # Back to back, a query is due when there is room for it.
        back_to_back = load.arrivals == CLOSED
        self._scheduled_ns.extend(served.started_ns if back_to_back else due_ns[:count])
        self._served.extend(served, offset=load.first)
        unserved = 0 if back_to_back else len(due_ns) - count
        self.loads.append(replace(load, end=load.first + count, unserved=unserved))

    def now_ns(self) -> int:
        """The clock's reading."""
        return self._clock.now_ns()

    def last(self) -> LoadPhase:
        """The queries of the last load."""
        load, served = self.loads[-1], self._served
        return LoadPhase.of(
            self._scheduled_ns[load.first :],
            served.started_ns[load.first :],
            served.durations_ns[load.first :],
            load,
            missed=[place - load.first for place in served.missed if place >= load.first],
        )

    def observations(self, items_per_call: float) -> Observations:
        """Every query so far, as stored; MeasureError where none has an answer."""
        served = self._served
        if len(served.missed) == len(served.durations_ns):
            raise nothing_answered("queries", served.events, "look at the server's log")
        origin_ns = min(min(self._scheduled_ns), min(served.started_ns))
        tokens = token_times(self._streams)
        return Observations(
            durations_ns=tuple(served.durations_ns),
            started_ns=tuple(start - origin_ns for start in served.started_ns),
            calls_per_block=1,
            items_per_call=items_per_call,
            preempted=tuple(map(bool, served.preempted)),
            # While several serve, the process's CPU time is of no single query.
            cpu_ns=served.of_each(served.cpu_ns) if self._options.servers == 1 else (),
            issue_ns=served.of_each(served.issue_ns),
            device_ns=served.of_each(served.device_ns),
            scheduled_ns=tuple(due - origin_ns for due in self._scheduled_ns),
            loads=tuple(self.loads),
            **token_fields(tokens),
            events={event: tuple(places) for event, places in served.events.items()},
        )

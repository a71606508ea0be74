"""Raw observations of one process, exactly as the clock gave them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchorch.domain.bounds import Amount, Count, Finite, Items, Moment, Positive, Share
from benchorch.domain.codec import Json

LONGEST_NS = 2**62
"""No duration is as long: 146 years. Two of them still fit 64 bits."""

_MISSED = "missed "
_MAY_BE_MISSING = ("preempted", "cpu_ns", "issue_ns", "device_ns", "scheduled_ns")


def missed(cause: str) -> str:
    """The event of a call without an answer for that cause."""
    return f"{_MISSED}{cause}"


def missed_in(events: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Where calls had no answer, by cause."""
    return {
        event.removeprefix(_MISSED): places
        for event, places in events.items()
        if event.startswith(_MISSED)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Cost of reading the clock on this host.

    Attributes:
        pair_cost_ns: median cost of two reads back to back.
        step_ns: smallest difference between two reads that is not zero.
        loop_turn_ns: cost of one turn of the loop around the calls.
    """

    pair_cost_ns: Finite
    step_ns: Finite
    loop_turn_ns: Finite = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A stretch of queries that were offered at one rate.

    Attributes:
        rate_per_s: queries a second that the schedule offers; 0 where each was issued as soon as
            the one before it was done.
        first, end: the queries are ``first <= i < end`` of the series.
        seed: of the schedule.
        arrivals: ``poisson``, ``constant``, ``bursty``, or ``closed`` where nothing was scheduled.
        purpose: ``offered``, ``capacity`` (how fast can it go at all?), ``probe`` (one step of a
            search) or ``confirmation`` (of what the search found).
        servers: how many queries are served side by side.
        max_batch: how many waiting queries one server takes at once; they complete together.
        unserved: queries at the end of the schedule that were given up, so far behind was it.
        utilisation_ratio: what share of the capacity the rate was meant to be, or None.
        target_ms: what a response should stay within, or None.
        quantile_ratio: the share of responses that should.
        ttft_target_ms, tpot_target_ms: what a query's first token, counted from when it was due,
            and its time per further token should stay within, or None.
    """

    rate_per_s: Amount
    first: Count
    end: Count
    seed: int
    arrivals: str
    purpose: str = "offered"
    servers: Positive = 1
    max_batch: Positive = 1
    unserved: Count = 0
    utilisation_ratio: Amount | None = None
    target_ms: Amount | None = None
    quantile_ratio: Share = 0.99
    ttft_target_ms: Amount | None = None
    tpot_target_ms: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Every block of one process from the first, warm-up included.

    A block is what lies between two reads of the clock. Times count from the first block's start,
    or, where queries arrive by a schedule, from the first one's due time if that is earlier. A
    block is then one query, in the order of the schedule, and queries served together as one batch
    have the same start and duration.

    Attributes:
        durations_ns: length n; one block each, in order of time.
        started_ns: length n; when each block started.
        calls_per_block: how many calls each block holds (k).
        items_per_call: elements of the batch in one call.
        preempted: length n; whether the process was switched out against its will in the block.
        cpu_ns: length n; CPU time that all threads of the process used in the block.
        issue_ns: length n; until the calls had returned, where the device works on alone.
        device_ns: length n; what the device's own events say, where it has events.
        calls_per_query: how many calls one query is made of; above 1 in multi-stream only.
        at_once: whether a block's calls were all there at its start (offline): it has a rate, and
            no latency of single queries.
        scheduled_ns: length n where queries arrive by a schedule, else empty; when each was due.
            A query's response time is its block's end less this.
        loads: which queries were offered at which rate; empty without a schedule.
        events: what happened inside which blocks: ``collection``, ``compilation``,
            ``allocator_retry``, each with the indices of the blocks; and ``missed CAUSE`` for calls
            without an answer, a block's index once for each.
        token_ns: of calls that generate tokens, in the order of the calls: the time of each token
            since the one before it, the first one's since the call's start. Else empty.
        tokens_per_call: how many of them each call has.
    """

    durations_ns: tuple[int, ...]
    started_ns: tuple[Moment, ...]
    calls_per_block: Positive
    items_per_call: Items
    preempted: tuple[bool, ...] = ()
    cpu_ns: tuple[Moment, ...] = ()
    issue_ns: tuple[Moment, ...] = ()
    device_ns: tuple[Moment, ...] = ()
    calls_per_query: Positive = 1
    at_once: bool = False
    scheduled_ns: tuple[Moment, ...] = ()
    loads: tuple[Load, ...] = ()
    events: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    token_ns: tuple[Moment, ...] = ()
    tokens_per_call: Count = 0

    def __post_init__(self) -> None:
        if not all(0 < duration_ns < LONGEST_NS for duration_ns in self.durations_ns):
            raise ValueError("durations_ns: each above 0 and finite")
        for name in ("started_ns", *_MAY_BE_MISSING):
            count = len(getattr(self, name))
            missing = count == 0 and name in _MAY_BE_MISSING
            if not missing and count != len(self.durations_ns):
                raise ValueError(f"{name}: {count} values for {len(self.durations_ns)} blocks")

    @property
    def queries_per_block(self) -> int:
        """Number of queries in a block; above 1 only for queries too short for the clock."""
        return self.calls_per_block // self.calls_per_query

    @property
    def missed(self) -> dict[str, Sequence[int]]:
        """Blocks of the calls without an answer, by cause: a status code, or a word."""
        return missed_in(self.events)

    def contradictions(self) -> Iterator[str]:
        """What of it cannot be of one series, as only a file may hold it."""
        count = len(self.durations_ns)
        if count and not self.queries_per_block:
            yield f"{self.calls_per_block} calls a block are no query of {self.calls_per_query}"
        tokens = self.tokens_per_call
        if self.token_ns and (not tokens or len(self.token_ns) % tokens):
            yield f"{len(self.token_ns)} times of tokens, {tokens} a call"
        if not all(load.first <= load.end <= count for load in self.loads):
            yield f"loads that are not within its {count} blocks"
        if any(index >= count for indices in self.events.values() for index in indices):
            yield f"events that are not within its {count} blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Observations of a process that are paired with its trial's baseline.

    Attributes:
        baseline_id: the trial that it was paired with.
        design: ``alternated`` (interleaved: slices in random order inside this process) or
            ``adjacent`` (back to back: a process of its own, right before or after this one).
        ours: the candidate's blocks while interleaved; None where `design` is ``adjacent`` and
            the process's own observations are meant.
        theirs: the baseline's blocks.
        ours_from, theirs_from: index of the first block that counts in each; their number where
            none does: that is no pair.
        ours_alone, theirs_alone: each side's blocks in the same process while the other was idle,
            one half before all slices and the other after them; None where `design` is
            ``adjacent``, and where they were not measured.
        candidate_first: whether the candidate came first: loaded and run alone before the
            baseline, or its process before the baseline's; None where nobody noted it.
        seed: of the order of slices, or None where there are none.
    """

    baseline_id: str
    design: str
    ours: Observations | None
    theirs: Observations
    ours_from: Count = 0
    theirs_from: Count = 0
    ours_alone: Observations | None = None
    theirs_alone: Observations | None = None
    candidate_first: bool | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """State of the machine around one process; None where the platform does not report a value.

    Attributes:
        canary_before_ns, canary_after_ns: time of the reference workload.
        memory_before_ns, memory_after_ns: time of the one that copies memory.
        cpus: the processors that the process was pinned to; empty where it was not.
        threads: how many threads it ran with at the end, by the operating system's count.
        steal_ratio: share of the processors' time that the hypervisor gave to other guests.
        foreign_ratio: share of it that other processes of this machine used.
        waited_ratio: share of the processor time that this process was ready to use in which it had
            to wait for a processor.
        throttled_periods: in which the control group, or one above it, was held back.
        frequency_khz: mean of the pinned processors' clocks, before and after.
        device: what the accelerator reports: clocks, throttle reasons, temperature.
    """

    canary_before_ns: Amount | None = None
    canary_after_ns: Amount | None = None
    memory_before_ns: Amount | None = None
    memory_after_ns: Amount | None = None
    cpus: tuple[int, ...] = ()
    threads: Count | None = None
    steal_ratio: Finite | None = None
    foreign_ratio: Finite | None = None
    waited_ratio: Finite | None = None
    throttled_periods: Moment | None = None
    frequency_khz: tuple[Finite, ...] = ()
    device: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """An accelerator's memory in bytes; None where only the driver's view exists.

    Attributes:
        allocated, reserved: peaks of the framework's allocator.
        process: what the driver says this process holds, contexts and other runtimes included.
    """

    allocated: Moment | None = None
    reserved: Moment | None = None
    process: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of one process, in bytes.

    Attributes:
        start: interpreter and runtime, before anything was loaded.
        loaded: after the artifact and the inputs were loaded.
        peak: highest from the first call on.
        after: when measuring had ended.
        device: of the accelerator, peak from the first call on; None without one.
    """

    start: Moment
    loaded: Moment
    peak: Moment
    after: Moment
    device: DeviceMemory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferBreakdown:
    """Time of a query outside the model, measured in separate passes.

    Attributes:
        stages_ns: each stage's time in every pass, drained between stages: ``prepare``, ``h2d``,
            ``compute``, ``d2h``, ``post``. A stage that does not exist on this device is absent.
        joined_ns: the same work end to end, drained once at the end of each pass.
        stage_bytes: what the copying stages moved in the median pass.
        host_memory: ``pageable`` or ``pinned``: where the copies start and end; empty without any.
    """

    stages_ns: Mapping[str, tuple[Moment, ...]]
    joined_ns: tuple[Moment, ...]
    stage_bytes: Mapping[str, Count] = field(default_factory=dict)
    host_memory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """Observations of one fresh process.

    Attributes:
        load_s: artifact on disk to ready, in seconds.
        first_call_s: the very first call, in seconds.
        observations: the blocks, or None where the process failed before any.
        steady_from: index of the first steady block, or None where no steady state was found.
        peak_rss_bytes: highest resident memory of the process before the baseline came in.
        facts: what really ran: dtype, threads, provider, device; in a trial's first process that
            counts also its operators.
        elapsed_s: the whole process, from its start to its last message.
        paired: what it observed of the baseline, or None where it was not compared.
        disturbance: why this repetition is rejected (the machine changed under it); empty for one
            that counts. It is kept all the same.
        forked: whether it was forked from a process that had imported its modules: its start and
            its memory are not those of a fresh process.
    """

    load_s: Amount
    first_call_s: Amount
    observations: Observations
    steady_from: Count | None
    calibration: Calibration
    peak_rss_bytes: Moment
    facts: Mapping[str, Json]
    elapsed_s: Amount = 0.0
    paired: Paired | None = None
    conditions: Conditions = field(default_factory=Conditions)
    memory: Memory | None = None
    split: TransferBreakdown | None = None
    disturbance: str = ""
    forked: bool = False

    def contradictions(self) -> Iterator[str]:
        """What of it cannot be of one process, as only a file may hold it."""
        yield from self.observations.contradictions()
        count = len(self.observations.durations_ns)
        if self.steady_from is not None and self.steady_from >= max(1, count):
            yield f"steady from block {self.steady_from} of {count}"
        if self.split is not None and len(set(map(len, self.split.stages_ns.values()))) > 1:
            yield "stages of queries that were not all passed equally often"
        pair = self.paired
        if pair is None:
            return
        sides = pair.ours, pair.theirs, pair.ours_alone, pair.theirs_alone
        for side in filter(None, sides):
            yield from side.contradictions()
        ours = self.observations if pair.ours is None else pair.ours
        for each, first in (ours, pair.ours_from), (pair.theirs, pair.theirs_from):
            if first > len(each.durations_ns):
                yield f"a comparison from block {first} of {len(each.durations_ns)}"


def fresh(processes: Iterable[ProcessRecord]) -> list[ProcessRecord]:
    """The executed (not forked) processes, whose start and memory equal those of a deployment."""
    return [process for process in processes if not process.forked]

"""Discrete-event simulator of programs, and the truth about their dependencies.

Host threads take turns in order of time; a device's streams take work in the order in which it was
queued. Every time point remembers what it had to come after, so the truth that an analysis is held
against (dependencies, the critical path, the makespan of a changed program) is read off, not
guessed. Written from what the calls mean, without the analyser.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from support.trace_lab.program import (
    Await,
    Call,
    Engine,
    GraphLaunch,
    Launch,
    Program,
    Range,
    Record,
    Signal,
    Step,
    StreamWait,
    Sync,
    Thread,
    Work,
)

NOBODY = -1


class Why(StrEnum):
    """What makes one point come after another."""

    HOST = "host"  # the thread got there
    DEVICE = "device"  # the kernel ran
    LAUNCH = "launch"
    STREAM = "stream"
    EVENT = "event"  # one stream waited for another
    GRAPH = "graph"
    SYNC = "sync"  # the host waited for a device
    SIGNAL = "signal"  # a thread waited for a thread
    QUEUE = "queue"  # a launch waited for room


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """At least `ns` after `point`; the time in between is spent by interval `owner`."""

    point: int
    ns: int
    why: Why
    owner: int = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A host thread, or with a stream number a stream of the device."""

    name: str
    stream: int | None = None


@dataclass(slots=True, kw_only=True)
class Interval:
    """Something that a profiler would record, between two points."""

    name: str
    category: str
    lane: Lane
    start: int
    end: int = NOBODY
    facts: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution: points with their causes, and the intervals between them.

    Attributes:
        times_ns: of every point, in the order in which they came to be.
        causes: of every point; its time is that of the latest.
        intervals: in the order in which they began to be.
        threads: host threads, the main one first.
        daemons: those that nobody waits for.
        marker: name of the ranges that are looked at; empty for everything.
    """

    times_ns: tuple[int, ...]
    causes: tuple[tuple[Cause, ...], ...]
    intervals: tuple[Interval, ...]
    threads: tuple[str, ...]
    daemons: frozenset[str]
    marker: str = ""

    def start_ns(self, interval: Interval) -> int:
        return self.times_ns[interval.start]

    def end_ns(self, interval: Interval) -> int:
        return self.times_ns[interval.end]

    def marked(self) -> Interval | None:
        """The range that is looked at."""
        found = (one for one in self.intervals if self.marker and one.name == self.marker)
        return next(found, None)

    def window(self) -> tuple[int, int]:
        """First and last point of what is looked at: device work that it launched belongs to it."""
        marked = self.marked()
        ours = [one for one in self.intervals if one.lane.name not in self.daemons]
        if marked is None:
            first = min((one.start for one in ours), key=self.times_ns.__getitem__)
            return first, max((one.end for one in ours), key=self.times_ns.__getitem__)
        inside = range(self.start_ns(marked), self.end_ns(marked) + 1)
        launched = {
            one.facts["correlation"]
            for one in ours
            if one.lane.stream is None
            and "correlation" in one.facts
            and self.start_ns(one) in inside
        }
        ends = [marked.end] + [
            one.end
            for one in ours
            if one.lane.stream is not None and one.facts["correlation"] in launched
        ]
        return marked.start, max(ends, key=self.times_ns.__getitem__)

    @property
    def makespan_ns(self) -> int:
        first, last = self.window()
        return self.times_ns[last] - self.times_ns[first]

    def critical_path(self) -> list[Cause]:
        """What the makespan consists of, last stretch first: of each point its latest cause.

        The stretch that the window's start cuts is shortened to what lies inside.
        """
        first, point = self.window()
        begin_ns = self.times_ns[first]
        path: list[Cause] = []
        while self.times_ns[point] > begin_ns:
            cause = self.binding(point)
            ns = min(cause.ns, self.times_ns[point] - begin_ns)
            path.append(Cause(point=cause.point, ns=ns, why=cause.why, owner=cause.owner))
            point = cause.point
        return path

    def binding(self, point: int) -> Cause:
        """The cause that decided when the point came."""
        return max(self.causes[point], key=lambda cause: self.times_ns[cause.point] + cause.ns)

    def before(self) -> list[int]:
        """Of every point the set of points that it comes after, itself included, as bits."""
        sets: list[int] = []
        for point, causes in enumerate(self.causes):
            bits = 1 << point
            for cause in causes:
                bits |= sets[cause.point]
            sets.append(bits)
        return sets


@dataclass(slots=True)
class _Stream:
    ends: list[int] = field(default_factory=list)  # points that what comes next waits for
    awaited: list[int] = field(default_factory=list)  # ... because of events
    starts: list[int] = field(default_factory=list)  # of everything that was ever queued


_Turns = Generator[int | str, int, int]  # a point to go on from, or a flag to wait for


class _Machine:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.times_ns: list[int] = []
        self.causes: list[tuple[Cause, ...]] = []
        self.intervals: list[Interval] = []
        self.streams: defaultdict[int, _Stream] = defaultdict(_Stream)
        self.events: dict[str, tuple[int, int, list[int]]] = {}  # correlation, stream, points
        self.flags: dict[str, int] = {}
        self.correlation = 100

    def run(self) -> Run:
        """Threads take turns in order of time until none has anything left to do."""
        turns: list[tuple[int, int, _Turns, int]] = []
        sleeping: defaultdict[str, list[_Turns]] = defaultdict(list)
        origin = self.point(0)
        order = 0
        for thread in self.program.threads:
            heapq.heappush(turns, (0, order, self.thread(thread, origin), origin))
            order += 1
        started: set[int] = set()
        while turns:
            _, _, turn, point = heapq.heappop(turns)
            known = set(self.flags)
            try:
                asked = turn.send(point) if id(turn) in started else next(turn)
                started.add(id(turn))
            except StopIteration:
                asked = None
            ready = [(turn, asked)] if isinstance(asked, int) else []
            if isinstance(asked, str):
                if asked in self.flags:
                    ready.append((turn, self.flags[asked]))
                else:
                    sleeping[asked].append(turn)
            for flag in set(self.flags) - known:
                ready += [(waiter, self.flags[flag]) for waiter in sleeping.pop(flag, [])]
            for one, at in ready:
                heapq.heappush(turns, (self.times_ns[at], order, one, at))
                order += 1
        stuck = sorted(flag for flag, waiters in sleeping.items() if waiters)
        if stuck:
            raise ValueError(f"nobody ever signals {', '.join(stuck)}")
        return Run(
            times_ns=tuple(self.times_ns),
            causes=tuple(self.causes),
            intervals=tuple(self.intervals),
            threads=tuple(thread.name for thread in self.program.threads),
            daemons=frozenset(t.name for t in self.program.threads if t.daemon),
            marker=self.program.marker,
        )

    def point(self, time_ns: int | None = None, *causes: Cause) -> int:
        """A new one, as late as its latest cause."""
        known = [self.times_ns[cause.point] + cause.ns for cause in causes]
        self.times_ns.append(max(known) if time_ns is None else time_ns)
        self.causes.append(causes)
        return len(self.times_ns) - 1

    def after(self, *causes: Cause) -> int:
        return self.point(None, *causes)

    def begin(
        self, name: str, category: str, lane: Lane, start: int, **facts: int | str
    ) -> tuple[int, Interval]:
        interval = Interval(name=name, category=category, lane=lane, start=start, facts=facts)
        self.intervals.append(interval)
        return len(self.intervals) - 1, interval

    def thread(self, thread: Thread, origin: int) -> _Turns:
        return (yield from self.steps(thread.steps, Lane(name=thread.name), origin, NOBODY))

    def steps(self, steps: tuple[Step, ...], lane: Lane, now: int, owner: int) -> _Turns:
        for step in steps:
            match step:
                case Work():
                    host = Cause(point=now, ns=step.ns, why=Why.HOST, owner=owner)
                    now = yield self.after(host)
                case Range():
                    now = yield from self.range(step, lane, now, owner)
                case Signal():
                    now = self.after(Cause(point=now, ns=0, why=Why.HOST, owner=owner))
                    self.flags[step.flag] = now
                case Await():
                    now = yield from self.wait(step, lane, now, owner)
                case _:
                    now = yield from self.call(step, lane, now, owner)
        return now

    def range(self, step: Range, lane: Lane, now: int, owner: int) -> _Turns:
        start = self.after(Cause(point=now, ns=0, why=Why.HOST, owner=owner))
        number, interval = self.begin(step.name, step.kind.value, lane, start)
        interval.facts["External id"] = number + 1
        now = yield from self.steps(step.body, lane, start, number)
        interval.end = self.after(Cause(point=now, ns=0, why=Why.HOST, owner=number))
        return interval.end

    def wait(self, step: Await, lane: Lane, now: int, owner: int) -> _Turns:
        start = self.after(Cause(point=now, ns=0, why=Why.HOST, owner=owner))
        number, interval = self.begin(f"wait:{step.what}", "user_annotation", lane, start)
        interval.facts["External id"] = number + 1
        signalled = yield step.flag
        interval.end = yield self.after(
            Cause(point=start, ns=step.floor_ns, why=Why.HOST, owner=number),
            Cause(point=signalled, ns=step.wake_ns, why=Why.SIGNAL, owner=number),
        )
        return interval.end

    def call(self, step: Step, lane: Lane, now: int, owner: int) -> _Turns:
        """A host call into the runtime, from its start to its end."""
        self.correlation += 1
        start = self.after(Cause(point=now, ns=0, why=Why.HOST, owner=owner))
        number, call = self.begin("", "cuda_runtime", lane, start, correlation=self.correlation)
        if owner != NOBODY:
            call.facts["External id"] = owner + 1
        causes = self.effect(step, number, call)
        call.end = yield self.after(*causes)
        return call.end

    def effect(self, step: Step, number: int, call: Interval) -> list[Cause]:
        """What a call does at once, and what its end waits for."""
        start = call.start
        match step:
            case Call():
                call.name = step.name
                return [Cause(point=start, ns=step.ns, why=Why.HOST, owner=number)]
            case Launch():
                call.name = step.call
                return self.launch(step, number, call)
            case GraphLaunch():
                call.name = "cudaGraphLaunch"
                self.graph(step, start, call)
                return [Cause(point=start, ns=step.call_ns, why=Why.HOST, owner=number)]
            case Record():
                call.name = "cudaEventRecord"
                stream = self.streams[step.stream]
                points = [*stream.ends, *stream.awaited]
                self.events[step.event] = (self.correlation, step.stream, points)
                return [Cause(point=start, ns=step.call_ns, why=Why.HOST, owner=number)]
            case StreamWait():
                call.name = "cudaStreamWaitEvent"
                correlation, source, points = self.events[step.event]
                self.streams[step.stream].awaited += points
                call.facts |= {
                    "sync": "Stream Wait Event",
                    "stream": step.stream,
                    "awaited": correlation,
                    "source": source,
                }
                return [Cause(point=start, ns=step.call_ns, why=Why.HOST, owner=number)]
            case Sync():
                return self.sync(step, number, call)
        raise TypeError(step)

    def sync(self, step: Sync, number: int, call: Interval) -> list[Cause]:
        if step.event is not None:
            call.name = "cudaEventSynchronize"
            correlation, source, points = self.events[step.event]
            call.facts |= {
                "sync": "Event Sync",
                "stream": -1,
                "awaited": correlation,
                "source": source,
            }
        elif step.stream is not None:
            call.name = "cudaStreamSynchronize"
            stream = self.streams[step.stream]
            points = [*stream.ends, *stream.awaited]
            call.facts |= {"sync": "Stream Sync", "stream": step.stream}
        else:
            call.name = "cudaDeviceSynchronize"
            points = [at for one in self.streams.values() for at in (*one.ends, *one.awaited)]
            call.facts |= {"sync": "Context Sync", "stream": -1}
        waited = [Cause(point=at, ns=step.exit_ns, why=Why.SYNC, owner=number) for at in points]
        return [Cause(point=call.start, ns=step.floor_ns, why=Why.HOST, owner=number), *waited]

    def launch(self, step: Launch, number: int, call: Interval) -> list[Cause]:
        stream = self.streams[step.stream]
        taken = call.start
        if len(stream.starts) >= self.program.queue:
            room = stream.starts[-self.program.queue]
            taken = self.after(
                Cause(point=call.start, ns=0, why=Why.HOST, owner=number),
                Cause(point=room, ns=0, why=Why.QUEUE, owner=number),
            )
        start = self.after(
            Cause(point=taken, ns=step.latency_ns, why=Why.LAUNCH),
            *(Cause(point=at, ns=step.gap_ns, why=Why.STREAM) for at in stream.ends),
            *(Cause(point=at, ns=step.gap_ns, why=Why.EVENT) for at in stream.awaited),
        )
        end = self.device(step.name, step.engine, step.stream, start, step.ns, call)
        stream.ends, stream.awaited = [end], []
        stream.starts.append(start)
        host = [Cause(point=taken, ns=step.call_ns, why=Why.HOST, owner=number)]
        if step.blocking:
            host.append(Cause(point=end, ns=step.exit_ns, why=Why.SYNC, owner=number))
        return host

    def device(
        self,
        name: str,
        engine: Engine,
        stream: int,
        start: int,
        ns: int,
        call: Interval,
        **facts: int | str,
    ) -> int:
        """The end of work that runs on a stream from a point on."""
        lane = Lane(name=f"stream {stream}", stream=stream)
        number, interval = self.begin(name, engine.value, lane, start, stream=stream, **facts)
        interval.facts["correlation"] = self.correlation
        if "External id" in call.facts:
            interval.facts["External id"] = call.facts["External id"]
        interval.end = self.after(Cause(point=start, ns=ns, why=Why.DEVICE, owner=number))
        return interval.end

    def graph(self, step: GraphLaunch, launched: int, call: Interval) -> None:
        """Roots wait for the launch and its stream, the others for their predecessors."""
        stream = self.streams[step.stream]
        outer = [
            Cause(point=launched, ns=step.latency_ns, why=Why.LAUNCH),
            *(Cause(point=at, ns=step.gap_ns, why=Why.STREAM) for at in stream.ends),
            *(Cause(point=at, ns=step.gap_ns, why=Why.EVENT) for at in stream.awaited),
        ]
        ends: list[int] = []
        for position, node in enumerate(step.nodes):
            inner = [Cause(point=ends[at], ns=step.gap_ns, why=Why.GRAPH) for at in node.after]
            start = self.after(*(inner or outer))
            facts = {"graph id": step.graph, "graph node id": step.graph * 1_000 + position}
            end = self.device(node.name, Engine.KERNEL, node.stream, start, node.ns, call, **facts)
            ends.append(end)
        inside = {at for node in step.nodes for at in node.after}
        stream.ends = [end for position, end in enumerate(ends) if position not in inside]
        stream.awaited = []


def simulate(program: Program) -> Run:
    """One execution of a program; the same program always gives the same one."""
    return _Machine(program).run()


def shares(run: Run) -> Mapping[int, int]:
    """Nanoseconds of the critical path by interval; NOBODY for what belongs to none."""
    total: defaultdict[int, int] = defaultdict(int)
    for cause in run.critical_path():
        total[cause.owner] += cause.ns
    return total

"""Programs drawn from a seed: forward passes of made-up models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from support.trace_lab.program import (
    Await,
    Call,
    Engine,
    GraphKernel,
    GraphLaunch,
    Kind,
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

MARKER = "ProfilerStep#0"
MAIN_STREAM, SIDE_STREAM, COMM_STREAM, GRAPH_STREAM = 7, 20, 24, 40
_HOST_VERBS = ("linear", "softmax", "layer_norm", "gelu", "add", "cat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a program has.

    Attributes:
        blocks: how many things the main thread does in turn.
        device: whether there is one; without it operators work on the host.
        streams, graphs, collectives, copies, syncs: whether it has side streams with events,
            launched graphs, collectives on a stream of their own, blocking copies, and
            synchronisations in the middle.
        workers: how many threads work for the main one.
        daemon: whether a thread polls until long after the end.
        marked: whether the main thread's work lies in a marking range.
        jitter: by how much launch latencies and stream gaps scatter, as a share.
    """

    blocks: int = 30
    device: bool = True
    streams: bool = True
    graphs: bool = False
    collectives: bool = True
    copies: bool = True
    syncs: bool = True
    workers: int = 0
    daemon: bool = False
    marked: bool = True
    jitter: float = 0.0


def draw(seed: int, style: Style | None = None) -> Program:
    """The program of a seed; the same seed and style always give the same one."""
    return _Author(random.Random(seed), style or Style()).program()


class _Author:
    def __init__(self, rng: random.Random, style: Style) -> None:
        self.rng = rng
        self.style = style
        self.count = 0
        self.tasks: list[list[tuple[str, str]]] = [[] for _ in range(style.workers)]
        self.pending: list[str] = []
        self.graphs: list[GraphLaunch] = []

    def program(self) -> Program:
        steps = tuple(self.main())
        main = Thread(name="main", steps=self.marked(steps))
        workers = [
            Thread(name=f"worker {number}", steps=tuple(self.worker(tasks)))
            for number, tasks in enumerate(self.tasks)
        ]
        daemons = [self.watchdog()] if self.style.daemon else []
        marker = MARKER if self.style.marked else ""
        return Program(threads=(main, *workers, *daemons), marker=marker)

    def marked(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        if not self.style.marked:
            return steps
        return (
            Work(ns=20_000),
            Range(name=MARKER, kind=Kind.ANNOTATION, body=steps),
            Work(ns=5_000),
        )

    def main(self) -> Iterator[Step]:
        for _ in range(self.style.blocks):
            yield Work(ns=self.rng.randint(500, 8_000))
            yield from self.block()
        for flag in self.pending:
            yield Await(flag=flag, what="future.result")
        if self.style.device and self.rng.random() < 0.7:
            yield Sync()

    def block(self) -> Iterator[Step]:
        """One thing that the main thread does."""
        kinds = {"operator": 6.0}
        if self.style.device:
            kinds |= {"side": 1.5 * self.style.streams, "graph": 1.0 * self.style.graphs}
            kinds |= {"collective": 1.0 * self.style.collectives, "copy": 1.0 * self.style.copies}
            kinds |= {"sync": 0.7 * self.style.syncs}
        kinds |= {"task": 2.0 * bool(self.style.workers), "collect": 1.0 * bool(self.pending)}
        kind = self.rng.choices(list(kinds), weights=list(kinds.values()))[0]
        match kind:
            case "operator":
                yield self.operator(MAIN_STREAM)
            case "side":
                yield from self.beside(SIDE_STREAM, (self.operator(SIDE_STREAM),))
            case "collective":
                yield from self.beside(COMM_STREAM, (self.collective(),))
            case "graph":
                yield self.graph()
            case "copy":
                yield self.item()
            case "sync":
                yield self.sync()
            case "task":
                yield from self.task()
            case "collect":
                yield Await(flag=self.pending.pop(0), what="future.result")

    def name(self, verb: str) -> str:
        self.count += 1
        return f"aten::{verb}_{self.count}"

    def jittered(self, ns: int) -> int:
        return round(ns * (1 + self.style.jitter * self.rng.random()))

    def operator(self, stream: int, depth: int = 0) -> Range:
        """Nested calls whose leaves work on the host or launch a kernel."""
        name = self.name(self.rng.choice(_HOST_VERBS))
        body: list[Step] = [Work(ns=self.rng.randint(300, 4_000))]
        if depth < 2 and self.rng.random() < 0.6:
            body += [self.operator(stream, depth + 1) for _ in range(self.rng.randint(1, 2))]
        elif self.style.device:
            body.append(self.kernel(name, stream))
        else:
            body.append(Work(ns=self.rng.randint(2_000, 80_000)))
        body.append(Work(ns=self.rng.randint(0, 3_000)))
        return Range(name=name, body=tuple(body))

    def kernel(self, operator: str, stream: int) -> Launch:
        long = self.rng.random() < 0.3
        ns = self.rng.randint(30_000, 200_000) if long else self.rng.randint(1_500, 20_000)
        return Launch(
            name=f"{operator.removeprefix('aten::')}_kernel",
            ns=ns,
            stream=stream,
            call_ns=self.rng.randint(3_000, 6_000),
            latency_ns=self.jittered(7_000),
            gap_ns=self.jittered(1_000),
        )

    def collective(self) -> Range:
        self.count += 1
        launch = Launch(
            name=f"ncclDevKernel_AllReduce_Sum_f32_{self.count}",
            ns=self.rng.randint(20_000, 150_000),
            stream=COMM_STREAM,
            call="cudaLaunchKernelExC",
            latency_ns=self.jittered(7_000),
        )
        body = (Work(ns=2_000), launch, Work(ns=1_000))
        return Range(name=f"c10d::allreduce_{self.count}", body=body)

    def beside(self, stream: int, steps: tuple[Step, ...]) -> Iterator[Step]:
        """Work on another stream after what is queued here; mostly waited for at once."""
        self.count += 1
        there, back = f"there {self.count}", f"back {self.count}"
        yield Record(event=there, stream=MAIN_STREAM)
        yield StreamWait(event=there, stream=stream)
        yield from steps
        yield Record(event=back, stream=stream)
        for _ in range(self.rng.randint(0, 2)):
            yield self.operator(MAIN_STREAM)
        if self.rng.random() < 0.2:
            yield Sync(event=back)
        else:
            yield StreamWait(event=back, stream=MAIN_STREAM)

    def graph(self) -> GraphLaunch:
        """A chain, or a fork of two chains that meet again; every other one is launched again."""
        if self.graphs and self.rng.random() < 0.6:
            return self.rng.choice(self.graphs)
        self.count += 1
        forked = self.rng.random() < 0.5
        nodes = [
            GraphKernel(
                name=f"graph_{self.count}_kernel_{position}",
                ns=self.rng.randint(2_000, 60_000),
                stream=GRAPH_STREAM if forked and position in (3, 4) else MAIN_STREAM,
                after=self.after(position, forked),
            )
            for position in range(6)
        ]
        self.graphs.append(GraphLaunch(graph=self.count, nodes=tuple(nodes), stream=MAIN_STREAM))
        return self.graphs[-1]

    @staticmethod
    def after(position: int, forked: bool) -> tuple[int, ...]:
        if not forked:
            return (position - 1,) if position else ()
        return {0: (), 1: (0,), 2: (1,), 3: (0,), 4: (3,), 5: (2, 4)}[position]

    def item(self) -> Range:
        """A number is fetched: a copy, then its stream is waited for; or a copy that blocks."""
        self.count += 1
        blocking = self.rng.random() < 0.5
        copy = Launch(
            name="Memcpy DtoH (Device -> Pageable)",
            ns=self.rng.randint(1_200, 3_000),
            call="cudaMemcpy" if blocking else "cudaMemcpyAsync",
            engine=Engine.COPY,
            blocking=blocking,
            latency_ns=self.jittered(7_000),
        )
        wait = () if blocking else (Work(ns=400), Sync(stream=MAIN_STREAM))
        inner = Range(
            name=f"aten::_local_scalar_dense_{self.count}",
            body=(Work(ns=1_000), copy, *wait, Work(ns=500)),
        )
        return Range(name=f"aten::item_{self.count}", body=(Work(ns=700), inner))

    def sync(self) -> Sync:
        return self.rng.choice((Sync(), Sync(stream=MAIN_STREAM), Sync(stream=SIDE_STREAM)))

    def task(self) -> Iterator[Step]:
        """Work for one of the threads; its result is fetched later."""
        worker = self.rng.randrange(self.style.workers)
        self.count += 1
        task, done = f"task {self.count}", f"done {self.count}"
        self.tasks[worker].append((task, done))
        self.pending.append(done)
        body = (Work(ns=1_500), Signal(flag=task), Work(ns=500))
        yield Range(name=f"submit_{self.count}", kind=Kind.ANNOTATION, body=body)

    def worker(self, tasks: list[tuple[str, str]]) -> Iterator[Step]:
        """Its pieces are longer than those of the main thread: somebody has to wait for them."""
        for task, done in tasks:
            yield Await(flag=task, what="queue.get")
            for _ in range(self.rng.randint(1, 3)):
                work = Work(ns=self.rng.randint(20_000, 400_000))
                yield Range(name=self.name("embedding_bag"), body=(work,))
            yield Signal(flag=done)

    def watchdog(self) -> Thread:
        polls = (Work(ns=90_000), Call(name="cudaEventQuery", ns=900)) * 80
        return Thread(name="watchdog", steps=polls, daemon=True)

"""Small programs whose truth a person can work out, and what it is."""

from __future__ import annotations

from dataclasses import dataclass

from support.trace_lab.program import (
    Await,
    Engine,
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

US = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program, its makespan, and the names on its critical path with their nanoseconds."""

    program: Program
    makespan_ns: int
    path_ns: dict[str, int]


def operator(name: str, *steps: Step) -> Range:
    return Range(name=name, body=steps)


def _alone(*steps: Step, queue: int = 1_000) -> Program:
    """One thread, all of it in a marked range that starts at once."""
    call = Range(name="benchorch:call", kind=Kind.ANNOTATION, body=steps)
    return Program(threads=(Thread(name="main", steps=(call,)),), marker=call.name, queue=queue)


def hidden_launch() -> Case:
    """The second kernel is launched while the first, a long one, still runs."""
    long = Launch(name="long", ns=500 * US)
    short = Launch(name="short", ns=10 * US)
    return Case(
        program=_alone(operator("a", long), operator("b", short), Sync()),
        makespan_ns=(7 + 500 + 1 + 10 + 2) * US,
        path_ns={"long": 500 * US, "short": 10 * US, "cudaDeviceSynchronize": 2 * US},
    )


def launch_bound() -> Case:
    """Every kernel is over before the next one is launched."""
    pairs = [operator(f"op{i}", Work(ns=30 * US), Launch(name=f"k{i}", ns=2 * US)) for i in "abc"]
    path_ns = {f"op{i}": 30 * US for i in "abc"} | {"cudaLaunchKernel": 8 * US, "kc": 2 * US}
    return Case(
        program=_alone(*pairs, Sync()),
        makespan_ns=(3 * 30 + 2 * 4 + 7 + 2 + 2) * US,
        path_ns=path_ns | {"cudaDeviceSynchronize": 2 * US},
    )


def back_pressure() -> Case:
    """A stream that holds two launches: the third and fourth call block."""
    launches = [Launch(name=f"k{i}", ns=100 * US) for i in "abcd"]
    return Case(
        program=_alone(*launches, Sync(), queue=2),
        makespan_ns=(7 + 4 * 100 + 3 * 1 + 2) * US,
        path_ns={f"k{i}": 100 * US for i in "abcd"} | {"cudaDeviceSynchronize": 2 * US},
    )


def two_streams() -> Case:
    """The second stream waits for an event of the first; the host does not."""
    return Case(
        program=_alone(
            Launch(name="first", ns=300 * US, stream=7),
            Record(event="e", stream=7),
            Launch(name="beside", ns=50 * US, stream=7),
            StreamWait(event="e", stream=20),
            Launch(name="second", ns=200 * US, stream=20),
            Sync(stream=20),
        ),
        makespan_ns=(7 + 300 + 1 + 200 + 2) * US,
        path_ns={"first": 300 * US, "second": 200 * US, "cudaStreamSynchronize": 2 * US},
    )


def copy_that_did_not_wait() -> Case:
    """A blocking copy on an idle device takes its own time and no more."""
    copy = Launch(
        name="Memcpy HtoD (Pageable -> Device)",
        ns=3 * US,
        call="cudaMemcpy",
        engine=Engine.COPY,
        blocking=True,
        call_ns=6 * US,
    )
    return Case(
        program=_alone(operator("before", Work(ns=50 * US)), copy, Work(ns=40 * US)),
        makespan_ns=(50 + 7 + 3 + 2 + 40) * US,
        path_ns={
            "before": 50 * US,
            copy.name: 3 * US,
            "cudaMemcpy": 2 * US,
            "benchorch:call": 40 * US,
        },
    )


def zero_length() -> Case:
    """Operators that took no time at all, one at each end of another."""
    empty = [operator(f"empty{i}") for i in range(3)]
    return Case(
        program=_alone(empty[0], operator("work", empty[1], Work(ns=10 * US), empty[2])),
        makespan_ns=10 * US,
        path_ns={"work": 10 * US},
    )


def diamond(left_us: int = 300, right_us: int = 200) -> Case:
    """The main thread and a worker go different ways and meet; equal ways tie."""
    main = (
        Signal(flag="go"),
        operator("left", Work(ns=left_us * US)),
        Await(flag="done", what="join", floor_ns=0, wake_ns=0),
        operator("after", Work(ns=100 * US)),
    )
    worker = (
        Await(flag="go", what="queue.get", floor_ns=0, wake_ns=0),
        operator("right", Work(ns=right_us * US)),
        Signal(flag="done"),
    )
    call = Range(name="benchorch:call", kind=Kind.ANNOTATION, body=main)
    threads = (Thread(name="main", steps=(call,)), Thread(name="worker", steps=worker))
    longer = "left" if left_us > right_us else "right"
    tie = left_us == right_us
    return Case(
        program=Program(threads=threads, marker=call.name),
        makespan_ns=(max(left_us, right_us) + 100) * US,
        path_ns={"after": 100 * US} | ({} if tie else {longer: max(left_us, right_us) * US}),
    )


def outliving_worker() -> Case:
    """The worker is the last to end, and nothing marks the main thread's part."""
    main = (operator("submit", Work(ns=50 * US), Signal(flag="go")),)
    worker = (
        Await(flag="go", what="queue.get", floor_ns=0, wake_ns=0),
        operator("long", Work(ns=400 * US)),
    )
    threads = (Thread(name="main", steps=main), Thread(name="worker", steps=worker))
    return Case(
        program=Program(threads=threads),
        makespan_ns=450 * US,
        path_ns={"submit": 50 * US, "long": 400 * US},
    )


CASES = {
    "hidden launch": hidden_launch(),
    "launch bound": launch_bound(),
    "back pressure": back_pressure(),
    "two streams": two_streams(),
    "copy that did not wait": copy_that_did_not_wait(),
    "zero length": zero_length(),
    "diamond, main longer": diamond(300, 200),
    "diamond, worker longer": diamond(200, 300),
    "diamond, tie": diamond(300, 300),
    "worker outlives main": outliving_worker(),
}

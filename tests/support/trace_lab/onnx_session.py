"""Schedules of a graph's operators on so many threads, and the profile of ONNX Runtime.

A greedy executor with a fixed cost per operator: whoever is free takes the next operator whose
inputs are there. The file is the list that an inference session writes, whole microseconds
included.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

PROCESS = 777
_OPS = ("MatMul", "Conv", "Add", "Relu", "Softmax", "LayerNormalization")
_OVERHEAD_US = 40  # of a run around its operators, half before and half after them


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A node of a graph; its inputs are names of earlier ones."""

    name: str
    op: str
    inputs: tuple[str, ...]
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An operator where and when it ran."""

    operator: Operator
    thread: int
    start_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.operator.ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of a graph.

    Attributes:
        placed: in the order in which they started.
        makespan_ns: of the whole run, its own overhead included.
    """

    placed: tuple[Placed, ...]
    makespan_ns: int


def draw(seed: int, nodes: int = 30) -> tuple[Operator, ...]:
    """A graph with one input and one output; durations are whole microseconds."""
    rng = random.Random(seed)
    operators: list[Operator] = []
    for number in range(nodes):
        recent = [one.name for one in operators[-5:]]
        inputs = tuple(rng.sample(recent, min(len(recent), rng.randint(1, 2))))
        op = rng.choice(_OPS)
        ns = 1_000 * rng.randint(20, 900)
        operators.append(Operator(name=f"/{op}_{number}", op=op, inputs=inputs, ns=ns))
    read = {name for one in operators for name in one.inputs}
    open_ends = tuple(one.name for one in operators if one.name not in read)
    last = Operator(name="/Concat_last", op="Concat", inputs=open_ends, ns=50_000)
    return (*operators, last)


def changed(operators: Sequence[Operator], factors: Mapping[str, float]) -> tuple[Operator, ...]:
    """The same graph with some operators faster or slower, in whole microseconds."""
    return tuple(
        replace(one, ns=1_000 * round(one.ns * factors.get(one.name, 1.0) / 1_000))
        for one in operators
    )


def execute(operators: Sequence[Operator], threads: int = 1, dispatch_ns: int = 3_000) -> Session:
    """A greedy schedule; before every operator its thread spends `dispatch_ns` on getting there."""
    waiting = {one.name: len(one.inputs) for one in operators}
    readers: dict[str, list[int]] = {one.name: [] for one in operators}
    for position, one in enumerate(operators):
        for name in one.inputs:
            readers[name].append(position)
    begin_ns = _OVERHEAD_US * 500
    ready = [(begin_ns, at) for at, one in enumerate(operators) if not one.inputs]
    free = [(begin_ns, thread) for thread in range(threads)]
    placed: list[Placed] = []
    while ready:
        since_ns, position = heapq.heappop(ready)
        free_ns, thread = heapq.heappop(free)
        start_ns = max(since_ns, free_ns) + dispatch_ns
        done = Placed(operator=operators[position], thread=thread, start_ns=start_ns)
        placed.append(done)
        heapq.heappush(free, (done.end_ns, thread))
        for reader in readers[done.operator.name]:
            waiting[operators[reader].name] -= 1
            if not waiting[operators[reader].name]:
                inputs = operators[reader].inputs
                ends = [one.end_ns for one in placed if one.operator.name in inputs]
                heapq.heappush(ready, (max(ends), reader))
    end_ns = max(one.end_ns for one in placed) + _OVERHEAD_US * 500
    ordered = tuple(sorted(placed, key=lambda one: one.start_ns))
    return Session(placed=ordered, makespan_ns=end_ns)


def lower_bounds(operators: Sequence[Operator]) -> tuple[int, int]:
    """All work (T1), and the longest chain of it (Tinf), in nanoseconds."""
    reached: dict[str, int] = {}
    for one in operators:
        reached[one.name] = one.ns + max((reached[name] for name in one.inputs), default=0)
    return sum(one.ns for one in operators), max(reached.values())


def rows(sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """The file of several runs, one after another."""
    begin_us = 9_000
    written: list[dict[str, Any]] = [_session("session_initialization", 10, 2_500)]
    for session in sessions:
        written += [_node(one, begin_us) for one in session.placed]
        span_us = session.makespan_ns // 1_000
        written.append(_session("SequentialExecutor::Execute", begin_us + 5, span_us - 10))
        written.append(_session("model_run", begin_us, span_us))
        begin_us += span_us + 300
    return written


def _session(name: str, ts: int, dur: int) -> dict[str, Any]:
    return {
        "cat": "Session",
        "pid": PROCESS,
        "tid": PROCESS,
        "dur": dur,
        "ts": ts,
        "ph": "X",
        "name": name,
        "args": {},
    }


def _node(one: Placed, begin_us: int) -> dict[str, Any]:
    shape = [{"float": [8, 64]}]
    number = int(one.operator.name.rpartition("_")[2]) if "last" not in one.operator.name else 999
    return {
        "cat": "Node",
        "pid": PROCESS,
        "tid": PROCESS + one.thread,
        "dur": one.operator.ns // 1_000,
        "ts": begin_us + one.start_ns // 1_000,
        "ph": "X",
        "name": f"{one.operator.name}_kernel_time",
        "args": {
            "op_name": one.operator.op,
            "provider": "CPUExecutionProvider",
            "node_index": str(number),
            "input_type_shape": shape,
            "output_type_shape": shape,
            "activation_size": "2048",
            "parameter_size": "0",
            "output_size": "2048",
            "thread_scheduling_stats": "",
        },
    }


def write(sessions: Sequence[Session], path: Path) -> Path:
    path.write_text(json.dumps(rows(sessions)))
    return path

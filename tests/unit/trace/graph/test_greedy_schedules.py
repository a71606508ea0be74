"""Bounds of every schedule that never leaves a lane idle on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.graph_checks import replay
from support.random_graphs import Edge, dag_of

Tasks = list[tuple[int, list[int]]]  # each task's duration, and the tasks before it


@st.composite
def task_graphs(draw: st.DrawFn) -> Tasks:
    count = draw(st.integers(1, 10))
    return [
        (
            draw(st.integers(1, 50)),
            draw(st.lists(st.integers(0, task - 1), max_size=3, unique=True)) if task else [],
        )
        for task in range(count)
    ]


def dataflow_ns(tasks: Tasks) -> int:
    """The longest path with as many lanes as there are tasks; a task's point is its end."""
    sink = len(tasks) + 1
    edges = [
        Edge(tail=before, head=1 + task, weight_ns=duration)
        for task, (duration, needs) in enumerate(tasks)
        for before in [0, *(1 + need for need in needs)]
    ]
    edges += [Edge(tail=1 + task, head=sink, weight_ns=0) for task in range(len(tasks))]
    dag = dag_of([10**6 * point for point in range(sink + 1)], edges)
    times = replay(dag, residual_ns=np.zeros_like(dag.residual_ns))
    return int(times[-1] - times[0])


def greedy_ns(tasks: Tasks, lanes: int) -> int:
    """How long a list scheduler takes that always starts the first task that could run."""
    free, ends = [0] * lanes, {}
    while len(ends) < len(tasks):
        ready = {
            task: max((ends[need] for need in needs), default=0)
            for task, (_, needs) in enumerate(tasks)
            if task not in ends and all(need in ends for need in needs)
        }
        lane = min(range(lanes), key=free.__getitem__)
        task = min(ready, key=lambda one: (max(ready[one], free[lane]), one))
        ends[task] = max(ready[task], free[lane]) + tasks[task][0]
        free[lane] = ends[task]
    return max(ends.values())


@given(tasks=task_graphs(), lanes=st.integers(1, 4))
def test_grahams_bound_holds_of_a_greedy_schedule(tasks: Tasks, lanes: int) -> None:
    work = sum(duration for duration, _ in tasks)
    longest = dataflow_ns(tasks)
    taken = greedy_ns(tasks, lanes)
    assert max(longest, work / lanes) <= taken
    assert taken <= work / lanes + (1 - 1 / lanes) * longest

"""Profiles of ONNX Runtime sessions whose schedule is known."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from benchorch.trace.analysis import Analysis, analyze
from benchorch.trace.critical_path.path import critical_path
from benchorch.trace.dag import Dag
from benchorch.trace.events import Events
from benchorch.trace.graph.build import build_dag
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps
from support.analyzed_traces import call_window
from support.graph_invariants import check
from support.trace_lab.onnx_session import Operator, changed, draw, execute, lower_bounds, write
from support.trace_lab.predicting import predicted_ns
from support.trace_lab.seeds import each_of


def built(operators: tuple[Operator, ...], threads: int, place: Path) -> tuple[Events, Dag]:
    """The second of three runs."""
    session = execute(operators, threads)
    events = read_events(write([session] * 3, place / "profile.json"))
    assert len(find_steps(events).start_ns) == 3
    return events, build_dag(events, call_window(events, 1))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("seed", each_of(range(8), 3))
def test_a_session_replays_exactly_and_takes_no_less_than_its_longest_chain(
    seed: int, threads: int, tmp_path: Path
) -> None:
    """Also no shorter than the longest chain of data."""
    operators = draw(seed)
    _, dag = built(operators, threads, tmp_path)
    assert all(check(dag, critical_path(dag), (int(dag.time_ns[0]), int(dag.time_ns[-1]))).values())
    assert dag.makespan_ns == execute(operators, threads).makespan_ns
    assert dag.makespan_ns >= lower_bounds(operators)[1]


def errors(threads: int, place: Path) -> list[float]:
    """Predicted over true makespan, less one, of graphs with a third of the operators changed."""
    found = []
    for seed in range(20):
        operators = draw(seed)
        events, dag = built(operators, threads, place)
        rng = random.Random(seed)
        chosen = rng.sample([one.name for one in operators], 10)
        factors = dict.fromkeys(chosen, rng.choice((0.0, 0.25, 0.5, 2.0)))
        true_ns = execute(changed(operators, factors), threads).makespan_ns
        found.append(predicted_ns(events, dag, factors) / true_ns - 1)
    return found


def test_a_session_on_one_thread_is_predicted_to_its_rounding(tmp_path: Path) -> None:
    assert max(map(abs, errors(1, tmp_path))) <= 0.001


@pytest.mark.parametrize("threads", [2, 4])
def test_a_parallel_session_is_predicted_as_if_operators_kept_their_threads(
    threads: int, tmp_path: Path
) -> None:
    """A real executor would place them anew: that is not in the model, and bounds its accuracy."""
    found = errors(threads, tmp_path)
    assert statistics.median(map(abs, found)) <= 0.1, sorted(found)
    assert max(map(abs, found)) <= 0.35, sorted(found)


def on_device(place: Path, *, node_us: int, kernel_us: int, appended: bool = False) -> Analysis:
    """Ten runs of five nodes, each of which launches a kernel; a run waits for the last kernel.

    A kernel comes after its node in the file; plugins append all of them.
    """
    host, kernels = [], []
    for run in range(10):
        begin = run * 12_000
        last, first = begin, len(host)
        for number in range(5):
            at = begin + 20 + number * node_us
            last = max(last, at + node_us // 2) + kernel_us
            host.append(row("Node", f"MatMul_{number}_kernel_time", at, node_us - 2))
            host[-1]["args"] = {"op_name": "MatMul"}
            kernel = row("Kernel", "sgemm", last - kernel_us, kernel_us)
            kernel |= {"pid": -1, "tid": -1, "args": {"stream": "13", "grid_x": "1"}}
            (kernels if appended else host).append(kernel)
        done = max(begin + 20 + 5 * node_us, last) + 10
        host[first:first] = [row("Session", "model_run", begin, done - begin)]
    path = place / "profile.json"
    path.write_text(json.dumps(host + kernels))
    return analyze(path)


def row(category: str, name: str, ts: int, dur: int) -> dict[str, Any]:
    event = {"cat": category, "name": name, "ts": ts, "dur": dur, "ph": "X", "pid": 5, "tid": 5}
    return {**event, "args": {}}


@pytest.mark.parametrize("appended", [False, True])
def test_a_session_waits_for_its_kernels(appended: bool, tmp_path: Path) -> None:
    analysis = on_device(tmp_path, node_us=60, kernel_us=1_000, appended=appended)
    assert analysis.verdict.limit == "device compute"
    assert analysis.verdict.gains["device compute"] > 0.9
    assert analysis.verdict.record == ()
    assert {lane.device for lane in analysis.events.lanes if lane.on_device} == {0}


def test_a_kernel_belongs_to_the_node_before_it(tmp_path: Path) -> None:
    analysis = on_device(tmp_path, node_us=60, kernel_us=1_000)
    operators = {entry.name: entry.total_ns for entry in analysis.tables["operators"]}
    assert operators["MatMul"] == pytest.approx(5_000_000, rel=0.1)


def test_a_session_whose_nodes_take_longer_than_their_kernels_waits_for_the_host(
    tmp_path: Path,
) -> None:
    analysis = on_device(tmp_path, node_us=1_000, kernel_us=60)
    assert analysis.verdict.limit == "host framework"
    assert analysis.verdict.gains["host framework"] > 0.9

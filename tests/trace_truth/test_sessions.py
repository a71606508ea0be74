"""Profiles of ONNX Runtime sessions whose schedule is known."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

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

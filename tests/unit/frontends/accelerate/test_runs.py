"""Which runs count, and where their time went, by a clock that a test holds."""

from __future__ import annotations

from benchorch.frontends.accelerate.runs import FunctionRun, GraphCall, RunRecorder, group_runs


def run(*graphs: int, compiled: bool = False, function: str = "f") -> FunctionRun:
    calls = tuple(GraphCall(graph=graph, signature=1, local_ns=7) for graph in graphs)
    gaps_ns = tuple(range(len(graphs) + 1))
    return FunctionRun(function=function, calls=calls, gaps_ns=gaps_ns, compiled=compiled)


def test_the_clock_of_python_stands_while_a_graph_runs() -> None:
    times = iter([100, 130, 1000, 1005])
    recorder = RunRecorder(now_ns=lambda: next(times), function="f")
    recorder.start()
    recorder.stop()
    recorder.add(GraphCall(graph=1, signature=1, local_ns=500))
    recorder.start()
    recorder.stop()
    finished = recorder.run(compiled=False)
    assert finished.gaps_ns == (30, 5)
    assert finished.graphs == (1,)


def test_runs_are_told_apart_by_what_they_went_through() -> None:
    found = group_runs([run(1, 2), run(1, 3), run(1, 2), run(1, 2, function="g")])
    assert [(each.function, each.graphs, len(each.runs)) for each in found] == [
        ("f", (1, 2), 2),
        ("f", (1, 3), 1),
        ("g", (1, 2), 1),
    ]


def test_a_run_with_compilation_is_discarded_once_one_without_comes_by() -> None:
    (found,) = group_runs([run(1, compiled=True), *[run(1)] * 9])
    assert (len(found.runs), found.discarded, found.compiled) == (9, 1, False)


def test_a_late_run_with_compilation_is_discarded_as_well() -> None:
    (found,) = group_runs([run(1), run(1, compiled=True), run(1)])
    assert (len(found.runs), found.discarded) == (2, 1)


def test_runs_with_compilation_count_where_there_are_no_others() -> None:
    (found,) = group_runs([run(1, compiled=True), run(1, compiled=True)])
    assert (len(found.runs), found.discarded, found.compiled) == (2, 0, True)


def test_no_run_makes_no_course() -> None:
    assert group_runs([]) == []

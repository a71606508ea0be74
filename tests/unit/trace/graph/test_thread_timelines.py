"""One host thread, or several that have nothing to do with each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.dag import NOBODY, Class, Window
from benchorch.trace.events import Category, Events
from benchorch.trace.graph.build import build_dag
from support.graph_checks import assert_sound, owners, point, spent
from support.handmade_traces import Made, call, kernel, note, op, trace


def test_every_gap_of_a_thread_has_an_owner() -> None:
    dag = build_dag(
        trace(op("outer", 0, 100), op("a", 10, 30), op("b", 40, 90), op("next", 120, 130))
    )
    assert_sound(dag)
    assert owners(dag) == [(0, 10), (1, 20), (0, 10), (2, 50), (0, 10), (NOBODY, 20), (3, 10)]
    assert not dag.residual_ns.any()


def test_a_child_that_outlives_its_parent_is_cut_and_counted() -> None:
    dag = build_dag(trace(op("parent", 0, 100), op("child", 50, 101), op("inner", 60, 101)))
    assert_sound(dag)
    assert dag.repairs["clipped_children"] == 2
    assert dag.makespan_ns == 100


def test_events_that_take_no_time_stay() -> None:
    events = trace(op("a", 0, 10), op("flag", 10, 10), op("b", 10, 20), op("inner", 20, 20))
    dag = build_dag(events)
    assert_sound(dag)
    assert sorted(set(dag.event.tolist())) == [NOBODY, 0, 1, 2, 3]


def test_a_thread_that_only_polls_takes_no_part() -> None:
    busy = [op("work", 0, 100), note("step", 0, 110)]
    polls = [call("cudaEventQuery", at, at + 5, lane="watchdog") for at in range(0, 1000, 50)]
    dag = build_dag(trace(busy, polls))
    assert_sound(dag)
    assert dag.makespan_ns == 110
    assert dag.facts["daemon_lanes"] == 1


def test_a_worker_may_outlive_the_main_thread() -> None:
    dag = build_dag(trace(note("step", 0, 100), op("late", 50, 300, lane="worker")))
    assert_sound(dag)
    assert dag.makespan_ns == 300


def test_a_worker_without_a_reason_to_start_is_unexplained() -> None:
    dag = build_dag(trace(note("step", 0, 100), op("late", 50, 300, lane="worker")))
    start = point(dag, 1, end=False)
    assert dag.residual_ns[start] == 50


def test_the_profilers_own_time_belongs_to_no_other_event() -> None:
    overhead = Made(
        name="Activity Buffer Request",
        lane="main profiler",
        start_ns=20,
        end_ns=60,
        category=Category.OVERHEAD,
    )
    dag = build_dag(trace(op("long", 0, 50), op("next", 55, 100), overhead))
    assert_sound(dag)
    assert owners(dag) == [(0, 20), (2, 30), (2, 5), (2, 5), (1, 40)]
    assert spent(dag)[Class.PROFILER] == 40


def test_a_window_cuts_what_was_under_way() -> None:
    events = trace(
        note("all", 0, 1000),
        note("ProfilerStep#1", 100, 200),
        op("inside", 120, 180),
        op("before", 50, 90),
        op("straddles", 80, 150, lane="worker"),
        op("after", 210, 300),
    )
    dag = build_dag(events, Window(start_ns=100, end_ns=200))
    assert_sound(dag)
    assert sorted(set(dag.event.tolist())) == [NOBODY, 1, 2, 4]
    assert (dag.time_ns[0], dag.time_ns[-1]) == (100, 200)


def test_an_empty_trace_has_a_source_and_a_sink() -> None:
    dag = build_dag(trace())
    assert (dag.points, dag.edges, dag.makespan_ns) == (2, 1, 0)
    assert_sound(dag)


def test_operators_that_compute_and_that_dispatch_have_different_classes() -> None:
    host = build_dag(
        trace(op("aten::linear", 0, 100), op("aten::t", 5, 10), op("aten::addmm", 12, 98))
    )
    assert spent(host) == {Class.CPU_FRAMEWORK: 5 + 5 + 2 + 2, Class.CPU_COMPUTE: 86}
    device = build_dag(
        trace(
            op("aten::mm", 0, 100),
            call("cudaLaunchKernel", 40, 90, correlation=1),
            kernel("k", 95, 99, 1),
        )
    )
    assert spent(device) == {Class.CPU_FRAMEWORK: 50, Class.CPU_RUNTIME: 50}


@st.composite
def traces(draw: st.DrawFn) -> Events:
    """Anything that a damaged file may hold."""
    rows = draw(
        st.lists(
            st.builds(
                lambda name, lane, start, took, category, one, other: Made(
                    name=name,
                    lane="stream 7" if category in (4, 5, 6) else lane,
                    start_ns=start,
                    end_ns=start + took,
                    category=Category(category),
                    correlation=one,
                    stream=other,
                    awaited=one - other,
                    sequence=other,
                    forward_lane=lane,
                ),
                st.sampled_from(
                    [
                        "aten::a",
                        "wait:x",
                        "cudaLaunchKernel",
                        "cudaDeviceSynchronize",
                        "cudaStreamWaitEvent",
                        "cudaMemcpy",
                        "cudaEventRecord",
                        "model_run",
                    ]
                ),
                st.sampled_from(["a", "b", "c"]),
                st.integers(0, 40),
                st.integers(0, 20),
                st.integers(0, 12),
                st.integers(-1, 6),
                st.sampled_from([-1, 7, 8]),
            ),
            max_size=25,
        )
    )
    return trace(rows)


@given(traces())
def test_every_trace_makes_a_sound_graph(events: Events) -> None:
    assert_sound(build_dag(events))


@given(traces(), st.integers(0, 30), st.integers(1, 30))
def test_so_does_every_window_of_it(events: Events, start_ns: int, took_ns: int) -> None:
    window = Window(start_ns=start_ns, end_ns=start_ns + took_ns)
    assert_sound(build_dag(events, window))

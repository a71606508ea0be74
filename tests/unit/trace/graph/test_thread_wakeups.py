"""Several host threads: who waited for whom, and what may be inferred."""

from __future__ import annotations

from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import Category, Events
from benchorch.trace.graph.build import build_dag
from support.graph_checks import assert_sound, into, owners, point, replay, spent
from support.handmade_traces import Made, call, kernel, note, op, trace

US = 1_000


def diamond(left_us: int, right_us: int) -> list[object]:
    """The main thread starts a worker, goes its own way, and waits for it."""
    end_us = 100 + max(left_us, right_us)
    return [
        note("step", 0, (end_us + 100) * US),
        op("before", 0, 100 * US),
        op("left", 100 * US, (100 + left_us) * US),
        note("wait:join", (100 + left_us) * US, end_us * US),
        op("after", end_us * US, (end_us + 100) * US),
        op("right", 100 * US, (100 + right_us) * US, lane="worker"),
    ]


def test_a_recorded_wait_ends_when_the_other_threads_work_does() -> None:
    dag = build_dag(trace(diamond(200, 700)))
    assert_sound(dag)
    end = point(dag, 3, end=True)
    assert into(dag, end, EdgeKind.WAIT) == [(5, True, 0)]
    assert into(dag, end, EdgeKind.CHAIN) == [(3, False, 0)]
    assert owners(dag)[-2:] == [(5, 700 * US), (4, 100 * US)]


def test_the_shorter_way_can_take_longer_for_nothing() -> None:
    dag = build_dag(trace(diamond(200, 700)))
    weight_ns = dag.weight_ns.copy()
    weight_ns[dag.owner == 2] += 500 * US
    assert replay(dag, weight_ns)[-1] == dag.time_ns[-1]
    weight_ns[dag.owner == 2] += US
    assert replay(dag, weight_ns)[-1] == dag.time_ns[-1] + US


def test_a_tie_of_both_ways_replays() -> None:
    assert_sound(build_dag(trace(diamond(500, 500))))


def test_a_wait_ends_with_a_busy_interval_that_goes_on_to_wait_itself() -> None:
    events = trace(
        op("main", 0, 10 * US),
        note("wait:result", 20 * US, 330 * US),
        op("task", 30 * US, 320 * US, lane="worker"),
        note("wait:queue", 321 * US, 900 * US, lane="worker"),
        op("next", 905 * US, 910 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    end = point(dag, 1, end=True)
    assert into(dag, end, EdgeKind.WAIT) == [(2, True, 10 * US)]  # it takes a while to wake up
    assert spent(dag).keys() >= {Class.CPU_COMPUTE}


def test_a_worker_waits_for_what_the_busy_main_thread_does() -> None:
    events = trace(
        note("step", 0, 1000 * US),
        op("produce", 10 * US, 400 * US),
        op("more", 405 * US, 990 * US),
        note("wait:queue.get", 0, 420 * US, lane="worker"),
        op("consume", 420 * US, 800 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    end = point(dag, 3, end=True)
    assert into(dag, end, EdgeKind.WAIT) == [(2, False, 15 * US)]


def test_a_wait_for_data_that_other_processes_load_is_loading() -> None:
    dag = build_dag(trace(op("train", 0, 10 * US), note("wait:dataloader", 10 * US, 500 * US)))
    assert_sound(dag)
    assert spent(dag) == {Class.CPU_COMPUTE: 10 * US, Class.DATA_LOADING: 490 * US}


def test_a_wait_for_nothing_in_the_trace_is_for_something_outside() -> None:
    dag = build_dag(trace(op("main", 0, 10 * US), note("wait:reply", 10 * US, 500 * US)))
    assert_sound(dag)
    assert spent(dag) == {Class.CPU_COMPUTE: 10 * US, Class.OUTSIDE: 490 * US}


def test_backward_work_is_forked_and_joined_by_its_caller() -> None:
    events = trace(
        op("aten::mm", 0, 100 * US, sequence=7),
        op("loss", 110 * US, 120 * US),
        op(
            "autograd::engine::evaluate_function: MmBackward0",
            200 * US,
            700 * US,
            lane="autograd",
            sequence=7,
            forward_lane="main",
        ),
        op("step", 750 * US, 800 * US),
    )
    dag = build_dag(events)
    assert_sound(dag)
    start, end = point(dag, 2, end=False), point(dag, 3, end=False)
    assert into(dag, start, EdgeKind.FORK) == [(1, True, 80 * US)]
    assert into(dag, end, EdgeKind.JOIN) == [(2, True, 50 * US)]
    assert into(dag, end, EdgeKind.CHAIN) == [(1, True, 0)]
    assert set(spent(dag)) == {Class.CPU_COMPUTE, Class.CPU_PYTHON}


def joined(*, ended_us: int = 900, gap_us: int = 1000, holder: str = "top") -> list[object]:
    """A gap of the main thread's in which a worker stops, without a recorded reason."""
    around = [op("around", 0, 1300 * US)] if holder == "leaf" else []
    before = [] if holder == "leaf" else [op("before", 0, 100 * US)]
    return [
        *around,
        *before,
        op("after", (100 + gap_us) * US, (200 + gap_us) * US),
        op("work", 50 * US, ended_us * US, lane="worker"),
    ]


def test_a_gap_that_ends_with_another_threads_busy_interval_waited_for_it() -> None:
    dag = build_dag(trace(joined(ended_us=1050)))
    assert_sound(dag)
    start = point(dag, 1, end=False)
    assert into(dag, start, EdgeKind.JOIN) == [(2, True, 0)]
    assert into(dag, start, EdgeKind.CHAIN) == [(0, True, 0)]
    edge = (dag.head == start) & (dag.kind == EdgeKind.JOIN)
    assert dag.tier[edge].tolist() == [Tier.INFERRED]


def test_a_gap_of_the_main_thread_is_python_unless_every_sign_agrees() -> None:
    for case in (joined(ended_us=600), joined(ended_us=1300), joined(gap_us=90, ended_us=180)):
        dag = build_dag(trace(case))
        assert_sound(dag)
        start = point(dag, 1, end=False)
        assert not into(dag, start, EdgeKind.JOIN)
        (chain,) = into(dag, start, EdgeKind.CHAIN)
        assert chain[2] == dag.time_ns[start] - 100 * US


def test_a_busy_interval_stays_inside_the_range_around_it() -> None:
    events = trace(
        note("step", 0, 900 * US),
        op("main", 0, 890 * US),
        op("work", 50 * US, 600 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    assert into(dag, point(dag, 0, end=True), EdgeKind.JOIN) == [(2, True, 0)]
    assert (0, False, 0) in into(dag, point(dag, 2, end=False), EdgeKind.FORK)


def test_idle_workers_have_no_weight_and_short_pauses_do() -> None:
    events = trace(
        note("benchorch:call", 0, 10),
        call("cudaLaunchKernel", 1, 3, correlation=1),
        kernel("k", 5, 9, 1),
        op("a", 0, 10, lane="worker"),
        op("b", 12, 20, lane="worker"),
        op("c", 500 * US, 501 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    assert into(dag, point(dag, 4, end=False), EdgeKind.CHAIN) == [(3, True, 2)]
    assert into(dag, point(dag, 5, end=False), EdgeKind.CHAIN) == [(4, True, 0)]
    chain = (dag.head == point(dag, 4, end=False)) & (dag.kind == EdgeKind.CHAIN)
    assert [CLASSES[label] for label in dag.label[chain]] == [Class.CPU_FRAMEWORK]


def test_a_new_thread_was_started_by_the_main_one() -> None:
    events = trace(
        note("benchorch:call", 0, 900 * US),
        op("before", 0, 300 * US),
        op("beside", 310 * US, 890 * US),
        op("work", 330 * US, 600 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    start = point(dag, 3, end=False)
    assert (2, False, 0) in into(dag, start, EdgeKind.FORK)
    assert dag.residual_ns[start] == 20 * US


def test_a_new_thread_that_begins_with_a_pause_was_started_too() -> None:
    events = trace(
        note("benchorch:call", 0, 900 * US),
        op("before", 0, 300 * US),
        op("beside", 310 * US, 890 * US),
        note("worker", 330 * US, 601 * US, lane="worker"),
        op("work", 500 * US, 600 * US, lane="worker"),
    )
    dag = build_dag(events)
    assert_sound(dag)
    assert (2, False, 0) in into(dag, point(dag, 3, end=False), EdgeKind.FORK)


def handed_over(lag_us: int, steps: int = 6) -> Events:
    """A thread that never stops hands something over after each of its calls."""
    made = []
    for at in range(0, steps * 1_000, 1_000):
        made += [
            note(f"ProfilerStep#{at}", at * US, (at + 1_000) * US),
            op("aten::mm", (at + 600) * US, (at + 995) * US),
            call("cudaStreamSynchronize", (at + 20) * US, (at + 600 - lag_us) * US, lane="other"),
            op("aten::copy_", (at + 610) * US, (at + 1_000) * US, lane="other"),
        ]
    return trace(made)


def test_pauses_that_always_end_with_the_same_call_of_another_thread_waited_for_it() -> None:
    dag = build_dag(handed_over(3))
    assert_sound(dag)
    assert into(dag, point(dag, 5, end=False), EdgeKind.JOIN) == [(6, True, 0)]
    late = build_dag(handed_over(400))
    assert into(late, point(late, 5, end=False), EdgeKind.JOIN) == []


def test_a_run_of_onnx_runtime_waits_for_the_threads_of_its_pool() -> None:
    """Two branches, the right one on a thread of the pool, which also joins them."""

    def row(name: str, start_us: int, end_us: int, lane: str = "main") -> Made:
        kind = Category.NODE if name in ("left", "right", "join") else Category.SESSION
        return op(name, start_us * US, end_us * US, lane=lane, category=kind)

    dag = build_dag(
        trace(
            row("model_run", 0, 1000),
            row("SequentialExecutor::Execute", 10, 990),
            row("left", 20, 300),
            row("right", 50, 600, "pool"),
            row("join", 640, 700, "pool"),
        )
    )
    assert_sound(dag)
    end = point(dag, 1, end=True)
    assert (4, True, 290 * US) in into(dag, end, EdgeKind.JOIN)
    assert (1, False, 40 * US) in into(dag, point(dag, 3, end=False), EdgeKind.FORK)
    assert not dag.residual_ns.any()
    assert spent(dag)[Class.CPU_COMPUTE] == (550 + 60) * US

"""Host and device: launches, streams, synchronisation."""

from __future__ import annotations

import numpy as np
import pytest

from benchorch.trace.dag import CLASSES, NOBODY, Class, EdgeKind, Tier, Window
from benchorch.trace.events import Category
from benchorch.trace.graph.build import build_dag
from benchorch.trace.graph.scope import Thresholds
from support.graph_checks import assert_sound, between, into, owners, point
from support.handmade_traces import Made, call, kernel, note, op, sync, trace


def launch(start_ns: int, correlation: int, *, took_ns: int = 5, **rest: object) -> Made:
    name = "cudaLaunchKernel"
    return call(name, start_ns, start_ns + took_ns, correlation=correlation, **rest)


def test_a_launch_hidden_under_a_long_kernel_keeps_its_edge() -> None:
    events = trace(
        note("step", 0, 130),
        launch(0, 1),
        launch(20, 2),
        kernel("long", 8, 100, 1),
        kernel("k", 101, 110, 2),
    )
    dag = build_dag(events)
    assert_sound(dag)
    start = point(dag, 4, end=False)
    assert into(dag, start, EdgeKind.LAUNCH) == [(2, False, 8)]
    assert into(dag, start, EdgeKind.STREAM) == [(3, True, 1)]
    assert not dag.residual_ns.any()


def test_floors_of_launches_come_from_idle_streams() -> None:
    calls = [launch(at, at) for at in range(100, 2100, 100)]
    kernels = [kernel("k", at + 7 + (at == 100), at + 20, at) for at in range(100, 2100, 100)]
    dag = build_dag(trace(op("outer", 0, 2200), calls, kernels))
    assert_sound(dag)
    assert dag.facts["launch_latency_ns"] == 7
    assert dag.residual_ns.sum() == 1


def test_work_that_overlaps_on_its_stream_comes_after_the_start_of_what_runs() -> None:
    dag = build_dag(
        trace(launch(0, 1), launch(10, 2), kernel("a", 8, 60, 1), kernel("b", 20, 90, 2))
    )
    assert_sound(dag)
    assert into(dag, point(dag, 3, end=False), EdgeKind.STREAM) == [(2, False, 0)]


def test_queued_work_that_begins_a_little_early_comes_after_that_much_of_what_runs() -> None:
    dag = build_dag(
        trace(launch(0, 1), launch(10, 2), kernel("a", 8, 60, 1), kernel("b", 50, 90, 2))
    )
    assert_sound(dag)
    assert into(dag, point(dag, 3, end=False), EdgeKind.STREAM) == [(2, False, 42)]
    assert dag.owner[dag.beside].tolist() == [2]
    assert owners(dag) == [(NOBODY, 8), (2, 42), (3, 40)]


def test_a_full_stream_blocks_the_next_launch() -> None:
    """Five works may be unfinished: the sixth launch returns when the first kernel ends."""
    calls = [launch(5 * at, at) for at in range(5)] + [launch(25, 5, took_ns=185)]
    kernels = [kernel("k", 10 + 200 * at, 200 + 200 * at, at) for at in range(6)]
    events = trace(note("step", 0, 1300), calls, kernels)
    dag = build_dag(events, thresholds=Thresholds(queue=4))
    assert_sound(dag)
    end = point(dag, 6, end=True)
    assert into(dag, end, EdgeKind.SYNC) == [(7, True, 10)]
    assert into(dag, end, EdgeKind.CHAIN) == [(6, False, 5)]
    label = dag.label[(dag.head == end) & (dag.kind == EdgeKind.SYNC)]
    assert CLASSES[label[0]] is Class.BACKPRESSURE


def two_streams(*, resolved: bool = True) -> list[Made]:
    """Stream 20 waits for an event that was recorded on stream 7."""
    wait = call("cudaStreamWaitEvent", 30, 35, correlation=4)
    record = call("cudaEventRecord", 10, 15, correlation=2)
    awaited = {"stream": 20, "awaited": 2} if resolved else {"stream": 20}
    mark = Made(
        name="record",
        lane="stream 7",
        start_ns=10,
        end_ns=12,
        category=Category.RECORD,
        correlation=2,
        stream=7,
    )
    return [
        note("step", 0, 450_000),
        launch(0, 1),
        record,
        launch(20, 3),
        wait,
        launch(40, 5),
        kernel("first", 8, 300_000, 1),
        kernel("beside", 300_002, 310_000, 3),
        kernel("second", 300_001, 400_000, 5, stream=20),
        sync("Stream Wait Event", wait, **awaited),
        mark,
    ]


def test_one_stream_waits_for_an_event_of_another() -> None:
    dag = build_dag(trace(two_streams()))
    assert_sound(dag)
    assert into(dag, point(dag, 8, end=False), EdgeKind.SYNC) == [(6, True, 1)]
    edge = (dag.head == point(dag, 8, end=False)) & (dag.kind == EdgeKind.SYNC)
    assert dag.tier[edge].tolist() == [Tier.RECORDED]


def test_a_wait_that_names_no_event_is_inferred() -> None:
    dag = build_dag(trace(two_streams(resolved=False)))
    assert_sound(dag)
    edge = (dag.head == point(dag, 8, end=False)) & (dag.kind == EdgeKind.SYNC)
    assert dag.event[dag.tail[edge]].tolist() == [6]
    assert dag.tier[edge].tolist() == [Tier.INFERRED]


def test_a_device_synchronisation_waits_for_every_stream() -> None:
    waits = call("cudaDeviceSynchronize", 30, 110)
    dag = build_dag(
        trace(
            launch(0, 1),
            launch(10, 2),
            waits,
            kernel("a", 8, 100, 1),
            kernel("b", 18, 60, 2, stream=20),
        )
    )
    assert_sound(dag)
    end = point(dag, 2, end=True)
    assert sorted(into(dag, end, EdgeKind.SYNC)) == [(3, True, 10), (4, True, 10)]
    assert into(dag, end, EdgeKind.CHAIN) == [(2, False, 0)]
    assert owners(dag)[-1] == (2, 10)


@pytest.mark.parametrize(
    "name",
    [
        *("urQueueFinish", "piQueueFinish", "urEventWait", "piEventsWait"),
        *("zeCommandQueueSynchronize", "zeCommandListHostSynchronize"),
        *("zeEventHostSynchronize", "zeFenceHostSynchronize"),
    ],
)
def test_calls_of_intels_runtimes_wait_for_the_work_that_ended_last(name: str) -> None:
    waits = call(name, 30, 110)
    dag = build_dag(trace(note("step", 0, 120), launch(0, 1), waits, kernel("a", 8, 100, 1)))
    assert_sound(dag)
    assert into(dag, point(dag, 2, end=True), EdgeKind.SYNC) == [(3, True, 10)]


def test_a_call_that_found_nothing_to_wait_for_takes_its_own_time() -> None:
    idle = call("cudaDeviceSynchronize", 130, 137)
    dag = build_dag(trace(note("step", 0, 140), launch(0, 1), kernel("a", 8, 100, 1), idle))
    assert_sound(dag)
    end = point(dag, 3, end=True)
    assert into(dag, end, EdgeKind.CHAIN) == [(3, False, 7)]
    assert into(dag, end, EdgeKind.SYNC) == [(2, True, 7)]  # as it would after later work


def test_a_stream_synchronisation_waits_for_its_stream_alone() -> None:
    waits = call("cudaStreamSynchronize", 30, 70, correlation=9)
    events = trace(
        note("step", 0, 200),
        launch(0, 1),
        launch(10, 2),
        waits,
        kernel("a", 8, 150, 1),
        kernel("b", 18, 60, 2, stream=20),
        sync("Stream Sync", waits, stream=20),
    )
    dag = build_dag(events)
    assert_sound(dag)
    assert into(dag, point(dag, 3, end=True), EdgeKind.SYNC) == [(5, True, 10)]


def test_a_blocking_copy_waits_for_itself_and_not_where_it_came_late() -> None:
    copies = call("cudaMemcpy", 0, 50, correlation=1)
    later = call("cudaMemcpyAsync", 60, 66, correlation=2)
    copy = {"category": Category.COPY}
    dag = build_dag(
        trace(
            copies, later, kernel("Memcpy", 10, 40, 1, **copy), kernel("Memcpy", 70, 90, 2, **copy)
        )
    )
    assert_sound(dag)
    assert into(dag, point(dag, 0, end=True), EdgeKind.SYNC) == [(2, True, 10)]
    assert into(dag, point(dag, 1, end=True), EdgeKind.SYNC) == []
    assert between(dag, point(dag, 1, end=False), point(dag, 1, end=True)) == [(EdgeKind.CHAIN, 6)]


def test_gaps_inside_a_launched_graph_are_its_own() -> None:
    """Both kernels of the second half begin 290 ns after everything of the first has ended."""
    dag = build_dag(
        trace(
            note("step", 0, 2000),
            launch(0, 1),
            launch(500, 2),
            kernel("a", 20, 100, 1, graph_node=1),
            kernel("b", 101, 300, 1, graph_node=2),
            kernel("a", 520, 600, 2, graph_node=1),
            kernel("b", 900, 990, 2, graph_node=2),
            kernel("side", 530, 610, 2, graph_node=3, stream=20),
            kernel("side", 900, 950, 2, graph_node=4, stream=20),
        )
    )
    assert_sound(dag)
    second = point(dag, 6, end=False)
    assert into(dag, second, EdgeKind.STREAM) == [(5, True, 290)]
    gap = CLASSES.index(Class.GRAPH_GAP)
    assert set(dag.label[(dag.head == second) & (dag.kind == EdgeKind.STREAM)]) == {gap}
    side = point(dag, 8, end=False)
    assert into(dag, side, EdgeKind.STREAM) == [(7, True, 290)]
    assert dag.residual_ns[side] == 0


def test_gaps_inside_a_launched_graph_are_its_own_without_numbers_of_nodes() -> None:
    made = [note("step", 0, 2000), call("hipGraphLaunch", 0, 10, correlation=1)]
    made += [kernel("k", at, at + 10, 1) for at in (20, 33, 50, 61)]
    dag = build_dag(trace(made))
    assert_sound(dag)
    heads = [point(dag, event, end=False) for event in (3, 4, 5)]
    took = [into(dag, head, EdgeKind.STREAM) for head in heads]
    assert took == [[(2, True, 3)], [(3, True, 7)], [(4, True, 1)]]
    gaps = np.isin(dag.head, heads) & (dag.kind == EdgeKind.STREAM)
    assert set(dag.label[gaps]) == {CLASSES.index(Class.GRAPH_GAP)}


def test_every_kernel_of_a_launched_graph_comes_after_its_launch() -> None:
    events = [note("step", 0, 2000)]
    for at in (0, 1000):
        events += [
            call("cudaGraphLaunch", at, at + 9, correlation=at + 1),
            kernel("a", at + 20, at + 100, at + 1, graph_node=1),
            kernel("b", at + 101, at + 300, at + 1, graph_node=2),
            kernel("side", at + 101, at + 150, at + 1, graph_node=3, stream=20),
        ]
    dag = build_dag(trace(events))
    assert_sound(dag)
    for first in (1, 5):
        for kernel_ in (first + 1, first + 2, first + 3):
            assert len(into(dag, point(dag, kernel_, end=False), EdgeKind.LAUNCH)) == 1
        side = into(dag, point(dag, first + 3, end=False), EdgeKind.SYNC)
        assert (first + 1, True) in [(event, is_end) for event, is_end, _ in side]


def test_a_slow_device_clock_is_put_forward() -> None:
    calls = [launch(at, at) for at in range(100, 1100, 100)]
    kernels = [kernel("k", at + 7 - 50, at + 20 - 50, at) for at in range(100, 1100, 100)]
    dag = build_dag(trace(op("outer", 0, 1200), calls, kernels))
    assert_sound(dag)
    assert dag.facts["clock_skew_ns"] == 43
    assert "backward_edges" not in dag.repairs


def test_one_kernel_before_its_launch_loses_its_edge_and_is_counted() -> None:
    calls = [launch(at, at) for at in range(1000, 3_000_000, 1000)]
    kernels = [
        kernel("k", at + (-9 if at == 5000 else 7), at + 20, at)
        for at in range(1000, 3_000_000, 1000)
    ]
    dag = build_dag(trace(op("outer", 0, 3_000_100), calls, kernels))
    assert_sound(dag)
    assert dag.facts["clock_skew_ns"] == 0
    assert dag.repairs["backward_edges"] == 1


def test_work_from_before_the_window_is_carried_in() -> None:
    events = trace(
        note("ProfilerStep#1", 100, 200),
        launch(10, 1),
        launch(20, 2),
        launch(110, 3),
        kernel("running", 50, 130, 1),
        kernel("queued", 131, 150, 2),
        kernel("own", 151, 260, 3),
        kernel("next", 261, 300, 9),
        launch(210, 9),
    )
    window = Window(start_ns=100, end_ns=260, host_end_ns=200)
    dag = build_dag(events, window)
    assert_sound(dag)
    assert sorted(set(dag.event.tolist())) == [NOBODY, 0, 3, 4, 5, 6]
    start = point(dag, 4, end=False)
    assert into(dag, start, EdgeKind.CARRY_IN) == [(NOBODY, False, 0)]
    work = (dag.tail == start) & (dag.kind == EdgeKind.WORK)
    assert [CLASSES[label] for label in dag.label[work]] == [Class.CARRY_IN]
    assert dag.makespan_ns == 160


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_f32",
        "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
        "ncclBroadcastRingLLKernel_copy_i8(ncclColl)",
        "xccl::broadcast",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void deep_ep::internode_ll::combine<false, 7168>()",
        "void deep_ep::intranode::dispatch<8, 768>()",
        "void userbuffers_fp16_sum_inplace_gpu_rw<8>(int)",
        "mscclKernel_Sum_half_Simple",
    ],
)
def test_collectives_and_copies_have_classes_of_their_own(name: str) -> None:
    dag = build_dag(
        trace(
            launch(0, 1),
            launch(10, 2),
            kernel(name, 20, 30, 1),
            kernel("Memcpy HtoD", 40, 50, 2, category=Category.COPY),
        )
    )
    work = dag.kind == EdgeKind.WORK
    assert {CLASSES[label] for label in dag.label[work]} == {Class.GPU_COMM, Class.GPU_COPY}


@pytest.mark.parametrize("name", ["triton_poi_fused_all_reduce_0", "deep_ep::layout::get()"])
def test_what_a_collective_is_fed_by_is_no_collective(name: str) -> None:
    dag = build_dag(trace(launch(0, 1), kernel(name, 20, 30, 1)))
    assert {CLASSES[label] for label in dag.label[dag.kind == EdgeKind.WORK]} == {Class.GPU_COMPUTE}

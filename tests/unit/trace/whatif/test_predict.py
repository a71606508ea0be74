from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.whatif.basis import Basis, prepare
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse
from support.trace_files import event, write
from support.trace_lab.program import GraphKernel, GraphLaunch, Launch, Program, Sync, Work
from support.trace_lab.simulator import simulate
from support.whatif_programs import US, asked, basis_of, called, layer, mm, module, part, relu


@pytest.fixture
def basis(tmp_path: Path) -> Basis:
    return basis_of(layer(mm(), relu()), tmp_path)


def test_without_changes_the_observed_run_comes_out(basis: Basis) -> None:
    said = predict(basis, ())
    assert said.predicted_ns == said.makespan_ns
    assert said.low_ns <= said.predicted_ns <= said.high_ns
    assert said.causes == pytest.approx(said.predicted_causes)
    assert sum(said.causes.values()) == pytest.approx(1)
    assert said.moved == ()
    assert (said.change_ratio, said.speedup) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"kernel": "gemm", "speedup": 2}, layer(mm(kernel_us=50), relu())),
        ({"kernel": "gemm", "speedup": 0.5}, layer(mm(kernel_us=200), relu())),
        ({"kernel": "gemm", "set_ns": 30 * US}, layer(mm(kernel_us=30), relu())),
        ({"kernel": "gemm", "add_ns": 40 * US}, layer(mm(kernel_us=140), relu())),
        ({"kernel": "gemm", "add_ns": -40 * US}, layer(mm(kernel_us=60), relu())),
        ({"op": "aten::mm", "speedup": 2}, layer(mm(10, 50, 2), relu())),
        ({"module": "layer.mm", "speedup": 2}, layer(mm(10, 50, 2), relu())),
        ({"module": "layer", "speedup": 2}, layer(mm(10, 50, 2), relu(10, 30, 2))),
        ({"op": "/mm|relu/", "speedup": 2}, layer(mm(10, 50, 2), relu(10, 30, 2))),
        ({"op": "aten::*", "class": "gpu_compute", "speedup": 2}, layer(mm(20, 50), relu(20, 30))),
        ({"op": "aten::mm", "self": True, "speedup": 2}, layer(mm(10, 100), relu())),
        ({"op": "aten::mm", "set_ns": 62 * US}, layer(mm(10, 50, 2), relu())),
        ({"host": 2}, layer(mm(10, 100, 2), relu(10, 60, 2))),
        ({"launch_latency_ns": 3 * US}, layer(mm(latency_ns=3 * US), relu())),
        ({"kernel": "elementwise", "remove": True}, layer(mm())),
        ({"op": "aten::relu", "remove": True}, layer(mm())),
        ({"kernel": "elementwise", "overlap": True}, layer(mm(), relu(stream=8))),
        (
            {"kernel": "*", "fuse": True},
            layer(part("mm", Work(ns=20 * US), Launch(name="both", ns=160 * US))),
        ),
    ],
)
def test_a_change_on_paper_is_what_the_changed_program_does(
    change: dict[str, object], changed: Program, basis: Basis
) -> None:
    truth_ns = simulate(changed).makespan_ns
    assert asked(basis, change).predicted_ns == pytest.approx(truth_ns, rel=0.01)


def test_a_launched_graph_is_as_fast_as_one_launch(tmp_path: Path) -> None:
    short = [mm(host_us=30, kernel_us=5), relu(host_us=30, kernel_us=5)] * 4
    basis = basis_of(layer(*short), tmp_path)
    nodes = tuple(
        GraphKernel(name=f"node{place}", ns=5 * US, after=tuple(range(place))[-1:])
        for place in range(8)
    )
    # No stream ever has a backlog here, so no gap between kernels is known.
    graph = GraphLaunch(graph=1, nodes=nodes, call_ns=4 * US, latency_ns=7 * US, gap_ns=0)
    truth_ns = simulate(called(module("layer", graph), Sync())).makespan_ns
    said = asked(basis, {"module": "layer", "cuda_graph": True})
    assert said.predicted_ns == pytest.approx(truth_ns, rel=0.05)
    assert said.notes == ("cuda_graph: 7 launches of 8 are spared.",)


def test_a_fused_kernel_is_at_best_as_long_as_its_longest_part(basis: Basis) -> None:
    said = asked(basis, {"kernel": "*", "fuse": True})
    assert said.notes == ("fuse: 2 pieces of device work become 1.",)
    assert said.reasons["at best"] == 60 * US
    assert said.low_ns <= said.predicted_ns - 60 * US


def test_what_moves_on_and_off_the_path_is_named(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(kernel_us=500), relu(host_us=300, kernel_us=5)), tmp_path)
    said = asked(basis, {"kernel": "gemm", "speedup": 50})
    before = {one.name: one.after_ns - one.before_ns for one in said.moved}
    assert before["gemm"] < 0 < before["aten::relu"]
    assert said.causes["device compute"] > said.predicted_causes["device compute"]


def test_scalings_come_to_the_same_in_any_order(basis: Basis) -> None:
    one, two = {"op": "aten::mm", "speedup": 3}, {"kernel": "gemm", "speedup": 0.7}
    assert asked(basis, one, two).predicted_ns == asked(basis, two, one).predicted_ns


def test_later_changes_see_what_earlier_ones_left(basis: Basis) -> None:
    both = asked(basis, {"kernel": "gemm", "set_ns": 10 * US}, {"kernel": "gemm", "speedup": 2})
    assert both.predicted_ns == asked(basis, {"kernel": "gemm", "set_ns": 5 * US}).predicted_ns


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"op": "aten::mn", "speedup": 2}, "Did you mean 'aten::mm'?"),
        ({"kernel": "gem", "speedup": 2}, "Did you mean 'gemm'?"),
        ({"module": "layers.mm", "speedup": 2}, "Did you mean 'layer.mm'?"),
        ({"op": "aten::mm", "class": "data_loading", "speedup": 2}, "leave out a condition"),
        ({"op": "aten::mm", "self": True, "overlap": True}, "no device work"),
    ],
)
def test_what_cannot_be_asked_of_the_trace_says_so(
    change: dict[str, object], problem: str, basis: Basis
) -> None:
    with pytest.raises(TraceError, match="change 1") as caught:
        asked(basis, change)
    assert problem in str(caught.value)


def test_all_problems_are_told_at_once(basis: Basis) -> None:
    with pytest.raises(TraceError) as caught:
        asked(basis, {"op": "aten::mn", "speedup": 2}, {"kernel": "gem", "speedup": 2})
    first, second = str(caught.value).splitlines()
    assert first.startswith("what-if, change 1: ")
    assert second.startswith("what-if, change 2: ")


def test_a_pattern_that_selects_almost_nothing_is_named(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(kernel_us=100_000), relu(kernel_us=1)), tmp_path)
    assert asked(basis, {"kernel": "gemm", "speedup": 2}).notes == ()
    (note,) = asked(basis, {"kernel": "*element*", "speedup": 2}).notes
    assert note == "change 1 selects 0.00% of all work: elementwise"


@pytest.mark.parametrize(
    ("change", "expected_us"),
    [
        ({"speedup": 1}, 980),
        ({"speedup": 2}, 490),
        ({"set_ns": 25 * US}, 490),
        ({"add_ns": 50 * US}, 1980),
        ({"fuse": True}, 980),
    ],
)
def test_kernels_that_begin_before_the_last_one_ends_take_their_time(
    change: dict[str, object], expected_us: float, tmp_path: Path
) -> None:
    """Twenty kernels of 50 us a step, each launched early and begun 1 us before the last ends."""
    rows, device_us = [], 10.0
    for step in range(8):
        for number in range(20 * step, 20 * step + 20):
            host_us, joins = 9.0 * number, {"correlation": number + 1}
            rows.append(event("cuda_runtime", "cudaLaunchKernel", host_us, 4, args=joins))
            on = {"pid": 0, "tid": 7, "args": {**joins, "device": 0, "stream": 7}}
            rows.append(event("kernel", "gemm", device_us, 50, **on))
            device_us += 49
        rows.append(event("user_annotation", f"ProfilerStep#{step}", 180 * step, 179))
    analysis = analyze(write(tmp_path / "trace.json", rows))
    assert analysis.verdict.shares["device compute"] == pytest.approx(1, abs=0.01)
    (row,) = analysis.tables["kernels"][:1]
    assert row.total_ns == pytest.approx(1000 * US, rel=0.01)
    said = predict(analysis, parse({"changes": [{"kernel": "gemm", **change}]}).changes)
    assert said.predicted_ns == pytest.approx(expected_us * US, rel=0.01)


@pytest.mark.parametrize("pause_us", [5.0, 80.0])
def test_a_removed_operator_is_not_called(pause_us: float, tmp_path: Path) -> None:
    """Python needs 5 us to call one; what passes beyond that before the removed one stays."""
    rows, at = [], 1_000.0
    for step in range(6):
        begin = at
        for op, before in (("aten::add", 5.0), ("aten::mm", 5.0), ("aten::mul", pause_us)) * 20:
            rows.append(event("cpu_op", op, at + before, 10.0))
            at += before + 10.0
        rows.append(event("user_annotation", f"ProfilerStep#{step}", begin, at + 5.0 - begin))
        at += 5.0
    basis = prepare(analyze(write(tmp_path / "trace.json", rows)))
    said = asked(basis, {"op": "aten::mul", "remove": True})
    assert said.makespan_ns - said.predicted_ns == pytest.approx(20 * (10 + 5) * US, rel=0.02)


def test_a_faster_host_loads_and_calls_libraries_faster_but_reads_no_faster(tmp_path: Path) -> None:
    """A step of 5 ms: 2 of operators and 1 of reading in a loader, 1 of a library, 1 of a sum."""
    rows = []
    parts = (
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 3),
        ("cpu_op", "aten::stack", 0, 2),
        ("python_function", "<built-in method read of _io.FileIO object at 0x7f>", 2, 1),
        ("python_function", "<built-in function compress>", 3, 1),
        ("cpu_op", "aten::sum", 4, 1),
    )
    for step in range(6):
        rows.append(event("user_annotation", f"ProfilerStep#{step}", 5000 * step, 5000))
        rows += [
            event(cat, name, 5000 * step + 1000 * at, 1000 * took) for cat, name, at, took in parts
        ]
    analysis = analyze(write(tmp_path / "trace.json", rows))
    said = predict(analysis, parse({"changes": [{"host": 2}]}).changes)
    assert said.predicted_ns / 1_000 == pytest.approx(3000, rel=0.01)
    same = predict(analysis, parse({"changes": [{"host": 1}]}).changes)
    assert same.predicted_ns == same.makespan_ns


def before_a_product(place: Path, name: str, took_us: Sequence[int], product: int) -> Path:
    """A trace of six steps, each of operators that took so long and a product that took so long."""
    rows: list[dict[str, object]] = []
    at = 0.0
    for step in range(6):
        begin = at
        for each, took in (*((name, one) for one in took_us), ("aten::mm", product)):
            rows.append(event("cpu_op", each, at, took))
            at += took
        rows.append(event("user_annotation", f"ProfilerStep#{step}", begin, at - begin))
    return write(place / "trace.json", rows)


@pytest.mark.parametrize(
    ("slowest", "expected"), [(2.0, 10 * 50.0), (4.0, 10 * 125.0)], ids=["caches", "operands"]
)
def test_what_is_left_finds_the_caches_warm(
    tmp_path: Path, slowest: float, expected: float
) -> None:
    """Ten sums after a product, the first the slowest: cold caches, or other operands."""
    took = [round(50 * (slowest - (slowest - 1) * number / 9)) for number in range(10)]
    analysis = analyze(before_a_product(tmp_path, "aten::sum", took, product=20_000))
    said = predict(analysis, parse({"changes": [{"op": "aten::mm", "remove": True}]}).changes)
    assert said.predicted_ns / 1_000 == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize(
    ("left", "speedup", "fastest_us"),
    [
        ("aten::sum", 2.0, 500 + 1_000),
        ("aten::sum", 1.05, None),  # too little is spared
        ("aten::bmm", 2.0, None),  # a product works from caches in any case
        ("aten::sum", 0.5, None),
    ],
)
def test_an_interval_holds_that_what_is_left_fits_a_cache(
    tmp_path: Path, left: str, speedup: float, fastest_us: float | None
) -> None:
    """Operators of 50 or 100 us, which take turns, after one of 2 ms that takes less or more."""
    analysis = analyze(before_a_product(tmp_path, left, [50, 100] * 5, product=2_000))
    said = predict(analysis, parse({"changes": [{"op": "aten::mm", "speedup": speedup}]}).changes)
    assert said.predicted_ns / 1_000 == pytest.approx(750 + 2_000 / speedup, rel=0.01)
    above_ns, below_ns = said.high_ns - said.predicted_ns, said.predicted_ns - said.low_ns
    if fastest_us is None:
        assert "caches" not in said.reasons
        assert below_ns == pytest.approx(above_ns, abs=2)
    else:
        assert said.low_ns <= fastest_us * 1_000
        assert said.reasons["caches"] == pytest.approx(250_000, rel=0.05)

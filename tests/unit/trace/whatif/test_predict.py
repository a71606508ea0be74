from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.prediction import from_json, to_json
from benchorch.trace.whatif.reading import parse
from support.trace_lab.program import GraphKernel, GraphLaunch, Launch, Program, Sync, Work
from support.trace_lab.simulator import simulate
from support.whatif_programs import US, asked, basis_of, called, layer, mm, module, part, relu


@pytest.fixture
def basis(tmp_path: Path) -> Basis:
    return basis_of(layer(mm(), relu()), tmp_path)


def test_without_changes_the_observed_run_comes_out(basis: Basis) -> None:
    said = predict(basis, ())
    assert said.predicted_ns == said.makespan_ns == said.low_ns == said.high_ns
    assert said.classes == said.predicted_classes
    assert sum(said.classes.values()) == said.makespan_ns
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
    assert said.high_ns == said.predicted_ns
    assert said.low_ns == said.predicted_ns - 60 * US


def test_what_moves_on_and_off_the_path_is_named(tmp_path: Path) -> None:
    basis = basis_of(layer(mm(kernel_us=500), relu(host_us=300, kernel_us=5)), tmp_path)
    said = asked(basis, {"kernel": "gemm", "speedup": 50})
    assert "gemm" in {one.name for one in said.moved_off}
    assert "aten::relu" in {one.name for one in said.moved_onto}
    assert said.classes["gpu_compute"] > said.predicted_classes["gpu_compute"]


def test_a_prediction_never_beats_the_bounds(basis: Basis) -> None:
    for speedup in (1.5, 2, 10, "inf"):
        said = asked(basis, {"op": "aten::mm", "speedup": speedup})
        assert said.bound_path is not None
        assert said.speedup <= said.bound_path * (1 + 1e-6)
        assert said.bound_work is None or said.bound_path <= said.bound_work * (1 + 1e-6)


def test_i13_on_a_single_chain_the_bound_is_reached(tmp_path: Path) -> None:
    basis = basis_of(called(part("a", Work(ns=80 * US)), part("b", Work(ns=20 * US))), tmp_path)
    said = asked(basis, {"op": "aten::a", "speedup": 4})
    assert said.bound_path == pytest.approx(said.speedup)
    assert said.predicted_ns == said.makespan_ns - 60 * US


def test_scalings_come_to_the_same_in_any_order(basis: Basis) -> None:
    one, two = {"op": "aten::mm", "speedup": 3}, {"kernel": "gemm", "speedup": 0.7}
    assert asked(basis, one, two).predicted_ns == asked(basis, two, one).predicted_ns


def test_later_changes_see_what_earlier_ones_left(basis: Basis) -> None:
    both = asked(basis, {"kernel": "gemm", "set_ns": 10 * US}, {"kernel": "gemm", "speedup": 2})
    assert both.predicted_ns == asked(basis, {"kernel": "gemm", "set_ns": 5 * US}).predicted_ns


def test_a_prediction_survives_its_file(basis: Basis) -> None:
    said = asked(basis, {"op": "aten::mm", "speedup": "inf"})
    assert from_json(to_json(said)) == said
    assert json.loads(to_json(said))["speedup"] == pytest.approx(said.speedup)


def test_one_speedup_can_say_what_others_would_bring(basis: Basis) -> None:
    faster, removed = parse(
        {"changes": [{"kernel": "gemm", "speedup": 2}, {"kernel": "gemm", "remove": True}]}
    ).changes
    said = predict(basis, [faster], swept=True)
    assert said.sweep is not None
    assert said.predicted_ns == said.sweep.makespans_ns[said.sweep.speedups.index(2.0)]
    assert from_json(to_json(said)) == said
    assert predict(basis, [removed], swept=True).sweep is None
    assert predict(basis, [faster]).sweep is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"op": "aten::mn", "speedup": 2}, "Did you mean 'aten::mm'?"),
        ({"kernel": "gem", "speedup": 2}, "Did you mean 'gemm'?"),
        ({"module": "layers.mm", "speedup": 2}, "Did you mean 'layer.mm'?"),
        ({"op": "aten::mm", "class": "data_loading", "speedup": 2}, "leave out a condition"),
        ({"op": "aten::mm", "self": True, "overlap": True}, "no device work"),
        ({"op": "aten::mm", "roofline": 0.8}, "measure its peaks first"),
        ({"op": "aten::mm", "swap": "other"}, "no trial 'other' was given"),
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

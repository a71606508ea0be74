from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import pytest

from benchorch.errors import TraceError
from benchorch.trace.events import Events
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.operators.roofline import Peaks
from benchorch.trace.whatif.basis import Basis
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse
from support.trace_lab.simulator import simulate
from support.whatif_programs import US, asked, basis_of, layer, mm, relu

# A product of 1000 x 1000 matrices is 2e9 operations on 12e6 bytes.
COMPUTE_BOUND = Peaks(flops_per_s={"float32": 4e13}, bytes_per_s=1e12)
MEMORY_BOUND = Peaks(flops_per_s={"float32": 1e15}, bytes_per_s=2.4e11)


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """Every ``aten::mm`` multiplies large square matrices; nothing is said of the others."""

    events: Events

    def read(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        said = {"Input Dims": [[1000, 1000]] * 2, "Input type": ["float"] * 2}
        names = self.events.names
        return {i: said if names[self.events.name[i]] == "aten::mm" else {} for i in indices}


def shaped(basis: Basis, peaks: Peaks | None = None) -> Basis:
    events = dataclasses.replace(basis.events, details=Matrices(events=basis.events))
    return dataclasses.replace(basis, events=events, peaks=peaks)


@pytest.fixture
def basis(tmp_path: Path) -> Basis:
    return basis_of(layer(mm(kernel_us=100), relu()), tmp_path)


@pytest.mark.parametrize(
    ("peaks", "change", "kernel_us"),
    [
        (COMPUTE_BOUND, {"kernel": "gemm", "roofline": 1.0}, 50),
        (COMPUTE_BOUND, {"op": "aten::mm", "roofline": 0.8}, 62.5),
        (COMPUTE_BOUND, {"kernel": "gemm", "roofline": 0.1}, 100),
        (COMPUTE_BOUND, {"clock": 2}, 50),
        (COMPUTE_BOUND, {"bandwidth": 2}, 100),
        (MEMORY_BOUND, {"kernel": "gemm", "roofline": 1.0}, 50),
        (MEMORY_BOUND, {"bandwidth": 2}, 50),
        (MEMORY_BOUND, {"clock": 2}, 100),
    ],
)
def test_a_kernel_is_as_fast_as_the_side_that_limits_it(
    peaks: Peaks, change: Mapping[str, object], kernel_us: float, basis: Basis
) -> None:
    truth_ns = simulate(layer(mm(kernel_us=kernel_us), relu())).makespan_ns
    said = asked(shaped(basis, peaks), change)
    assert said.predicted_ns == pytest.approx(truth_ns, rel=0.01)


def test_how_much_of_the_work_has_a_known_limit_is_said(basis: Basis) -> None:
    said = asked(shaped(basis, COMPUTE_BOUND), {"kernel": "*", "roofline": 1.0})
    assert said.notes == (
        "roofline: applies to 62% of the work; for the rest the limits are not known.",
    )


def test_times_of_another_trial_are_swapped_in(basis: Basis, tmp_path: Path) -> None:
    faster = layer(mm(host_us=5, kernel_us=30), mm(host_us=5, kernel_us=30))
    other = shaped(basis_of(faster, tmp_path))
    changes = parse({"changes": [{"swap": "compiled"}]}).changes
    said = predict(dataclasses.replace(shaped(basis), others={"compiled": other}), changes)
    truth_ns = simulate(layer(mm(host_us=5, kernel_us=30), relu())).makespan_ns
    assert said.predicted_ns == pytest.approx(truth_ns, rel=0.01)
    (note,) = said.notes
    assert "of the chosen work was found in compiled" in note


def test_other_shapes_are_not_the_same_operator(basis: Basis, tmp_path: Path) -> None:
    other = basis_of(layer(mm(kernel_us=30)), tmp_path)  # whose shapes nobody recorded
    changes = parse({"changes": [{"op": "aten::mm", "swap": "other"}]}).changes
    said = predict(dataclasses.replace(shaped(basis), others={"other": other}), changes)
    assert said.predicted_ns == said.makespan_ns
    assert said.notes[0].startswith("swap: 0% of the chosen work")


GRAPH = OperatorGraph(
    name="g",
    nodes=(
        OperatorNode(name="mm_1", op="aten.mm.default", module="layer.mm"),
        OperatorNode(name="relu_1", op="aten.relu.default", inputs=("mm_1",), module="layer.relu"),
    ),
    source="export",
)


@pytest.mark.parametrize(
    ("entries", "changed"),
    [
        ([{"op_id": "0", "speedup": 2}], layer(mm(10, 50, 2), relu())),
        ([{"op_type": "mm", "speedup": 2}], layer(mm(10, 50, 2), relu())),
        (
            [{"op_type": "mm", "speedup": 4}, {"op_id": "0", "speedup": 2}],
            layer(mm(10, 50, 2), relu()),
        ),
        (
            [{"op_id": "1", "speedup": 2}, {"op_type": "mm", "speedup": 2}],
            layer(mm(10, 50, 2), relu(10, 30, 2)),
        ),
    ],
)
def test_amdahl4mls_speedups_are_predicted(
    entries: list[Mapping[str, object]], changed: object, basis: Basis
) -> None:
    changes = parse({"speedups": entries}).changes
    said = predict(dataclasses.replace(basis, graph=GRAPH), changes)
    assert all(str(value) in said.changes[0] for value in entries[0].values())
    assert said.predicted_ns == pytest.approx(simulate(changed).makespan_ns, rel=0.01)


def test_amdahl4mls_types_need_no_graph(basis: Basis) -> None:
    changes = parse({"speedups": [{"op_type": "mm", "speedup": 2}]}).changes
    truth_ns = simulate(layer(mm(10, 50, 2), relu())).makespan_ns
    assert predict(basis, changes).predicted_ns == pytest.approx(truth_ns, rel=0.01)


def test_a_node_that_there_is_not_is_named(basis: Basis) -> None:
    changes = parse({"speedups": [{"op_id": "7", "speedup": 2}, {"op_type": "nm", "speedup": 2}]})
    with pytest.raises(TraceError, match="op_id: the graph") as caught:
        predict(basis, changes.changes)
    assert "Did you mean 'mm'?" in str(caught.value)
    with pytest.raises(TraceError, match="none of the 2 nodes"):
        predict(dataclasses.replace(basis, graph=GRAPH), changes.changes)


def test_a_node_of_the_graph_can_be_selected(basis: Basis) -> None:
    said = asked(dataclasses.replace(basis, graph=GRAPH), {"graph_node": "mm_*", "speedup": 2})
    truth_ns = simulate(layer(mm(10, 50, 2), relu())).makespan_ns
    assert said.predicted_ns == pytest.approx(truth_ns, rel=0.01)
    assert said.predicted_ns < said.makespan_ns - 40 * US

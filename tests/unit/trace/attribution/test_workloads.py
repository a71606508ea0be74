from __future__ import annotations

import numpy as np
import pytest

from benchorch.trace.attribution.owners import owners
from benchorch.trace.attribution.workloads import OperatorWork, events_with_rules, summed, workloads
from benchorch.trace.events import Category, Events
from benchorch.trace.operators.roofline import Peaks
from support.handmade_traces import call, kernel, op, trace
from support.traces_with_arguments import operands, told

PEAKS = Peaks(flops_per_s={"float32": 1e12}, bytes_per_s=1e11)


def known(events: Events, peaks: Peaks | None = None) -> dict[int, OperatorWork]:
    owned = owners(events)
    wanted = events_with_rules(events, owned, np.ones(len(events) + 1, dtype=np.bool_))
    return dict(workloads(events, owned, events.details.read(wanted.tolist()), peaks))


def test_a_call_takes_as_long_as_the_device_work_that_it_launched() -> None:
    events = trace(
        op("aten::addmm", 0, 30),
        call("cudaLaunchKernel", 5, 10, correlation=1),
        call("cudaLaunchKernel", 12, 18, correlation=2),
        kernel("gemm", 20, 120, 1),
        kernel("epilogue", 120, 150, 2),
    )
    found = known(told(events, {0: operands((4,), (8, 2), (2, 4))}), PEAKS)
    assert found[0].duration_ns == 130
    assert found[0].shapes == "4, 8x2, 2x4"
    assert found[0].work is not None
    assert found[0].work.flops == 128


def test_what_an_operator_calls_on_its_way_is_its_own_work() -> None:
    events = trace(op("aten::addmm", 0, 100), op("aten::copy_", 5, 20), op("aten::add", 110, 130))
    found = known(
        told(
            events,
            {0: operands((4,), (8, 2), (2, 4)), 1: operands((4,)), 2: operands((4,), (4,))},
        )
    )
    assert set(found) == {0, 2}
    assert found[0].duration_ns == 100


def test_a_session_says_the_operator_of_each_node() -> None:
    events = trace(op("mm_kernel_time", 0, 1_000, category=Category.NODE))
    said = {
        "op_name": "MatMul",
        "input_type_shape": [{"float": [2, 3]}, {"float": [3, 5]}],
        "output_type_shape": [{"float": [2, 5]}],
    }
    (found,) = known(told(events, {0: said}), PEAKS).values()
    assert (found.op, found.dtype) == ("MatMul", "float32")
    assert found.roofline_position is not None
    assert found.position.bound == "memory"


def test_events_that_say_nothing_have_no_workload() -> None:
    assert known(trace(op("aten::addmm", 0, 10))) == {}


def test_several_calls_are_weighed_by_their_time() -> None:
    events = trace(
        op("aten::mm", 0, 4_000), op("aten::mm", 4_000, 12_000), op("aten::mm", 12_000, 12_010)
    )
    shapes = operands((100, 100), (100, 100))
    calls = known(told(events, {0: shapes, 1: shapes, 2: operands((2, 2), (2, 2))}), PEAKS)
    found = summed(calls.values())
    assert found.shapes == "100x100, 100x100 (and 1 more)"
    assert found.flops == 2 * 2e6 + 16
    assert found.bound == "compute"
    assert found.efficiency_ratio == pytest.approx(2 * 2_000 / 12_010, rel=0.01)


def test_of_a_large_window_the_costliest_operators_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchorch.trace.attribution.workloads.MOST_READ", 5)
    made = [op("aten::mm", 100 * n, 100 * n + 90) for n in range(4)]
    made += [op("aten::add", 1_000 + 10 * n, 1_005 + 10 * n) for n in range(3)]
    events = trace(made)
    chosen = events_with_rules(events, owners(events), np.ones(len(events) + 1, dtype=np.bool_))
    assert chosen.tolist() == [0, 1, 2, 3]


def test_nothing_sums_to_nothing() -> None:
    found = summed([])
    assert found.flops is None
    assert found.efficiency_ratio is None
    assert found.bound == ""

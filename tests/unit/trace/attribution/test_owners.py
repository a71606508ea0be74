from __future__ import annotations

from benchorch.trace.attribution.owners import inherited, module_name, owners
from benchorch.trace.events import NOTHING
from support.handmade_traces import call, kernel, note, op, trace


def test_a_kernel_belongs_to_its_launch_its_operator_and_its_module() -> None:
    events = trace(
        note("mod:", 0, 100),
        note("mod:layers.0", 5, 90),
        op("aten::linear", 10, 50),
        op("aten::addmm", 15, 45),
        call("cudaLaunchKernel", 20, 25, correlation=7),
        kernel("gemm", 60, 80, 7),
        op("aten::add", 92, 98),
    )
    owned = owners(events)
    assert owned.parent.tolist() == [NOTHING, 0, 1, 2, 3, 4, 0]
    assert owned.operator.tolist() == [NOTHING, NOTHING, 2, 3, 3, 3, 6]
    assert owned.module.tolist() == [0, 1, 1, 1, 1, 1, 0]
    names = [module_name(events.names[events.name[one]]) for one in owned.module]
    assert names == ["(model)", *["layers.0"] * 5, "(model)"]


def test_device_work_without_a_known_call_belongs_to_nothing() -> None:
    owned = owners(trace(op("a", 0, 10), kernel("k", 2, 9, 3)))
    assert owned.parent.tolist() == [NOTHING, NOTHING]
    assert owned.operator.tolist() == [0, NOTHING]


def test_a_backward_operator_belongs_to_the_module_of_its_forward_operator() -> None:
    events = trace(
        note("mod:fc", 0, 20),
        op("aten::linear", 1, 19, sequence=4),
        op("aten::addmm", 2, 18, sequence=4),
        op(
            "autograd::engine::evaluate_function: AddmmBackward0",
            30,
            60,
            lane="autograd",
            sequence=4,
            forward_lane="main",
        ),
        op("aten::mm", 35, 55, lane="autograd"),
        op("aten::add", 70, 80),
    )
    owned = owners(events)
    assert owned.module.tolist() == [0, 0, 0, 0, 0, NOTHING]
    assert owned.backward.tolist() == [False, False, False, True, True, False]


def test_an_event_that_seems_to_contain_itself_ends_the_search() -> None:
    import numpy as np

    nothing = np.full(2, NOTHING)
    assert inherited(np.array([1, 0]), nothing).tolist() == [NOTHING, NOTHING]


def test_deep_nesting_is_followed_to_its_end() -> None:
    depth = 300
    ranges = [note("mod:deep", 0, 2 * depth)]
    ranges += [op(f"op{level}", level, 2 * depth - level) for level in range(1, depth)]
    assert set(owners(trace(ranges)).module.tolist()) == {0}

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchorch.trace.comparison.diff import CAUSES, MakespanDifference, difference
from benchorch.trace.events import Events
from support.handmade_traces import Made, call, kernel, note, op, trace
from support.trace_lab import generator
from support.trace_lab.kineto import write
from support.trace_lab.simulator import simulate
from support.traces_with_arguments import analysed, analysed_file, operands, told


def between(first: Events, second: Events) -> MakespanDifference:
    found = difference(analysed(first), analysed(second))
    assert_sums(found)
    return found


def assert_sums(found: MakespanDifference) -> None:
    gap = found.second_ns - found.first_ns
    assert sum(found.causes.values()) == gap
    assert sum(change.difference_ns for change in found.changes) == gap
    assert set(found.causes) <= set(CAUSES)


def product(end: int, dtype: str = "float") -> Events:
    return told(trace(op("aten::mm", 0, end)), {0: operands((8, 8), (8, 8), dtype=dtype)})


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seeds=st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_causes_sum_to_the_difference_whatever_the_programs(
    seeds: tuple[int, int], tmp_path: Path
) -> None:
    small = generator.Style(blocks=10)
    runs = [
        analysed_file(write(simulate(generator.draw(seed, small)), tmp_path / f"{place}.json"))
        for place, seed in enumerate(seeds)
    ]
    found = difference(*runs)
    assert_sums(found)
    back = difference(*reversed(runs))
    assert back.causes == {cause: -time_ns for cause, time_ns in found.causes.items()}


def test_the_same_operator_on_narrower_operands_is_precision() -> None:
    found = between(product(1_000), product(400, "c10::BFloat16"))
    assert found.causes == {"precision": -600}
    assert (found.changes[0].first_dtype, found.changes[0].second_dtype) == ("float32", "bfloat16")


def test_casts_between_dtypes_are_precision_too() -> None:
    narrow = told(
        trace(op("aten::_to_copy", 0, 100), op("aten::mm", 100, 500)),
        {1: operands((8, 8), (8, 8), dtype="c10::BFloat16")},
    )
    assert between(product(1_000), narrow).causes == {"precision": -500}


def test_operators_that_vanish_into_a_fused_kernel_are_fusion() -> None:
    eager = trace(op("aten::add", 0, 300), op("aten::gelu", 300, 800), op("aten::mm", 800, 900))
    fused = trace(op("graph_0_cpp_fused_add_gelu_0", 0, 350), op("aten::mm", 350, 450))
    assert between(eager, fused).causes == {"fusion": -450}


def test_operators_that_only_one_has_need_not_be_fusion() -> None:
    assert between(trace(op("aten::add", 0, 300)), trace(op("aten::mul", 0, 500))).causes == {
        "other operators": 200
    }


def test_the_same_kernel_at_another_speed_is_no_other_kernel() -> None:
    assert between(trace(op("aten::mm", 0, 300)), trace(op("aten::mm", 0, 500))).causes == {
        "same kernels": 200
    }
    assert between(trace(op("aten::mm", 0, 300)), trace(op("aten::addmm", 0, 200))).causes == {
        "other kernels": -100
    }


def on_device(name: str, took: int) -> list[Made]:
    return [
        op("aten::mm", 0, 10_000),
        call("cudaLaunchKernel", 2_000, 6_000, correlation=1),
        kernel(name, 12_000, 12_000 + took, 1),
    ]


def test_another_kernel_for_the_same_operator_is_named() -> None:
    found = between(trace(on_device("gemm_a", 50_000)), trace(on_device("gemm_b", 30_000)))
    assert found.causes == {"other kernels": -20_000}
    assert found.next_first is not None
    assert found.next_first[0] == "aten::mm"


def test_python_between_compiled_regions_is_a_graph_break() -> None:
    whole = trace(op("Torch-Compiled Region: 0/0", 0, 1_000), op("aten::mm", 10, 990))
    broken = trace(
        note("step", 0, 1_700),
        op("Torch-Compiled Region: 0/0", 0, 500),
        op("aten::mm", 0, 490),
        op("Torch-Compiled Region: 1/0", 1_200, 1_700),
        op("aten::mm", 1_210, 1_700),
    )
    found = between(whole, broken)
    assert found.causes["graph breaks"] == 700


def test_the_difference_is_told_in_a_sentence() -> None:
    said = between(product(1_000_000), product(400_000, "c10::BFloat16")).sentence
    assert said.startswith("The first takes 1 ms, the second 0.4 ms.")
    assert "0.6 ms the same operators on operands of another dtype" in said
    assert between(product(500), product(500)).sentence == "Both take 0.0005 ms."

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnxruntime as ort
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchorch.trace.attribution.tables import UNATTRIBUTED
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.findings import EntityRow, WindowFindings
from benchorch.trace.operators.branches import dataflow_path
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.operators.roofline import Peaks
from support.handmade_traces import call, kernel, note, op, trace
from support.models import Mlp
from support.trace_lab import generator
from support.trace_lab.kineto import write
from support.trace_lab.simulator import simulate
from support.traces_with_arguments import Analysis, analysed, analysed_file, operands, told

PEAKS = Peaks(flops_per_s={"float32": 1e11}, bytes_per_s=1e10)


def tables(found: WindowFindings) -> dict[str, tuple[EntityRow, ...]]:
    listed = {
        "operators": found.operators,
        "modules": found.modules,
        "kernels": found.kernels,
        "graph nodes": found.graph_nodes,
        "folds": found.folds,
    }
    return {name: rows for name, rows in listed.items() if rows}


def assert_sums(found: WindowFindings) -> None:
    """I4, and that gains keep within their bounds."""
    assert all(found.invariants.values())
    assert found.path_ns == found.makespan_ns
    assert sum(found.classes.values()) == found.makespan_ns
    assert sum(found.tiers.values()) == found.makespan_ns
    for name, rows in tables(found).items():
        assert sum(row.on_path_ns for row in rows) == found.makespan_ns, name
        assert rows[-1].name == UNATTRIBUTED
        assert all(row.drag_ns <= row.on_path_ns for row in rows), name


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10_000), device=st.booleans())
def test_i4_every_attribution_of_a_drawn_program_sums_to_the_makespan(
    seed: int, device: bool, tmp_path: Path
) -> None:
    program = generator.draw(seed, generator.Style(device=device, workers=seed % 3, blocks=12))
    found = analysed_file(write(simulate(program), tmp_path / "trace.json")).findings
    assert_sums(found)
    assert tables(found)["operators"]
    assert bool(found.kernels) is device


def launch_bound() -> Analysis:
    """Three operators of 50 us that launch kernels of 2 us, then one wait for the device."""
    made = []
    for n in range(3):
        start = 50_000 * n
        made += [
            note(f"mod:layers.{n}", start, start + 49_000),
            op("aten::mm", start + 1_000, start + 48_000),
            call("cudaLaunchKernel", start + 40_000, start + 44_000, correlation=n + 1),
            kernel("gemm", start + 47_000, start + 49_000, n + 1),
        ]
    made.append(call("cudaDeviceSynchronize", 150_000, 152_000, correlation=9))
    return analysed(trace(made))


def test_kernels_that_are_shorter_than_their_launches_are_launch_bound() -> None:
    found = launch_bound().findings
    assert_sums(found)
    assert found.diagnosis.limit == "launch-bound"
    assert found.diagnosis.gains["host"] > 0.8
    assert found.diagnosis.largest == "aten::mm"
    assert found.launch["irreducible_ns"] + found.launch["queueing_ns"] == 3 * 7_000
    (gemm, _) = found.kernels
    assert (gemm.count, gemm.total_ns) == (3, 6_000)
    assert found.busy_ns == 6_000
    assert found.folds[0].name == "layers.*"
    assert found.folds[0].count == 3
    assert found.overlap_ratio is not None


def test_a_profile_that_dilates_its_program_says_so() -> None:
    run = launch_bound()
    warned = analysed(run.events, dilation_ratio=1.4).findings.warnings
    assert any("1.40 times" in one for one in warned)
    assert analysed(run.events, dilation_ratio=1.02).findings.warnings == run.findings.warnings


@pytest.mark.parametrize(
    ("peaks", "said"),
    [
        (replace(PEAKS, source="data sheet"), "peaks from a data sheet, not measured here"),
        (replace(PEAKS, promised="1 of 2 bytes/s"), "measured here: 1 of 2 bytes/s"),
    ],
)
def test_what_a_roofline_rests_on_is_said(peaks: Peaks, said: str) -> None:
    run = launch_bound()
    (warning,) = set(analysed(run.events, peaks=peaks).findings.warnings) - set(
        analysed(run.events, peaks=PEAKS).findings.warnings
    )
    assert said in warning


def test_an_odd_one_out_among_equals_is_named() -> None:
    made = [op("aten::mm", 1_000 * n, 1_000 * n + (900 if n == 3 else 100 + n)) for n in range(6)]
    (row, _) = analysed(trace(made)).findings.operators
    assert row.outlier == 3
    assert row.events[0] == 3
    assert (row.least_ns, row.most_ns, row.count) == (100, 900, 6)


def test_nodes_that_could_run_side_by_side_are_branches() -> None:
    names = ("x", "left", "right", "y")
    reads = ((), ("x",), ("x",), ("left", "right"))
    nodes = tuple(
        OperatorNode(name=name, op=name.title(), inputs=inputs)
        for name, inputs in zip(names, reads, strict=True)
    )
    graph = OperatorGraph(name="g", nodes=nodes, source="onnx")
    made = [
        op(f"{name}_kernel_time", 100 * n, 100 * n + 90, category=Category.NODE)
        for n, name in enumerate(names)
    ]
    found = analysed(trace(made), graph=graph).findings
    assert [(one.fork, one.nodes) for one in found.branches] == [
        ("x", ("left",)),
        ("x", ("right",)),
    ]
    assert found.dataflow_ns == 270
    assert dataflow_path(graph, dict.fromkeys(names, 90)).work_ns == 360


def test_a_window_without_work_has_findings_too() -> None:
    found = analysed(trace(op("empty", 5, 5))).findings
    assert found.makespan_ns == 0
    assert found.diagnosis.limit == "balanced"


def test_rows_say_what_the_roofline_says() -> None:
    events = trace(op("aten::mm", 0, 40_000), op("aten::view", 40_000, 41_000))
    found = analysed(told(events, {0: operands((100, 100), (100, 100))}), peaks=PEAKS).findings
    row = found.operators[0]
    assert (row.shapes, row.dtype, row.bound) == ("100x100, 100x100", "float32", "compute")
    assert row.flops == 2e6
    assert row.efficiency_ratio == pytest.approx(0.5)
    assert row.outlier == NOTHING
    assert found.diagnosis.limit == "compute-bound"


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Mlp().eval()


def test_a_small_eager_model_is_limited_by_calls_and_not_by_the_machine(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    example = torch.randn(4, 16)
    with torch.inference_mode():
        model(example)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        ) as profiler:
            for _ in range(5):
                with torch.profiler.record_function("benchorch:call"):
                    model(example)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    found = analysed_file(tmp_path / "trace.json", peaks=PEAKS).findings
    assert_sums(found)
    names = {row.name: row for row in found.operators}
    assert names["aten::addmm"].flops == 2 * 4 * 16 * 32
    assert names["aten::addmm"].dtype == "float32"
    assert names["aten::linear"].flops is None  # its callee has them
    assert found.diagnosis.limit in ("overhead-bound", "kernel-bound")  # never the roofline's sides
    assert found.overlap_ratio is None


def test_a_session_of_onnx_runtime_is_told_by_operator_and_by_node(
    model: torch.nn.Module, tmp_path: Path
) -> None:
    example = torch.randn(4, 16)
    file = tmp_path / "model.onnx"
    torch.onnx.export(model, (example,), file, dynamo=True, verbose=False)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: example.numpy()})
    found = analysed_file(Path(session.end_profiling()), peaks=PEAKS).findings
    assert_sums(found)
    names = {row.name: row for row in found.operators}
    assert names["FusedGemm"].flops == 2 * 4 * 16 * 32
    assert len(found.graph_nodes) > 2

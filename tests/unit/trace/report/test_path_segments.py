import numpy as np
import pytest

from benchorch.trace.attribution.owners import owners
from benchorch.trace.dag import CLASSES
from benchorch.trace.report.ancestry import ancestry
from benchorch.trace.report.path_segments import SHORT, path_columns, path_segments
from support.analyzed_traces import analysed, trace_file, two_layers


@pytest.fixture
def analysis(tmp_path):
    return analysed(trace_file(tmp_path / "trace.json", two_layers()))


def above(analysis):
    return ancestry(analysis.events, owners(analysis.events))


@pytest.mark.parametrize("most", [2, 4, 8, 1_000])
def test_merged_segments_tile_the_path(analysis, most):
    along = path_segments(analysis, above(analysis), most)
    ends = along.start_ns + along.duration_ns
    assert along.start_ns[0] == analysis.dag.time_ns[0]
    assert ends[-1] == analysis.dag.time_ns[-1]
    assert np.array_equal(along.start_ns[1:], ends[:-1])
    assert along.pieces.sum() == len(analysis.path)
    assert len(along.start_ns) <= max(most + 1, 1)


def test_the_longest_segments_stay_and_merged_ones_are_marked(analysis):
    along = path_segments(analysis, above(analysis), 6)
    names = [along.names[name] for name in along.name]
    longest = names[int(np.argmax(along.duration_ns))]
    assert longest == "gemm"
    assert SHORT in names
    assert np.array_equal(along.name == len(along.names) - 1, along.pieces > 1)
    assert not along.drag_ns[along.pieces > 1].any()


def test_stack_times_sum_to_the_time_of_each_class(analysis):
    spent = dict.fromkeys(range(len(CLASSES)), 0)
    for _, spent_ns, label in above(analysis).stack_times(analysis.path):
        spent[label] += spent_ns
    named = {CLASSES[label].value: ns for label, ns in spent.items() if ns}
    assert named == {name: ns for name, ns in analysis.findings.classes.items() if ns}


def test_a_kernel_stands_under_its_operator_and_module(analysis):
    stacks = [stack for stack, _, _ in above(analysis).stack_times(analysis.path)]
    assert ("encoder", "0", "aten::mm", "gemm") in stacks
    assert ("encoder", "1", "aten::relu", "relu") in stacks
    assert ("aten::cat",) in stacks


def test_columns_are_indices_into_their_tables(analysis):
    columns = path_columns(analysis, path_segments(analysis, above(analysis)))
    segments = columns["segments"]
    at = segments["duration_ns"].index(300_000)
    assert columns["names"][segments["name"][at]] == "gemm"
    assert columns["modules"][segments["module"][at]] == "encoder.0"
    assert columns["classes"][segments["class"][at]] == "gpu_compute"

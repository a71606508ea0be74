from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.operators.provenance import (
    Provenance,
    beside,
    fused_ops,
    is_fused,
    kernel_of,
    of_inductor,
    read,
)

MAPPINGS = {
    "postToPre": {"mul": ["gelu"], "erf": ["gelu"], "mul_1": ["gelu_1"], "addmm": ["linear"]},
    "cppCodeToPost": {
        "cpp_fused_gelu_2:3": ["mul", "erf", "addmm"],
        "extern_kernels.addmm:2": ["addmm"],
        "cpp_fused_gelu_2:10": ["mul_1"],
    },
    "version": 2.0,
}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("graph_0_cpp_fused_gelu_2", "cpp_fused_gelu_2"),
        ("aten::addmm", "addmm"),
        ("extern_kernels.addmm", "addmm"),
        ("torch.ops.aten._scaled_dot_product.default", "_scaled_dot_product"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)
def test_a_kernel_has_one_name_in_its_trace_and_in_its_compiler(name: str, kernel: str) -> None:
    assert kernel_of(name) == kernel


def test_each_call_of_a_kernel_has_nodes_of_its_own() -> None:
    found = of_inductor(MAPPINGS)
    assert found.nodes("graph_0_cpp_fused_gelu_2", 0) == ("erf", "mul")
    assert found.nodes("graph_0_cpp_fused_gelu_2", 1) == ("mul_1",)
    assert found.nodes("graph_0_cpp_fused_gelu_2", 2) == ("erf", "mul")  # the next run
    assert found.nodes("aten::addmm", 0) == ("addmm",)
    assert found.nodes("aten::mm", 0) == ()


def test_nodes_are_those_of_the_graph_at_hand() -> None:
    found = of_inductor(MAPPINGS, wanted={"gelu", "gelu_1", "linear"})
    assert found.nodes("cpp_fused_gelu_2", 0) == ("gelu",)
    assert found.nodes("aten::addmm", 0) == ("linear",)


@pytest.mark.parametrize(
    ("kernel", "ops"),
    [
        ("graph_0_cpp_fused_add_native_layer_norm_view_7", ("add", "native_layer_norm")),
        ("triton_poi_fused__softmax_3", ("_softmax",)),
        ("triton_red_fused_add__to_copy_mul_0", ("add", "_to_copy", "mul")),
        ("triton_poi_fused_view_1", ("view",)),
        ("aten::addmm", ()),
        ("sm90_gemm", ()),
    ],
)
def test_without_provenance_the_name_of_a_fused_kernel_says_its_operators(
    kernel: str, ops: tuple[str, ...]
) -> None:
    assert fused_ops(kernel) == ops
    assert is_fused(kernel) is bool(ops)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mappings.json"
    file.write_text(json.dumps(MAPPINGS))
    assert read(file) == of_inductor(MAPPINGS)


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_file_that_says_nothing_is_refused_in_a_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mappings.json"
    file.write_text(content)
    with pytest.raises(TraceError, match=r"mappings\.json"):
        read(file)


def test_mappings_of_another_shape_say_nothing() -> None:
    assert of_inductor({"cppCodeToPost": [1], "postToPre": {"a": "b"}}) == Provenance()


def test_views_do_no_work_beside_others() -> None:
    said = {"a:1": ["permute_1", "attention", "getitem_2", "select"], "b:2": ["view_3"]}
    found = of_inductor({"cppCodeToPost": said})
    assert found.nodes("a", 0) == ("attention",)
    assert found.nodes("b", 0) == ("view_3",)


def test_files_beside_a_trace_are_in_the_order_of_compilation(tmp_path: Path) -> None:
    for number in (10, 2):
        content = {"cppCodeToPost": {f"cpp_fused_add_{number}:1": ["add"]}}
        file = tmp_path / f"inductor_provenance_tracking_node_mappings_{number}.json"
        file.write_text(json.dumps(content))
    (tmp_path / "inductor_provenance_tracking_node_mappings_x.json").write_text("{")
    found = beside(tmp_path / "trace.json")
    assert [next(iter(one.calls)) for one in found] == ["cpp_fused_add_2", "cpp_fused_add_10"]
    assert beside(tmp_path / "elsewhere" / "trace.json") == ()

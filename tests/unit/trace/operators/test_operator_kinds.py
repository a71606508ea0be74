from __future__ import annotations

import pytest

from benchorch.trace.operators.operator_kinds import FUSED, REGION, operator_kind


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("aten::addmm", "matmul"),
        ("aten.linear.default", "matmul"),
        ("FusedMatMul", "matmul"),
        ("Gemm", "matmul"),
        ("SkipLayerNormalization", "layer_norm"),
        ("aten::native_layer_norm", "layer_norm"),
        ("mkldnn::_convolution_pointwise", "convolution"),
        ("Conv", "convolution"),
        ("aten::_softmax", "softmax"),
        ("aten::_to_copy", "cast"),
        ("aten::cat", "concat"),
        ("Concat", "concat"),
        ("aten::add_", "add"),
        ("my::own", "own"),
        ("graph_0_cpp_fused_gelu_2", FUSED),
        ("triton_poi_fused_add_0", FUSED),
        ("Torch-Compiled Region: 0/0", REGION),
    ],
)
def test_an_operator_is_of_one_kind_in_every_framework(op: str, kind: str) -> None:
    assert operator_kind(op) == kind

from __future__ import annotations

import pytest

from benchorch.trace.operators.flops import RULES, work
from benchorch.trace.operators.shapes import OperatorCall, Tensor


def call(
    *shapes: tuple[int, ...] | None,
    outputs: tuple[tuple[int, ...], ...] = (),
    constants: tuple[str, ...] = (),
    dtype: str = "float32",
) -> OperatorCall:
    made = [None if shape is None else Tensor(shape=shape, dtype=dtype) for shape in shapes]
    results = tuple(Tensor(shape=shape, dtype=dtype) for shape in outputs)
    return OperatorCall(inputs=tuple(made), outputs=results, constants=constants)


@pytest.mark.parametrize(
    ("op", "given", "flops", "values"),
    [
        ("aten::mm", call((2, 3), (3, 5)), 60, 6 + 15 + 10),
        ("aten::bmm", call((4, 2, 3), (4, 3, 5)), 240, 24 + 60 + 40),
        ("aten::addmm", call((5,), (2, 3), (3, 5), None), 60, 5 + 6 + 15 + 10),
        ("mkldnn::_linear_pointwise", call((2, 3), (5, 3), (5,)), 60, 6 + 15 + 5 + 10),
        ("aten::_softmax", call((2, 8)), 80, 32),
        ("aten::native_layer_norm", call((2, 8), None, (8,), (8,)), 112, 48),
        ("aten::add", call((4, 1), (3,)), 12, 4 + 3 + 12),
        ("aten::copy_", call((4, 2), (4, 2)), 0, 16),
        ("aten::cat", call((4, 2), (4, 3)), 0, 40),
        ("aten::mean", call((4, 2)), 8, 8),
        ("MatMul", call((2, 3), (3, 5), outputs=((2, 5),)), 60, 31),
        ("FusedMatMul", call((4, 2, 3), (4, 5, 3), outputs=((4, 2, 5),)), 240, 124),
    ],
)
def test_the_work_of_an_operator_follows_from_its_shapes(
    op: str, given: OperatorCall, flops: float, values: float
) -> None:
    found = work(op, given)
    assert found is not None
    assert found.flops == flops
    assert found.bytes == 4 * values


def test_a_weight_that_onnx_runtime_packed_is_read_all_the_same() -> None:
    listed = work("Gemm", call((2, 3), (3, 5), (5,), outputs=((2, 5),)))
    packed = work("Gemm", call((2, 3), (5,), outputs=((2, 5),)))
    assert listed == packed


def test_a_convolution_counts_each_place_of_its_result() -> None:
    constants = ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")
    found = work("aten::mkldnn_convolution", call((1, 3, 8, 8), (16, 3, 3, 3), constants=constants))
    places = 4 * 4
    assert found is not None
    assert found.flops == 2 * 16 * places * 27
    assert found.bytes == 4 * (3 * 64 + 16 * 27 + 16 * places)


def test_an_option_the_operator_does_not_have_keeps_its_default() -> None:
    constants = ("", "", "[3, 3]", "", "[1, 1]", "[0, 0]")
    shapes = ((1, 2, 5, 5), (4, 2, 3, 3))
    found = work("aten::_slow_conv2d_forward", call(*shapes, constants=constants))
    assert found is not None
    assert found.flops == 2 * 4 * 9 * 18


def test_a_causal_attention_uses_half_of_the_pairs() -> None:
    shapes = ((1, 2, 4, 8),) * 3
    op = "aten::_scaled_dot_product_flash_attention_for_cpu"
    full = work(op, call(*shapes, constants=("", "", "", "0.", "False")))
    causal = work(op, call(*shapes, constants=("", "", "", "0.", "True")))
    assert full is not None
    assert causal is not None
    assert full.flops == 2 * 2 * 16 * 16
    assert causal.flops == 2 * 2 * 10 * 16


def test_only_the_rows_that_are_asked_for_are_read_from_a_table() -> None:
    table = Tensor(shape=(1000, 16), dtype="float32")
    places = Tensor(shape=(6,), dtype="int64")
    found = work("aten::index_select", OperatorCall(inputs=(table, None, places)))
    assert found is not None
    assert found.bytes == 2 * 6 * 16 * 4 + 48


@pytest.mark.parametrize("op", ["aten::linear", "aten::view", "my::own", ""])
def test_wrappers_views_and_the_unknown_have_no_rule(op: str) -> None:
    assert work(op, call((2, 3), (3, 5))) is None


@pytest.mark.parametrize("op", sorted(RULES))
@pytest.mark.parametrize("shapes", [(), ((),), ((0, 3), (3, 0)), ((2,),), ((2,), None)])
def test_shapes_that_cannot_be_never_raise(op: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    found = work(op, call(*shapes))
    assert found is None or (found.flops >= 0 and found.bytes >= 0)

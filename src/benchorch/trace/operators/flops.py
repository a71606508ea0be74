"""Operations and bytes of an operator's call, from the shapes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchorch.trace.operators.shapes import ITEM_BYTES, OperatorCall, Tensor, integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticWork:
    """Work of a call, whatever does it.

    Attributes:
        flops: arithmetic operations; a multiplication with its addition counts as two.
        bytes: each operand read once and each result written once.
        dtype: of the operands: which peak applies.
        estimated: whether the operations are a convention (a few per element), not a count.
    """

    flops: float
    bytes: float
    dtype: str
    estimated: bool = False


Rule = Callable[[OperatorCall], ArithmeticWork | None]

SOFTMAX_FLOPS = 5  # an element: maximum, difference, exponential, sum, quotient
NOWHERE = 99  # the position of an option that the operator does not have
NORM_FLOPS = 7  # an element: mean 1, variance 2, normalise 2, scale and shift 2


def work(op: str, call: OperatorCall) -> ArithmeticWork | None:
    """The work of one call; None where no rule is known for the operator or its shapes.

    Wrappers that only call another operator (``aten::linear``) have none: their callee has.

    Parameters
    ----------
    op : str
        As the trace names it: ``aten::addmm`` or an ONNX type such as ``Gemm``.
    call : Call

    Source
    ------
    Operation counts: matrix products, convolutions and attention as in Golub & Van Loan, *Matrix
    Computations*, section 1.1 (two per multiply-add); a causal attention counts the pairs it
    uses. Elementwise operators and reductions count one per element, by convention.
    """
    rule = RULES.get(op.rpartition("::")[2])
    if rule is None or not call.tensors:
        return None
    try:
        return rule(call)
    except (
        IndexError,
        ValueError,
        ZeroDivisionError,
    ):  # shapes that the operator cannot have been given
        return None


def _made(
    call: OperatorCall, flops: float, *results: Tensor, estimated: bool = False
) -> ArithmeticWork:
    """Work that reads all inputs and writes the results: recorded ones where there are any."""
    written = call.outputs or results
    total = sum(tensor.touched_bytes for tensor in (*call.tensors, *written))
    return ArithmeticWork(flops=flops, bytes=total, dtype=call.dtype, estimated=estimated)


def _product(first: int, *, transposed: bool = False) -> Rule:
    """A matrix product of the inputs at `first` and after it; results are recorded or derived."""

    def rule(call: OperatorCall) -> ArithmeticWork | None:
        left, right = call.inputs[first], call.inputs[first + 1]
        if left is None or right is None:
            return None
        columns = right.shape[-2] if transposed else right.shape[-1]
        rows = left.shape[:-1]
        result = Tensor(shape=(*rows, columns), dtype=left.dtype)
        return _made(call, 2.0 * result.elements * left.shape[-1], result)

    return rule


def _onnx_product(call: OperatorCall) -> ArithmeticWork | None:
    """MatMul and Gemm of ONNX; the runtime does not list a weight that it packed beforehand."""
    left, result = call.inputs[0], call.outputs[0]
    if left is None:
        return None
    inner = left.shape[-1]
    made = _made(call, 2.0 * result.elements * inner)
    if len(call.tensors) > 1 and len(call.tensors[1].shape) > 1:
        return made
    weight = inner * result.shape[-1] * ITEM_BYTES.get(left.dtype, 4.0)
    return ArithmeticWork(flops=made.flops, bytes=made.bytes + weight, dtype=made.dtype)


def _convolution(stride: int, padding: int, dilation: int) -> Rule:
    """A convolution whose options stand at these positions of its constants."""

    def rule(call: OperatorCall) -> ArithmeticWork | None:
        image, weight = call.inputs[0], call.inputs[1]
        if image is None or weight is None or len(image.shape) != len(weight.shape):
            return None
        ranks = len(image.shape) - 2
        steps, pads, holes = (
            _spread(call.constant(position), ranks, default)
            for position, default in ((stride, 1), (padding, 0), (dilation, 1))
        )
        sizes = zip(image.shape[2:], weight.shape[2:], steps, pads, holes, strict=True)
        places = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
        result = Tensor(shape=(image.shape[0], weight.shape[0], *places), dtype=image.dtype)
        return _made(call, 2.0 * result.elements * math.prod(weight.shape[1:]), result)

    return rule


def _spread(text: str, ranks: int, default: int) -> tuple[int, ...]:
    """One number an axis, from ``[1]``, ``[1, 1]`` or nothing."""
    found = integers(text) or (default,)
    return found if len(found) == ranks else (found[0],) * ranks


def _onnx_convolution(call: OperatorCall) -> ArithmeticWork | None:
    """Conv and FusedConv of ONNX; None where the packed weight is not listed."""
    image, result = call.inputs[0], call.outputs[0]
    weights = [tensor for tensor in call.tensors[1:] if len(tensor.shape) == len(result.shape)]
    if image is None or not weights:
        return None
    return _made(call, 2.0 * result.elements * math.prod(weights[0].shape[1:]))


def _convolution_backward(call: OperatorCall) -> ArithmeticWork | None:
    """Gradients of the input and of the weight: a convolution each."""
    gradient, image, weight = call.inputs[0], call.inputs[1], call.inputs[2]
    if gradient is None or image is None or weight is None:
        return None
    wanted = call.constant(10).split(",")[:2]
    count = sum("True" in one for one in wanted) if len(wanted) == 2 else 2
    flops = 2.0 * count * gradient.elements * math.prod(weight.shape[1:])
    return _made(call, flops, image, weight)


def _attention(causal: int) -> Rule:
    """Attention over (batch, heads, length, width); whether it is causal stands at a position."""

    def rule(call: OperatorCall) -> ArithmeticWork | None:
        query, key, value = call.inputs[:3]
        if query is None or key is None or value is None or len(query.shape) < 3:
            return None
        rows, columns = query.shape[-2], key.shape[-2]
        pairs = float(rows * columns)
        if call.constant(causal) == "True" and rows == columns:
            pairs = rows * (rows + 1) / 2
        widths = query.shape[-1] + value.shape[-1]
        flops = 2.0 * math.prod(query.shape[:-2]) * pairs * widths
        read = OperatorCall(inputs=(query, key, value))
        result = Tensor(shape=(*query.shape[:-1], value.shape[-1]), dtype=query.dtype)
        return _made(read, flops, result)

    return rule


def _onnx_heads(call: OperatorCall) -> ArithmeticWork | None:
    """MultiHeadAttention of ONNX Runtime over (batch, length, width) of all heads together."""
    query, key = call.inputs[0], call.inputs[1]
    if query is None or key is None or len(query.shape) != 3 or len(key.shape) != 3:
        return None
    batch, rows, width = query.shape
    return _made(call, 4.0 * batch * rows * key.shape[1] * width)


def _per_element(flops: int) -> Rule:
    """So many operations for each element of the first input; the result is as large."""

    def rule(call: OperatorCall) -> ArithmeticWork | None:
        whole = call.tensors[0]
        result = Tensor(shape=whole.shape, dtype=whole.dtype)
        return _made(call, float(flops * whole.elements), result, estimated=flops > 0)

    return rule


def _elementwise(call: OperatorCall) -> ArithmeticWork:
    """One operation per element of the result, which is what the inputs broadcast to."""
    result = call.outputs[0] if call.outputs else _broadcast(call)
    return _made(call, float(result.elements), result, estimated=True)


def _broadcast(call: OperatorCall) -> Tensor:
    ranks = max(len(tensor.shape) for tensor in call.tensors)
    aligned = [(1,) * (ranks - len(one.shape)) + one.shape for one in call.tensors]
    return Tensor(shape=tuple(map(max, *aligned, aligned[0])), dtype=call.dtype)


def _copied(call: OperatorCall) -> ArithmeticWork:
    """Every value is read and written once; an in-place copy writes its first input."""
    if len(call.tensors) > 1 and not call.outputs:
        return _made(call, 0.0, Tensor(shape=(0,)))
    return _made(call, 0.0, call.tensors[0])


def _joined(call: OperatorCall) -> ArithmeticWork:
    """All inputs are read and written once."""
    return _made(call, 0.0, *call.tensors)


def _gathered(table: int, index: int) -> Rule:
    """Rows of a table: only the selected ones are read."""

    def rule(call: OperatorCall) -> ArithmeticWork | None:
        source, places = call.inputs[table], call.inputs[index]
        if source is None or places is None:
            return None
        rows = places.elements * math.prod(source.shape[1:])
        moved = 2 * rows * ITEM_BYTES.get(source.dtype, 4.0)
        return ArithmeticWork(flops=0.0, bytes=moved + places.touched_bytes, dtype=source.dtype)

    return rule


def _reduced(call: OperatorCall) -> ArithmeticWork:
    """One operation per element that is read; the result is small beside it."""
    read = call.tensors[0]
    first = OperatorCall(inputs=(read,), outputs=call.outputs)
    return _made(first, float(read.elements), Tensor(shape=(0,)), estimated=True)


_ELEMENTWISE = (
    *("add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "neg", "abs", "pow"),
    *("relu", "relu_", "gelu", "gelu_", "silu", "silu_", "sigmoid", "sigmoid_", "tanh", "tanh_"),
    *("exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "clamp", "clamp_min"),
    *("hardtanh", "hardtanh_", "hardswish", "hardswish_", "hardsigmoid", "leaky_relu", "elu"),
    *("maximum", "minimum", "where", "masked_fill", "masked_fill_", "addcmul", "addcdiv"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "bitwise_and"),
    *("bitwise_not", "threshold_backward", "gelu_backward", "tanh_backward", "silu_backward"),
    *("sigmoid_backward", "round", "floor", "mish", "softplus"),
    *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Pow", "Relu", "Gelu", "FastGelu", "BiasGelu"),
    *("QuickGelu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Erf"),
    *("Clip", "Where", "Max", "Min", "Equal", "Less", "Greater", "Not", "And", "HardSwish"),
    *("HardSigmoid", "LeakyRelu", "Elu", "Sum", "Round", "QuantizeLinear", "DequantizeLinear"),
)
_REDUCTIONS = (
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "norm", "var"),
    *("std", "linalg_vector_norm", "cumsum", "any", "all", "_adaptive_avg_pool2d"),
    *("avg_pool2d", "max_pool2d_with_indices", "max_pool2d_with_indices_out"),
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"),
    *("GlobalAveragePool", "GlobalMaxPool", "AveragePool", "MaxPool"),
)
_COPIES = (
    *("copy_", "Cast", "Transpose", "Expand", "Slice", "Split", "Tile", "Pad"),
    *("Identity", "ReorderInput", "ReorderOutput"),
)
_NORMS = (
    *("native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm"),
    *("_native_batch_norm_legit_no_training", "_batch_norm_impl_index_cpu", "_fused_rms_norm"),
    *("LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization"),
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "RMSNormalization"),
)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_COPIES, _copied),
    **dict.fromkeys(_NORMS, _per_element(NORM_FLOPS)),
    **dict.fromkeys(("_softmax", "_log_softmax", "Softmax"), _per_element(SOFTMAX_FLOPS)),
    **dict.fromkeys(("fill_", "zero_"), _per_element(0)),
    **dict.fromkeys(("cat", "stack", "Concat"), _joined),
    **dict.fromkeys(("mm", "bmm"), _product(0)),
    **dict.fromkeys(("addmm", "baddbmm", "_addmm_activation"), _product(1)),
    "_linear_pointwise": _product(0, transposed=True),
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "FusedGemm"), _onnx_product),
    **dict.fromkeys(("MatMulInteger", "DynamicQuantizeMatMul", "MatMulNBits"), _onnx_product),
    "mkldnn_convolution": _convolution(4, 3, 5),
    "_convolution_pointwise": _convolution(4, 3, 5),
    "_slow_conv2d_forward": _convolution(4, 5, NOWHERE),
    "miopen_convolution": _convolution(4, 3, 5),
    "cudnn_convolution": _convolution(3, 2, 4),
    "_conv_depthwise2d": _convolution(4, 5, 6),
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv"), _onnx_convolution),
    "_scaled_dot_product_flash_attention_for_cpu": _attention(4),
    "_scaled_dot_product_flash_attention": _attention(4),
    "_scaled_dot_product_efficient_attention": _attention(6),
    "_scaled_dot_product_cudnn_attention": _attention(6),
    "MultiHeadAttention": _onnx_heads,
    "index_select": _gathered(0, 2),
    "Gather": _gathered(0, 1),
}
"""By the operator's name without its namespace."""

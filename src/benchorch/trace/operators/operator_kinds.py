"""Kinds of operators, whatever framework or compiler named them."""

from collections.abc import Mapping

from benchorch.trace.operators.graph import plain_op
from benchorch.trace.operators.provenance import is_fused, kernel_of

FUSED = "fused kernels"  # the kind of kernels that a compiler made of several operators
REGION = "compiled regions"  # what runs around compiled kernels: guards, wrappers
_REGION_MARKS = ("Torch-Compiled Region", "TorchDynamo", "AOTDispatcher", "Pregraph", "## Call")

_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "matmul": (
        *("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_linear_pointwise", "gemm"),
        *("fusedmatmul", "fusedgemm", "matmulinteger", "dynamicquantizematmul", "matmulnbits"),
        *("_addmm_activation", "mkl_linear"),
    ),
    "convolution": (
        *("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "mkldnn_convolution"),
        *("cudnn_convolution", "_convolution_pointwise", "conv", "fusedconv", "nhwcfusedconv"),
        *("_slow_conv2d_forward",),
    ),
    "attention": (
        *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"),
        *("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
        *("_scaled_dot_product_cudnn_attention", "multiheadattention", "attention"),
        *("_scaled_dot_product_attention_math",),
    ),
    "layer_norm": (
        *("layer_norm", "native_layer_norm", "layernormalization", "skiplayernormalization"),
    ),
    "batch_norm": (
        *("batch_norm", "native_batch_norm", "batchnormalization", "cudnn_batch_norm"),
        *("_native_batch_norm_legit_no_training", "_batch_norm_impl_index"),
    ),
    "softmax": ("softmax", "_softmax"),
    "gelu": ("gelu", "fastgelu", "biasgelu", "quickgelu"),
    "embedding": ("embedding", "index_select", "gather"),
    "mean": ("mean", "reducemean"),
    "sum": ("sum", "reducesum"),
    "cast": ("to", "_to_copy"),
    "transpose": ("permute", "t"),
    "reshape": ("view", "flatten", "_unsafe_view"),
    "concat": ("cat",),
    "maxpool": ("max_pool2d", "max_pool2d_with_indices"),
    "globalaveragepool": ("adaptive_avg_pool2d", "globalavgpool"),
    "sub": ("rsub",),
    **{name: (f"{name}_",) for name in ("add", "mul", "relu")},
}
_KIND_OF = {name: kind for kind, names in _SYNONYMS.items() for name in names}


def operator_kind(op: str) -> str:
    """The kind of an operator: ``matmul`` for ``aten::addmm``, ``Gemm``, ``aten.linear``."""
    if is_fused(op):
        return FUSED
    if op.startswith(_REGION_MARKS):
        return REGION
    plain = plain_op(kernel_of(op))
    return _KIND_OF.get(plain, plain)

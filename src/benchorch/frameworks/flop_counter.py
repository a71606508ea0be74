"""Parameters, multiply-accumulates and floating-point operations of a model.

The convention, for every operator that torch sees in one call (docs/measuring/resources.md):

=============================  ==========================================================
products (MACs)                one multiply-accumulate for each product summed: matrix products,
                               linear layers, convolutions, both products of attention (the
                               whole square, causal or not), recurrent layers, interpolation
1 for each element that        biases of the above; activations, softmax and the scores of
comes out                      attention included
1 for each element that        pooling and every other reduction: sum, mean, maximum, norm
goes in
normalisations                 1 for each element, 2 with weights
nothing                        element-wise arithmetic (residual additions, masks, scaling),
                               embeddings, copies, views, indexing, ordering, random numbers,
                               and all work on whole numbers but products
=============================  ==========================================================

MACs are their sum. FLOPs count a product twice (one multiplication, one addition) and everything
else once. By it ResNet-18 has 1,822,177,768 MACs at 1x3x224x224, of which 1,814,073,344 are
products, and 3,636,251,112 FLOPs.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from benchorch.domain.result import ModelCounts
from benchorch.domain.tensors import Example
from benchorch.errors import MeasureError
from benchorch.frameworks.torch_call import live_tensors
from benchorch.frameworks.torch_operators import forgotten_traces
from benchorch.frameworks.upstream_errors import wrap_errors

if TYPE_CHECKING:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode


def count_model(module: torch.nn.Module, example: Example) -> ModelCounts:
    """The model's size, and the work of one call of it on the CPU.

    The call is a real one, recording no gradients: tensors that only pretend could stay behind in
    a module that keeps something between calls. Operators run as they are; torch's fused path for
    ``nn.Transformer`` is taken apart.

    Args:
        module: on the CPU, as it was loaded.
        example: the call; all items of its batch are counted together.
    """
    tally = _Tally()
    unavailable = ""
    try:
        with wrap_errors(MeasureError, "the operators could not be counted"):
            _run(module, example, tally)
    except MeasureError as error:
        unavailable = str(error)
    parameters = list(module.parameters())
    return ModelCounts(
        parameters=sum(each.numel() for each in parameters),
        parameter_bytes=sum(each.numel() * each.element_size() for each in parameters),
        macs=None if unavailable else tally.products + tally.others,
        flops=None if unavailable else 2 * tally.products + tally.others,
        uncounted=dict(tally.uncounted),
        unavailable=unavailable,
    )


class _OperatorWork(NamedTuple):
    """Work of an operator: summed products, and other operations."""

    products: int = 0
    others: int = 0


_Rule = Callable[[Mapping[str, Any], Any], _OperatorWork | None]
"""Work of a call by its arguments and what it returned; None where it cannot be told."""


@dataclass(slots=True)
class _Tally:
    """The sums so far, and the operators without a rule."""

    products: int = 0
    others: int = 0
    uncounted: Counter[str] = field(default_factory=Counter)


def _run(module: torch.nn.Module, example: Example, tally: _Tally) -> None:
    import torch

    inputs = live_tensors(module, example.arrays, "cpu")
    with forgotten_traces(), torch.inference_mode(), _without_fastpath(), _counting(tally):
        module(**inputs, **example.keywords)


@contextmanager
def _without_fastpath() -> Iterator[None]:
    """``nn.Transformer`` and ``nn.MultiheadAttention`` by their parts, not as one operator."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _counting(tally: _Tally) -> TorchDispatchMode:
    """A mode that adds up every operator and lets it run."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Only where it is imported, which takes longer than torch itself."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            rule = _rule(func)
            if rule is None:
                with self:  # an operator made of others is counted by them
                    made = func.decompose(*args, **kwargs)
                if made is not NotImplemented:
                    return made
            made = func(*args, **kwargs)
            work = rule(_named(func, args, kwargs), made) if rule is not None else None
            if work is not None:
                tally.products += work.products
                tally.others += work.others
            elif rule is not None or not _is_free(func, args, kwargs):
                tally.uncounted[f"{func.namespace}.{_name(func)}"] += 1
            return made

    return Counting()  # type: ignore[no-untyped-call]  # torch's own


def _name(func: Any) -> str:
    """``relu`` for ``aten.relu_.default``: in place or not is no difference."""
    name: str = func.overloadpacket.__name__
    return name.rstrip("_")


def _named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The operator's arguments by the names of its schema."""
    names = (argument.name for argument in func._schema.arguments)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _rule(func: Any) -> _Rule | None:
    # ``max.other`` compares two tensors element by element; the other overloads reduce one.
    if func.namespace != "aten" or func._overloadname == "other":
        return None
    return _RULES.get(_name(func))


def _is_free(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator without a rule is known to compute nothing that counts."""
    import torch
    from torch.utils import _pytree

    if func.namespace != "aten":
        return False
    tags = torch.Tag.pointwise, torch.Tag.inplace_view
    if func.is_view or _name(func) in _FREE or any(tag in func.tags for tag in tags):
        return True
    leaves = _pytree.tree_leaves((args, kwargs))
    return not any(_is_float(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tensor(made: Any) -> torch.Tensor:
    """The first of what an operator returns."""
    first: torch.Tensor = made[0] if isinstance(made, tuple | list) else made
    return first


def _is_sparse(tensor: torch.Tensor) -> bool:
    return str(tensor.layout).startswith("torch.sparse_")


def _elements(tensor: torch.Tensor) -> int:
    """Its elements, of a sparse tensor those that it stores."""
    import torch

    if not _is_sparse(tensor):
        return tensor.numel()
    is_coo = tensor.layout is torch.sparse_coo
    stored: torch.Tensor = tensor._values() if is_coo else tensor.values()
    return stored.numel()


def _matrix(given: Mapping[str, Any], made: Any) -> _OperatorWork | None:
    """Every element that comes out is a sum over the left side's last axis.

    Where a side is sparse, a sum over what it stores; None where both are, as only their elements'
    places tell what meets.
    """
    import torch

    left = next(given[name] for name in _LEFT_SIDES if name in given)
    size: int = _tensor(made).numel()
    added = "self" in given and given["self"] is not left
    biased = added or given.get("bias") is not None
    products = size * left.shape[-1]
    sides = [each for each in given.values() if isinstance(each, torch.Tensor)]
    sparse = [each for each in sides[1 if added else 0 :] if _is_sparse(each)]
    if len(sparse) > 1:
        return None
    if sparse:  # each of its elements is in as many products as any other
        products = products * _elements(sparse[0]) // max(sparse[0].numel(), 1)
    return _OperatorWork(products, size if biased else 0)


def _convolution(given: Mapping[str, Any], made: Any) -> _OperatorWork:
    """A kernel for every element that comes out; transposed, for every one that goes in."""
    size: int = _tensor(made).numel()
    places = given["input"].numel() if given["transposed"] else size
    products = places * math.prod(given["weight"].shape[1:])
    return _OperatorWork(products, 0 if given["bias"] is None else size)


def _attention(given: Mapping[str, Any], made: Any) -> _OperatorWork:
    """Scores from queries and keys, their softmax, and the values that they weigh."""
    query, key, value = given["query"], given["key"], given["value"]
    # Batches of queries and keys are broadcast, so the rows are those that come out.
    scores = math.prod(_tensor(made).shape[:-1]) * key.shape[-2]
    # Scores, and the values that they weigh, over all pairs.
    return _OperatorWork(scores * (query.shape[-1] + value.shape[-1]), scores)


def _recurrent(activations: int) -> _Rule:
    """Every weight once for each step of each sequence; so many activations a hidden unit."""

    def rule(given: Mapping[str, Any], made: Any) -> _OperatorWork:
        sequence = given["input"] if "input" in given else given["data"]
        steps = sequence.numel() // sequence.shape[-1]
        # Of an LSTM's two states the second, the cell, has the layer's own width.
        state = given["hx"][-1] if isinstance(given["hx"], tuple | list) else given["hx"]
        cells = given["num_layers"] * (2 if given["bidirectional"] else 1) * state.shape[-1]
        sizes = [(each.dim(), each.numel()) for each in given["params"]]
        weights = sum(size for dim, size in sizes if dim > 1)
        biases = sum(size for dim, size in sizes if dim == 1)
        return _OperatorWork(steps * weights, steps * (biases + activations * cells))

    return rule


def _interpolation(neighbours: int) -> _Rule:
    """Every element that comes out is a weighted sum of so many neighbours."""
    return lambda _, made: _OperatorWork(products=_tensor(made).numel() * neighbours)


def _normalisation(given: Mapping[str, Any], made: Any) -> _OperatorWork:
    each = 1 if given.get("weight") is None else 2
    return _OperatorWork(others=each * given["input"].numel())


def _each_out(given: Mapping[str, Any], made: Any) -> _OperatorWork:
    return _OperatorWork(others=_elements(_tensor(made)))


def _each_in(given: Mapping[str, Any], made: Any) -> _OperatorWork:
    """Work per element; none for integers, which are lengths and masks."""
    source = given["input"] if "input" in given else given["self"]
    return _OperatorWork(others=_elements(source) if _is_float(source) else 0)


# The names of a product's left side in the operators' schemas, the most events_with_rules first.
_LEFT_SIDES = ("mat1", "batch1", "mat", "input", "sparse", "self")
_MATRIX = (
    *("linear", "mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addmv"),
    *("_int_mm", "_scaled_mm", "_grouped_mm", "_scaled_grouped_mm", "_sparse_mm", "_sparse_addmm"),
)
_ATTENTION = (
    *("scaled_dot_product_attention", "_scaled_dot_product_attention_math"),
    *("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"),
    *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
    "_scaled_dot_product_fused_attention_overrideable",
)
_NORMALISATIONS = (
    *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
    *("_batch_norm_no_update", "_batch_norm_with_update", "native_layer_norm"),
    *("native_group_norm", "_fused_rms_norm", "rms_norm"),
)
_ACTIVATIONS = (
    *("relu", "hardtanh", "leaky_relu", "elu", "celu", "_prelu_kernel", "rrelu", "threshold"),
    *("gelu", "silu", "mish", "sigmoid", "log_sigmoid_forward", "tanh", "softplus", "glu"),
    *("hardswish", "hardsigmoid", "_softmax", "_log_softmax", "_safe_softmax"),
)
_REDUCTIONS = (
    *("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "_adaptive_avg_pool2d"),
    *("_adaptive_avg_pool3d", "max_pool1d", "max_pool2d_with_indices"),
    *("max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"),
    *("fractional_max_pool2d", "fractional_max_pool3d"),
    *("sum", "nansum", "mean", "prod", "amax", "amin", "aminmax", "max", "min", "median"),
    *("argmax", "argmin", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm"),
    *("logsumexp", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    *("any", "all", "count_nonzero"),
)
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(_MATRIX, _matrix),
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), _convolution),
    **dict.fromkeys(_ATTENTION, _attention),
    **dict.fromkeys(_NORMALISATIONS, _normalisation),
    **dict.fromkeys(_ACTIVATIONS, _each_out),
    **dict.fromkeys(_REDUCTIONS, _each_in),
    # Three gates, the new cell and what leaves it; two gates and a candidate; one.
    "lstm": _recurrent(5),
    "gru": _recurrent(3),
    "rnn_tanh": _recurrent(1),
    "rnn_relu": _recurrent(1),
    "upsample_linear1d": _interpolation(2),
    "upsample_bilinear2d": _interpolation(4),
    "upsample_trilinear3d": _interpolation(8),
    "upsample_bicubic2d": _interpolation(16),
}
_FREE = frozenset(
    {
        # made or moved, not computed
        *("clone", "copy", "_to_copy", "cat", "stack", "repeat", "roll", "flip", "rot90"),
        *("unsafe_split", "unsafe_split_with_sizes", "diag_embed", "block_diag", "complex"),
        *("_to_dense", "is_coalesced", "to_mkldnn"),
        *("_unsafe_view", "_reshape_copy", "constant_pad_nd", "tril", "triu", "fill", "zero"),
        *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"),
        *("replication_pad1d", "replication_pad2d", "replication_pad3d"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
        *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
        *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "detach", "resize"),
        *("empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_empty_strided"),
        *("new_zeros", "new_ones", "new_full", "set", "lift", "lift_fresh", "lift_fresh_copy"),
        # looked up or picked out
        *("embedding", "index", "index_select", "index_put", "_unsafe_index", "gather", "take"),
        *("scatter", "slice_scatter", "select_scatter", "masked_scatter", "masked_select"),
        *("nonzero", "index_copy", "index_fill", "_local_scalar_dense", "equal"),
        *("masked_fill", "diagonal_scatter", "max_unpool2d", "max_unpool3d"),
        # put in order
        *("sort", "topk", "searchsorted", "bucketize", "kthvalue", "mode", "isin"),
        *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
        # element by element, which torch does not mark as such
        *("floor_divide", "polar"),
        # random numbers
        *("rand_like", "randn_like", "bernoulli", "uniform", "normal", "exponential"),
        *("multinomial", "native_dropout"),
    }
)

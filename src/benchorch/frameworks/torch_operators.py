"""Precision of the operators of one eager call."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from benchorch.domain.codec import Json

if TYPE_CHECKING:
    import torch

_REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
_CASTS = ("aten::_to_copy", "aten::to")
_ATTENTION = "aten::_scaled_dot_product"
_NO_ARITHMETIC = ("aten::detach", "aten::clone", "aten::copy_", "aten::empty", "aten::zeros")


_ROUNDING = "quantized_decomposed::"
_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        *("linear", "addmm", "mm", "bmm", "baddbmm", "matmul", "scaled_dot_product_attention"),
        *("convolution", "conv1d", "conv2d", "conv3d"),
    )
)


@contextmanager
def forgotten_traces() -> Iterator[None]:
    """Have Dynamo forget calls that it saw in a mode, after which `torch.cond` fails."""
    before = _codes_seen()
    try:
        yield
    finally:
        if _codes_seen() != before:
            sys.modules["torch._dynamo"].reset()


def _codes_seen() -> int:
    tracing = sys.modules.get("torch._dynamo.convert_frame")
    return len(tracing.input_codes.seen) if tracing else 0


def operator_facts(
    module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], keywords: Mapping[str, Json]
) -> dict[str, Json]:
    """Operators of one call by the dtype of what they compute, and casts between floating dtypes.

    Views and copies compute nothing and are not counted. What a compiler makes of the module keeps
    these dtypes. Nothing is counted where the module cannot be called so.

    Where layers are quantised, also their share of the products: each of their calls is one, as is
    each matrix product, convolution and attention outside of them.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    computed: Counter[str] = Counter()
    casts = products = 0
    layers = QuantisedCalls(module)

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Not: to be skipped, Dynamo is imported, which takes longer than torch itself."""
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal casts, products
            made = func(*args, **(kwargs or {}))
            first = made[0] if isinstance(made, tuple | list) and made else made
            name = func._schema.name
            if not isinstance(first, torch.Tensor) or func.is_view:
                return made
            if name in _CASTS:
                casts += _is_cast(args, first)
            elif name not in _NO_ARITHMETIC:
                computed[str(first.dtype).removeprefix("torch.")] += 1
                products += layers.depth == 0 and _is_product(name)
            return made

    try:
        with forgotten_traces(), torch.no_grad(), layers, Counting():  # type: ignore[no-untyped-call]
            module(**tensors, **keywords)
    except _REFUSALS:
        return {}  # a compiler may take what eager torch cannot run
    share = layers.calls / (layers.calls + products) if layers.calls else 0.0
    quantised = {"quantized_share": round(share, 4)} if layers.calls else {}
    return {"executed_dtypes": dict(computed), "casts": casts, **quantised}


class QuantisedCalls(ExitStack):
    """Count of a module's calls of quantised layers, while it is entered.

    Args:
        module: with or without such layers.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.calls = 0
        self.depth = 0
        for layer in module.modules():
            if is_quantised(layer):
                self.callback(layer.register_forward_pre_hook(self._enter).remove)
                self.callback(layer.register_forward_hook(self._leave, always_call=True).remove)

    def _enter(self, *_: object) -> None:
        self.calls += self.depth == 0
        self.depth += 1

    def _leave(self, *_: object) -> None:
        self.depth -= 1


def is_quantised(layer: torch.nn.Module) -> bool:
    """Whether it is a linear or convolution layer whose weight is held in fewer bits.

    It is one of torch.ao's own, or its weight is a tensor of another class.
    """
    import torch

    home, name = type(layer).__module__, type(layer).__name__
    if ("Linear" not in name and "Conv" not in name) or not hasattr(layer, "weight"):
        return False
    if home.startswith("torch.ao.nn"):
        return ".qat." not in home
    weight = layer.weight
    return isinstance(weight, torch.Tensor) and type(weight.data) is not torch.Tensor


def _is_product(name: str) -> bool:
    return name in _PRODUCTS or name.startswith(_ATTENTION)


def program_operators(program: torch.export.ExportedProgram) -> dict[str, Json]:
    """The same of an exported program, and the share of its products that take int8.

    A product takes int8 where its operands come out of dequantisation, which compilers fuse into
    it: the graph itself computes in floats.
    """
    import torch

    computed: Counter[str] = Counter()
    casts = products = quantised = 0
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(
            value, torch.Tensor
        ):
            continue
        name = node.target._schema.name
        if name in _CASTS:
            given = node.args[0].meta.get("val")
            casts += given is not None and _is_cast((given,), value)
        elif name.startswith(_ROUNDING) or name in _NO_ARITHMETIC or node.target.is_view:
            continue
        else:
            computed[str(value.dtype).removeprefix("torch.")] += 1
            products += _is_product(name)
            quantised += _is_product(name) and any(map(_is_dequantised, node.all_input_nodes))
    share = {"quantized_share": round(quantised / products, 4)} if quantised else {}
    return {"executed_dtypes": dict(computed), "casts": casts, **share}


def _is_dequantised(node: Any) -> bool:
    """Whether it comes out of dequantisation, through views such as a transposition."""
    while getattr(node.target, "is_view", False) and len(node.all_input_nodes) == 1:
        (node,) = node.all_input_nodes
    return str(node.target).startswith("quantized_decomposed.dequantize")


def _is_cast(args: Any, made: torch.Tensor) -> bool:
    """Whether one floating dtype became another."""
    given = args[0]
    return bool(
        given.is_floating_point() and made.is_floating_point() and given.dtype != made.dtype
    )

"""Translations to ONNX of operators that torch's exporter does not know."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

_INT64 = 7
"""ONNX's number of the type."""


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For `torch.onnx.export`, of operators that are registered in this process."""
    import torch

    found: dict[Callable[..., Any], Callable[..., Any]] = {}
    if hasattr(torch.ops.aten, "_grouped_mm"):
        found[torch.ops.aten._grouped_mm.default] = _grouped_product
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found[torch.ops.transformers.grouped_mm_fallback.default] = _grouped_product
    return found


def _grouped_product(
    rows: Any, weights: Any, offs: Any = None, bias: Any = None, out_dtype: int | None = None
) -> Any:
    """Each row times the weights of its group, as experts of a mixture are called.

    Args:
        rows: of shape (rows, inputs), those of the first group first.
        weights: of shape (groups, inputs, outputs); how many groups is known.
        offs: index after each group's last row, which of the last group is the last of all; None
            where `rows` have an axis of groups.
        bias, out_dtype: none is translated.
    """
    from onnxscript import opset18 as op

    if bias is not None or out_dtype is not None:
        raise NotImplementedError("a grouped product with a bias or another type of output")
    if offs is None:
        return op.MatMul(rows, weights)
    bounds = op.Concat(op.Constant(value_ints=[0]), op.Cast(offs, to=_INT64), axis=0)
    numbers = [op.Constant(value_int=number) for number in range(weights.shape[0] + 1)]
    edges = [op.Gather(bounds, number, axis=0) for number in numbers]
    products = []
    for group, (start, end) in enumerate(pairwise(edges)):
        own = op.Gather(rows, op.Range(start, end, op.Constant(value_int=1)), axis=0)
        products.append(op.MatMul(own, op.Gather(weights, numbers[group], axis=0)))
    return op.Concat(*products, axis=0)

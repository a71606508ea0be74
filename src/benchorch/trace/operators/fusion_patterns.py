"""Patterns of operators that one kernel often does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Operators that are often one kernel, found from one of them.

    Attributes:
        name: of the group.
        seeds: where it is looked for.
        before, after: what is taken in towards the producers and towards the readers.
        needs: of which at least one must be there.
        most: how many of an operator there may be.
    """

    name: str
    seeds: frozenset[str]
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    most: Mapping[str, int] = field(default_factory=dict)


def _ops(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LAYOUT = "reshape view transpose permute unsqueeze squeeze flatten expand contiguous t slice"
_ACTIVATIONS = "relu clip hardswish hardsigmoid sigmoid silu leakyrelu relu6 hardtanh"

PATTERNS = (
    Pattern(
        name="attention",
        seeds=_ops("softmax"),
        before=_ops("matmul div mul add where cast transpose sqrt"),
        after=_ops("matmul where isnan cast dropout"),
        needs=_ops("matmul"),
        most={"matmul": 2},
    ),
    Pattern(
        name="normalization",
        seeds=_ops("reducemean"),
        before=_ops("add"),
        after=_ops("sub pow reducemean add sqrt div mul reciprocal cast"),
        needs=_ops("sqrt"),
    ),
    Pattern(
        name="add-normalization",
        seeds=_ops("layernormalization layer_norm native_layer_norm skiplayernormalization"),
        before=_ops("add"),
        most={"add": 1},
        needs=_ops("add"),
    ),
    Pattern(
        name="gelu",
        seeds=_ops("erf tanh"),
        before=_ops("div mul add pow cast"),
        after=_ops("add mul cast"),
        needs=_ops("mul"),
        most={"add": 3, "mul": 4},
    ),
    Pattern(
        name="convolution",
        seeds=_ops("conv conv2d conv1d convolution convtranspose fusedconv"),
        after=_ops(f"batchnormalization batch_norm add {_ACTIVATIONS}"),
        most={"add": 1},
    ),
    Pattern(name="linear", seeds=_ops("matmul"), after=_ops("add"), most={"add": 1}),
    Pattern(name="layout", seeds=_ops(_LAYOUT), before=_ops(_LAYOUT), after=_ops(_LAYOUT)),
)
"""In this order; an operator belongs to the first that takes it."""

"""The graph of a model's operators, whoever described it, and libraries of their groups."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from benchorch.errors import TraceError
from benchorch.files import read_small

_Ops = frozenset[str]
_Most = Annotated[int, msgspec.Meta(ge=0)]


class Pattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Operators that are often one kernel, found from one of them."""

    name: str  # of the group
    seeds: _Ops  # where it is looked for
    # before, after: what is taken in towards the producers and towards the readers
    before: _Ops = frozenset()
    after: _Ops = frozenset()
    needs: _Ops = frozenset()  # of which at least one must be there
    most: dict[str, _Most] = {}  # how many of an operator there may be


_SETS = ("seeds", "before", "after", "needs")


_LAYOUT = "reshape view transpose permute unsqueeze squeeze flatten expand contiguous t slice"
_ACTIVATIONS = "relu clip hardswish hardsigmoid sigmoid silu leakyrelu relu6 hardtanh"
_NORMS = "layernormalization layer_norm native_layer_norm skiplayernormalization"
_CONVOLUTIONS = "conv conv2d conv1d convolution convtranspose fusedconv"
_DIVIDED = "matmul div mul add where cast transpose sqrt"
_CENTRED = "sub pow reducemean add sqrt div mul reciprocal cast"
_SCALED = f"batchnormalization batch_norm add {_ACTIVATIONS}"

# The name of a group, its seeds, what is before and after, of which one is needed, how many.
_GROUPS: tuple[tuple[str, str, str, str, str, dict[str, int]], ...] = (
    ("attention", "softmax", _DIVIDED, "matmul where isnan cast dropout", "matmul", {"matmul": 2}),
    ("normalization", "reducemean", "add", _CENTRED, "sqrt", {}),
    ("add-normalization", _NORMS, "add", "", "add", {"add": 1}),
    ("gelu", "erf tanh", "div mul add pow cast", "add mul cast", "mul", {"add": 3, "mul": 4}),
    ("convolution", _CONVOLUTIONS, "", _SCALED, "", {"add": 1}),
    ("linear", "matmul", "", "add", "", {"add": 1}),
    ("layout", _LAYOUT, _LAYOUT, _LAYOUT, "", {}),
)
PATTERNS = tuple(
    Pattern(
        name=name,
        most=most,
        **{key: frozenset(ops.split()) for key, ops in zip(_SETS, sets, strict=True)},
    )
    for name, *sets, most in _GROUPS
)


class Library(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a graph's operators are grouped and drawn."""

    # in this order; an operator belongs to the first that takes it
    groups: tuple[Pattern, ...] = PATTERNS
    hidden: _Ops = frozenset()  # operators that are no node; their readers read what they do
    # of a node, for Amdahl4ML's ``op_id``: the name of one of its operators. Without them nodes are
    # counted by their first operator.
    numbers: dict[Annotated[int, msgspec.Meta(ge=0)], str] = {}
    rankdir: Literal["TB", "LR", "BT", "RL"] = "TB"  # Graphviz's direction


STANDARD = Library()


def plain_op(op: str) -> str:
    """An operator's type however a graph spells it: ``aten.add.Tensor`` and ``Add`` are ``add``."""
    match = re.fullmatch(r"(?:\w+[.:]+)?(\w+?)(?:\.\w+)?", op)
    return (match[1] if match else op).lower()


def read_library(path: Path) -> Library:
    """The library in a YAML or JSON file; operators in it may have any graph's spelling."""
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
    try:
        read: Library = msgspec.convert(decode(read_small(path, links=True)), Library, strict=False)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise TraceError(
            f"{path}: no library of groups can be read: {error}; see docs/analysis/critical-path.md"
        ) from error
    plain = tuple(_plain(pattern) for pattern in read.groups)
    return msgspec.structs.replace(read, groups=plain, hidden=frozenset(map(plain_op, read.hidden)))


def _plain(pattern: Pattern) -> Pattern:
    spelled: Mapping[str, _Ops] = {
        name: frozenset(map(plain_op, getattr(pattern, name))) for name in _SETS
    }
    most = {plain_op(op): count for op, count in pattern.most.items()}
    return msgspec.structs.replace(pattern, **spelled, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNode:
    """One operator."""

    name: str  # unique in its graph, and what the trace or its provenance calls it
    op: str  # its type
    inputs: tuple[str, ...] = ()  # names of the nodes whose outputs it reads
    module: str = ""  # qualified name of the module it comes from, empty where unknown
    # what a person may want to see: shapes, dtypes
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """Nodes in a topological order."""

    name: str  # of the graph, as its own file calls it: viewers join by it
    nodes: tuple[OperatorNode, ...]  # in order; `node_time_ns` of the tables joins by their names
    source: str  # ``onnx``, ``export`` or ``inductor``
    library: Library = STANDARD  # how the operators are grouped and drawn

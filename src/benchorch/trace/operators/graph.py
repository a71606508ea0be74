"""The graph of a model's operators, whoever described it: ONNX, torch.export, Inductor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.trace.operators.library import STANDARD, Library


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNode:
    """One operator.

    Attributes:
        name: unique in its graph, and what the trace or its provenance calls it.
        op: its type.
        inputs: names of the nodes whose outputs it reads.
        module: qualified name of the module it comes from, empty where unknown.
        attributes: what a person may want to see: shapes, dtypes.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    module: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """Nodes in a topological order.

    Attributes:
        name: of the graph, as its own file calls it: viewers join by it.
        nodes: in order; `node_time_ns` of the tables joins by their names.
        source: ``onnx``, ``export`` or ``inductor``.
        library: how the operators are grouped and drawn.
    """

    name: str
    nodes: tuple[OperatorNode, ...]
    source: str
    library: Library = STANDARD

"""The graph of a model's operators, whoever described it: ONNX, torch.export, Inductor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.trace.operators.library import STANDARD, Library


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

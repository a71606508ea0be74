"""Nodes of the model's graph that each event did the work of."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np

from benchorch.trace.arrays import Bools, Int64s, scattered
from benchorch.trace.attribution.entities import Entities, Shares
from benchorch.trace.attribution.owners import MODULE, EventOwners
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.nesting import inherited
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode, plain_op
from benchorch.trace.operators.operator_kinds import operator_kind
from benchorch.trace.operators.provenance import Provenance, fused_ops, is_fused, kernel_of
from benchorch.trace.operators.shapes import ITEM_BYTES, integers, spelled

LEAST_RATIO = 0.3  # minimum share of the graph's nodes in order; fewer are coincidence
_SEARCHED = 3  # search range of one pass in graph lengths: other code may come between

_MOST_NODES, _MOST_OPERATORS = 5_000, 200_000
_BIASED = {"aten::linear", "aten::addmm"}
NO_WORK = {"input", "output", "constant", "placeholder", "getitem", "identity", "shape"}
_FUSED = "fused "  # what ONNX Runtime puts before the name of a node with its activation
_RESULT = re.compile(r"(?<!\w)(\w+)\[([\d, ]*)\]")
_COMPILED_CALL = "## Call CompiledFxGraph"


def graph_nodes(
    events: Events,
    owned: EventOwners,
    graph: OperatorGraph | None = None,
    provenance: Sequence[Provenance] = (),
) -> Entities:
    """Rows by node: ONNX Runtime's by name, a compiler's by provenance, eager code's by order.

    Without provenance a row is an operator that the name of a fused kernel lists. Nodes share a
    kernel's time by the bytes of their results, or equally where the graph does not say.
    """
    nodes = {node.name: node for node in graph.nodes} if graph else {}
    found: dict[int, tuple[str, ...]] = {}
    if graph is not None:
        found.update(_of_eager(events, owned, graph) or _by_sequence(events, owned, graph))
    found.update(_of_compiled(events, owned, provenance))
    found.update(_of_onnx_runtime(events, nodes))
    names = tuple(dict.fromkeys(name for listed in found.values() for name in listed))
    row = {name: number for number, name in enumerate(names)}
    sets = {listed: number for number, listed in enumerate(dict.fromkeys(found.values()))}
    chosen = np.array([*found], dtype=np.int64)
    code = scattered(len(events), chosen, [sets[listed] for listed in found.values()])
    instance = inherited(owned.parent, scattered(len(events), chosen, chosen))
    return Entities(
        names=names,
        part=np.where(instance >= 0, code[instance], NOTHING),
        shares=tuple(_shares(listed, row, nodes) for listed in sets),
        instance=instance,
    )


def _of_onnx_runtime(
    events: Events, nodes: Mapping[str, OperatorNode]
) -> dict[int, tuple[str, ...]]:
    """Nodes by name; one that the runtime fused keeps its first part's before a slash."""
    chosen = np.flatnonzero(events.category == Category.NODE)
    named = {
        int(code): (_known(events.names[code], nodes),) for code in np.unique(events.name[chosen])
    }
    return {int(event): named[int(events.name[event])] for event in chosen}


def _known(name: str, nodes: Mapping[str, OperatorNode]) -> str:
    """The longest beginning of a name, up to a slash, that the graph has; else the name."""
    for spelled_name in (name, name.removeprefix(_FUSED)):
        parts = spelled_name.split("/")
        beginnings = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
        found = next((one for one in beginnings if one in nodes), None)
        if found is not None:
            return found
    return name


def _of_compiled(
    events: Events, owned: EventOwners, provenance: Sequence[Provenance]
) -> dict[int, tuple[str, ...]]:
    """Kernels in compiled code, each by which of its graph's calls of that kernel it is."""
    marked = events.called(lambda name: name.startswith(_COMPILED_CALL))
    call = inherited(owned.parent, np.where(marked, np.arange(len(events)), NOTHING))
    by_graph = _by_graph(events, call, provenance)
    chosen = np.flatnonzero(_kernels(events, owned, call, provenance))
    counted: Counter[tuple[int, str]] = Counter()
    found: dict[int, tuple[str, ...]] = {}
    for event in chosen[np.argsort(events.start_ns[chosen], kind="stable")].tolist():
        name, within = events.names[events.name[event]], int(call[event])
        graph = int(events.name[within]) if within >= 0 else NOTHING
        listed = by_graph.get(graph, Provenance()).nodes(name, counted[within, kernel_of(name)])
        counted[within, kernel_of(name)] += 1
        found[event] = listed or fused_ops(name) or (kernel_of(name),)
    return found


def _by_graph(
    events: Events, call: Int64s, provenance: Sequence[Provenance]
) -> dict[int, Provenance]:
    """Provenance of each compiled graph by its calls' name: in order, where as many are known."""
    calls = np.unique(call[call >= 0])
    in_order = calls[np.argsort(events.start_ns[calls], kind="stable")]
    graphs = list(dict.fromkeys(events.name[in_order].tolist()))
    if len(graphs) != len(provenance):
        return {}
    return dict(zip(graphs, provenance, strict=True))


def _kernels(
    events: Events, owned: EventOwners, call: Int64s, provenance: Sequence[Provenance]
) -> Bools:
    """Fused kernels by their names, and all else that compiled graphs call themselves."""
    called = {name for one in provenance for name in one.calls}
    device = events.works
    operator = events.category == Category.OPERATOR
    direct = operator & (owned.parent >= 0) & (owned.parent == call)
    fused = events.called(is_fused)
    known = events.called(lambda name: kernel_of(name) in called)
    chosen: Bools = (fused & (device | operator)) | direct | (known & device)
    return chosen


def _of_eager(
    events: Events, owned: EventOwners, graph: OperatorGraph
) -> dict[int, tuple[str, ...]]:
    """The k-th call of an operator in a module's range is the graph's k-th such node there."""
    nodes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in graph.nodes:
        nodes[node.module, plain_op(node.op)].append(node.name)
    operator = (events.category == Category.OPERATOR) & (owned.module >= 0) & ~owned.backward
    around = np.where(owned.parent >= 0, owned.operator[owned.parent], NOTHING)
    outermost = (around == NOTHING) | (owned.module[around] != owned.module)
    chosen = np.flatnonzero(operator & outermost)
    counted: Counter[tuple[int, str]] = Counter()
    found: dict[int, tuple[str, ...]] = {}
    for event in chosen[np.argsort(events.start_ns[chosen], kind="stable")].tolist():
        module = int(owned.module[event])
        op = plain_op(events.names[events.name[event]])
        known = nodes.get((events.names[events.name[module]].removeprefix(MODULE), op), [])
        if counted[module, op] < len(known):
            found[event] = (known[counted[module, op]],)
        counted[module, op] += 1
    return found


def _shares(
    listed: Sequence[str], row: Mapping[str, int], nodes: Mapping[str, OperatorNode]
) -> Shares:
    """How a kernel's time is divided among its nodes."""
    sizes = [_bytes(nodes[name]) if name in nodes else None for name in listed]
    known = [size for size in sizes if size]
    parts = known if len(known) == len(listed) else [1.0] * len(listed)
    return {row[name]: part / sum(parts) for name, part in zip(listed, parts, strict=True)}


def _bytes(node: OperatorNode) -> float | None:
    """Size of its results, from their description in the graph: ``float32[8, 128]``."""
    listed = _RESULT.findall(node.attributes.get("shape", ""))
    sizes = [(spelled(dtype), integers(shape)) for dtype, shape in listed]
    if not sizes or not all(dtype for dtype, _ in sizes):
        return None
    return sum(math.prod(shape) * ITEM_BYTES[dtype] for dtype, shape in sizes)


def _by_sequence(
    events: Events, owned: EventOwners, graph: OperatorGraph
) -> dict[int, tuple[str, ...]]:
    """For each operator that does the work of a node of the graph, that node; empty without one."""
    kind_of = {node.name: operator_kind(node.op) for node in graph.nodes}
    operators, found_kinds = _outermost(events, owned, {*kind_of.values()} - NO_WORK)
    # What adds to a product alone, as a bias does, is part of the operator that multiplies.
    biases = {
        node.inputs[0]: node.name
        for node in graph.nodes
        if (kind_of[node.name], *map(kind_of.get, node.inputs)) == ("add", "matmul")
    }
    biased = {at for at in operators if events.names[events.name[at]] in _BIASED}
    parts = {*biases.values()} if biased else set()
    nodes = [name for name, kind in kind_of.items() if kind not in NO_WORK and name not in parts]
    kinds = [kind_of[name] for name in nodes[:_MOST_NODES]]
    possible = sum(kind in {*found_kinds} for kind in kinds)
    found: dict[int, tuple[str, ...]] = {}
    place = 0
    while possible and place < len(operators):
        pairs = _pass(kinds, found_kinds[place : place + _SEARCHED * (len(kinds) + 1)], place)
        if len(pairs) < max(LEAST_RATIO * possible, 1):
            place += max(len(kinds) // 2, 1)
            continue
        for node, at in pairs:
            name, operator = nodes[node], operators[at]
            part = operator in biased and name in biases
            found[operator] = (name, biases[name]) if part else (name,)
        place = pairs[-1][1] + 1
    return found


def _pass(kinds: Sequence[str], ahead: Sequence[str], place: int) -> list[tuple[int, int]]:
    """Nodes and the operators that do their work in the next pass, as numbers.

    The least of what is ahead counts in which the most are found: more of it holds other passes.
    """
    best: list[tuple[int, int]] = []
    for times in range(1, _SEARCHED + 1):
        within = ahead[: times * (len(kinds) + 1)]
        blocks = SequenceMatcher(None, kinds, within, autojunk=False).get_matching_blocks()
        pairs = [
            (block.a + step, place + block.b + step)
            for block in blocks
            for step in range(block.size)
        ]
        if len(pairs) > len(best):
            best = pairs
        if len(within) == len(ahead):
            break
    return best


def _outermost(events: Events, owned: EventOwners, kinds: set[str]) -> tuple[list[int], list[str]]:
    """Operators of some kinds that are in no other of them, in order, on the busiest thread."""
    kind_of = [operator_kind(name) for name in events.names]
    matching = events.called(lambda name: operator_kind(name) in kinds)
    chosen = (events.category == Category.OPERATOR) & matching & ~owned.backward
    if not chosen.any():
        return [], []
    lane = np.bincount(events.lane[chosen]).argmax()
    chosen &= events.lane == lane
    around = inherited(owned.parent, np.where(chosen, np.arange(len(events)), NOTHING))
    inner = (owned.parent != NOTHING) & (around[owned.parent] != NOTHING)
    these = np.flatnonzero(chosen & ~inner)
    these = these[np.argsort(events.start_ns[these], kind="stable")][:_MOST_OPERATORS]
    return these.tolist(), [kind_of[code] for code in events.name[these].tolist()]

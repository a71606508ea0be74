"""Join of a trace's operators with the nodes of a model's graph, by order and kind.

Neither names the other: what they share is that the same kinds of operators come in the same
order, pass after pass. So each pass is the longest common sequence of the graph's nodes and of
the operators that follow the last pass.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from benchorch.trace.attribution.owners import Owners, inherited
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trace.operators.operator_kinds import operator_kind

LEAST_RATIO = 0.3  # minimum share of the graph's nodes in order; fewer are coincidence
_SEARCHED = 3  # search range of one pass in graph lengths: other code may come between

_MOST_NODES, _MOST_OPERATORS = 5_000, 200_000
_BIASED = {"aten::linear", "aten::addmm"}
NO_WORK = {"input", "output", "constant", "placeholder", "getitem", "identity", "shape"}


def by_sequence(events: Events, owned: Owners, graph: OperatorGraph) -> dict[int, tuple[str, ...]]:
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


def _outermost(events: Events, owned: Owners, kinds: set[str]) -> tuple[list[int], list[str]]:
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

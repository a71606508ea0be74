"""Groups of a graph's operators: those that one kernel often does, or one module.

A group never makes a cycle: what it is merged into stays a graph that can be drawn and walked.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from benchorch.trace.operators.graph import OperatorGraph, OperatorNode


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A smaller graph, and what became of the larger one.

    Attributes:
        graph: one node for each group, and for each node that is in none.
        members: names of the nodes in each node of `graph`, in topological order.
    """

    graph: OperatorGraph
    members: Mapping[str, tuple[str, ...]]


def plain_op(op: str) -> str:
    """An operator's type however a graph spells it: ``aten.add.Tensor`` and ``Add`` are ``add``."""
    match = re.fullmatch(r"(?:\w+[.:]+)?(\w+?)(?:\.\w+)?", op)
    return (match[1] if match else op).lower()


def by_pattern(graph: OperatorGraph, patterns: Sequence[Pattern] = PATTERNS) -> Grouping:
    """Operators of one kernel together, as far as the patterns know them."""
    merging = _Merging(graph)
    for pattern in patterns:
        for index in merging.free():
            if merging.op[index] in pattern.seeds and merging.name_of[index] is None:
                found = _grown(merging, pattern, index)
                if len(found) > 1 and (not pattern.needs or merging.has(found, pattern.needs)):
                    merging.merge(found, pattern.name)
    return merging.result()


def _grown(merging: _Merging, pattern: Pattern, seed: int) -> set[int]:
    """The seed and all that may be taken in, one by one, while no way leaves and comes back."""
    found, counts = {seed}, dict(pattern.most)
    counts[merging.op[seed]] = counts.get(merging.op[seed], 1 << 30) - 1
    grew = True
    while grew:
        grew = False
        for index in sorted(merging.around(found)):
            op = merging.op[index]
            after = bool(found & merging.into[index]) and op in pattern.after
            # Taking in a producer that others read too would compute it for nobody.
            before = op in pattern.before and merging.out[index] <= found
            if (after or before) and counts.get(op, 1) > 0 and merging.name_of[index] is None:
                if merging.comes_back(found | {index}):
                    continue
                found.add(index)
                counts[op] = counts.get(op, 1 << 30) - 1
                grew = True
    return found


class _Merging:
    """Nodes that become fewer: each node's root, and the edges between roots."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.op = [plain_op(node.op) for node in graph.nodes]
        self.name_of: list[str | None] = [None] * len(graph.nodes)
        self.root = list(range(len(graph.nodes)))
        place = {node.name: index for index, node in enumerate(graph.nodes)}
        self.into = [{place[name] for name in node.inputs if name in place} for node in graph.nodes]
        self.out: list[set[int]] = [set() for _ in graph.nodes]
        for head, tails in enumerate(self.into):
            for tail in tails:
                self.out[tail].add(head)

    def free(self) -> Iterable[int]:
        """Nodes in no group, when the walk began."""
        return [index for index, name in enumerate(self.name_of) if name is None]

    def around(self, found: set[int]) -> set[int]:
        """Neighbours of a set."""
        near: set[int] = set()
        for index in found:
            near |= self.into[index] | self.out[index]
        return near - found

    def has(self, found: set[int], ops: frozenset[str]) -> bool:
        """Whether one of these operators is in the set."""
        return any(self.op[index] in ops for index in found)

    def comes_back(self, found: set[int]) -> bool:
        """Whether a way through the merged graph leaves the set and enters it again."""
        inside = {self.root[index] for index in found}
        seen: set[int] = set()
        todo = [head for index in inside for head in self.out[index] if head not in inside]
        while todo:
            index = todo.pop()
            if index in inside:
                return True
            if index not in seen:
                seen.add(index)
                todo.extend(self.out[index])
        return False

    def merge(self, found: set[int], name: str) -> bool:
        """Make one of several, unless that would make a cycle."""
        roots = sorted({self.root[index] for index in found})
        if self.comes_back(set(roots)):
            return False
        first, rest = roots[0], roots[1:]
        for index in rest:
            self.into[first] |= self.into[index]
            self.out[first] |= self.out[index]
            for tail in self.into[index]:
                self.out[tail] = self.out[tail] - {index} | {first}
            for head in self.out[index]:
                self.into[head] = self.into[head] - {index} | {first}
            self.into[index], self.out[index] = set(), set()
        self.into[first] -= set(roots)
        self.out[first] -= set(roots)
        for index, root in enumerate(self.root):
            if root in roots:
                self.root[index], self.name_of[index] = first, name
        return True

    def result(self) -> Grouping:
        """What is left, in a topological order."""
        inside: dict[int, list[int]] = {}
        for index, root in enumerate(self.root):
            inside.setdefault(root, []).append(index)
        called = {root: self._called(root, indices) for root, indices in inside.items()}
        nodes, members = [], {}
        for root in self._sorted(inside):
            names = tuple(self.graph.nodes[index].name for index in inside[root])
            reads = tuple(called[tail] for tail in sorted(self.into[root]))
            nodes.append(self._node(root, called[root], reads, inside[root]))
            members[called[root]] = names
        graph = OperatorGraph(name=self.graph.name, nodes=tuple(nodes), source=self.graph.source)
        return Grouping(graph=graph, members=members)

    def _called(self, root: int, indices: Sequence[int]) -> str:
        first = self.graph.nodes[indices[0]].name
        return first if len(indices) == 1 else f"{self.name_of[root]}: {first}"

    def _node(
        self, root: int, name: str, reads: tuple[str, ...], indices: Sequence[int]
    ) -> OperatorNode:
        first = self.graph.nodes[indices[0]]
        if len(indices) == 1:
            return OperatorNode(
                name=name,
                op=first.op,
                inputs=reads,
                module=first.module,
                attributes=first.attributes,
            )
        held = ", ".join(self.graph.nodes[index].op for index in indices[:12])
        return OperatorNode(
            name=name,
            op=str(self.name_of[root]),
            inputs=reads,
            module=_around([self.graph.nodes[index].module for index in indices]),
            attributes={"operators": f"{len(indices)}: {held}"},
        )

    def _sorted(self, inside: Mapping[int, list[int]]) -> list[int]:
        """Roots by Kahn's method, the earliest first where there is a choice."""
        waiting = {root: len(self.into[root]) for root in inside}
        ready = [root for root, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order = []
        while ready:
            root = heapq.heappop(ready)
            order.append(root)
            for head in self.out[root]:
                waiting[head] -= 1
                if waiting[head] == 0:
                    heapq.heappush(ready, head)
        return order


def _around(modules: Sequence[str]) -> str:
    """The innermost module that all of them are in; empty where there is none."""
    levels = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(names[0] for names in takewhile(lambda names: len({*names}) == 1, levels))

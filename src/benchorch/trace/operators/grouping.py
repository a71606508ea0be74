"""Groups of a graph's operators: those that one kernel often does, or one module.

A group never makes a cycle: what it is merged into stays a graph that can be drawn and walked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import chain, takewhile
from typing import NamedTuple

from benchorch.errors import TraceError
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode, Pattern, plain_op


class Grouping(NamedTuple):
    """A smaller graph, and what became of the larger one."""

    graph: OperatorGraph  # one node for each group, and for each node that is in none
    # names of the nodes in each node of `graph`, in topological order
    members: Mapping[str, tuple[str, ...]]
    numbered: Mapping[int, str]  # the node of `graph` that Amdahl4ML's files mean by a number


def by_pattern(graph: OperatorGraph) -> Grouping:
    """Operators of one kernel grouped, by the patterns of the graph's library."""
    merging = _Merging(_without_hidden(graph))
    for pattern in graph.library.groups:
        for index, op in enumerate(merging.op):
            if op in pattern.seeds and merging.name_of[index] is None:
                found = _grown(merging, pattern, index)
                has = {merging.op[one] for one in found} & pattern.needs
                if len(found) > 1 and (has or not pattern.needs):
                    merging.merge(found, pattern.name)
    return merging.result()


def _without_hidden(graph: OperatorGraph) -> OperatorGraph:
    """The graph without the operators that its library hides."""
    reads: dict[str, tuple[str, ...]] = {}
    nodes = []
    for node in graph.nodes:
        through = (reads.get(name, (name,)) for name in node.inputs)
        inputs = tuple(dict.fromkeys(chain.from_iterable(through)))
        if plain_op(node.op) in graph.library.hidden:
            reads[node.name] = inputs
        else:
            nodes.append(replace(node, inputs=inputs))
    return replace(graph, nodes=tuple(nodes))


def _numbered(
    given: Mapping[int, str], members: Mapping[str, tuple[str, ...]], order: Sequence[str]
) -> dict[int, str]:
    """Nodes by the numbers that a library gives, or counted in the order of first operators."""
    if not given:
        return dict(enumerate(order))
    holder = {one: name for name, held in members.items() for one in held}
    unknown = [name for name in given.values() if name not in holder]
    if unknown:
        raise TraceError(f"numbers: no operator of the model is called {', '.join(unknown)}")
    return {number: holder[name] for number, name in given.items()}


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

    def around(self, found: set[int]) -> set[int]:
        """Neighbours of a set."""
        return set[int]().union(*(self.into[one] | self.out[one] for one in found)) - found

    def comes_back(self, found: set[int]) -> bool:
        """Whether a way through the merged graph leaves the set and enters it again."""
        seen: set[int] = set()
        todo = [head for index in found for head in self.out[index] if head not in found]
        while todo:
            index = todo.pop()
            if index in found:
                return True
            if index not in seen:
                seen.add(index)
                todo.extend(self.out[index])
        return False

    def merge(self, found: set[int], name: str) -> None:
        """Make one of several that no way leaves and comes back to."""
        first, *rest = sorted(found)
        for index in rest:
            self.into[first] |= self.into[index]
            self.out[first] |= self.out[index]
            for tail in self.into[index]:
                self.out[tail] = self.out[tail] - {index} | {first}
            for head in self.out[index]:
                self.into[head] = self.into[head] - {index} | {first}
            self.into[index], self.out[index] = set(), set()
        self.into[first] -= found
        self.out[first] -= found
        for index in found:
            self.root[index], self.name_of[index] = first, name

    def result(self) -> Grouping:
        """Remaining nodes in topological order."""
        inside: dict[int, list[int]] = {}
        for index, root in enumerate(self.root):
            inside.setdefault(root, []).append(index)
        called = {root: self._called(root, indices) for root, indices in inside.items()}
        nodes, members = [], {}
        into = {root: sorted(self.into[root]) for root in sorted(inside)}
        for root in TopologicalSorter(into).static_order():
            names = tuple(self.graph.nodes[index].name for index in inside[root])
            reads = tuple(called[tail] for tail in sorted(self.into[root]))
            nodes.append(self._node(root, called[root], reads, inside[root]))
            members[called[root]] = names
        order = [called[root] for root in sorted(inside, key=inside.__getitem__)]
        return Grouping(
            graph=replace(self.graph, nodes=tuple(nodes)),
            members=members,
            numbered=_numbered(self.graph.library.numbers, members, order),
        )

    def _called(self, root: int, indices: Sequence[int]) -> str:
        first = self.graph.nodes[indices[0]].name
        return first if len(indices) == 1 else f"{self.name_of[root]}: {first}"

    def _node(
        self, root: int, name: str, reads: tuple[str, ...], indices: Sequence[int]
    ) -> OperatorNode:
        if len(indices) == 1:
            return replace(self.graph.nodes[indices[0]], inputs=reads)
        held = ", ".join(self.graph.nodes[index].op for index in indices[:12])
        return OperatorNode(
            name=name,
            op=str(self.name_of[root]),
            inputs=reads,
            module=_around([self.graph.nodes[index].module for index in indices]),
            attributes={"operators": f"{len(indices)}: {held}"},
        )


def _around(modules: Sequence[str]) -> str:
    """The innermost module that all of them are in; empty where there is none."""
    levels = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(names[0] for names in takewhile(lambda names: len({*names}) == 1, levels))

"""Groups of a graph's operators: those that one kernel often does.

A group never makes a cycle: what it is merged into stays a graph that can be drawn and walked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import chain

from benchorch.errors import TraceError
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.operators.library import Pattern, plain_op


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A smaller graph, and what became of the larger one.

    Attributes:
        graph: one node for each group, and for each node that is in none.
        members: names of the nodes in each node of `graph`, in topological order.
        numbered: the node of `graph` that Amdahl4ML's files mean by a number.
    """

    graph: OperatorGraph
    members: Mapping[str, tuple[str, ...]]
    numbered: Mapping[int, str]


def by_pattern(graph: OperatorGraph) -> Grouping:
    """Operators of one kernel grouped, by the patterns of the graph's library."""
    merging = _Merging(_without_hidden(graph))
    for pattern in graph.library.groups:
        for seed, op in enumerate(merging.op):
            if op in pattern.seeds and merging.free(seed):
                found = merging.grown(pattern, seed)
                needed = not pattern.needs or any(merging.op[one] in pattern.needs for one in found)
                if len(found) > 1 and needed:
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


class _Merging:
    """Nodes that become fewer: a group has the number of its first one.

    Attributes:
        op: of each node of the whole graph.
        held: of each node that is left, by number, all that are in it, ascending.
        group: the names of groups by number.
        into, out: of each node that is left, those it reads and those that read it.
    """

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.op = [plain_op(node.op) for node in graph.nodes]
        self.held = {index: [index] for index in range(len(graph.nodes))}
        self.group: dict[int, str] = {}
        place = {node.name: index for index, node in enumerate(graph.nodes)}
        self.into = [{place[name] for name in node.inputs if name in place} for node in graph.nodes]
        self.out: list[set[int]] = [set() for _ in graph.nodes]
        for head, tails in enumerate(self.into):
            for tail in tails:
                self.out[tail].add(head)

    def free(self, index: int) -> bool:
        """Whether a node is in no group."""
        return index in self.held and index not in self.group

    def grown(self, pattern: Pattern, seed: int) -> set[int]:
        """The seed and all that may be taken in, while no way leaves and comes back."""
        found, left = {seed}, dict(pattern.most)
        left[self.op[seed]] = left.get(self.op[seed], 1 << 30) - 1
        grew = True
        while grew:
            grew = False
            near = set().union(*(self.into[one] | self.out[one] for one in found)) - found
            for index in sorted(near):
                op = self.op[index]
                after = bool(found & self.into[index]) and op in pattern.after
                # Taking in a producer that others read too would compute it for nobody.
                before = op in pattern.before and self.out[index] <= found
                if (after or before) and left.get(op, 1) > 0 and self.free(index):
                    if self._comes_back(found | {index}):
                        continue
                    found.add(index)
                    left[op] = left.get(op, 1 << 30) - 1
                    grew = True
        return found

    def _comes_back(self, found: set[int]) -> bool:
        """Whether a way through the merged graph leaves the set and enters it again."""
        seen: set[int] = set()
        todo = [head for index in found for head in self.out[index] - found]
        while todo:
            index = todo.pop()
            if index in found:
                return True
            if index not in seen:
                seen.add(index)
                todo.extend(self.out[index])
        return False

    def merge(self, found: set[int], name: str) -> None:
        """Make one of several."""
        first = min(found)
        self.into[first] = set().union(*(self.into[one] for one in found)) - found
        self.out[first] = set().union(*(self.out[one] for one in found)) - found
        for tail in self.into[first]:
            self.out[tail] = self.out[tail] - found | {first}
        for head in self.out[first]:
            self.into[head] = self.into[head] - found | {first}
        self.held[first], self.group[first] = sorted(found), name
        for one in found - {first}:
            del self.held[one]

    def result(self) -> Grouping:
        """What is left, in topological order."""
        names = [node.name for node in self.graph.nodes]
        called = {
            index: f"{self.group[index]}: {names[index]}" if index in self.group else names[index]
            for index in self.held
        }
        nodes, members = [], {}
        for index in TopologicalSorter({one: self.into[one] for one in called}).static_order():
            reads = tuple(called[tail] for tail in sorted(self.into[index]))
            node = replace(self.graph.nodes[index], inputs=reads)
            if index in self.group:
                node = OperatorNode(name=called[index], op=self.group[index], inputs=reads)
            nodes.append(node)
            members[called[index]] = tuple(names[one] for one in self.held[index])
        return Grouping(
            graph=replace(self.graph, nodes=tuple(nodes)),
            members=members,
            numbered=_numbered(self.graph.library.numbers, members, [*called.values()]),
        )

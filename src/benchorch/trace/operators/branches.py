"""Parallel branches of an operator graph, and its longest chain of data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchorch.trace.operators.graph import OperatorGraph

_END = -1  # the join of ways that meet only where the graph ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Branch between a fork of an operator graph and its join.

    Attributes:
        fork, join: nodes.
        nodes: those strictly between.
        total_ns: their time; `share_ratio` is it over that of all branches of the fork.
    """

    fork: str
    join: str
    nodes: tuple[str, ...]
    total_ns: int
    share_ratio: float


def longest_chain(graph: OperatorGraph, time_ns: Mapping[str, int]) -> tuple[str, ...]:
    """Nodes of the longest chain of data: no number of lanes makes the graph faster than it.

    Nodes without a time take none. Empty for no nodes.
    """
    links = _Links(graph)
    reach: list[int] = []
    previous: list[int] = []
    for name, before in zip(links.names, links.before, strict=True):
        latest, producer = max(((reach[one], -one) for one in before), default=(0, 1))
        reach.append(latest + time_ns.get(name, 0))
        previous.append(-producer)
    last = max(range(len(reach)), key=lambda index: (reach[index], index), default=_END)
    chain = []
    while last != _END:
        chain.append(links.names[last])
        last = previous[last]
    return tuple(reversed(chain))


def branches(graph: OperatorGraph, time_ns: Mapping[str, int]) -> tuple[Branch, ...]:
    """Branches between every fork and its join, outer forks first.

    Ways are the connected parts strictly between the two. A fork with fewer than two ways that
    hold a node (a residual connection) is none. The join of ways that meet only at the graph's
    end has no name.

    Args:
        graph: in topological order.
        time_ns: of each node, median over runs; 0 for those not listed.
    """
    links = _Links(graph)
    found: list[Branch] = []
    for fork, join in links.forks():
        parts = [tuple(links.names[one] for one in part) for part in links.parts(fork, join)]
        if len(parts) < 2:
            continue
        total_ns = [sum(time_ns.get(name, 0) for name in part) for part in parts]
        found.extend(
            Branch(
                fork=links.names[fork],
                join="" if join == _END else links.names[join],
                nodes=part,
                total_ns=took_ns,
                share_ratio=took_ns / (sum(total_ns) or 1),
            )
            for part, took_ns in zip(parts, total_ns, strict=True)
        )
    return tuple(found)


class _Links:
    """A graph by numbers, in its topological order."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.names = [node.name for node in graph.nodes]
        number = {name: index for index, name in enumerate(self.names)}
        self.before = [
            sorted({number[name] for name in node.inputs if number.get(name, index) < index})
            for index, node in enumerate(graph.nodes)
        ]
        self.after: list[list[int]] = [[] for _ in self.names]
        for index, before in enumerate(self.before):
            for producer in before:
                self.after[producer].append(index)

    def forks(self) -> Iterator[tuple[int, int]]:
        """Every node with several readers, with the node that joins all branches.

        That is its immediate post-dominator: the first node on every way to the graph's end.
        """
        joins = [_END] * len(self.names)
        for index in range(len(self.names) - 1, -1, -1):
            after = self.after[index]
            meeting = after[0] if after else _END
            for other in after[1:]:
                meeting = _meeting(joins, meeting, other)
            joins[index] = meeting
        for index, after in enumerate(self.after):
            if len(after) > 1:
                yield index, joins[index]

    def parts(self, fork: int, join: int) -> list[list[int]]:
        """Connected components strictly between fork and join, each in order."""
        inside = self._between(fork, join)
        parts: list[list[int]] = []
        while inside:
            part: list[int] = []
            waiting = [min(inside)]
            inside.discard(waiting[0])
            while waiting:
                index = waiting.pop()
                part.append(index)
                near = inside.intersection((*self.before[index], *self.after[index]))
                inside -= near
                waiting.extend(near)
            parts.append(sorted(part))
        return parts

    def _between(self, fork: int, join: int) -> set[int]:
        found: set[int] = set()
        waiting = list(self.after[fork])
        while waiting:
            index = waiting.pop()
            if index != join and index not in found:
                found.add(index)
                waiting.extend(self.after[index])
        return found


def _meeting(joins: list[int], one: int, other: int) -> int:
    """First common join of two nodes."""
    while one != other:
        if one == _END or other == _END:
            return _END
        if one < other:
            one = joins[one]
        else:
            other = joins[other]
    return one

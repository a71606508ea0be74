"""Parallel branches of an operator graph, and its longest chain of data."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from benchorch.trace.operators.graph import OperatorGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Branch between a fork of an operator graph and its join."""

    fork: str  # and join: nodes
    join: str
    nodes: tuple[str, ...]  # those strictly between
    total_ns: int  # their time; `share_ratio` is it over that of all branches of the fork
    share_ratio: float
    longest_ns: int  # the longest path through it
    slack_ns: int  # by how much the slowest sibling is longer
    on_path: bool  # whether the dataflow path runs through it
    parent: str = ""  # the fork around this one, empty where there is none


def dataflow_path(graph: OperatorGraph, time_ns: Mapping[str, int]) -> tuple[str, ...]:
    """The longest chain of data, in order; nodes without a time take none."""
    return _Links(graph, time_ns).dataflow()


def branches(graph: OperatorGraph, time_ns: Mapping[str, int]) -> tuple[Branch, ...]:
    """Branches between every fork and its join, outer forks first.

    They are the connected parts between the two, if at least two hold a node. The join of those
    that meet only at the graph's end has no name. Nodes that are not listed take no time.
    """
    links = _Links(graph, time_ns)
    critical = set(links.dataflow())
    regions: list[tuple[int, set[int]]] = []
    found: list[Branch] = []
    for fork, join in links.forks():
        parts = links.parts(fork, join)
        if len(parts) < 2:
            continue
        parents = [outer for outer, inside in regions if fork in inside]
        regions.append((fork, {index for part in parts for index in part}))
        parent = links.names[parents[-1]] if parents else ""
        joined = "" if join == len(links.names) else links.names[join]
        names = [tuple(links.names[index] for index in part) for part in parts]
        total_ns = [sum(links.time_ns[index] for index in part) for part in parts]
        longest_ns = [max(links.longest(part)[0].values()) for part in parts]
        found.extend(
            Branch(
                fork=links.names[fork],
                join=joined,
                nodes=names[way],
                total_ns=total_ns[way],
                share_ratio=total_ns[way] / sum(total_ns) if sum(total_ns) else 0.0,
                longest_ns=longest_ns[way],
                slack_ns=max(longest_ns) - longest_ns[way],
                on_path=not critical.isdisjoint(names[way]),
                parent=parent,
            )
            for way in range(len(parts))
        )
    return tuple(found)


class _Links:
    """A graph by numbers, in its topological order."""

    def __init__(self, graph: OperatorGraph, time_ns: Mapping[str, int]) -> None:
        self.names = [node.name for node in graph.nodes]
        self.time_ns = [time_ns.get(name, 0) for name in self.names]
        number = {name: index for index, name in enumerate(self.names)}
        self.before = [
            sorted({number[name] for name in node.inputs if number.get(name, index) < index})
            for index, node in enumerate(graph.nodes)
        ]
        self.after: list[list[int]] = [[] for _ in self.names]
        for index, before in enumerate(self.before):
            for producer in before:
                self.after[producer].append(index)

    def longest(self, chosen: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        """The longest way to the end of each chosen node through others of them, and whence."""
        reach: dict[int, int] = {}
        previous: dict[int, int] = {}
        for index in sorted(chosen):
            arrivals = [(reach[one], -one) for one in self.before[index] if one in reach]
            latest, producer = max(arrivals, default=(0, 0))
            reach[index] = latest + self.time_ns[index]
            if arrivals:
                previous[index] = -producer
        return reach, previous

    def dataflow(self) -> tuple[str, ...]:
        """The longest way of all."""
        reach, previous = self.longest(range(len(self.names)))
        if not reach:
            return ()
        chain = [max(reach, key=lambda index: (reach[index], index))]
        while chain[-1] in previous:
            chain.append(previous[chain[-1]])
        return tuple(self.names[index] for index in reversed(chain))

    def forks(self) -> Iterator[tuple[int, int]]:
        """Every node with several readers, and its join: the first node on all ways to the end.

        That is the number of nodes where ways meet only at the graph's end.
        """
        end = len(self.names)
        joins = [end] * end
        for index in reversed(range(end)):
            after = self.after[index]
            meeting = after[0] if after else end
            for other in after[1:]:
                meeting = _meeting(joins, meeting, other)
            joins[index] = meeting
        for index, after in enumerate(self.after):
            if len(after) > 1:
                yield index, joins[index]

    def parts(self, fork: int, join: int) -> list[list[int]]:
        """Connected components strictly between fork and join, each in order."""
        inside: set[int] = set()
        ahead = list(self.after[fork])
        while ahead:
            if (index := ahead.pop()) != join and index not in inside:
                inside.add(index)
                ahead.extend(self.after[index])
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


def _meeting(joins: list[int], one: int, other: int) -> int:
    while one != other:
        one, other = joins[min(one, other)], max(one, other)
    return one

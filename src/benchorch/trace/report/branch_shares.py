"""Where ways through a graph meet: what did each of them take on its own?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchorch.trace.operators.graph import OperatorGraph


def branch_times(graph: OperatorGraph, time_ns: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """By edge into a node that reads several others: the time of all that only leads through it.

    What every way into the node needs, such as the fork and all before it, is of none of them. A
    way without a node of its own took nothing. Sets of nodes are the bits of whole numbers.
    """
    place = {node.name: index for index, node in enumerate(graph.nodes)}
    needed: dict[str, int] = {}
    times: dict[tuple[str, str], int] = {}
    for node in graph.nodes:
        ways = {name: needed[name] for name in node.inputs if name in needed}
        needed[node.name] = 1 << place[node.name]
        for way in ways.values():
            needed[node.name] |= way
        if len(ways) > 1:
            common = _common(ways)
            for name, way in ways.items():
                own = _places(way & ~common)
                times[name, node.name] = sum(time_ns[graph.nodes[at].name] for at in own)
    return times


def _common(ways: Mapping[str, int]) -> int:
    found = -1
    for way in ways.values():
        found &= way
    return found


def _places(nodes: int) -> Iterator[int]:
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest

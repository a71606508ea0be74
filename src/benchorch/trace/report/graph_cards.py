"""The model's graph as pictures: every operator with its tensors, in kernels, and in modules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from benchorch.trace.findings import WindowFindings
from benchorch.trace.operators.graph import OperatorNode
from benchorch.trace.report.branch_shares import branch_times
from benchorch.trace.report.colors import heat
from benchorch.trace.report.context import duration, percent, share, times
from benchorch.trace.report.graph_layout import Edge
from benchorch.trace.report.graph_picture import Card, Wire, graph_picture
from benchorch.trace.report.graph_times import GraphTimes, NodeTime

MOST_BOXES = 2_500
"""Boxes of one picture: beyond them nobody finds anything, and a browser is slow."""

INPUT = "Input"


def full_picture(measured: GraphTimes, findings: WindowFindings) -> str:
    """Every operator, and between them the tensors that they write and read."""
    shown = measured.graph.nodes[:MOST_BOXES]
    tensors = len(shown) <= MOST_BOXES // 2
    cards: list[Card] = []
    wires: dict[Edge, Wire] = {}
    place: dict[str, int] = {}
    top_ns, along = _most(measured, findings), set(_edges_along(measured))
    for node in shown:
        own = len(cards)
        cards.append(_card(node, measured.of[node.name], findings, top_ns))
        for name in node.inputs:
            if name in place:
                wires[place[name], own] = Wire(on_path=(name, node.name) in along)
        place[node.name] = own
        if tensors and node.op != INPUT and (tensor := node.attributes.get("shape", "")):
            on_path = any(tail == node.name for tail, _ in along)
            cards.append(Card(title=tensor, tooltip=f"what {node.name} writes", tensor=True))
            wires[own, own + 1] = Wire(on_path=on_path)
            place[node.name] = own + 1
    return graph_picture(
        f"{measured.graph.name}: every operator", cards, wires, *_legend(top_ns, findings)
    )


def grouped_picture(title: str, measured: GraphTimes, findings: WindowFindings) -> str:
    """Groups as boxes; where ways join, what share of busy time each of them took."""
    shown = measured.graph.nodes[:MOST_BOXES]
    top_ns, along = _most(measured, findings), set(_edges_along(measured))
    place = {node.name: index for index, node in enumerate(shown)}
    labels = _branch_labels(measured, findings)
    cards = [_card(node, measured.of[node.name], findings, top_ns) for node in shown]
    wires = {
        (place[name], place[node.name]): Wire(
            on_path=(name, node.name) in along, label=labels.get((name, node.name), "")
        )
        for node in shown
        for name in node.inputs
        if name in place
    }
    return graph_picture(title, cards, wires, *_legend(top_ns, findings))


def _edges_along(measured: GraphTimes) -> Iterable[tuple[str, str]]:
    """Of the graph's edges, those that the observed path went over; else those of the data's."""
    held = {(name, node.name) for node in measured.graph.nodes for name in node.inputs}
    observed = held & set(measured.observed)
    return observed or held & set(pairwise(measured.dataflow))


def _most(measured: GraphTimes, findings: WindowFindings) -> int:
    return max((time.drag_ns or 0 for time in measured.of.values()), default=0)


def _legend(top_ns: int, findings: WindowFindings) -> tuple[str, str]:
    return percent(share(top_ns, findings.makespan_ns)), "less time without it"


def _card(node: OperatorNode, time: NodeTime, findings: WindowFindings, top_ns: int) -> Card:
    whole_ns = findings.makespan_ns
    timed = time.total_ns > 0
    lines = []
    if node.module and node.module != node.op:
        lines.append(node.module)
    if timed:
        lines.append(f"{duration(time.total_ns)} · {percent(share(time.on_path_ns, whole_ns))}")
    return Card(
        title=node.op if node.op != INPUT else f"input {node.name}",
        lines=tuple(lines),
        tooltip="\n".join(_said(node, time, findings)),
        fill=heat(share(time.drag_ns or 0, top_ns)) if timed else None,
        on_path=time.on_path_ns > 0,
    )


def _said(node: OperatorNode, time: NodeTime, findings: WindowFindings) -> Iterable[str]:
    """What a person who rests on a box wants to know: its names, its times, its limits."""
    yield from (node.name, f"{node.op} in {node.module or 'no named module'}")
    if time.total_ns:
        whole_ns, busy_ns = findings.makespan_ns, findings.busy_ns
        yield f"{duration(time.total_ns)} in all"
        of_busy, of_wall = share(time.total_ns, busy_ns), share(time.total_ns, whole_ns)
        yield f"{percent(of_busy)} of busy time, {percent(of_wall)} of wall time"
        yield f"{duration(time.on_path_ns)} on the critical path"
        if time.drag_ns is not None:
            left_ns = whole_ns - time.drag_ns
            most = times(whole_ns / left_ns if left_ns else float("inf"))
            yield f"without it {duration(time.drag_ns)} less: at most {most}"
    if time.row and time.row.bound:
        yield f"limited by {time.row.bound}"
    yield from (f"{key}: {value}" for key, value in node.attributes.items() if value)


def _branch_labels(measured: GraphTimes, findings: WindowFindings) -> dict[tuple[str, str], str]:
    """By edge into a join, what share of all busy time the way through it took."""
    spent_ns = {name: time.total_ns for name, time in measured.of.items()}
    found = branch_times(measured.graph, spent_ns)
    return {edge: percent(share(own_ns, findings.busy_ns)) for edge, own_ns in found.items()}

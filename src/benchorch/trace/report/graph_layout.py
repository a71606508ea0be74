"""Where the boxes of a directed graph go: in layers, few crossings, close to what they join.

After Sugiyama, Tagawa and Toda, *Methods for visual understanding of hierarchical system
structures* (1981): layers by longest paths, orders by barycentres of neighbours, positions by
least squares that keep the order.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

GAP_X_PX, GAP_Y_PX, MARGIN_PX = 18.0, 36.0, 12.0
PASS_WIDTH_PX = 8.0
"""What an edge takes in a layer that it only passes."""

LONGEST_ROUTED = 24
"""Layers beyond which an edge goes straight, beneath the boxes: it would push them all aside."""

ORDER_SWEEPS, PLACE_SWEEPS, EVENING_SWEEPS = 8, 14, 4
STRAIGHT_WEIGHT = 1.5
"""How much more than others the edges that matter want to be vertical."""

Edge = tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Centres of boxes and the ways of edges, in pixels from the upper left corner.

    Attributes:
        centres: of each box.
        routes: of each edge, from the lower border of its tail to the upper one of its head.
        far: those edges that go straight, whatever is in between.
        width_px, height_px: of everything with its margin.
    """

    centres: tuple[Point, ...]
    routes: Mapping[Edge, tuple[Point, ...]]
    far: frozenset[Edge]
    width_px: float
    height_px: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slots:
    """Boxes, and a slot in every layer that an edge passes; its links join neighbouring layers."""

    layers: list[list[int]]
    width: list[float]
    chains: dict[Edge, list[int]]
    above: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    below: dict[int, list[tuple[int, float]]] = field(default_factory=dict)


def arrange(
    sizes: Sequence[tuple[float, float]],
    edges: Collection[Edge],
    straight: Collection[Edge] = (),
) -> Layout:
    """A layout of boxes of these widths and heights, in pixels.

    Args:
        sizes: of the boxes, which are in a topological order.
        edges: pairs of their indices, the tail before the head; others are left out.
        straight: those of them that should be vertical before others.
    """
    kept = sorted({(tail, head) for tail, head in edges if tail < head})
    slots = _slots([width for width, _ in sizes], levels(len(sizes), kept), kept, set(straight))
    _order(slots)
    return _measured(slots, [height for _, height in sizes], kept, _place(slots))


def levels(boxes: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each box: by the longest way to it, then as near to its readers as it may."""
    into: list[list[int]] = [[] for _ in range(boxes)]
    out: list[list[int]] = [[] for _ in range(boxes)]
    for tail, head in edges:
        into[head].append(tail)
        out[tail].append(head)
    level = [0] * boxes
    for box in range(boxes):
        level[box] = max((level[tail] + 1 for tail in into[box]), default=0)
    for box in reversed(range(boxes)):
        if len(out[box]) > len(into[box]):
            level[box] = min(level[head] for head in out[box]) - 1
    return level


def _slots(
    widths: Sequence[float], level: Sequence[int], edges: Sequence[Edge], straight: set[Edge]
) -> _Slots:
    slots = _Slots(layers=[[] for _ in range(max(level, default=-1) + 1)], width=[], chains={})
    for box, width in enumerate(widths):
        slots.width.append(width)
        slots.layers[level[box]].append(box)
    for tail, head in edges:
        if level[head] - level[tail] <= LONGEST_ROUTED:
            passed = range(level[tail] + 1, level[head])
            chain = [tail, *(_passing(slots, layer) for layer in passed), head]
            slots.chains[tail, head] = chain
            _link(slots, chain, STRAIGHT_WEIGHT if (tail, head) in straight else 1.0)
    return slots


def _passing(slots: _Slots, layer: int) -> int:
    slots.width.append(PASS_WIDTH_PX)
    slots.layers[layer].append(len(slots.width) - 1)
    return len(slots.width) - 1


def _link(slots: _Slots, chain: Sequence[int], weight: float) -> None:
    """Bends are worse in the middle of an edge than where it meets a box."""
    boxed = {chain[0], chain[-1]}
    for upper, lower in pairwise(chain):
        ends = len(boxed & {upper, lower})
        firm = weight * (4.0 if ends == 2 else 1.0 if ends else 3.0)
        slots.below.setdefault(upper, []).append((lower, firm))
        slots.above.setdefault(lower, []).append((upper, firm))


def _order(slots: _Slots) -> None:
    """Sweep down and up; keep the order with the fewest crossings."""
    best = [list(layer) for layer in slots.layers]
    fewest = _crossings(slots)
    for sweep in range(ORDER_SWEEPS):
        down = sweep % 2 == 0
        layers = slots.layers[1:] if down else slots.layers[-2::-1]
        rank = _ranks(slots)
        for layer in layers:
            _by_barycentre(layer, slots.above if down else slots.below, rank)
        crossings = _crossings(slots)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in slots.layers], crossings
    slots.layers[:] = best


def _ranks(slots: _Slots) -> dict[int, int]:
    return {slot: rank for layer in slots.layers for rank, slot in enumerate(layer)}


def _by_barycentre(
    layer: list[int], neighbours: Mapping[int, list[tuple[int, float]]], rank: dict[int, int]
) -> None:
    def centre(slot: int) -> float:
        near = neighbours.get(slot)
        return sum(rank[other] for other, _ in near) / len(near) if near else rank[slot]

    layer.sort(key=centre)
    rank.update({slot: place for place, slot in enumerate(layer)})


def _crossings(slots: _Slots) -> int:
    """Pairs of links that cross: inversions of the heads when the links are sorted by tail."""
    rank, crossings = _ranks(slots), 0
    for layer in slots.layers:
        seen: list[int] = []
        for slot in layer:
            heads = sorted(rank[lower] for lower, _ in slots.below.get(slot, ()))
            crossings += sum(len(seen) - bisect_right(seen, head) for head in heads)
            for head in heads:
                insort(seen, head)
    return crossings


def _place(slots: _Slots) -> list[float]:
    """The centre of every slot: near its neighbours, in the layer's order, none on another."""
    x = [0.0] * len(slots.width)
    offsets: list[list[float]] = []
    for layer in slots.layers:
        steps = [(slots.width[a] + slots.width[b]) / 2 for a, b in pairwise(layer)]
        offsets.append(list(accumulate((step + GAP_X_PX for step in steps), initial=0.0)))
        middle = sum(offsets[-1]) / len(offsets[-1])
        for slot, offset in zip(layer, offsets[-1], strict=True):
            x[slot] = offset - middle
    for sweep in range(PLACE_SWEEPS):
        turn = range(len(slots.layers))
        down = sweep % 2 == 0
        # One way after the other straightens long chains; at last both ways even out.
        sides = [slots.above if down else slots.below]
        if sweep >= PLACE_SWEEPS - EVENING_SWEEPS:
            sides = [slots.above, slots.below]
        for index in turn if down else reversed(turn):
            layer = slots.layers[index]
            wishes = [_wish(sides, slot, x) for slot in layer]
            wanted = [wish - at for (wish, _), at in zip(wishes, offsets[index], strict=True)]
            fitted = ascending(wanted, [weight for _, weight in wishes])
            for slot, centre, at in zip(layer, fitted, offsets[index], strict=True):
                x[slot] = centre + at
    return x


def ascending(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The values that never fall and are closest to those wanted by weighted least squares.

    Pools of neighbours that would fall get their mean, from the left (Ayer and others, 1955). The
    same as scipy's `isotonic_regression`, whose import takes longer than all the rest here.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, heavy, size = pools.pop()
            both = heavy + pool[1]
            pool = (mean * heavy + pool[0] * pool[1]) / both, both, size + pool[2]
        pools.append(pool)
    return [mean for mean, _, size in pools for _ in range(size)]


def _wish(
    sides: Sequence[Mapping[int, list[tuple[int, float]]]], slot: int, x: Sequence[float]
) -> tuple[float, float]:
    """Where a slot would like to be, and how much: the weighted mean of what it is linked to."""
    near = [link for side in sides for link in side.get(slot, ())]
    weight = sum(firm for _, firm in near)
    if not near:
        return x[slot], 0.1
    return sum(x[other] * firm for other, firm in near) / weight, weight


def _measured(
    slots: _Slots, heights: Sequence[float], edges: Sequence[Edge], x: list[float]
) -> Layout:
    left = min((x[s] - slots.width[s] / 2 for s in range(len(x))), default=0.0) - MARGIN_PX
    right = max((x[s] + slots.width[s] / 2 for s in range(len(x))), default=0.0) + MARGIN_PX
    y, thickness, top = [0.0] * len(x), [0.0] * len(x), MARGIN_PX
    for layer in slots.layers:
        tallest = max((heights[s] for s in layer if s < len(heights)), default=0.0)
        for slot in layer:
            y[slot] = top + tallest / 2
            thickness[slot] = heights[slot] if slot < len(heights) else tallest
        top += tallest + GAP_Y_PX
    centres = [(x[s] - left, y[s]) for s in range(len(x))]
    routes = {
        edge: tuple(_route([(*centres[s], thickness[s]) for s in slots.chains.get(edge, edge)]))
        for edge in edges
    }
    height = top - GAP_Y_PX + MARGIN_PX if slots.layers else 2 * MARGIN_PX
    return Layout(
        centres=tuple(centres[: len(heights)]),
        routes=routes,
        far=frozenset(edges) - slots.chains.keys(),
        width_px=right - left,
        height_px=height,
    )


def _route(chain: Sequence[tuple[float, float, float]]) -> list[Point]:
    """Below the first box, straight through each layer that is passed, above the last box."""
    (first_x, first_y, first), (last_x, last_y, last) = chain[0], chain[-1]
    points = [(first_x, first_y + first / 2)]
    for x, y, thick in chain[1:-1]:
        points += [(x, y - thick / 2), (x, y + thick / 2)]
    return [*points, (last_x, last_y - last / 2)]

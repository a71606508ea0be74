"""How does a graph of boxes look, with its critical path outlined and what may be gained shaded?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchorch.trace.report.graph_layout import Edge, Layout, Point, arrange
from benchorch.trace.report.markup import element, shortened
from benchorch.trace.report.svg import CHARACTER_PX, drawing, ink_on, ramp, tooltip, words

LINE_PX, PADDING_PX = 15.0, 8.0
LEGEND_PX = 30.0
BOLD_PX = 7.5
"""A title's characters are wider."""

LEAST_WIDTH_PX = 470.0
"""So that the legend has room above a graph of one box."""

LONGEST_LABEL = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One box.

    Attributes:
        title, lines: what stands in it.
        tooltip: what is shown where the pointer rests.
        fill: its colour; None where no time is known.
        on_path: whether it is outlined.
        tensor: whether it is data and no work.
    """

    title: str
    lines: tuple[str, ...] = ()
    tooltip: str = ""
    fill: str | None = None
    on_path: bool = False
    tensor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What goes from one box to a later one; its label stands where it enters."""

    on_path: bool = False
    label: str = ""


def graph_picture(
    title: str, cards: Sequence[Card], wires: Mapping[Edge, Wire], most: str, meaning: str
) -> str:
    """The picture, in layers from the top; the legend says what the darkest shade stands for."""
    marked = [edge for edge, wire in wires.items() if wire.on_path]
    layout = arrange([_size(card) for card in cards], list(wires), marked)
    legend = ramp(30, 19, most, meaning)
    mark = element("rect", {"x": 320, "y": 10, "width": 18, "height": 11, "class": "none onpath"})
    legend += [mark, words(344, 19, "on the critical path", "faint", "start")]
    ordered = sorted(layout.routes, key=lambda edge: wires[edge].on_path)
    parts = [_wire(wires[edge], layout.routes[edge], edge in layout.far) for edge in ordered]
    parts += [_card(card, centre) for card, centre in zip(cards, layout.centres, strict=True)]
    parts += [_label(wires[edge].label, layout.routes[edge]) for edge in ordered]
    width = max(layout.width_px, LEAST_WIDTH_PX)
    shift = {"transform": f"translate({(width - layout.width_px) / 2:.1f} {LEGEND_PX})"}
    body = element("g", shift, *parts) if parts else ""
    return drawing(width, _height(layout), title, [*legend, body])


def _height(layout: Layout) -> float:
    return layout.height_px + LEGEND_PX


def _size(card: Card) -> tuple[float, float]:
    longest = max((len(shortened(line, LONGEST_LABEL)) for line in card.lines), default=0)
    title = len(shortened(card.title, LONGEST_LABEL)) * BOLD_PX
    width = max(longest * CHARACTER_PX, title, 30.0) + 2 * PADDING_PX
    return width, LINE_PX * (1 + len(card.lines)) + PADDING_PX


def _card(card: Card, centre: Point) -> str:
    (width, height), (x, y) = _size(card), centre
    kind = "tensor" if card.tensor else "box" if card.fill else "box none"
    shape = {
        "x": x - width / 2,
        "y": y - height / 2,
        "width": width,
        "height": height,
        "rx": height / 2 if card.tensor else 4.0,
        "class": f"{kind} onpath" if card.on_path else kind,
        "fill": None if card.tensor else card.fill,
    }
    ink = ink_on(card.fill) if card.fill else "faint"
    top = y - height / 2 + PADDING_PX / 2 + 11
    lines = [
        words(
            x,
            top + index * LINE_PX,
            shortened(line, LONGEST_LABEL),
            ink if index else f"title {ink}",
        )
        for index, line in enumerate((card.title, *card.lines))
    ]
    return element("g", {}, tooltip(card.tooltip), element("rect", shape), *lines)


def _wire(wire: Wire, route: Sequence[Point], far: bool) -> str:
    kind = " onpath" if wire.on_path else ""
    (x, y), path = route[0], [f"M{route[0][0]:.1f} {route[0][1]:.1f}"]
    for index, (next_x, next_y) in enumerate(route[1:]):
        middle = (y + next_y) / 2
        bent = f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}"
        path.append(f"L{next_x:.1f} {next_y:.1f}" if index % 2 else bent)
        x, y = next_x, next_y
    line = element("path", {"d": "".join(path), "class": f"wire{kind}{' far' if far else ''}"})
    tip = f"M{x - 4:.1f} {y - 8:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 8:.1f}Z"
    return line + element("path", {"d": tip, "class": f"tip{kind}"})


def _label(label: str, route: Sequence[Point]) -> str:
    (x, y), (from_x, from_y) = route[-1], route[-2]
    return words((from_x + x) / 2, (from_y + y) / 2 + 4, label, "label") if label else ""

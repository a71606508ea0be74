"""Points, with their intervals, over two logarithmic axes: one SVG picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchorch.results.report.load_curve import round_decades
from benchorch.trace.report.markup import element
from benchorch.trace.report.svg import drawing, tooltip, words

WIDTH, HEIGHT = 480, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 26, 46
COLOURS, SHAPES = 8, 5
"""So many of each; together they tell forty series apart."""
_MOST_TICKS = 7
_FEWEST_TICKS = 3
# An interval over powers of ten must not press all points into a corner.
_MOST_BEYOND = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One trial's place.

    Attributes:
        x, y: above 0.
        y_ends, x_ends: of the intervals, where there are any.
        series: what its colour and shape stand for.
        tip: what is told where the pointer rests.
        hollow: whether it does not count.
        group: marks of one group are joined from left to right; empty joins nothing.
    """

    x: float
    y: float
    series: str
    tip: str
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    hollow: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One direction: a logarithmic scale between two pixels."""

    low: float
    high: float
    start_px: float
    end_px: float

    def at(self, value: float) -> float:
        """The pixel; values off the scale lie on its edge."""
        share = (math.log10(max(value, 1e-300)) - self.low) / (self.high - self.low)
        return self.start_px + (self.end_px - self.start_px) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round numbers on it, between three and seven as a rule."""
        found = round_decades(self.low, self.high)
        if len(found) > _MOST_TICKS:
            found = [one for one in found if _is_power(one)]
            found = found[:: -(-len(found) // _MOST_TICKS)]
        return found if len(found) >= _FEWEST_TICKS else _even_steps(10**self.low, 10**self.high)


def chart(
    title: str,
    x_label: str,
    y_label: str,
    marks: Sequence[Mark],
    series: Sequence[str],
    fronts: Sequence[Sequence[tuple[float, float]]] = (),
    x_ticks: Sequence[float] = (),
) -> str:
    """The picture; empty without marks.

    Args:
        series: all that the page has, in the order of their colours.
        fronts: rings around their points, and dashed steps through them from left to right.
        x_ticks: instead of round numbers, unless they are too many.
    """
    if not marks:
        return ""
    x = _axis([(m.x, m.x_ends) for m in marks], LEFT, WIDTH - RIGHT)
    y = _axis([(m.y, m.y_ends) for m in marks], HEIGHT - BOTTOM, TOP)
    parts = [
        *_axes(x, y, x_label, y_label, x_ticks),
        *(part for front in fronts for part in _front(front, x, y)),
        *_joined(marks, x, y, series),
        *(_mark(mark, x, y, series.index(mark.series)) for mark in marks),
    ]
    return drawing(WIDTH, HEIGHT, title, parts)


def swatch(index: int) -> str:
    """A series' sign, for the words beside a chart."""
    attributes: dict[str, object] = {"class": "drawing sign", "viewBox": "0 0 14 14"}
    attributes |= {"width": 14, "height": 14, "aria-hidden": "true"}
    return element("svg", attributes, _shape(7.0, 7.0, index, "mark"))


def _axis(
    values: Sequence[tuple[float, tuple[float, float] | None]], start_px: float, end_px: float
) -> Axis:
    """Room for all values, and for their intervals as far as these are of a sensible width."""
    shown = [value for value, _ in values]
    least, most = min(shown), max(shown)
    ends = [end for _, pair in values if pair for end in pair if end > 0]
    low = max(min([least, *ends]), least / _MOST_BEYOND)
    high = min(max([most, *ends]), most * _MOST_BEYOND)
    margin = max(0.06 * math.log10(high / low), 0.04)
    return Axis(
        low=math.log10(low) - margin,
        high=math.log10(high) + margin,
        start_px=start_px,
        end_px=end_px,
    )


def _is_power(value: float) -> bool:
    exponent = math.log10(value)
    return abs(exponent - round(exponent)) < 1e-9


def _even_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, for a scale of less than a decade."""
    width = high - low
    power = 10.0 ** math.floor(math.log10(width))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if width / (s * power) <= _MOST_TICKS)
    start = math.ceil(low / step)
    return [number * step for number in range(start, math.floor(high / step) + 1)]


def _axes(x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Sequence[float]) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in x_ticks if 0 < len(x_ticks) <= _MOST_TICKS else x.ticks():
        yield _line(x.at(tick), TOP, x.at(tick), bottom, "rule")
        yield words(x.at(tick), bottom + 16, _number(tick), "faint")
    for tick in y.ticks():
        yield _line(LEFT, y.at(tick), right, y.at(tick), "rule")
        yield words(LEFT - 6, y.at(tick) + 4, _number(tick), "faint", "end")
    yield _line(LEFT, bottom, right, bottom, "axis")
    yield _line(LEFT, TOP, LEFT, bottom, "axis")
    yield words((LEFT + right) / 2, HEIGHT - 10, x_label)
    yield words(6, TOP - 10, y_label, anchor="start")


def _number(value: float) -> str:
    if 1e4 <= value < 1e6 and value % 1000 == 0:
        return f"{value / 1000:g}k"
    return f"{value:.4g}"


def _mark(mark: Mark, x: Axis, y: Axis, index: int) -> str:
    """A sign with its intervals and its tip."""
    at_x, at_y = x.at(mark.x), y.at(mark.y)
    colour = f"c{index % COLOURS}"
    parts = []
    if mark.x_ends:
        parts.append(_line(x.at(mark.x_ends[0]), at_y, x.at(mark.x_ends[1]), at_y, f"bar {colour}"))
    if mark.y_ends:
        parts.append(_line(at_x, y.at(mark.y_ends[0]), at_x, y.at(mark.y_ends[1]), f"bar {colour}"))
    kind = "mark hollow" if mark.hollow else "mark"
    return element("g", {}, tooltip(mark.tip), *parts, _shape(at_x, at_y, index, kind))


def _shape(x: float, y: float, index: int, kind: str) -> str:
    """Disc, square, triangle, diamond or its reverse: colours alone do not reach everybody."""
    told: dict[str, object] = {"class": f"{kind} c{index % COLOURS}"}
    shape = index % SHAPES
    if shape == 0:
        return element("circle", {**told, "cx": x, "cy": y, "r": 5.0})
    corners = {
        1: ((-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)),
        2: ((0, -6), (5.5, 4.5), (-5.5, 4.5)),
        3: ((0, -6.2), (6.2, 0), (0, 6.2), (-6.2, 0)),
        4: ((0, 6), (5.5, -4.5), (-5.5, -4.5)),
    }[shape]
    spots = " ".join(f"{x + dx:.2f},{y + dy:.2f}" for dx, dy in corners)
    return element("polygon", {**told, "points": spots})


def _joined(marks: Sequence[Mark], x: Axis, y: Axis, series: Sequence[str]) -> Iterator[str]:
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.group and not mark.hollow:
            groups.setdefault(mark.group, []).append(mark)
    for found in groups.values():
        places = [(x.at(m.x), y.at(m.y)) for m in sorted(found, key=lambda m: m.x)]
        yield _path(places, f"join c{series.index(found[0].series) % COLOURS}")


def _front(front: Sequence[tuple[float, float]], x: Axis, y: Axis) -> Iterator[str]:
    """Nothing that is known lies below and to the left of it."""
    places: list[tuple[float, float]] = []
    for at_x, at_y in ((x.at(a), y.at(b)) for a, b in front):
        if places:
            places.append((at_x, places[-1][1]))
        places.append((at_x, at_y))
        yield element("circle", {"class": "ring", "cx": at_x, "cy": at_y, "r": 9.0})
    yield _path(places, "front")


def _path(places: Sequence[tuple[float, float]], kind: str) -> str:
    spots = " ".join(f"{x:.2f},{y:.2f}" for x, y in places)
    return element("polyline", {"points": spots, "class": kind})


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    place = {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2)}
    return element("line", {**place, "class": kind})

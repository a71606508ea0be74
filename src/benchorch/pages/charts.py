"""SVG charts for pages and for files of their own: axes, marks, intervals, labels, light and dark.

A chart is a string; positions are pixels from the upper left corner, and a kind is one or several
classes of `charts.css`, which is where all colors are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.pages.markup import element, escaped

STYLE = (Path(__file__).parent / "charts.css").read_text(encoding="utf-8")
CHARACTER_PX = 6.6
"""Mean width of a character at 12 px; generous, so that text fits."""

COLORS, SHAPES = 8, 5
"""So many of each; together they tell forty series apart."""
_MOST_TICKS = 7
_FEWEST_TICKS = 3
# An interval over powers of ten must not press all points into a corner.
_MOST_BEYOND = 3.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A scale between two pixels, logarithmic or linear."""

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = True

    def at(self, value: float) -> float:
        """The pixel of a value; values off the scale lie on its edge."""
        low, high, place = self.low, self.high, value
        if self.is_log:
            low, high, place = (math.log10(max(each, 1e-300)) for each in (low, high, place))
        share = (place - low) / (high - low)
        return self.start_px + (self.end_px - self.start_px) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round numbers on the scale, as a rule between three and seven."""
        found = _decades(self.low, self.high) if self.is_log else []
        if len(found) > _MOST_TICKS:
            found = _decades(self.low, self.high, (1,))
            found = found[:: max(-(-len(found) // _MOST_TICKS), 1)]
        return found if len(found) >= _FEWEST_TICKS else _even_steps(self.low, self.high)


def log_axis(
    values: Sequence[float], ends: Iterable[float | None], start_px: float, end_px: float
) -> Axis:
    """A logarithmic axis over all values, and over intervals of a sensible width.

    Args:
        values: above 0.
        ends: of the intervals; those at 0 or below, or None, are left out.
    """
    least, most = min(values), max(values)
    shown = [end for end in ends if end and end > 0]
    low = max(min([least, *shown]), least / _MOST_BEYOND)
    high = min(max([most, *shown]), most * _MOST_BEYOND)
    margin = 10 ** max(0.06 * math.log10(high / low), 0.04)
    return Axis(low=low / margin, high=high * margin, start_px=start_px, end_px=end_px)


def _decades(low: float, high: float, digits: Sequence[int] = (1, 2, 5)) -> list[float]:
    """Powers of ten, each times these digits."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [digit * 10.0**power for power in powers for digit in digits]
    return [step for step in steps if low <= step <= high]


def _even_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    width = high - low
    power = 10.0 ** math.floor(math.log10(width))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if width / (s * power) <= _MOST_TICKS)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axes(
    x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Sequence[float] = ()
) -> Iterator[str]:
    """Both axes with ticks and what they mean.

    Args:
        x_ticks: instead of round numbers, unless they are too many.
    """
    left, right, bottom, top = x.start_px, x.end_px, y.start_px, y.end_px
    for tick in x_ticks if 0 < len(x_ticks) <= _MOST_TICKS else x.ticks():
        yield line((x.at(tick), top), (x.at(tick), bottom), "rule")
        yield text(x.at(tick), bottom + 16, _tick_text(tick), "faint")
    for tick in y.ticks():
        yield line((left, y.at(tick)), (right, y.at(tick)), "rule")
        yield text(left - 6, y.at(tick) + 4, _tick_text(tick), "faint", "end")
    yield line((left, bottom), (right, bottom), "axis")
    yield line((left, top), (left, bottom), "axis")
    yield text((left + right) / 2, bottom + 36, x_label)
    yield text(6, top - 10, y_label, anchor="start")


def _tick_text(value: float) -> str:
    if 1e4 <= value < 1e6 and value % 1000 == 0:
        return f"{value / 1000:g}k"
    return f"{value:.4g}"


def line(start: Point, end: Point, kind: str) -> str:
    """A straight line."""
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    return element("line", {**{name: float(at) for name, at in ends.items()}, "class": kind})


def polyline(points: Iterable[Point], kind: str) -> str:
    """A line through points."""
    return element("polyline", {"points": _spots(points), "class": kind})


def box(x: float, y: float, width: float, height: float, kind: str = "", fill: str = "") -> str:
    """A rectangle, its color from its class or else as given."""
    shape = {"x": x, "y": y, "width": width, "height": height}
    style = {"class": kind or None, "fill": fill or None}
    return element("rect", {**{name: float(at) for name, at in shape.items()}, **style})


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """One line of text, its baseline at y."""
    place = {"x": float(x), "y": float(y), "text-anchor": anchor, "class": kind or None}
    return element("text", place, escaped(words))


def tooltip(words: str) -> str:
    """Text that appears where the pointer rests on the group it is in."""
    return element("title", {}, escaped(words)) if words else ""


def symbol(x: float, y: float, series: int, kind: str = "mark") -> str:
    """A series' sign; shapes differ too, because not everybody can tell colors apart."""
    style = {"class": f"{kind} {color_class(series)}"}
    shape = series % SHAPES
    if shape == 0:
        return element("circle", {**style, "cx": float(x), "cy": float(y), "r": 5.0})
    corners = {
        1: ((-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)),
        2: ((0, -6), (5.5, 4.5), (-5.5, 4.5)),
        3: ((0, -6.2), (6.2, 0), (0, 6.2), (-6.2, 0)),
        4: ((0, 6), (5.5, -4.5), (-5.5, -4.5)),
    }[shape]
    points = _spots((x + dx, y + dy) for dx, dy in corners)
    return element("polygon", {**style, "points": points})


def color_class(series: int) -> str:
    """The class that has the color of a series."""
    return f"c{series % COLORS}"


def swatch(series: int) -> str:
    """A series' sign, for the words beside a chart."""
    size = {"viewBox": "0 0 14 14", "width": 14, "height": 14}
    attributes = {"class": "chart sign", **size, "aria-hidden": "true"}
    return element("svg", attributes, symbol(7.0, 7.0, series))


def chart(width_px: float, height_px: float, title: str, parts: Iterable[str]) -> str:
    """A chart as an element for a page, whose style sheet has `STYLE`."""
    size = {"width": float(width_px), "height": float(height_px)}
    frame = {"viewBox": f"0 0 {width_px:.0f} {height_px:.0f}", "aria-label": title}
    return element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "class": "chart", "role": "img", **frame, **size},
        box(0, 0, width_px, height_px, "paper"),
        *parts,
    )


def standalone(drawn: str, title: str, description: str = "") -> str:
    """A chart as a file of its own, which has its style in it."""
    start, paper, rest = drawn.partition("<rect")
    head = f"<title>{escaped(title)}</title>"
    head += f"<desc>{escaped(description)}</desc>" if description else ""
    head += f"<style>{STYLE}</style>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{start}{head}{paper}{rest}\n'


def _spots(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)

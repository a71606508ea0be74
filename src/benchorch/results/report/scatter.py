"""Scatter charts: trials as points with intervals over two logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchorch.pages.charts import (
    Axis,
    Point,
    axes,
    chart,
    color_class,
    line,
    log_axis,
    polyline,
    symbol,
    tooltip,
)
from benchorch.pages.markup import element

WIDTH, HEIGHT = 480, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 26, 46


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The point of one trial.

    Attributes:
        x, y: above 0.
        x_ends, y_ends: of the intervals, where there are any.
        series: the name that its color and shape stand for.
        tip: text that appears where the pointer rests.
        hollow: whether the trial is disqualified.
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


def scatter_chart(
    title: str,
    labels: tuple[str, str],
    marks: Sequence[Mark],
    series: Sequence[str],
    fronts: Sequence[Sequence[Point]] = (),
    x_ticks: Sequence[float] = (),
) -> str:
    """The chart; empty without marks.

    Args:
        labels: of the two axes.
        series: all names of the page, in the order of their colors.
        fronts: rings around their points, and dashed steps through them from left to right.
        x_ticks: instead of round numbers, unless they are too many.
    """
    if not marks:
        return ""
    x_ends = [end for mark in marks for end in mark.x_ends or ()]
    y_ends = [end for mark in marks for end in mark.y_ends or ()]
    x = log_axis([mark.x for mark in marks], x_ends, LEFT, WIDTH - RIGHT)
    y = log_axis([mark.y for mark in marks], y_ends, HEIGHT - BOTTOM, TOP)
    parts = [
        *axes(x, y, *labels, x_ticks),
        *(part for front in fronts for part in _front(front, x, y)),
        *_joined(marks, x, y, series),
        *(_mark(mark, x, y, series.index(mark.series)) for mark in marks),
    ]
    return chart(WIDTH, HEIGHT, title, parts)


def _mark(mark: Mark, x: Axis, y: Axis, series: int) -> str:
    """A symbol with its intervals and its tip."""
    at_x, at_y, kind = x.at(mark.x), y.at(mark.y), f"interval {color_class(series)}"
    parts = [tooltip(mark.tip)]
    if mark.x_ends:
        parts.append(line((x.at(mark.x_ends[0]), at_y), (x.at(mark.x_ends[1]), at_y), kind))
    if mark.y_ends:
        parts.append(line((at_x, y.at(mark.y_ends[0])), (at_x, y.at(mark.y_ends[1])), kind))
    parts.append(symbol(at_x, at_y, series, "mark hollow" if mark.hollow else "mark"))
    return element("g", {}, *parts)


def _joined(marks: Sequence[Mark], x: Axis, y: Axis, series: Sequence[str]) -> Iterator[str]:
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.group and not mark.hollow:
            groups.setdefault(mark.group, []).append(mark)
    for found in groups.values():
        points = [(x.at(m.x), y.at(m.y)) for m in sorted(found, key=lambda m: m.x)]
        yield polyline(points, f"join {color_class(series.index(found[0].series))}")


def _front(front: Sequence[Point], x: Axis, y: Axis) -> Iterator[str]:
    """Rings and steps: no known point lies below and to the left of them."""
    points: list[Point] = []
    for at in ((x.at(a), y.at(b)) for a, b in front):
        if points:
            points.append((at[0], points[-1][1]))
        points.append(at)
        yield element("circle", {"class": "ring", "cx": at[0], "cy": at[1], "r": 9.0})
    yield polyline(points, "front")

"""Icicle charts of a critical path: modules above operators above kernels, width is time on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from benchorch.pages.charts import CHARACTER_PX, box, chart, text, tooltip
from benchorch.pages.markup import element, shortened
from benchorch.trace.dag import CLASSES, Class
from benchorch.trace.report.ancestry import StackTime
from benchorch.trace.report.colors import OF_CLASS, WHITE, text_on
from benchorch.trace.report.context import duration, percent, share, times

TITLE, CHANGED_TITLE = "Where the critical path is", "Where the critical path would be"
WIDTH_PX, ROW_PX, LEGEND_ROW_PX = 1180.0, 23.0, 20.0
LEAST_PX = 0.6
"""A cell narrower than this is not drawn; the one it is in still has its time."""

MOST_CELLS = 5_000
GREW, SHRANK, SAME = "#c0392b", "#2471a3", "#d5dbd7"


@dataclass(slots=True)
class IcicleCell:
    """A module, operator or kernel, and its parts in the order of their first occurrence."""

    total_ns: int = 0
    before_ns: int = 0
    classes: Counter[int] = field(default_factory=Counter)
    parts: dict[str, IcicleCell] = field(default_factory=dict)


def icicle(path: Iterable[StackTime]) -> str:
    """The chart of one path; a cell has the color of the class that takes most of its time."""
    top = _tree(path)
    classes = [CLASSES[label] for label, _ in top.classes.most_common()]
    return _chart(top, TITLE, {label.value: OF_CLASS[label] for label in classes}, _class_color)


def icicle_change(before: Iterable[StackTime], after: Iterable[StackTime]) -> str:
    """The chart after a change: blue where the path has less than before, red where more."""
    top = _tree(after)
    _compare(top, _tree(before))
    legend = {"less than before": SHRANK, "as before": SAME, "more than before": GREW}
    return _chart(top, CHANGED_TITLE, legend, _change_color)


def _tree(path: Iterable[StackTime]) -> IcicleCell:
    top = IcicleCell()
    for stack, spent_ns, label in path:
        cells = [top]
        for name in filter(None, stack):
            cells.append(cells[-1].parts.setdefault(name, IcicleCell()))
        for cell in cells:
            cell.total_ns += spent_ns
            cell.classes[label] += spent_ns
    return top


def _compare(cell: IcicleCell, before: IcicleCell) -> None:
    """Add the time before; removed cells have no width and show in the cell around them."""
    cell.before_ns = before.total_ns
    for name, part in cell.parts.items():
        _compare(part, before.parts.get(name, IcicleCell()))


def _class_color(cell: IcicleCell) -> str:
    label = cell.classes.most_common(1)[0][0] if cell.classes else CLASSES.index(Class.UNEXPLAINED)
    return OF_CLASS[CLASSES[label]]


def _change_color(cell: IcicleCell) -> str:
    least_ns = max(cell.total_ns, cell.before_ns) / 100
    moved_ns = cell.total_ns - cell.before_ns
    return SAME if abs(moved_ns) <= least_ns else GREW if moved_ns > 0 else SHRANK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    name: str
    cell: IcicleCell
    x: float
    depth: int
    width: float


def _placed(top: IcicleCell) -> list[_Placed]:
    """Cells level by level, as many as a page may have; a level is drawn whole or not at all."""
    level = [_Placed(name="all", cell=top, x=0.0, depth=0, width=WIDTH_PX)]
    found: list[_Placed] = []
    while level and len(found) + len(level) <= MOST_CELLS:
        found += level
        level = [part for outer in level for part in _parts(outer, top.total_ns)]
    return found


def _parts(outer: _Placed, whole_ns: int) -> Iterator[_Placed]:
    x = outer.x
    for name, cell in outer.cell.parts.items():
        width = WIDTH_PX * share(cell.total_ns, whole_ns)
        if width >= LEAST_PX:
            yield _Placed(name=name, cell=cell, x=x, depth=outer.depth + 1, width=width)
        x += width


def _chart(
    top: IcicleCell, title: str, legend: Mapping[str, str], color: Callable[[IcicleCell], str]
) -> str:
    placed = _placed(top)
    parts, rows = _legend(legend)
    start = rows * LEGEND_ROW_PX + 8
    parts += [_cell(one, color(one.cell), start, top.total_ns) for one in placed]
    height = start + ROW_PX * (1 + max(one.depth for one in placed)) + 4
    return chart(WIDTH_PX, height, title, parts)


def _legend(legend: Mapping[str, str]) -> tuple[list[str], int]:
    """The colors with their meanings, and how many rows they take."""
    parts, x, row = [], 2.0, 1
    for label, color in legend.items():
        width = 30 + CHARACTER_PX * len(label)
        if x + width > WIDTH_PX:
            x, row = 2.0, row + 1
        parts.append(box(x, row * LEGEND_ROW_PX - 14, 12, 12, fill=color))
        parts.append(text(x + 17, row * LEGEND_ROW_PX - 4, label, "faint", "start"))
        x += width
    return parts, row


def _cell(one: _Placed, color: str, start: float, whole_ns: int) -> str:
    y = start + one.depth * ROW_PX
    most = int((one.width - 8) / CHARACTER_PX)
    part = share(one.cell.total_ns, whole_ns)
    label = f"{one.name}  {percent(part)}"
    if len(label) > most:
        label = shortened(one.name, most) if most >= 3 else ""
    ink = "light" if text_on(color) == WHITE else "dark"
    parts = [tooltip(_tip(one, part)), box(one.x, y, one.width, ROW_PX, "cell", color)]
    parts += [text(one.x + 5, y + 15.5, label, ink, "start")] if label else []
    return element("g", {}, *parts)


def _tip(one: _Placed, part: float) -> str:
    cell = one.cell
    limit = times(1 / (1 - part)) if part < 1 else times(float("inf"))
    lines = [one.name, f"{duration(cell.total_ns)} on the path, {percent(part)} of it"]
    lines.append(f"without it at most {limit} as fast")
    if cell.before_ns:
        lines.append(f"before: {duration(cell.before_ns)}")
    spent = (f"{CLASSES[label].value} {duration(ns)}" for label, ns in cell.classes.most_common(4))
    return "\n".join([*lines, *spent])

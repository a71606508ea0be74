"""Which module, operator and kernel is the critical path in? Width is time on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from benchorch.trace.dag import CLASSES, Class
from benchorch.trace.report.ancestry import Piece
from benchorch.trace.report.colors import OF_CLASS
from benchorch.trace.report.context import duration, percent, share, times
from benchorch.trace.report.markup import element, shortened
from benchorch.trace.report.svg import CHARACTER_PX, drawing, ink_on, tooltip, words

WIDTH_PX, ROW_PX, LEGEND_ROW_PX = 1180.0, 23.0, 20.0
LEAST_PX = 0.6
"""A cell narrower than this is not drawn; the one it is in still has its time."""

MOST_CELLS = 5_000
GREW, SHRANK, SAME = "#c0392b", "#2471a3", "#d5dbd7"


@dataclass(slots=True)
class IcicleCell:
    """A module, operator or kernel, and what is in it in the order it came."""

    total_ns: int = 0
    before_ns: int = 0
    classes: Counter[int] = field(default_factory=Counter)
    inside: dict[str, IcicleCell] = field(default_factory=dict)


_Fill = Callable[["IcicleCell"], str]


def icicle(pieces: Iterable[Piece]) -> str:
    """The picture of one path, coloured by what most of a cell's time was spent on."""
    top = _tree(pieces)
    used = Counter(top.classes)
    labels = [CLASSES[label] for label, _ in used.most_common()]
    legend = {label.value: OF_CLASS[label] for label in labels}
    return _drawn(top, "Where the critical path is", legend, _fill)


def icicle_change(before: Iterable[Piece], after: Iterable[Piece]) -> str:
    """The same after a change: blue where the path has less than before, red where more."""
    top = _tree(after)
    _compare(top, _tree(before))
    legend = {"less than before": SHRANK, "as before": SAME, "more than before": GREW}
    return _drawn(top, "Where the critical path would be", legend, _change)


def _tree(pieces: Iterable[Piece]) -> IcicleCell:
    top = IcicleCell()
    for stack, spent_ns, label in pieces:
        cell = top
        for name in ("", *stack):
            cell = cell.inside.setdefault(name, IcicleCell()) if name or cell is not top else cell
            cell.total_ns += spent_ns
            cell.classes[label] += spent_ns
    return top


def _compare(cell: IcicleCell, before: IcicleCell) -> None:
    """What each cell had before; what is gone has no width, and shows in what it was in."""
    cell.before_ns = before.total_ns
    for name, inner in cell.inside.items():
        _compare(inner, before.inside.get(name, IcicleCell()))


def _fill(cell: IcicleCell) -> str:
    label = cell.classes.most_common(1)[0][0] if cell.classes else CLASSES.index(Class.UNEXPLAINED)
    return OF_CLASS[CLASSES[label]]


def _change(cell: IcicleCell) -> str:
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
    scale = WIDTH_PX / top.total_ns if top.total_ns else 0.0
    level = [_Placed(name="all", cell=top, x=0.0, depth=0, width=WIDTH_PX)]
    found: list[_Placed] = []
    while level and len(found) + len(level) <= MOST_CELLS:
        found += level
        level = [inner for outer in level for inner in _inside(outer, scale)]
    return found


def _inside(outer: _Placed, scale: float) -> Iterator[_Placed]:
    x = outer.x
    for name, cell in outer.cell.inside.items():
        width = cell.total_ns * scale
        if width >= LEAST_PX:
            yield _Placed(name=name, cell=cell, x=x, depth=outer.depth + 1, width=width)
        x += width


def _drawn(top: IcicleCell, title: str, legend: Mapping[str, str], fill: _Fill) -> str:
    placed = _placed(top)
    parts, rows = _legend(legend)
    start = rows * LEGEND_ROW_PX + 8
    parts += [_cell(one, fill(one.cell), start, top.total_ns) for one in placed]
    height = start + ROW_PX * (1 + max(one.depth for one in placed)) + 4
    return drawing(WIDTH_PX, height, title, parts)


def _legend(legend: Mapping[str, str]) -> tuple[list[str], int]:
    parts, x, row = [], 2.0, 1
    for label, colour in legend.items():
        width = 30 + CHARACTER_PX * len(label)
        if x + width > WIDTH_PX:
            x, row = 2.0, row + 1
        place = {"x": x, "y": row * LEGEND_ROW_PX - 14, "width": 12, "height": 12, "rx": 2}
        parts.append(element("rect", place | {"fill": colour}))
        parts.append(words(x + 17, row * LEGEND_ROW_PX - 4, label, "faint", "start"))
        x += width
    return parts, row


def _cell(one: _Placed, colour: str, start: float, whole_ns: int) -> str:
    y = start + one.depth * ROW_PX
    shape = {"x": one.x, "y": y, "width": one.width, "height": ROW_PX, "rx": 2.0}
    room = int((one.width - 8) / CHARACTER_PX)
    part = share(one.cell.total_ns, whole_ns)
    label = f"{one.name}  {percent(part)}"
    if len(label) > room:
        label = shortened(one.name, room) if room >= 3 else ""
    text = words(one.x + 5, y + 15.5, label, ink_on(colour), "start") if label else ""
    box = element("rect", shape | {"fill": colour, "class": "cell"})
    return element("g", {}, tooltip(_said(one, part)), box, text)


def _said(one: _Placed, part: float) -> str:
    cell = one.cell
    limit = times(1 / (1 - part)) if part < 1 else times(float("inf"))
    lines = [one.name, f"{duration(cell.total_ns)} on the path, {percent(part)} of it"]
    lines.append(f"without it at most {limit} as fast")
    if cell.before_ns:
        lines.append(f"before: {duration(cell.before_ns)}")
    spent = (f"{CLASSES[label].value} {duration(ns)}" for label, ns in cell.classes.most_common(4))
    return "\n".join([*lines, *spent])

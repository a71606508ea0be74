"""Charts of a page as Vega-Lite specifications, and the parts that they share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import is_known
from benchorch.pages.chart_script import Spec
from benchorch.pages.markup import shortened

NUMBERS = ",.4~r"
_LONG_SCALE_RATIO = 5.0
_SLACK = 1.06
_CHARACTER_PX, _GAP_PX = 7, 12  # of figures above bars


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PageChart:
    """One chart of a page.

    Attributes:
        sentence: how to read it, or why there is none.
        spec: empty where there is nothing to draw; its width is the page's.
    """

    title: str
    sentence: str
    spec: Spec | None = None


def layer(mark: Spec, where: str = "", **encoding: object) -> Spec:
    """A mark with its channels, only where a field has a value."""
    valid = {"transform": [{"filter": f"isValid(datum.{where})"}]} if where else {}
    return {**valid, "mark": mark, "encoding": encoding}


def interval(estimate: Estimate | None) -> tuple[float, float] | None:
    """Ends of an interval that is worth drawing."""
    if estimate is None or not is_known(estimate):
        return None
    assert estimate.low is not None  # it is known
    assert estimate.high is not None
    return estimate.low, estimate.high


def ends(estimate: Estimate | None, prefix: str = "") -> Spec:
    """Fields ``low`` and ``high`` of a mark's whisker; None where there is none worth drawing."""
    low, high = interval(estimate) or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def rows_px(height: float) -> Spec:
    """A vertical scale in pixels from the top, for charts whose rows are laid out here."""
    scale = {"domain": [0, height], "reverse": True, "nice": False, "zero": False}
    return {"type": "quantitative", "axis": None, "scale": scale}


def from_zero(field: str, title: str, most: float) -> Spec:
    """A horizontal axis for lengths: it starts at zero."""
    return {
        "field": field,
        "type": "quantitative",
        "axis": {"title": title, "format": NUMBERS, "tickCount": 5, "grid": False},
        "scale": {"domain": [0, most * _SLACK], "nice": False},
    }


def at(channel: Spec, field: str) -> Spec:
    """The same channel, of another field: scale and title of both are one."""
    return {**channel, "field": field}


def axis(field: str, title: str, values: Sequence[float], ticks: Sequence[float] = ()) -> Spec:
    """An axis for positions, over the values with a margin.

    It is logarithmic where they are far apart and above 0.

    Args:
        values: intervals included.
        ticks: instead of round numbers.
    """
    low, high = min(values), max(values)
    far = 0 < _LONG_SCALE_RATIO * low < high
    slack = (high / low) ** 0.06 * 1.03 if far else 1.0
    margin = 0.0 if far else max(0.08 * (high - low), 0.02 * high)
    own = {"values": sorted(ticks)} if ticks else {}
    domain = [low / slack - margin, high * slack + margin]
    return {
        "field": field,
        "type": "quantitative",
        "axis": {"title": title, "format": NUMBERS, "tickCount": 6, **own},
        "scale": {"type": "log" if far else "linear", "domain": domain, "nice": False},
    }


def head_texts(y: Spec, figures: Iterable[str]) -> list[Spec]:
    """A name at the left and a figure at the right of each row, where no bar can cover them.

    Args:
        figures: of all rows; names have the rest of the line.
    """
    longest = max(map(len, figures), default=0)
    rest = f"max(width * 0.3, width - {_CHARACTER_PX * longest + _GAP_PX:.0f})"
    mark: Spec = {"type": "text", "baseline": "middle", "fontSize": 12.5}
    left = {**mark, "align": "left", "fontWeight": 600, "limit": {"expr": rest}}
    right = {**mark, "align": "right", "limit": {"expr": "width * 0.7"}}
    return [
        layer(left, x={"value": 0}, y=y, text={"field": "name"}),
        layer(right, x={"value": "width"}, y=y, text={"field": "figure"}),
    ]


def tip(*lines: str) -> str:
    """Text that appears where the pointer rests."""
    return "\n".join(shortened(line, 90) for line in lines if line)

"""Estimates with their intervals as a bar chart for notebooks, which keep their output as SVG."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text, is_known
from benchorch.pages.markup import element, escaped

_STYLE = (Path(__file__).parent / "estimate_bars.css").read_text(encoding="utf-8")
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760, 220, 190, 40, 30


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure; notebooks show it by themselves."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write it to a file; returns its path."""
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)


def bar_chart(title: str, bars: Mapping[str, Estimate]) -> Chart:
    """A bar from zero for each estimate, its interval as a line across the end."""
    height = _TOP + _ROW * max(len(bars), 1) + 10
    ends = [each.high for each in bars.values() if is_known(each) and each.high]
    scale = (_WIDTH - _RIGHT - _LEFT) / (max([*ends, *(b.value for b in bars.values())], default=1))
    parts = [_text(10, 24, title, "start", "title")]
    for index, (name, each) in enumerate(bars.items()):
        parts += _bar(name, each, _TOP + _ROW * (index + 0.5), scale)
    if not bars:
        parts.append(_text(_LEFT, _TOP + 18, "nothing was measured", "start"))
    size = {"viewBox": f"0 0 {_WIDTH} {height}", "width": _WIDTH, "height": height}
    paper = element("rect", {"class": "paper", "width": _WIDTH, "height": height})
    head = f"<title>{escaped(title)}</title><style>{_STYLE}</style>"
    named = {"xmlns": "http://www.w3.org/2000/svg", "class": "estimates", "role": "img"}
    return Chart(svg=element("svg", {**named, **size}, head, paper, *parts))


def _bar(name: str, each: Estimate, middle: float, scale: float) -> Iterator[str]:
    """The bar, its name before it and its figure behind it.

    Args:
        scale: pixels for one unit of the estimates.
    """
    end = far = _LEFT + each.value * scale
    yield _text(_LEFT - 8, middle + 4, name, "end")
    shape = {"x": float(_LEFT), "y": middle - 9, "width": end - _LEFT, "height": 18}
    yield element("rect", {**shape, "class": "bar"})
    if is_known(each) and each.low is not None and each.high is not None:
        low, far = _LEFT + each.low * scale, _LEFT + each.high * scale
        yield _line(low, middle, far, middle)
        yield from (_line(at, middle - 5, at, middle + 5) for at in (low, far))
    yield _text(far + 8, middle + 4, interval_text(each), "start")


def _text(x: float, y: float, words: str, anchor: str, kind: str | None = None) -> str:
    """One line of text, its baseline at y."""
    place = {"x": float(x), "y": float(y), "text-anchor": anchor, "class": kind}
    return element("text", place, escaped(words))


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": "end"})

"""Estimates with their intervals as a bar chart in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text
from benchorch.pages.charts import Axis, box, chart, line, standalone, text

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
    most = max((each.high or each.value for each in bars.values()), default=0) or 1
    x = Axis(low=0.0, high=most, start_px=_LEFT, end_px=_WIDTH - _RIGHT, is_log=False)
    parts = [text(10, 24, title, "title", "start")]
    for index, (name, each) in enumerate(bars.items()):
        parts += _bar(name, each, _TOP + _ROW * (index + 0.5), x)
    if not bars:
        parts.append(text(_LEFT, _TOP + 18, "nothing was measured", anchor="start"))
    return Chart(svg=standalone(chart(_WIDTH, height, title, parts), title))


def _bar(name: str, each: Estimate, middle: float, x: Axis) -> Iterator[str]:
    end = far = x.at(each.value)
    yield text(_LEFT - 8, middle + 4, name, anchor="end")
    yield box(_LEFT, middle - 9, end - _LEFT, 18, "bar c0")
    if each.low is not None and each.high is not None:
        low, far = x.at(each.low), x.at(each.high)
        yield line((low, middle), (far, middle), "end")
        yield from (line((at, middle - 5), (at, middle + 5), "end") for at in (low, far))
    yield text(far + 8, middle + 4, interval_text(each), anchor="start")

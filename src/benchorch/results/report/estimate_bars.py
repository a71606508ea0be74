"""Estimates with their intervals as bars, in an SVG that needs nothing to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760, 220, 190, 40, 30
_BAR, _LINE = "#4c78a8", "#222222"


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


def chart(title: str, bars: Mapping[str, Estimate]) -> str:
    """A bar from zero for each estimate, its interval as a line across the end."""
    height = _TOP + _ROW * max(len(bars), 1) + 10
    most = max((each.high or each.value for each in bars.values()), default=0) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    rows = [
        line
        for index, (name, each) in enumerate(bars.items())
        for line in _bar(name, each, _TOP + _ROW * index, scale)
    ]
    empty = [] if bars else [_text(_LEFT, _TOP + 18, "nothing was measured", "start")]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" role="img" font-family="sans-serif" '
            'font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            _text(10, 24, title, "start"),
            *rows,
            *empty,
            "</svg>\n",
        ]
    )


def _bar(name: str, each: Estimate, top: float, scale: float) -> list[str]:
    middle = top + _ROW / 2
    end = _LEFT + each.value * scale
    lines = [
        _text(_LEFT - 8, middle + 4, name, "end"),
        f'<rect x="{_LEFT}" y="{top + 6}" width="{end - _LEFT:.1f}" height="18" fill="{_BAR}"/>',
    ]
    far = end
    if each.low is not None and each.high is not None:
        low, far = _LEFT + each.low * scale, _LEFT + each.high * scale
        lines.append(
            f'<path d="M{low:.1f} {middle}H{far:.1f}M{low:.1f} {middle - 5}v10'
            f'M{far:.1f} {middle - 5}v10" stroke="{_LINE}" stroke-width="1.5"/>'
        )
    return [*lines, _text(far + 8, middle + 4, interval_text(each), "start")]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

"""Estimates with their intervals as a bar chart for notebooks, which keep their output as SVG."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text, is_known

_LONGEST = 350  # pixels of a bar or of an interval's end


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
    from benchorch.pages.templates import templates

    ends = [each.high for each in bars.values() if is_known(each) and each.high]
    longest = max([*ends, *(each.value for each in bars.values())], default=1)
    template = templates(Path(__file__).parent).get_template("estimate_bars.svg.j2")
    return Chart(
        svg=template.render(
            title=title,
            bars=bars,
            scale=_LONGEST / longest,
            is_known=is_known,
            interval_text=interval_text,
        )
    )

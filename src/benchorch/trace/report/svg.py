"""An SVG picture that stands alone as a file or inside a page, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchorch.trace.report.colors import WHITE, heat, text_on
from benchorch.trace.report.markup import element, escaped

STYLE = (Path(__file__).parent / "svg.css").read_text(encoding="utf-8")
CHARACTER_PX = 6.6
"""Mean width of a character at 12 px; what is measured by it has room to spare."""


def drawing(width_px: float, height_px: float, title: str, parts: Iterable[str]) -> str:
    """The picture as an element for a page, whose style sheet has `STYLE`."""
    size: dict[str, object] = {"width": float(width_px), "height": float(height_px)}
    box = f"0 0 {width_px:.0f} {height_px:.0f}"
    return element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "class": "drawing", "role": "img"}
        | {"viewBox": box, "aria-label": title, **size},
        element("rect", {"class": "paper", **size}),
        *parts,
    )


def alone(picture: str) -> str:
    """The same as a file of its own, which brings its style along."""
    start, middle, rest = picture.partition("<rect")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{start}<style>{STYLE}</style>{middle}{rest}\n'


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    """One line of text, its baseline at y."""
    place = {"x": float(x), "y": float(y), "text-anchor": anchor, "class": kind or None}
    return element("text", place, escaped(text))


def tooltip(text: str) -> str:
    """What is shown where the pointer rests."""
    return element("title", {}, escaped(text)) if text else ""


def ink_on(colour: str) -> str:
    """The class of text on a coloured box, which no page's theme changes."""
    return "light" if text_on(colour) == WHITE else "dark"


def ramp(x: float, y: float, most: str, meaning: str) -> list[str]:
    """A legend of the ramp: nothing on the left, the largest share on the right."""
    steps = [
        element(
            "rect",
            {"x": x + 6 * step, "y": y - 9, "width": 6.5, "height": 11, "fill": heat(step / 14)},
        )
        for step in range(15)
    ]
    return [
        *steps,
        words(x - 6, y, "0", "faint", "end"),
        words(x + 97, y, f"{most} {meaning}", "faint", "start"),
    ]

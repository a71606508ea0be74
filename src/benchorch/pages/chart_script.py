"""The script of a page with charts: Vega-Lite, and what draws each figure; it loads nothing."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
Spec = dict[str, object]
"""Vega-Lite specification, or a part of one; the page sets its width."""


@cache
def script() -> str:
    """The library and `draw.js`, some 800 kB, read where a page is written."""
    library = (_HERE / "vega" / "vega.js").read_text(encoding="utf-8")
    return f"{library}\n{(_HERE / 'draw.js').read_text(encoding='utf-8')}"

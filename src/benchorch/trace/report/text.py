"""Numbers and names for people and for files."""

from benchorch.pages.markup import escaped, shortened
from benchorch.units import NS_PER_MS, NS_PER_S, NS_PER_US

SCHEMA_VERSION = 2
"""Schema version of every JSON file; raised when an older reader could misread it."""


def html(text: object, most: int = 400) -> str:
    """As content of an element or value of an attribute, shortened in its middle."""
    return escaped(shortened(text, most))


def duration(length_ns: float) -> str:
    """For people, with three digits: ``4.05 µs``, ``12.3 ms``."""
    size = abs(length_ns)
    for unit_ns, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if size >= unit_ns:
            return f"{length_ns / unit_ns:.{2 if size < 10 * unit_ns else 1}f} {unit}"
    return f"{length_ns:.0f} ns"


def percent(ratio: float) -> str:
    """For people; what is there but small is not nothing."""
    if 0 < ratio < 0.001:
        return "<0.1 %"
    if ratio == 0:
        return "0 %"
    return f"{100 * ratio:.1f} %" if abs(ratio) < 0.0995 else f"{100 * ratio:.0f} %"

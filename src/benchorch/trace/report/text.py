"""Numbers and names for people and for files."""

import re
from collections.abc import Mapping
from html import escape

import msgspec

from benchorch.units import NS_PER_MS, NS_PER_S, NS_PER_US

SCHEMA_VERSION = 2
"""Schema version of every JSON file; raised when an older reader could misread it."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def plain(text: object) -> str:
    """The text with a replacement character for each that no file can carry."""
    return _NOT_XML.sub("\ufffd", str(text))


def html(text: object, most: int = 400) -> str:
    """As content of an element or value of an attribute, shortened in its middle."""
    return escape(shortened(text, most), quote=True)


def shortened(text: object, most: int) -> str:
    """At most that many characters: the ends of a long name say more than its middle."""
    line = " ".join(plain(text).split())
    if len(line) <= most:
        return line
    front = (most - 1) // 2
    return f"{line[:front]}…{line[len(line) - (most - 1 - front) :]}"


def json_text(value: object) -> str:
    """Compact JSON of plain values, whose names may hold what no encoding has."""
    try:
        return msgspec.json.encode(value).decode()  # numbers that JSON does not have are null
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value)).decode()


def _clean(value: object) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


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

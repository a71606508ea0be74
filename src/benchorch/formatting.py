"""Intervals, counts, trial names and tables of records as text."""

import csv
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from benchorch.domain.estimate import Estimate
from benchorch.units import format_ms

_VARYING = ("model", "workload", "hardware", "hardware_kind", "scenario", "axes")


# What a terminal obeys instead of showing; what turns the direction of the text around it; and
# invisible letters, which make one name look like another.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\U000e0000-\U000e007f]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WHOLE = re.compile(r"[0-9]{1,18}")
# What a spreadsheet would take for a formula; a dash alone and a negative number are none.
_FORMULA = re.compile(r"[=+@\t\n]|-(?!(?:\d+\.?\d*(?:e[+-]?\d+)?)?\Z)", re.ASCII)
_NEXT_AXIS = re.compile(r"\s+(?=\+{0,2}[A-Za-z_][\w.@/]*=)")
_ONLY_SPELLING = re.compile(r"""\\(?=\W)|['"]|(?<=[,:])\s+|^\++""")
_OF_PYTHON = re.compile(r"\b(?:True|False|None)\b")
_OF_HYDRA = {"True": "true", "False": "false", "None": "null"}


def printable(text: str) -> str:
    """Text with its control characters written out as escapes; lines and tabs stay.

    A name may come from a file of a stranger's, and a terminal obeys what is printed.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_with_colours(text: str) -> str:
    """The same of text that was coloured for a terminal, which stays so."""
    parts = _COLOUR.split(text)
    colours = [*_COLOUR.findall(text), ""]
    return "".join(printable(part) + colour for part, colour in zip(parts, colours, strict=True))


WIDEST = 2.0
"""An interval whose ends are further apart, as a ratio, is no knowledge of a number."""


def is_known(estimate: Estimate) -> bool:
    """Whether it has an interval whose ends are within a factor of `WIDEST`."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low <= 0 or high <= WIDEST * low)


def is_unknown(estimate: Estimate) -> bool:
    """Whether what was seen, an interval or up to two values, is too far apart for a number."""
    if estimate.low is None or estimate.high is None:
        seen = estimate.seen
        return estimate.n <= 2 and seen is not None and 0 < WIDEST * seen[0] < seen[1]
    return not is_known(estimate)


def interval_text(estimate: Estimate, form: Callable[[float], str] = format_ms) -> str:
    """``12.3 [12.1, 12.5]``; else what is known: the value, the values seen, or a lower limit."""
    value = form(estimate.value)
    if estimate.at_least:
        return f"≥ {value if estimate.low is None else form(estimate.low)}"
    if is_unknown(estimate):
        return f"not known yet ({seen_text(estimate, form)})"
    if estimate.low is None or estimate.high is None:
        return f"{value} ({seen_text(estimate, form)})" if estimate.n == 2 else value
    return f"{value} [{form(estimate.low)}, {form(estimate.high)}]"


def seen_text(estimate: Estimate, form: Callable[[float], str] = format_ms) -> str:
    """``0.44 to 0.49 seen, n = 2``; the interval, as of a sum, where the values are not kept."""
    count = f"n = {estimate.n}"
    if estimate.seen is None:
        ends = [form(end) for end in (estimate.low, estimate.high) if end is not None]
        return ", ".join([" to ".join(ends), count] if len(ends) == 2 else [count])
    return f"{form(estimate.seen[0])} to {form(estimate.seen[1])} seen, {count}"


def first_few(found: Sequence[str], most: int, separator: str = ", ") -> str:
    """``a, b, c and 4 more``: the first ones, and how many are left."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return separator.join(found[:most]) + more


def varying_labels(labels: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The labels that differ between trials, besides the conversion."""
    return tuple(name for name in _VARYING if len({label.get(name) for label in labels}) > 1)


def axes_of(labels: Mapping[str, str]) -> list[str]:
    r"""The swept keys of a cell, each ``key=value``; equal values are spelled alike.

    In labels they are as a command line, a sweeper or a matrix spells them: ``[1, 2]`` and
    ``[1,2]``, ``True`` and ``true``, ``net.py\:make`` and ``'net.py:make'``.
    """
    words = (_ONLY_SPELLING.sub("", word) for word in _NEXT_AXIS.split(labels.get("axes", "")))
    return [_OF_PYTHON.sub(lambda found: _OF_HYDRA[found[0]], word) for word in words if word]


LONGEST_NAME = 200
"""Characters of a name in a sentence or a table: one of a stranger's file may have any number."""


def bounded(text: str, most: int = LONGEST_NAME) -> str:
    """At most that many characters: the ends of a long name say more than its middle."""
    if len(text) <= most:
        return text
    front = (most - 1) // 2
    return f"{text[:front]}…{text[len(text) - (most - 1 - front) :]}"


def cell_name(labels: Mapping[str, str], varying: Sequence[str]) -> str:
    """A trial's name in this plan, in one line: its conversion, and whatever else differs."""
    others = {name: labels[name] for name in varying if labels.get(name)}
    if others.get("hardware_kind") == others.get("hardware"):
        others.pop("hardware_kind", None)
    return bounded(" ".join(" ".join([*others.values(), labels["conversion"]]).split()))


def shell_word(value: object) -> str:
    """A path or a name in a line to copy: one word to a shell, whatever is in it."""
    return shlex.quote(str(value))


def plural(count: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def whole_number(text: str) -> int | None:
    """The number that ASCII digits spell; None for any other text, and for more than 18 of them."""
    return int(text) if _WHOLE.fullmatch(text) else None


def percent(ratio: float) -> str:
    """``23 %``, ``2.3 %``: two digits, and no more of a large share."""
    return f"{100 * ratio:.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Rows with aligned columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(map(str.ljust, cells, widths)) for cells in table)
    return "\n".join(line.rstrip() for line in lines)


def spreadsheet_text(text: str) -> str:
    """Text that stays in its cell, and that no spreadsheet takes for a formula."""
    text = text.encode(errors="replace").decode()
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # csv does not quote a lone \r
    return f"'{text}" if _FORMULA.match(text) else text


def csv_of(records: Sequence[Mapping[str, object]]) -> str:
    """A header and a line for each record, under the fields of all; what one lacks is empty."""
    written = io.StringIO()
    names = dict.fromkeys(name for record in records for name in record)
    rows = [names, *([record.get(name) for name in names] for record in records)]
    cells = ([spreadsheet_text(c) if isinstance(c, str) else c for c in row] for row in rows)
    csv.writer(written, lineterminator="\n").writerows(cells)
    return written.getvalue()

"""Everything about one window of a trace on one page, which asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchorch.trace.analysed import Analysed
from benchorch.trace.report import page_parts, svg
from benchorch.trace.report.context import UNATTRIBUTED, tables
from benchorch.trace.report.markup import element, escaped, json_in_script, shortened
from benchorch.trace.report.page_tables import KINDS, table_section

_HERE = Path(__file__).parent
STYLE = svg.STYLE + (_HERE / "report.css").read_text(encoding="utf-8")
SCRIPT = (_HERE / "report.js").read_text(encoding="utf-8")
FORM = (_HERE / "report_form.html").read_text(encoding="utf-8")

MOST_BYTES = 2_900_000
"""Of a page; pictures that it has no room for are files beside it."""

Picture = tuple[str, str, str]
"""A heading, a sentence, and the drawing."""


def report(analysis: Analysed, form: Mapping[str, object], pictures: Mapping[str, Picture]) -> str:
    """The page.

    Args:
        analysis: what it is about.
        form: what `whatif_form` made of it.
        pictures: by the file that has the picture too, the most important first.
    """
    findings = analysis.findings
    sections = [
        _section("next", "What to do next", page_parts.next_steps(findings)),
        _section("time", "Where the time went", page_parts.spending(findings)),
        _section("what-if", "What if it were faster?", FORM),
        _section("tables", "Every piece, the most rewarding first", table_section(findings)),
    ]
    data = _data("data-graph", form) + _data("data-start", _start(analysis))
    words = _section("words", "Checks and words", page_parts.small_print(findings))
    room = MOST_BYTES - _size(STYLE, SCRIPT, data, words, *sections) - 20_000
    shown = _pictures(pictures, room)
    body = [sections[0], sections[1], *shown[:1], *sections[2:], *shown[1:], words]
    head = element("header", {}, page_parts.opening(analysis), page_parts.figures(findings))
    title = shortened(findings.diagnosis.sentence, 120)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            element("head", {}, *_head(title)),
            "<body>",
            head,
            element("main", {}, *body),
            data,
            f"<script>{SCRIPT}</script>",
            "</body></html>\n",
        ]
    )


def _head(title: str) -> list[str]:
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(SCRIPT)}'",
            f"style-src '{_digest(STYLE)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        element("title", {}, escaped(title) or "Critical path"),
        f"<style>{STYLE}</style>",
    ]


def _digest(text: str) -> str:
    """As a content security policy wants it, of the only script and style that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(name: str, heading: str, content: str) -> str:
    if not content:
        return ""
    return element("section", {"id": name}, element("h2", {}, escaped(heading)), content)


def _pictures(pictures: Mapping[str, Picture], room: int) -> list[str]:
    """Each as a section, as long as there is room; else where it is."""
    found = []
    for file, (heading, sentence, picture) in pictures.items():
        name = file.partition(".")[0]
        words = element("p", {"class": "lead small"}, escaped(sentence))
        size = _size(picture) + 1_000
        if size <= room:
            room -= size
            shown = element("div", {"class": "scroll picture", "tabindex": 0}, picture)
        else:
            shown = element(
                "p", {}, "Too large for this page: ", element("a", {"href": file}, escaped(file))
            )
        found.append(_section(name, heading, words + shown))
    return found


def _data(name: str, value: object) -> str:
    """Data for the script; the browser runs nothing in it."""
    return f'<script type="application/json" id="{name}">{json_in_script(value)}</script>'


def _start(analysis: Analysed) -> Sequence[Mapping[str, str]]:
    """What curves are drawn of before anybody has asked: the largest gain of each table."""
    found: list[Mapping[str, str]] = []
    for name, kind in KINDS.items():
        rows = tables(analysis.findings).get(name, ())
        real = [row for row in rows if row.name != UNATTRIBUTED and row.drag_ns > 0]
        largest = sorted(real, key=lambda row: -row.drag_ns)[:2]
        found += [{"kind": kind, "value": row.name} for row in largest]
    return found


def _size(*texts: str) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts)

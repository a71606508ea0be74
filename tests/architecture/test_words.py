"""One vocabulary, the field's own: words that docs, messages and docstrings do not use.

Each refused word stands beside the standard term. Names that users type or that stored files hold
keep their spelling (``protocol.canary_tolerance_ratio``): the patterns leave identifiers alone.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted((ROOT / "src").rglob("*.j2"))
YAMLS = [*sorted((ROOT / "conf").rglob("*.yaml")), *sorted((ROOT / "recipes").glob("*.yaml"))]

REFUSED = {
    r"takes? turns|in turns\b|alternat(?:e|es|ed|ing) with": "interleaved, paired",
    r"\brivals?\b": "baseline",
    r"meets? (?:its|the|their) baseline|\bmet nowhere\b": "paired with the baseline",
    r"\bdoubts?\b": "warning",
    r"\bcanar(?:y|ies)\b": "reference workload",
    r"\bautops(?:y|ies)\b": "exit diagnosis",
    r"\boffspring\b": "process tree",
    r"\bsurroundings\b": "system interference",
    r"\bagenda\b": "ready queue",
    r"\b(?:recruiter|census|vacanc(?:y|ies)|hiring|hired?)\b": "capacity, nodes, launch",
    r"\bluggage\b|\boutfit\b": "shipped files",
    r"\bdiary\b": "status file",
    r"\bshel(?:f|ves)\b": "artifact directory",
    r"\bplayed (?:machine|node)s?\b|\bplays (?:a |the )?machines?\b": "simulated node",
    r"\babreast\b": "batched",
    r"\bjunctions?\b": "branch node",
    r"\bdilation\b": "profiler overhead ratio",
    r"\bis no word\b|\bno word of\b": "is not a valid argument",
    r"\bso long (?:as )?(?:it|a|an|the|spot|nobody|what)\b": "while, seconds until",
    r"\bhouse\b|\brooms?\b": "package, folder",
    r"\bat hand\b": "available",
}
"""Refused everywhere a person reads, docstrings included."""

RIDDLES = {
    r"\b(?:some|any|no)body\b": "name the actor",
    r"\b(?:is|are|was|were) (?:told(?! apart)|asked)\b": "reported, requested",
    r"\b(?:says|tells|knows|wants|believes|asks)\b": "reports, contains, requires",
    r"\bgo(?:es)? on\b": "continue",
    r"\banew\b": "again",
    r"\btold apart\b": "distinguished",
    r"\b(?:is|are|was|were) answered\b": "the actor returns, reports, replies",
    r"\b(?:lie|lies|stand|stands) (?:in|beside|below|above|beyond|where|within|under)\b": "is in",
    r"\b(?:hold|holds|held) all the same\b": "is still valid",
    r"\bspeaks? against\b": "is a reason to distrust",
}
"""Refused in messages, pages and YAML, where a program is no person."""


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def prose(path: Path, *, docstrings: bool = True) -> Iterator[tuple[int, str]]:
    """The sentences of a file that a person reads, with their lines."""
    if path.suffix == ".py":
        for number, text, is_docstring in texts(path):
            if docstrings or not is_docstring:
                yield number, text
        return
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        is_yaml = path.suffix == ".yaml"
        yield number, line.partition("#")[2] if is_yaml else re.sub(r"`[^`]*`", "", line)


@functools.cache
def texts(path: Path) -> list[tuple[int, str, bool]]:
    """A module's texts of several words, each with its line and whether it is a docstring."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    inner = [node.body for node in nodes if isinstance(node, DOCUMENTED)]
    # A docstring, also one below an assignment, is an expression that is nothing but a text.
    silent = {id(one.value) for body in inner for one in body if isinstance(one, ast.Expr)}
    return [
        (node.lineno, node.value, id(node) in silent)
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


@functools.cache
def sentences(*, docstrings: bool) -> list[tuple[str, str]]:
    """Every sentence with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", text)
        for path in (*SOURCES, *PAGES, *YAMLS)
        for number, text in prose(path, docstrings=docstrings)
    ]


def pattern_of(refused: str) -> re.Pattern[str]:
    """Words, not identifiers or configuration keys."""
    return re.compile(rf"(?<![\w.])(?:{refused})(?![\w=])", re.IGNORECASE)


def uses(refused: str, *, docstrings: bool) -> list[str]:
    return [
        f"{place}: {match.group()}"
        for place, text in sentences(docstrings=docstrings)
        for match in pattern_of(refused).finditer(text)
    ]


@pytest.mark.parametrize(("refused", "instead"), REFUSED.items(), ids=list(REFUSED.values()))
def test_a_private_word_is_not_used(refused: str, instead: str) -> None:
    found = uses(refused, docstrings=True)
    assert not found, f"{len(found)} uses; write {instead}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize(("refused", "instead"), RIDDLES.items(), ids=list(RIDDLES.values()))
def test_no_message_or_page_speaks_of_programs_as_of_people(refused: str, instead: str) -> None:
    found = uses(refused, docstrings=False)
    assert not found, f"{len(found)} uses; write {instead}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize("text", ["'x' is no word of a run", "Its canaries were slower", "rival"])
def test_a_private_word_would_be_found(text: str) -> None:
    assert any(pattern_of(refused).search(text) for refused in REFUSED)


FAMILIES_SHARE = {"Auto", "Decoder", "TorchScript"}
"""Members of two families, and a model beside its module, which is part of stored build keys."""


def test_no_class_name_has_two_meanings() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert set(twice) == FAMILIES_SHARE, twice

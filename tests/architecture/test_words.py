"""One vocabulary, the field's own: words that docs, messages and docstrings do not use.

Each refused word stands beside the standard term. Names that users type or that stored files hold
keep their spelling (``protocol.canary_tolerance_ratio``): the patterns leave identifiers alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
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
    r"\b(?:some|any|no)body\b": "name the actor",
    r"\b(?:is|are|was|were) (?:told|asked)\b": "reported, requested",
    r"\b(?:says|tells|knows|wants|believes|asks)\b": "reports, contains, requires",
    r"\bhouse\b|\brooms?\b": "package, folder",
    r"\bat hand\b|\bby itself\b": "name the thing",
}


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a file that a person reads, with their lines."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
    elif path.suffix == ".yaml":
        for number, line in enumerate(text.splitlines(), start=1):
            yield number, line.partition("#")[2]
    else:
        for number, line in enumerate(text.splitlines(), start=1):
            yield number, re.sub(r"`[^`]*`", "", line)


@pytest.fixture(scope="module")
def sentences() -> list[tuple[str, str]]:
    """Every sentence with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", text)
        for path in (*SOURCES, *PAGES, *YAMLS)
        for number, text in prose(path)
    ]


@pytest.mark.parametrize(("refused", "instead"), REFUSED.items(), ids=list(REFUSED.values()))
def test_a_private_word_is_not_used(
    refused: str, instead: str, sentences: list[tuple[str, str]]
) -> None:
    pattern = re.compile(rf"(?<![\w.])(?:{refused})(?![\w=])", re.IGNORECASE)
    found = [
        f"{place}: {match.group()}" for place, text in sentences for match in pattern.finditer(text)
    ]
    assert not found, f"{len(found)} uses; write {instead}:\n" + "\n".join(found[:40])


@pytest.mark.parametrize("text", ["'x' is no word of a run", "Its canaries were slower", "rival"])
def test_a_private_word_would_be_found(text: str) -> None:
    patterns = [re.compile(rf"(?<![\w.])(?:{each})(?![\w=])", re.IGNORECASE) for each in REFUSED]
    assert any(pattern.search(text) for pattern in patterns)

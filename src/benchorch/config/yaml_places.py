"""Places in a YAML file: what is wrong with a line, with the line and a caret under it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaml import MarkedYAMLError, Node
    from yaml.error import Mark

_WIDEST = 76


def located(path: Path, mark: Mark, problem: str) -> str:
    """``file:line:column: problem``, the line, and a caret under the column."""
    with path.open(errors="replace") as file:
        line = next((line for number, line in enumerate(file) if number == mark.line), "")
    line = line.rstrip("\n").replace("\t", " ")
    start = max(0, mark.column - _WIDEST + 10)  # of a long line the part around the column
    number = str(mark.line + 1)
    shown = f"{number} | {line[start : start + _WIDEST]}"
    caret = f"{' ' * len(number)} | {' ' * (mark.column - start)}^"
    place = f"{shortest(path)}:{mark.line + 1}:{mark.column + 1}"
    return f"{place}: {problem}\n  {shown}\n  {caret}"


def shortest(path: Path) -> str:
    """A path relative to the current folder where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def syntax_problem(path: Path, error: MarkedYAMLError) -> str:
    """What YAML says of a file: where, and in what it was reading."""
    problem = str(error.problem or error.context)
    if error.context and error.problem:
        mark = error.context_mark
        where = f" that begins in line {mark.line + 1}" if mark else ""
        problem = f"{problem} ({error.context}{where})"
    mark = error.problem_mark or error.context_mark
    return located(path, mark, problem) if mark else f"{shortest(path)}: {problem}"


def twice(path: Path, root: Node | None) -> Iterator[str]:
    """Every key that a mapping has twice, of which one would be lost."""
    from yaml import MappingNode, SequenceNode

    nodes: list[Node] = [root] if root else []
    while nodes:
        node = nodes.pop()
        if isinstance(node, SequenceNode):
            nodes += node.value
        if not isinstance(node, MappingNode):
            continue
        first: dict[str, int] = {}
        for key, value in node.value:
            nodes += [value]
            name = str(key.value)
            if name in first and name != "<<":
                before = f"the key {name!r} is in line {first[name]} already."
                yield located(path, key.start_mark, before)
            first.setdefault(name, key.start_mark.line + 1)

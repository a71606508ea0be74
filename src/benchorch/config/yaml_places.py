"""Places in a YAML file: what is wrong with a line, a caret under it, and the corrected line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.errors import Correction, Problem, as_problem

if TYPE_CHECKING:
    from yaml import MarkedYAMLError, Node, ScalarNode
    from yaml.constructor import SafeConstructor
    from yaml.error import Mark

_WIDEST = 76

_STANDARD = "tag:yaml.org,2002:"
_VALUES = ("int", "float", "bool", "timestamp", "null")
_LONGEST_VALUE = 400

_NAME = re.compile(r"[^\s,:\[\]{}'\"#]+")


def located(path: Path, mark: Mark, problem: str, meant: str = "") -> Problem:
    """``file:line:column: problem``, the line, a caret under the column, and the corrected line.

    Args:
        meant: the corrected lines; by default the line with the name that the problem suggests.
    """
    line = text_of_line(path, mark.line)
    start = max(0, mark.column - _WIDEST + 10)  # of a long line the part around the column
    number = str(mark.line + 1)
    place = f"{shortest(path)}:{mark.line + 1}:{mark.column + 1}: {problem}"
    shown = [
        f"{number} | {line[start : start + _WIDEST]}",
        f"{' ' * len(number)} | {' ' * (mark.column - start)}^",
    ]
    corrected = meant or _with_suggestion(line, mark.column, problem)
    shown += [f"{' ' * len(number)} + {one}" for one in corrected.splitlines()]
    # A person's trust is given on the command line, whatever the file holds.
    one = as_problem(problem).correction
    trust = Correction(added=one.added) if one and "--trust" in one.added else None
    return Problem("\n  ".join([place, *shown]), trust, in_file=trust is None)


def text_of_line(path: Path, number: int) -> str:
    """A line by its number from 0, without its end and with spaces for tabs."""
    return _raw_line(path, number).rstrip("\n").replace("\t", " ")


def _raw_line(path: Path, number: int) -> str:
    with path.open(errors="replace", encoding="utf-8") as file:
        return next((line for at, line in enumerate(file) if at == number), "")


def _indentation(path: Path, number: int) -> str:
    line = _raw_line(path, number)
    return line[: len(line) - len(line.lstrip())]


def _with_suggestion(line: str, column: int, problem: str) -> str:
    """The line with the suggested name in place of the one at a column; empty without one."""
    one, found = as_problem(problem).correction, _NAME.search(line, column)
    if not (found and one and one.typed and one.meant) or one.meant.startswith("+"):
        return ""
    whole = (one.typed, f'"{one.typed}"', f"'{one.typed}'")
    start, end = found.span()
    for spelling in whole:
        if line.startswith(spelling, column):
            start, end = column, column + len(spelling)
    return line[:start] + one.meant.rpartition("=")[2] + line[end:]


def shortest(path: Path) -> str:
    """A path relative to the current folder where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def syntax_problem(path: Path, error: MarkedYAMLError) -> str:
    """The YAML parser's message for a file, with the place and, where it is clear, a correction."""
    problem = str(error.problem or error.context)
    opened = error.context_mark
    if error.context and error.problem:
        where = f" that begins in line {opened.line + 1}" if opened else ""
        problem = f"{problem} ({error.context}{where})"
    mark = error.problem_mark or opened
    if mark and "cannot start any token" in problem and "\t" in _indentation(path, mark.line):
        problem = "the indentation holds a tab; YAML indents with spaces."
    if mark is None:
        return Problem(f"{shortest(path)}: {problem}", in_file=True)
    return located(path, mark, problem, _corrected(path, error, mark))


def _corrected(path: Path, error: MarkedYAMLError, mark: Mark) -> str:
    """The line without the mistake that YAML's message is about; empty where it is not clear."""
    context, line = str(error.context), text_of_line(path, mark.line)
    opened = error.context_mark
    begun = text_of_line(path, opened.line) if opened else ""
    if opened and "flow" in context:
        return f"{begun}{']' if 'sequence' in context else '}'}"
    if opened and "quoted" in context:
        bare = begun.rstrip("]}")
        return f"{bare}{begun[opened.column]}{begun[len(bare) :]}"
    if "cannot start any token" in str(error.problem):
        return f"  {line.strip()}" if line.startswith(" ") else ""
    if "mapping values" in str(error.problem):
        key, _, value = line.partition(": ")
        return f'{key}: "{value}"'
    if "expected key" in str(error.problem):
        above = text_of_line(path, mark.line - 1)
        return f"{above[: len(above) - len(above.lstrip())]}{line.strip()}"
    return ""


def odd_nodes(path: Path, root: Node | None) -> Iterator[str]:
    """Every key that a mapping has twice, of which one would be lost; values that are none."""
    from yaml import MappingNode, ScalarNode, SequenceNode
    from yaml.constructor import SafeConstructor

    constructor = SafeConstructor()
    nodes: list[Node] = [root] if root else []
    while nodes:
        node = nodes.pop()
        if isinstance(node, SequenceNode):
            nodes += node.value
        if isinstance(node, ScalarNode) and (problem := _odd_scalar(node, constructor)):
            yield located(path, node.start_mark, problem)
        if not isinstance(node, MappingNode):
            continue
        first: dict[str, int] = {}
        for key, value in node.value:
            nodes += [key, value]
            name = str(key.value)
            if name in first and name != "<<":
                before = f"the key {name!r} is in line {first[name]} already; remove one of them."
                yield located(path, key.start_mark, before)
            first.setdefault(name, key.start_mark.line + 1)


def _odd_scalar(node: ScalarNode, constructor: SafeConstructor) -> str:
    """What is wrong with a number, a truth value or a date; empty where nothing is.

    PyYAML makes a number of as many digits as there are, for hours, and has no error of its own
    for ``!!bool maybe``.
    """
    kind = node.tag.removeprefix(_STANDARD)
    if kind not in _VALUES:
        return ""
    if len(node.value) > _LONGEST_VALUE:
        return f"a value of {len(node.value)} characters would be taken for !!{kind}; quote a text."
    try:
        constructor.construct_object(node)
    except (ValueError, LookupError, AttributeError):
        return f"{node.value!r} is no !!{kind}; quote a text."
    return ""

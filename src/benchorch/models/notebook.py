"""Run a notebook's code cells, in their order, as one script."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from tokenize import TokenError, generate_tokens
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchorch.files import read_json

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_MAGIC = ("%", "!", "?")
_HELP = re.compile(r"[\w.]+\?\??\s*")
_OUTPUT = re.compile(r"(?P<names>[\w.,\s]+)=\s*[!%].*")
"""A variable that gets the output of a command."""
_ABOUT_THE_LINE = re.compile(r"%(?:time|timeit|prun|memit)\s+(?:-\w+(?:\s*\d+)?\s+)*(?P<code>\S.*)")
"""Magics whose line is Python all the same."""
_ABOUT_THE_CELL = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics whose cell is Python all the same."""


def code_cells(path: Path) -> list[tuple[str, str]]:
    """Name and Python code of each code cell, without IPython's magics; ValueError for no notebook.

    Raises:
        SyntaxError: a cell is not Python.
    """
    notebook = read_json(path)
    listed = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("it has no cells of the notebook format 4")  # noqa: TRY004 - of the file
    language = _language(notebook)
    if language != "python":
        raise ValueError(f"its language is {language}")
    cells = [
        (f"{path}, cell {number}", _python(_source(cell)))
        for number, cell in enumerate(listed, 1)
        if isinstance(cell, Mapping) and cell.get("cell_type") == "code"
    ]
    for name, code in cells:
        check_python(code, name)
    return cells


def _language(notebook: Mapping[str, Any]) -> str:
    """The language of its kernel; Python where it names none."""
    about = notebook.get("metadata")
    for place, key in (("kernelspec", "language"), ("language_info", "name")):
        named = about.get(place) if isinstance(about, Mapping) else None
        if isinstance(named, Mapping) and isinstance(named.get(key), str):
            return str(named[key]).lower()
    return "python"


def check_python(code: str, name: str) -> None:
    """SyntaxError for what is not Python, ValueError for what Python's parser cannot hold."""
    try:
        ast.parse(code, filename=name)
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"{name} nests expressions too deeply") from error


def run_notebook(path: Path) -> Mapping[str, Any]:
    """Run the cells as ``__main__``; its variables."""
    main = ModuleType("__main__")
    main.__file__ = str(path)
    vars(main)["display"] = print  # which every kernel has
    sys.modules["__main__"] = main
    for name, code in code_cells(path):
        lines = code.splitlines(keepends=True)
        linecache.cache[name] = (len(code), None, lines, name)  # for tracebacks and getsource
        compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        cell: Coroutine[Any, Any, None] | None = eval(compiled, main.__dict__)
        if cell is not None:  # it awaits
            _loop().run_until_complete(cell)
    return vars(main)


@cache
def _loop() -> AbstractEventLoop:
    """The event loop that all cells share."""
    import asyncio

    return asyncio.new_event_loop()


def _source(cell: Mapping[str, Any]) -> str:
    """A cell's text, which the format keeps whole or in lines."""
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise ValueError("a cell's source is no text")
    return "".join(lines)


def _python(source: str) -> str:
    """A cell without magics and shell commands; the lines keep their numbers."""
    begin = source.lstrip()
    if begin.startswith("%%") and not begin.startswith(_ABOUT_THE_CELL):
        return ""
    return "\n".join(_lines(source))


def _lines(source: str) -> Iterator[str]:
    before, goes_on = list[str](), False
    for line in source.splitlines():
        python = "" if goes_on else _without_magic(line)
        begins = python != line and not goes_on
        if begins and _is_open(before):
            python = line  # inside brackets or a string it is Python as it is
        elif begins and not line[0].isspace():
            before.clear()  # whatever was before it has ended
        # A command of several lines: each but its last ends with a backslash.
        goes_on = python != line and line.endswith("\\") and not python.endswith("\\")
        before.append(python)
        yield python


def _is_open(lines: Sequence[str]) -> bool:
    """Whether a bracket, a string or a line that ends with a backslash goes on after the lines."""
    try:
        for _ in generate_tokens(StringIO("".join(f"{line}\n" for line in lines)).readline):
            pass
    except TokenError as error:
        # The latter is what Python 3.12 and later say of an f-string.
        return any(words in str(error) for words in ("in multi-line", "triple-quoted"))
    except SyntaxError:  # it is reported with its line once all of the cell is parsed
        return False
    return False


def _without_magic(line: str) -> str:
    """The Python of a line that begins a statement."""
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    timed, output = _ABOUT_THE_LINE.fullmatch(text), _OUTPUT.fullmatch(text)
    if timed:
        return f"{indent}{timed['code']}"
    if output:
        return f"{indent}{output['names']}= []"
    if text.startswith(_MAGIC) or _HELP.fullmatch(text):
        return f"{indent}pass"
    return line

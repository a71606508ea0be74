"""Examples that run as they are: with the names of what the current folder holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FIRST = "benchorch run recipes/tiny.yaml"
"""A run that works in any folder."""

_FUNCTION = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)
_SCRIPT, _TRACE = "my_script.py", "trace.json"
_RECIPE, _MODULE = "mine.yaml", "ranker.py:build"
_MOST_FILES = 20


def filled(line: str) -> str:
    """The line with files that exist in place of those that it names for example.

    Where the folder has none, a run: of a built-in recipe, which for `analyze` leaves a trace.
    """
    scripts = _files("*.py")
    if _SCRIPT in line:
        return line.replace(_SCRIPT, str(scripts[0])) if scripts else FIRST
    if _TRACE in line:
        traces = [path for path in _files("*.json") if _is_trace(path)]
        return line.replace(_TRACE, str(traces[0])) if traces else f"{FIRST} profile=winner"
    return line.replace(_MODULE, own_module()).replace(_RECIPE, free_recipe())


def own_module() -> str:
    """A function of a file here, as ``init`` takes it; else a class that torch has."""
    return next(_functions(), "torch.nn:Identity")


def free_recipe() -> str:
    """A recipe's file that does not exist."""
    names = (f"mine{number or ''}.yaml" for number in range(1000))
    return next(name for name in names if not Path(name).exists())


def _functions() -> Iterator[str]:
    for path in _files("*.py"):
        found = _FUNCTION.search(path.read_text(errors="replace", encoding="utf-8"))
        if found:
            yield f"{path}:{found[1]}"


def _files(pattern: str) -> list[Path]:
    return [path for path in sorted(Path().glob(pattern))[:_MOST_FILES] if path.is_file()]


def _is_trace(path: Path) -> bool:
    with path.open(errors="replace", encoding="utf-8") as file:
        return "traceEvents" in file.read(100_000)

"""Folders that a Python file adds to ``sys.path``, read from its source without running it."""

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

_ADDED = {"sys.path.insert": 1, "sys.path.append": 0, "site.addsitedir": 0}
"""Which argument of a call is a folder."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"os.path.{f.__name__}": f for f in (os.path.dirname, os.path.join, os.path.normpath)},
    **{f"os.path.{f.__name__}": f for f in (os.path.abspath, os.path.realpath)},
    **dict.fromkeys(("Path", "pathlib.Path"), Path),
    **{"str": str, "os.fspath": os.fspath, "os.getcwd": os.getcwd},
    **{"Path.cwd": Path.cwd, "pathlib.Path.cwd": Path.cwd},
}
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_METHODS = frozenset({"resolve", "absolute", "as_posix", "joinpath"})
_CONSTANTS = {"os.pardir": os.pardir, "os.curdir": os.curdir, "os.sep": os.sep}


def import_folders(tree: ast.Module, file: Path) -> Iterator[Path]:
    """Folders that are made of text, ``__file__``, ``os.path`` and ``pathlib``; others are unknown.

    Args:
        tree: of the file's source.
        file: absolute.
    """
    names: dict[str, Any] = {"__file__": str(file)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = _value(node.value, names)
    for each in _added(tree):
        folder = _value(each, names)
        if isinstance(folder, str | Path) and os.path.isdir(folder):  # noqa: PTH112 may be text
            path = Path(os.path.normpath(Path.cwd() / folder))
            if not _INSTALLED & {*path.parts}:
                yield path


def _added(tree: ast.Module) -> Iterator[ast.expr]:
    """Expressions of what is added."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = _dotted(node.func)
            at = _ADDED.get(called, len(node.args))
            yield from node.args[at : at + 1]
            if called == "sys.path.extend":
                yield from _items(node.args)
        elif isinstance(node, ast.AugAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
            whole = target.value if isinstance(target, ast.Subscript) else target
            if _dotted(whole) == "sys.path":  # also sys.path[:0] = [...]
                yield from _items([node.value])


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` as text; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def _items(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    for node in nodes:
        if isinstance(node, ast.BinOp):
            yield from _items([node.left, node.right])
        elif isinstance(node, ast.List | ast.Tuple):
            yield from node.elts


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What an expression is; None where that takes running it."""
    try:
        return _evaluated(node, names)
    except (LookupError, TypeError, ValueError, AttributeError, OSError, RecursionError):
        return None


def _evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.JoinedStr):
        return "".join(str(_evaluated(each, names)) for each in node.values)
    if isinstance(node, ast.FormattedValue):
        return _evaluated(node.value, names)
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left, names), _evaluated(node.right, names)
        return left / right if isinstance(node.op, ast.Div) else _joined(left, right)
    if isinstance(node, ast.Subscript):  # Path(__file__).parents[1]
        return _evaluated(node.value, names)[_evaluated(node.slice, names)]
    if isinstance(node, ast.Call):
        return _called(node, names)
    if isinstance(node, ast.Attribute):
        constant = _CONSTANTS.get(_dotted(node))
        return constant or _member(node, names, {"parent", "parents", "name"})
    raise TypeError(node)


def _joined(left: object, right: object) -> str:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    raise TypeError(left)


def _called(node: ast.Call, names: Mapping[str, Any]) -> Any:
    function = _FUNCTIONS.get(_dotted(node.func))
    if function is None and isinstance(node.func, ast.Attribute):
        function = _member(node.func, names, _METHODS)
    if function is None or node.keywords:
        raise TypeError(node)
    return function(*(_evaluated(each, names) for each in node.args))


def _member(node: ast.Attribute, names: Mapping[str, Any], allowed: Set[str]) -> Any:
    owner = _evaluated(node.value, names)
    if isinstance(owner, Path) and node.attr in allowed:
        return getattr(owner, node.attr)
    raise TypeError(node)

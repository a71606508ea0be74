"""Modules that a function may reach by a name that it computes."""

import ast
import dis
import sys
from collections.abc import Collection, Mapping
from types import CodeType, ModuleType
from typing import Any

from benchorch.frameworks.identity.code import nested, parsed

_BUILTINS = frozenset({"eval", "exec", "vars", "globals", "__import__"})
_ANY_MODULE = frozenset(
    {"import_module", "resolve_name", "locate", "run_path", "run_module", "__globals__"}
    | {"f_globals", "__subclasses__", "getmembers", "get_objects", "get_referrers"}
)
"""By which code reaches what it does not name."""


def reaches_any_module(code: CodeType, names: Collection[str], scope: Mapping[str, Any]) -> bool:
    """Whether code may reach whatever is imported."""
    if _ANY_MODULE.intersection(names) or (_BUILTINS.intersection(names) and _calls_builtin(code)):
        return True
    values = [scope.get(name) for name in names]
    registry = "modules" in names and ("sys" in names or any(one is sys for one in values))
    return registry or any(one is sys.modules for one in values)


def _calls_builtin(code: CodeType) -> bool:
    """Whether it is eval() and no method of that name, which every module has."""
    return any(
        one.argval in _BUILTINS and one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        for part in nested(code)
        for one in dis.get_instructions(part)
    )


def handed_on(code: CodeType, names: Collection[str], scope: Mapping[str, Any]) -> list[ModuleType]:
    """Modules of which code uses more than attributes that it names: all of them may count."""
    tree = parsed(code)
    if tree is None:
        found = [scope.get(name) for name in names]
    else:
        known = {**scope, **_imported(tree)}
        bases = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr != "__dict__"
        }
        found = [_value(node, known) for node in ast.walk(tree) if id(node) not in bases]
    return [one for one in found if isinstance(one, ModuleType)]


def _value(node: ast.AST, names: Mapping[str, Any]) -> object:
    """The module that a name or a chain of attributes stands for, or None."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _value(node.value, names)
        return vars(base).get(node.attr) if isinstance(base, ModuleType) else None
    return None


def _imported(tree: ast.AST) -> dict[str, Any]:
    """Modules by the names that a function's own imports give them."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import) else ():
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            found[alias.asname or name] = sys.modules.get(name)
    return found

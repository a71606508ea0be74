"""What a function may reach by a name that it computes: modules, environment variables."""

import ast
import dis
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from benchorch.frameworks.identity.code import nested, parsed

ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars"})

_OF_A_MAPPING = frozenset({"get", "pop", "setdefault", "__getitem__"})
_BUILTINS = frozenset({"eval", "exec", "vars", "globals", "__import__"})
_ANY_MODULE = frozenset(
    {"import_module", "resolve_name", "locate", "run_path", "run_module", "__globals__"}
    | {"f_globals", "__subclasses__", "getmembers", "get_objects", "get_referrers"}
)
"""By which code reaches what it does not name."""

_OF_A_TERMINAL = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "STY"}
    | {"TMPDIR", "HYDRA_FULL_ERROR", "MPLBACKEND"}
)
_PREFIXES_OF_A_TERMINAL = ("BENCHORCH", "SSH_", "XDG_", "TERM_", "TMUX", "VSCODE_", "PYTEST_")
"""Variables that are others in each terminal, and those of benchorch itself."""

ANY = "*"
_PERCENT = re.compile(r"%[^%a-zA-Z]*[%a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")


def all_variables() -> dict[str, str]:
    """Every environment variable that a model might read."""
    return {name: value for name, value in os.environ.items() if not is_of_terminal(name)}


def is_of_terminal(name: str) -> bool:
    """Whether a variable is another in each terminal, or benchorch's own."""
    return name in _OF_A_TERMINAL or name.startswith(_PREFIXES_OF_A_TERMINAL)


def matching(environment: Mapping[str, str], pattern: str) -> dict[str, str]:
    """Variables whose names a pattern such as ``MODEL_*_SCALE`` fits."""
    fits = re.compile(".*".join(map(re.escape, pattern.split(ANY)))).fullmatch
    return {name: value for name, value in environment.items() if fits(name)}


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


def variables_read(
    code: CodeType, names: Collection[str], scope: Mapping[str, Any]
) -> set[str] | None:
    """Environment variables that code reads, with ``*`` for parts of a name that it computes.

    None where it reads one of which it spells nothing.
    """
    tree = parsed(code)
    if tree is None:
        any_one = any(name in ENVIRONMENT or reads_environment(scope.get(name)) for name in names)
        return None if any_one else set()
    inner = {name for part in nested(code) for name in (*part.co_varnames, *part.co_cellvars)}
    scope = {name: scope[name] for name in names if name in scope and name not in inner}
    nodes = list(ast.walk(tree))
    keys = [key for node in nodes for key in _variable_keys(node, scope)]
    found = {text_of(key, scope) for key in keys}
    used = sum(_is_environment(node, scope) for node in nodes)
    return found if all(text.strip(ANY) for text in found) and used == len(keys) else None


def _variable_keys(node: ast.AST, scope: Mapping[str, Any]) -> Iterator[ast.expr]:
    """The name of the variable that a call, an index or ``in`` reads."""
    if isinstance(node, ast.Call) and node.args:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in _OF_A_MAPPING:
            called = called.value
        if _is_environment(called, scope):
            yield node.args[0]
    elif isinstance(node, ast.Subscript) and _is_environment(node.value, scope):
        yield node.slice
    elif isinstance(node, ast.Compare) and _is_environment(node.comparators[0], scope):
        yield node.left


def _is_environment(node: ast.AST, scope: Mapping[str, Any]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ENVIRONMENT
    return isinstance(node, ast.Name) and (
        node.id in ENVIRONMENT or reads_environment(scope.get(node.id))
    )


def reads_environment(value: object) -> bool:
    """Whether a value is os.environ or os.getenv, whatever the code calls it."""
    return value is not None and any(value is getattr(os, one, None) for one in ENVIRONMENT)


def text_of(node: ast.AST, scope: Mapping[str, Any]) -> str:
    """The text that constants and globals make together; ``*`` for each part that others make."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            value = scope.get(name)
            return value if isinstance(value, str) else ANY
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return text_of(value, scope)
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, scope) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left, scope) + text_of(right, scope)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return _PERCENT.sub(ANY, text)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return _BRACES.sub(ANY, text)
    return ANY


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

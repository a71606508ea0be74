"""Definitions of a running script that one of its objects needs, as source without the rest."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType

from benchorch.models.source import Definition, module_level

_LITERALS = (bool, int, str, bytes, type(None))


class NotDefinedError(Exception):
    """Why a script's definitions do not stand alone, as a sentence without its end."""


def definitions(
    source: str, variables: Mapping[str, object], roots: Iterable[str]
) -> tuple[str, dict[str, object]]:
    """Source that defines names of a script and all that they use; values that have no literal.

    Args:
        source: of the script.
        variables: the script's, at the time.
        roots: names of its classes and functions.
    """
    tree = ast.parse(source)
    defined = {node.name: node for node in module_level(tree.body) if isinstance(node, Definition)}
    head, chosen, values = [*_future(tree)], set[str](), dict[str, object]()
    waiting, seen = sorted(roots), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in variables or name == "__name__":
            continue
        seen.add(name)
        value = variables[name]
        if name == "__file__":
            raise NotDefinedError("its code reads __file__")
        if name in defined and not _is_of_another_module(value):
            chosen.add(name)
            waiting += sorted(_globals_of(defined[name]))
        elif (line := _line_of(name, value, tree)) is not None:
            head.append(line)
        elif getattr(builtins, name, None) is not value:
            values[name] = value
    written = sorted((defined[name] for name in chosen), key=lambda node: node.lineno)
    return "\n\n\n".join(["\n".join(head), *map(ast.unparse, written)]) + "\n", values


def _is_of_another_module(value: object) -> bool:
    """Whether the script imported it, as in place of a definition under ``except ImportError``."""
    if isinstance(value, ModuleType):
        return True
    module, name = str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", ""))
    own = module in ("__main__", "__mp_main__")
    return not own and getattr(sys.modules.get(module), name, None) is value


def _future(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield ast.unparse(node)


def _globals_of(node: Definition) -> set[str]:
    """Names of the script's variables that a definition reads, when it is made or later."""
    table = symtable.symtable(ast.unparse(node), "script", "exec")
    names = {each.get_name() for each in table.get_symbols() if each.is_referenced()}
    waiting = table.get_children()
    while waiting:
        inner = waiting.pop()
        names |= {each.get_name() for each in inner.get_symbols() if each.is_global()}
        waiting += inner.get_children()
    return names


def _line_of(name: str, value: object, tree: ast.Module) -> str | None:
    """The import or the assignment that gives a name its value; None where there is neither."""
    if isinstance(value, ModuleType):
        lines = [f"import {value.__name__} as {name}", *_submodules(name, tree)]
        return "\n".join(lines)
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        module, qualified = value.__module__, value.__qualname__
        if module and module not in ("__main__", "builtins") and qualified.isidentifier():
            return f"from {module} import {qualified} as {name}"
        return None
    return f"{name} = {value!r}" if _is_literal(value) else None


def _submodules(name: str, tree: ast.Module) -> Iterator[str]:
    """The script's ``import name.part``, which also load a part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is None and alias.name.startswith(f"{name}."):
                    yield f"import {alias.name}"


def _is_literal(value: object) -> bool:
    if type(value) is float:
        return value - value == 0  # not infinite, not nan
    if type(value) in (tuple, list):
        return all(map(_is_literal, value))  # type: ignore[call-overload]
    if type(value) is dict:
        return all(map(_is_literal, (*value.keys(), *value.values())))
    return type(value) in _LITERALS

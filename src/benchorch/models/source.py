"""Definitions of a module, parsed from its source: planning never imports a user's code."""

from __future__ import annotations

import ast
import builtins
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, TypeAlias, final

from benchorch.config.components import misspelt, suggest
from benchorch.domain.codec import Json
from benchorch.errors import Problem
from benchorch.files import Stamp, read_small, stamp

_MOST_FILES = 10
_MOST_MODULES = 40
_MOST_BASES = 20
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedModule:
    """A parsed module.

    Attributes:
        name: dotted, or a file's path.
        path: the file.
        names: every name bound at module level.
        definitions: functions and classes among them, the last of each name.
        open: whether more names may appear when it runs: ``import *``, ``__getattr__``, globals().
        imports: module and name there of each name that comes ``from`` another module.
        stars: modules whose names all are imported.
    """

    name: str
    path: Path
    names: frozenset[str]
    definitions: Mapping[str, Definition]
    open: bool
    imports: Mapping[str, tuple[str, str]]
    stars: tuple[str, ...]


def module_source(name: str) -> tuple[ParsedModule | None, str]:
    """The module's parsed source, or the problem; neither where only an import could show it."""
    spec, problem = _find(name)
    if problem or spec is None:
        return None, problem
    if spec.origin is None and spec.submodule_search_locations is not None:
        return None, f"{name!r} is a folder without __init__.py, which defines nothing."
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None, ""
    return file_source(Path(spec.origin), name)


def module_place(name: str) -> Path | None:
    """The file that importing a module would run; None where there is none or it is not known."""
    spec, _ = _find(name)
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    return Path(spec.origin)


def file_source(path: Path, name: str) -> tuple[ParsedModule | None, str]:
    """A file's parsed source under that name, or the problem."""
    try:
        return _parsed(name, path, stamp(path.stat())), ""
    except SyntaxError as error:
        problem = f"{path} has a syntax error on line {error.lineno}: {error.msg}."
        return None, Problem(problem, in_file=True)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return None, f"{path} cannot be read: {error}."


def _find(name: str) -> tuple[ModuleSpec | None, str]:
    """Walk from package to module, asking finders only: importing runs code."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth, part in enumerate(parts):
        dotted = ".".join(parts[: depth + 1])
        spec = _ask_finders(dotted, path)
        if spec is None:
            near = [module.name for module in pkgutil.iter_modules(path or _everywhere())]
            near = [name for name in near if name not in sys.stdlib_module_names]
            files = ", ".join(sorted(file.name for file in Path.cwd().glob("*.py"))[:_MOST_FILES])
            return None, (
                f"there is no module {dotted!r}.{suggest(part, near)} It must be in the current "
                "folder, in PYTHONPATH or an installed package. "
                f"Python files in the current folder: {files or 'none'}."
            )
        locations = spec.submodule_search_locations
        path = None if locations is None else list(locations)
        if path is None and depth < len(parts) - 1:
            return None, f"{dotted!r} is a module, not a package: it holds no {parts[depth + 1]!r}."
    return spec, ""


def _everywhere() -> list[str]:
    return [*sys.path, str(Path.cwd())]


def _ask_finders(dotted: str, path: list[str] | None) -> ModuleSpec | None:
    """PathFinder first; then the finders that editable installs add."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    finders: list[Any] = [
        PathFinder,
        *(finder for finder in others if hasattr(finder, "find_spec")),
    ]
    # A user's modules come last, as in a trial's process, and are on no path of this one's.
    places = [path] if path is not None else [None, [str(Path.cwd())]]
    # PathFinder gets the last part alone, as it takes a parent that is not imported for an error.
    names = [dotted.rpartition(".")[2] if one is PathFinder else dotted for one in finders]
    asked = [*zip(finders, names, strict=True)]
    found = (finder.find_spec(name, place) for place in places for finder, name in asked)
    return next((spec for spec in found if spec is not None), None)


@lru_cache(maxsize=64)
def _parsed(name: str, path: Path, _: Stamp) -> ParsedModule:
    tree = ast.parse(read_small(path, links=True), filename=str(path))
    statements = list(module_level(tree.body))
    names = frozenset(name for statement in statements for name in _bound(statement))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imported = list(_imported(statements, package))
    return ParsedModule(
        name=name,
        path=path,
        names=names,
        definitions={
            statement.name: statement
            for statement in statements
            if isinstance(statement, Definition)
        },
        open="*" in names or "__getattr__" in names or _computes_names(tree),
        imports={own: place for own, place in imported if own != "*"},
        stars=tuple(module for own, (module, _) in imported if own == "*"),
    )


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run in the module's own scope, those under if, try, with and for too."""
    for statement in body:
        yield statement
        if isinstance(statement, Definition):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from module_level(getattr(statement, block, []))
        for handler in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from module_level(handler.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    if isinstance(statement, Definition):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    else:
        yield from (
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def _imported(statements: list[ast.stmt], package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name that comes from another module, with that module and its name there."""
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            with suppress(ImportError):  # a relative one in no package
                module = resolve_name("." * statement.level + (statement.module or ""), package)
                for alias in statement.names:
                    yield alias.asname or alias.name, (module, alias.name)


def defined(source: ParsedModule, attribute: str) -> tuple[ParsedModule, Definition] | None:
    """The function, class or method that an attribute leads to; None where only running shows it.

    Imports of names are followed, and so are the bases of a class for its methods.
    """
    first, _, method = attribute.partition(".")
    places: list[tuple[ParsedModule | str, str]] = [(source, first)]
    for place, name in places:
        parsed = place if isinstance(place, ParsedModule) else module_source(place)[0]
        if parsed is None:
            continue
        if found := parsed.definitions.get(name):
            return _method(parsed, found, method, _MOST_BASES) if method else (parsed, found)
        near = [parsed.imports.get(name, ("", ""))] + [(star, name) for star in parsed.stars]
        new = [one for one in near if one[0] and one not in places]
        places += new[: max(0, _MOST_MODULES - len(places))]
    return None


def _method(
    source: ParsedModule, owner: Definition, name: str, deep: int
) -> tuple[ParsedModule, Definition] | None:
    """A definition in the body of a class or of one of its bases."""
    for statement in owner.body:
        if isinstance(statement, Definition) and statement.name == name:
            return source, statement
    for base in _bases(source, owner, deep):
        if base and (found := _method(*base, name, deep - 1)):
            return found
    return None


def _bases(
    source: ParsedModule, owner: Definition, deep: int
) -> Iterator[tuple[ParsedModule, Definition] | None]:
    """Each base of a class that is no built-in; None for one that is not found."""
    for base in owner.bases if isinstance(owner, ast.ClassDef) else ():
        name = base.id if isinstance(base, ast.Name) else ""
        module = source.imports.get(name, ("", ""))[0].partition(".")[0]
        built_in = name not in source.names and hasattr(builtins, name)
        if not built_in and module not in sys.stdlib_module_names:
            yield defined(source, name) if name and deep else None


def is_no_module(source: ParsedModule, found: Definition, deep: int = _MOST_BASES) -> bool:
    """Whether a definition is a function, or a class that surely is none of torch's modules."""
    if not isinstance(found, ast.ClassDef):
        return True
    if (source.name, found.name) == ("torch.nn.modules.module", "Module") or found.keywords:
        return False
    return all(base and is_no_module(*base, deep - 1) for base in _bases(source, found, deep))


def _computes_names(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in ("globals", "exec", "setattr")
        for node in ast.walk(tree)
    )


def attribute_problems(source: ParsedModule, attribute: str) -> list[str]:
    """Problem of an attribute that the module's source does not define."""
    first = attribute.partition(".")[0]
    if source.open or first in source.names:
        return []
    callables = ", ".join(source.definitions) or "no function or class"
    return [f"{source.name!r} has no {first!r}.{suggest(first, source.names)} It has: {callables}."]


def argument_problems(
    where: str, source: ParsedModule, attribute: str, arguments: Mapping[str, Json]
) -> list[str]:
    """Keywords that a plainly written function or class does not take, and those it lacks."""
    signature = _signature(source.definitions.get(attribute))
    if signature is None:
        return []
    taken = [argument.arg for argument in (*signature.args, *signature.kwonlyargs)]
    first_default = len(signature.args) - len(signature.defaults)
    required = [argument.arg for argument in signature.args[:first_default]] + [
        argument.arg
        for argument, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
        if default is None
    ]
    unknown = [] if signature.kwarg else [name for name in arguments if name not in taken]
    return [
        misspelt(
            f"{where}.{name}: {attribute} takes no {name!r}.",
            name,
            taken,
            f" Arguments: {', '.join(taken) or 'none'}.",
        )
        for name in unknown
    ] + [
        f"{where}.{name}: is missing; {attribute} needs it. Add +{where}.{name}=..."
        for name in required
        if name not in arguments
    ]


def _signature(definition: Definition | None) -> ast.arguments | None:
    """The arguments of a call; None where a decorator or a base class may have changed them."""
    if definition is None or definition.decorator_list:
        return None
    if not isinstance(definition, ast.ClassDef):
        return None if definition.args.posonlyargs else definition.args
    made = [
        statement
        for statement in definition.body
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__"
    ]
    if not made or made[-1].decorator_list or definition.keywords:
        return None
    own = made[-1].args
    if own.posonlyargs or not own.args:
        return None
    return ast.arguments(
        posonlyargs=[],
        args=own.args[1:],
        vararg=own.vararg,
        kwonlyargs=own.kwonlyargs,
        kw_defaults=own.kw_defaults,
        kwarg=own.kwarg,
        defaults=own.defaults,
    )

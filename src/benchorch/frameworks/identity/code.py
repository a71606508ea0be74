"""Digest of a function's code: independent of comments, formatting, docstrings and its place."""

import ast
import dis
import hashlib
import os
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from types import CodeType
from typing import TypeAlias

from benchorch.files import file_digest

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LONGEST_NAME = 200
_SILENT = frozenset({"NOP", "RESUME", "CACHE", "EXTENDED_ARG", "PRECALL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed file.

    Attributes:
        functions: by name and first line; None where several share both.
        compiled: the code objects that it holds, by the same.
        body: module-level statements with effects besides binding a constant or a definition.
        decorated: decorated definitions by name and first line: a decorator may have effects.
        classes: what class bodies do besides binding definitions and constants, by their names.
        imports: every import statement of the module's own level.
    """

    functions: Mapping[tuple[str, int], _Function | None]
    compiled: Mapping[tuple[str, int], CodeType]
    body: ast.Module
    decorated: tuple[tuple[str, int], ...]
    classes: Mapping[str, ast.Module]
    imports: tuple[ast.Import | ast.ImportFrom, ...]


def parse(path: Path) -> Source | None:
    """The file, parsed once while it stays the same; None where it is no Python source."""
    try:
        status = path.stat()
        return _parse(path, (status.st_ino, status.st_size, status.st_mtime_ns))
    except (OSError, SyntaxError, ValueError):
        return None


@lru_cache(maxsize=512)
def _parse(path: Path, _: object) -> Source:
    with tokenize.open(path) as file:
        text = file.read()
    tree = ast.parse(text)
    compiled = compile(text, str(path), "exec", dont_inherit=True)
    statements = list(_executed(tree.body))
    return Source(
        functions=_functions(tree),
        compiled={(code.co_name, code.co_firstlineno): code for code in nested(compiled)},
        body=_module([*_effects(statements)]),
        classes=_classes(tree),
        decorated=tuple(
            (one.name, min(each.lineno for each in one.decorator_list))
            for one in statements
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and one.decorator_list
        ),
        imports=tuple(
            node
            for one in statements
            if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(one)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ),
    )


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run on import; those for type checkers and for ``python -m`` do not."""
    for one in body:
        if isinstance(one, ast.If) and _is_guard(one.test):
            yield from _executed(one.orelse)
        else:
            yield one


def _is_guard(test: ast.expr) -> bool:
    """Whether it is true for type checkers or as a program alone."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Eq) and "__main__" in ast.dump(test)
    return isinstance(test, ast.Name | ast.Attribute) and "TYPE_CHECKING" in ast.dump(test)


def _module(statements: list[ast.stmt]) -> ast.Module:
    return ast.Module(body=statements, type_ignores=[])


def _effects(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with effects, those in the bodies of classes included."""
    for one in statements:
        if isinstance(one, ast.ClassDef):
            yield from (each for each in _effects(one.body) if not _binds(each))
        elif _has_effects(one):
            yield one


def _binds(one: ast.stmt) -> bool:
    """Whether it does no more than bind names; a class's are looked at where it is reached."""
    targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
    return isinstance(one, ast.Assign | ast.AnnAssign) and all(
        isinstance(target, ast.Name) for target in targets
    )


def _classes(tree: ast.Module) -> dict[str, ast.Module]:
    """The values that a class's body computes by calls: fields of dataclasses, for example."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bound = [one for one in node.body if _binds(one) and _has_effects(one)]
            found.setdefault(node.name, []).extend(bound)
    return {name: _module(bound) for name, bound in found.items() if bound}


def _has_effects(one: ast.stmt) -> bool:
    definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    if isinstance(one, definition) or _is_text(one):
        return False
    if isinstance(one, ast.Assign | ast.AnnAssign):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        named = all(isinstance(target, ast.Name) for target in targets)
        return not named or any(isinstance(part, ast.Call) for part in ast.walk(one))
    return True


def _functions(tree: ast.Module) -> dict[tuple[str, int], _Function | None]:
    found: dict[tuple[str, int], _Function | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            line = min([node.lineno, *(each.lineno for each in decorators)])
            key = (getattr(node, "name", "<lambda>"), line)
            found[key] = None if key in found else node
    return found


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that it holds."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def file_names(values: Iterable[object]) -> Iterator[str]:
    """Texts among a function's constants and globals that may name a file."""
    for value in values:
        text = os.fsdecode(value) if isinstance(value, str | bytes | PurePath) else ""
        if len(text) < _LONGEST_NAME and {".", "/"}.intersection(text) and text.isprintable():
            yield text


def named_files(sources: Iterable[Path]) -> Iterator[str]:
    """Files that source files name in one text, in the current folder or beside the source.

    Native code opens such files unheard.
    """
    for path in sources:
        source = parse(path)
        names = {
            name
            for code in (source.compiled.values() if source else ())
            for name in file_names(code.co_consts)
        }
        places = (folder / name for folder in (Path.cwd(), path.parent) for name in names)
        yield from filter(os.path.isfile, map(str, places))


def words(sources: Iterable[Path]) -> set[str]:
    """Names that the code of source files uses."""
    parsed_ones = filter(None, map(parse, sources))
    return {name for one in parsed_ones for code in one.compiled.values() for name in code.co_names}


def parsed(code: CodeType) -> ast.AST | None:
    """A function's syntax tree, where the file still has the source of its code."""
    source = parse(Path(code.co_filename))
    key = (code.co_name, code.co_firstlineno)
    return source.functions.get(key) if source and source.compiled.get(key) == code else None


def code_digest(code: CodeType) -> str:
    """SHA-256 (hex): of the source where the file still has it, else of the instructions."""
    node = parsed(code)
    if node is not None:
        return syntax_digest(node)
    return hashlib.sha256(_instructions(code).encode()).hexdigest()


def file_syntax_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's code; of its bytes where it is none."""
    try:
        return syntax_digest(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError):
        return file_digest(path)


def syntax_digest(node: ast.AST) -> str:
    """SHA-256 (hex) of a syntax tree without texts and hints that do nothing.

    Those are docstrings, annotations of local names, and those of functions without decorators,
    which might read them.
    """
    lines: list[str] = []
    _spell(node, lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _spell(node: object, lines: list[str], *, hints: bool = True) -> None:
    """Add the lines of a node; `hints` is whether annotations around it count."""
    if isinstance(node, ast.AnnAssign) and node.value is not None and not hints:
        node = ast.Assign(targets=[node.target], value=node.value)
    if isinstance(node, ast.AST):
        lines.append(f"({type(node).__name__}")
        for name, value in ast.iter_fields(node):
            counts = _hints_count(node, name, hints)
            is_noise = name in ("type_comment", "type_ignores", "kind")
            if not is_noise and (counts or name not in ("annotation", "returns")):
                lines.append(name)
                _spell(value, lines, hints=counts)
        lines.append(")")
    elif isinstance(node, list):
        lines.append("[")
        for one in node:
            if not _is_text(one) and not isinstance(one, ast.Pass):
                _spell(one, lines, hints=hints)
        lines.append("]")
    else:
        lines.append(spell_constant(node))


def _hints_count(node: ast.AST, name: str, around: bool) -> bool:
    """Whether annotations in a field of a node count, by whether those around it do."""
    if isinstance(node, ast.ClassDef):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name != "decorator_list":
        return name != "body" and bool(node.decorator_list)
    return around


def _is_text(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _instructions(code: CodeType) -> str:
    kept = [one for one in dis.get_instructions(code) if one.opname not in _SILENT]
    numbers = {one.offset: number for number, one in enumerate(kept)}
    jumps = set(dis.hasjrel) | set(dis.hasjabs)

    def target(offset: int) -> int:
        return min((number for at, number in numbers.items() if at >= offset), default=len(kept))

    lines = [
        f"{one.opname} {target(one.argval) if one.opcode in jumps else spell_constant(one.argval)}"
        for one in kept
    ]
    names = (code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return "\n".join([*lines, repr(names), repr(counts), code.co_exceptiontable.hex()])


def spell_constant(value: object) -> str:
    """A constant of the language as text: another one for 1, 1.0 and True."""
    if isinstance(value, CodeType):
        return f"code {hashlib.sha256(_instructions(value).encode()).hexdigest()}"
    if isinstance(value, tuple):
        return f"({', '.join(map(spell_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(spell_constant, value)))}}}"
    return f"{type(value).__name__} {value!r}"

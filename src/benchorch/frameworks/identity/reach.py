"""Code that is reachable from a module: functions, classes, the files and packages they are from.

A user's function enters by its code and by the values of what it names. A package's enters by the
package, and is followed to the other packages that it names.
"""

import ast
import dis
import enum
import importlib.util
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from benchorch.domain.artifact import digest_of
from benchorch.files import file_digest
from benchorch.frameworks.identity.code import (
    Source,
    code_digest,
    file_syntax_digest,
    nested,
    parse,
    syntax_digest,
)
from benchorch.frameworks.identity.distributions import describe, is_closed
from benchorch.frameworks.identity.indirect import handed_on, reaches_any_module
from benchorch.frameworks.identity.leaves import Leaves
from benchorch.frameworks.identity.owners import (
    BENCHORCH,
    PYTHON,
    USER,
    FileOwners,
    Owner,
    listing_files,
    module_label,
    name_of,
)

_CLASS_NOISE = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__qualname__"}
    | {"__firstlineno__", "__static_attributes__", "__orig_bases__", "__parameters__"}
    | {"__abstractmethods__", "_abc_impl", "__dataclass_fields__", "__dataclass_params__"}
    | {"__match_args__", "__slots__", "__annotate__", "__annotate_func__", "__members__"}
    | {"__annotations_cache__", "_member_map_", "_value2member_map_", "_member_names_"}
    # Made of fields and decorators, with the class's address in them:
    | {"__pydantic_core_schema__", "__pydantic_serializer__", "__pydantic_validator__"}
)
_PLUGINS = frozenset({"entry_points", "iter_entry_points"})
_CLOCKS = {
    "time": frozenset({"localtime", "gmtime", "ctime", "asctime", "strftime", "clock_gettime"}),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "uuid": frozenset({"uuid1", "getnode"}),
}
"""Names by which code asks Python's modules for what may be the same in two loads and not later.

What differs in each call, as counters and random ids do, shows in the second load.
"""

_SECONDS = frozenset({"time", "time_ns"})
"""Of which only the day counts: most take them to measure."""
_ANNOTATIONS = frozenset({"__annotations__", "get_annotations", "get_type_hints", "signature"})
_DOCSTRINGS = frozenset({"__doc__", "getdoc"})
_LINES = frozenset(
    {"getsource", "getsourcelines", "getcomments", "findsource", "linecache"}
    | {"co_firstlineno", "co_lines", "f_lineno", "tb_lineno"}
)
"""By which code reads its own text, comments and line numbers included."""
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
"""Instructions that push a constant; Python 3.14 has one for small integers."""
_MOST_FUNCTIONS = 50_000
_LONGEST_SCALAR = 200


class Reach:
    """Code reachable from a model; `run` follows it.

    Attributes:
        value: looks at a value of the user's; set by whoever joins both walks.
        clocks: Python modules that a user's reached code takes the date from.
        asks_time: whether code takes the time, or a package's the date, perhaps to measure or show.
        files: of the user's modules that were reached.
        listings: of the files of packages that were reached.
    """

    def __init__(self, leaves: Leaves) -> None:
        self.value: Callable[[str, object], None] = lambda path, value: None
        self.clocks: set[str] = set()
        self.asks_time = False
        self.files: set[Path] = set()
        self.listings: set[str] = set()
        self._leaves = leaves
        self._owners = FileOwners()
        self._queue: deque[tuple[object, str]] = deque()
        self._held: list[str] = []
        self._seen: set[int] = set()
        self._modules: set[str] = set()
        self._wholes: set[str] = set()
        self._late: set[str] = set()
        self._attributes: set[tuple[str, str]] = set()
        self._kept: list[object] = []
        self._packages: dict[str, tuple[Distribution, set[Path]]] = {}
        self._code: dict[str, set[str]] = {}
        self._functions = 0
        self._reads: set[str] = set()
        self._described: deque[tuple[Any, str]] = deque()

    def add(self, found: object, path: str) -> None:
        """Look at a function, class or Python module later on."""
        if id(found) not in self._seen:
            self._seen.add(id(found))
            self._kept.append(found)
            self._queue.append((found, path))
        if path and isinstance(found, ModuleType):  # a value, of which anything may be used
            self._held.append(found.__name__)

    def run(self) -> None:
        """Look at everything that was added, and at what that leads to."""
        while self._queue or self._held or (self._reads and self._described):
            if self._held:
                self._whole(self._held.pop())
                continue
            if not self._queue:
                self._description(*self._described.popleft())
                continue
            found, path = self._queue.popleft()
            if isinstance(found, FunctionType):
                self._function(found, path)
            elif isinstance(found, type):
                self._class(found, path)
            elif isinstance(found, ModuleType):
                self._module(found)
            elif isinstance(found, BuiltinFunctionType):
                module = getattr(found, "__module__", None)
                # Some native modules, such as psutil's, hold themselves there.
                self._owned(getattr(module, "__name__", module) or "builtins")

    def finish(self) -> None:
        """Put what was reached."""
        for path in sorted(self.files) if self._reads & _LINES else ():
            self._code.setdefault(f"{path.stem}.<text>", set()).add(file_digest(path))
        for label, digests in self._code.items():
            self._leaves.put(f"code.{label}", digest_of(sorted(digests))[:32])
        for name, (distribution, files) in self._packages.items():
            self._leaves.put(f"packages.{name}", describe(distribution, files, is_loaded=True))
            self.listings.update(listing_files(distribution))

    def _owned(self, module: str) -> Owner:
        """The owner of a module, noted where it is a package."""
        owner = self._owners.of_module(module)
        file = getattr(sys.modules.get(module), "__file__", None)
        return self._noted(owner, file)

    def _noted(self, owner: Owner, file: str | None) -> Owner:
        if isinstance(owner, Distribution):
            files = self._packages.setdefault(name_of(owner), (owner, set()))[1]
            if file and not file.endswith(".so"):
                files.add(Path(file))
        elif owner == USER and file:
            self._user_file(Path(file))
        return owner

    def _user_file(self, path: Path) -> None:
        self.files.add(path)
        if path.suffix != ".py" and path.is_file():
            self._code.setdefault(path.name.partition(".")[0], set()).add(file_digest(path))

    def _owner_of_function(self, function: FunctionType) -> Owner:
        """Owner of a function's file; for generated code, of the generating module."""
        file = function.__code__.co_filename
        if Path(file).is_file():
            return self._noted(self._owners.of_file(file), file)
        if file.startswith("<frozen"):
            return PYTHON
        name = function.__globals__.get("__name__")
        return self._owned(name) if isinstance(name, str) and name in sys.modules else USER

    def _function(self, function: FunctionType, path: str) -> None:
        self._functions += 1
        if self._functions > _MOST_FUNCTIONS:
            self._leaves.refuse(path, "reaches more functions than can be followed")
            return
        owner = self._owner_of_function(function)
        label = f"{module_label(function.__module__)}.{function.__qualname__}"
        if owner == USER or "<locals>" in function.__qualname__ or "__wrapped__" in vars(function):
            # A package's own are in its files. The path is that of this one function: others of
            # the same name may carry other values.
            self._values(path or f"globals.{label}", function)
        if owner == USER:
            own = module_label(function.__globals__.get("__name__"))
            for name in {label, f"{own}.{function.__code__.co_qualname}"}:  # a wrapper has two
                self._code.setdefault(name, set()).add(code_digest(function.__code__))
            self._described.append((function, path or f"globals.{label}"))
            self._user_code(function.__code__, function.__globals__)
        elif isinstance(owner, Distribution) and not is_closed(owner):
            self._package_code(function.__code__, function.__globals__)

    def _description(self, found: Any, path: str) -> None:
        """Annotations and docstring of a user's function or class, where some code reads such."""
        if self._reads & _DOCSTRINGS:
            self.value(f"{path}.<doc>", found.__doc__)
        if not self._reads & _ANNOTATIONS:
            return
        annotations = getattr(found, "__annotations__", None)
        if not isinstance(annotations, dict):  # a class of native code has none
            return
        self.value(f"{path}.<annotations>", annotations)
        for text in annotations.values():
            if isinstance(text, str):  # not evaluated yet
                with suppress(SyntaxError, ValueError, KeyError):
                    code = compile(text, path, "eval")
                    self._user_code(code, vars(sys.modules[found.__module__]))

    def _values(self, path: str, function: FunctionType) -> None:
        """Add the values that a function carries, whoever wrote it."""
        for name, one in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=False
        ):
            try:
                content = one.cell_contents
            except ValueError:  # not yet bound
                continue
            if content is not function and name != "__class__":
                self.value(f"{path}.{name}", content)
        if function.__defaults__:
            self.value(f"{path}.<defaults>", function.__defaults__)
        if function.__kwdefaults__:
            self.value(f"{path}.<keyword defaults>", function.__kwdefaults__)
        for name, one in sorted(vars(function).items()):
            if not name.startswith("__") or name == "__wrapped__":
                self.value(f"{path}.{name}", one)

    def _user_code(self, code: CodeType, scope: dict[str, Any]) -> None:
        """The values of what a user's code names."""
        module = str(scope.get("__name__", ""))
        if module in sys.modules and vars(sys.modules[module]) is scope:
            self.add(sys.modules[module], "")
        for part in nested(code):
            self._local_imports(part, scope)
            texts = {*_texts(part.co_consts)}
            if _PLUGINS.intersection(part.co_names):
                self._plugins([*texts, *_texts(map(scope.get, part.co_names))])
            words = {*part.co_names, *texts}
            self._reads |= words & (_ANNOTATIONS | _DOCSTRINGS | _LINES)
        names = sorted({name for part in nested(code) for name in part.co_names})
        if reaches_any_module(code, names, scope):
            for each in list(sys.modules):
                self._whole(each)
        for handed in handed_on(code, names, scope):
            self._whole(handed.__name__)
        for name in names:
            if name in scope:
                self._named(f"globals.{module_label(module)}.{name}", scope[name], names)

    def _plugins(self, texts: list[str]) -> None:
        """What installed distributions register in groups that texts name."""
        for text in texts:
            for one in entry_points(group=text):
                self._leaves.put(f"files.entry points.{text}.{one.name}", one.value)
                self._import(one.module, 0, {})

    def _whole(self, name: str) -> None:
        """All that a user's module holds, other modules aside."""
        module = sys.modules.get(name)
        if name in self._wholes or module is None or self._owners.of_module(name) != USER:
            return
        self._wholes.add(name)
        self.add(module, "")
        for key, value in sorted(vars(module).items()):
            if not isinstance(value, ModuleType) and not (key[:2] == key[-2:] == "__"):
                self.value(f"globals.{module_label(module)}.{key}", value)

    def _named(self, path: str, value: object, names: list[str]) -> None:
        """A global: a value, or a module of which only what is named counts."""
        if isinstance(value, ModuleType):
            self._module_attributes(value, names, by_user=True)
            return
        self._imported_clock(value, names)
        self.value(path, value)

    def _imported_clock(self, value: object, names: Iterable[str]) -> None:
        """Note a class or function of a clock that the user's code has imported by name."""
        module = getattr(value, "__module__", "")
        if module in _CLOCKS:
            named = names if isinstance(value, type) else [getattr(value, "__name__", "")]
            self._clock(module, named, by_user=True)

    def _clock(self, module: str, names: Iterable[str], *, by_user: bool) -> None:
        """Note what of a clock code names."""
        asks_date = not _CLOCKS[module].isdisjoint(names)
        if asks_date and by_user:
            self.clocks.add(module)
        self.asks_time |= asks_date or (module == "time" and not _SECONDS.isdisjoint(names))

    def _module_attributes(
        self, module: ModuleType, names: list[str], *, by_user: bool = False
    ) -> None:
        owner = self._owned(module.__name__)
        if owner == PYTHON and module.__name__ in _CLOCKS:
            self._clock(module.__name__, names, by_user=by_user)
        if owner in (PYTHON, BENCHORCH):
            return
        self.add(module, "")
        for name in names:
            name = name if name in vars(module) else "__getattr__"  # which may have it
            key = (module.__name__, name)
            if key in self._attributes or name not in vars(module):
                continue
            self._attributes.add(key)
            value = vars(module)[name]
            if isinstance(value, ModuleType):
                self._module_attributes(value, names, by_user=by_user)
            elif owner == USER:
                self.value(f"globals.{module_label(module)}.{name}", value)
            else:
                self._package_value(f"globals.{module_label(module)}.{name}", value)

    def _package_value(self, path: str, value: object) -> None:
        """Add the value of a package's name: its code, or a plain setting."""
        value = getattr(value, "__wrapped__", value)
        if isinstance(value, FunctionType | type | BuiltinFunctionType):
            self.add(value, path)
        elif isinstance(value, bool | int | float) or (
            isinstance(value, str) and len(value) <= _LONGEST_SCALAR
        ):
            self.value(path, value)
        elif callable(value) and not isinstance(value, ModuleType):
            self.add(type(value), path)

    def _package_code(self, code: CodeType, scope: dict[str, Any]) -> None:
        """The packages that a package's function leads to."""
        names = sorted({name for part in nested(code) for name in part.co_names})
        for part in nested(code):
            self._local_imports(part, scope)
        module = str(scope.get("__name__", ""))
        for name in names:
            if name not in scope:
                continue
            if isinstance(scope[name], ModuleType):
                self._module_attributes(scope[name], names)
            else:
                self._package_value(f"globals.{module}.{name}", scope[name])

    def _local_imports(self, code: CodeType, scope: dict[str, Any]) -> None:
        """Imports inside a function."""
        recent: list[Any] = []
        for one in dis.get_instructions(code):
            if one.opname == "IMPORT_NAME":
                if one.argval == "__main__" and not self._is_users_scope(scope):
                    continue  # packages look whether it is interactive
                level, names = recent[-2:]  # which the instruction takes from the stack
                self._import(str(one.argval), level, scope)
                self._imported_names(str(one.argval), names or (), scope, level, code)
            if one.opname in _CONSTANTS:
                recent.append(one.argval)

    def _is_users_scope(self, scope: dict[str, Any]) -> bool:
        return self._owners.of_module(str(scope.get("__name__", ""))) == USER

    def _imported_names(
        self, name: str, wanted: tuple[Any, ...], scope: dict[str, Any], level: int, code: CodeType
    ) -> None:
        module: object = sys.modules.get(_absolute(name, level, scope))
        if isinstance(module, ModuleType):
            names = sorted({*map(str, wanted), *code.co_names})
            self._module_attributes(module, names, by_user=self._is_users_scope(scope))
        elif module is not None:  # whatever somebody put there
            self.value(f"globals.{name}", module)

    def _import(self, name: str, level: int, scope: dict[str, Any]) -> None:
        """A module that an import statement of reached code names, and the packages it is in."""
        absolute = _absolute(name, level, scope)
        parts = absolute.split(".")
        if not absolute or (parts[0] in sys.stdlib_module_names and parts[0] not in sys.modules):
            return
        if parts[0] not in sys.modules:
            self._not_loaded(parts[0])
            return
        for depth in range(1, len(parts) + 1):
            module = sys.modules.get(".".join(parts[:depth]))
            if isinstance(module, ModuleType):
                self.add(module, "")

    def _not_loaded(self, name: str) -> None:
        """A module that is imported later on, if at all: by its files or its package."""
        if name in self._late:
            return
        self._late.add(name)
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found is None or not found.origin:
            self._leaves.put(f"packages.{name}", "(not installed)")
            return
        if self._noted(self._owners.of_file(found.origin), found.origin) != USER:
            return
        within = found.submodule_search_locations
        folder = Path(found.origin).parent
        for path in sorted(folder.rglob("*.py")) if within else [Path(found.origin)]:
            self.files.add(path)
            digest = file_syntax_digest(path)
            self._code.setdefault(f"{name}.<file>", set()).add(f"{path.name} {digest}")
            source = parse(path)
            for statement in source.imports if source else ():
                for wanted, level in _imported_by(statement):
                    if not level:
                        self._import(wanted, 0, {})

    def _module(self, module: ModuleType) -> None:
        """A module that was imported: a user's by what it does beyond defining names."""
        name = getattr(module, "__name__", "")
        owner = self._owned(name)
        file = getattr(module, "__file__", None)
        if owner != USER or name in self._modules or not file:
            return
        self._modules.add(name)
        for parent in _parents(name):
            self.add(parent, "")
        source = parse(Path(file))
        if source is not None:
            self._module_body(module, source)

    def _module_body(self, module: ModuleType, source: Source) -> None:
        label, scope = module_label(module), vars(module)
        if source.body.body:
            self._code.setdefault(f"{label}.<module>", set()).add(syntax_digest(source.body))
            body = compile(ast.fix_missing_locations(source.body), str(module.__file__), "exec")
            self._user_code_of_body(body, {**_imported_names(source.imports, scope), **scope})
        for name, line in source.decorated:
            if name in scope:
                self.value(f"globals.{label}.{name}", scope[name])
            self._hidden_definition(f"{label}.{name}", source, (name, line), scope)
        for statement in source.imports:
            for name, level in _imported_by(statement):
                self._import(name, level, scope)

    def _hidden_definition(
        self, label: str, source: Source, key: tuple[str, int], scope: dict[str, Any]
    ) -> None:
        """A decorated function that its name does not lead to: its decorator may keep it."""
        code = source.compiled.get(key) if key in source.functions else None
        bound = inspect.unwrap(scope[key[0]]) if callable(scope.get(key[0])) else None
        if code is not None and getattr(bound, "__code__", None) != code:
            self._code.setdefault(label, set()).add(code_digest(code))
            self._user_code(code, scope)

    def _user_code_of_body(self, body: CodeType, scope: dict[str, Any]) -> None:
        """What statements of a module call and put in; their results count by use."""
        for part in nested(body):
            self._local_imports(part, scope)
        names = sorted({name for part in nested(body) for name in part.co_names})
        for name in names:
            value = scope.get(name)
            if isinstance(value, ModuleType):
                self._module_attributes(value, names, by_user=True)
                continue
            self._imported_clock(value, names)
            if isinstance(value, FunctionType | type):
                self.add(value, f"globals.{module_label(str(scope.get('__name__')))}.{name}")
            elif isinstance(value, bool | int | float | str) and name[:2] != "__":
                self.value(f"globals.{module_label(str(scope.get('__name__')))}.{name}", value)

    def _class(self, kind: type, path: str) -> None:
        for base in kind.__mro__:
            if base is object or (base is not kind and id(base) in self._seen):
                continue
            self._seen.add(id(base))
            self._kept.append(base)
            self._one_class(base, path)
        if type(kind) is not type:
            self.add(type(kind), "")

    def _one_class(self, kind: type, path: str) -> None:
        made_here = kind.__module__ not in sys.modules
        owner: Owner = USER if made_here else self._owned(kind.__module__)
        if owner in (PYTHON, BENCHORCH) or kind.__module__ == "pybind11_builtins":
            return
        if not path or "<" not in kind.__qualname__:  # there is only one class of that name
            path = "globals"
        path = f"{path}.{module_label(kind.__module__)}.{kind.__qualname__}"
        if owner == USER and not made_here:
            self.add(sys.modules[kind.__module__], "")
        if owner == USER:
            self._described.append((kind, path))
            self._class_body(kind)
            if len(kind.__bases__) > 1:  # the first one's methods come before the others'
                self._leaves.put(f"{path}.<bases>", ", ".join(map(_class_name, kind.__bases__)))
            if isinstance(kind, enum.EnumMeta):
                self._leaves.put(f"{path}.<order>", ", ".join(kind.__members__))
        closed = isinstance(owner, Distribution) and is_closed(owner)
        for name, one in sorted(vars(kind).items(), key=lambda item: str(item[0])):
            if name in _CLASS_NOISE:
                continue
            if owner == USER and isinstance(one, FunctionType):
                self.add(one, f"{path}.{name}")
                continue
            if owner == USER:
                self.value(f"{path}.{name}", one)
                continue
            plain = getattr(one, "__func__", getattr(one, "fget", one))
            if isinstance(plain, FunctionType) and (not closed or self._is_users(plain)):
                self.add(plain, f"{path}.{name}")
            elif isinstance(one, bool | int | float | str) and not (closed or name[:2] == "__"):
                self._package_value(f"{path}.{name}", one)

    def _class_body(self, kind: type) -> None:
        """What calls in the body of a user's class are given: descriptors may keep it anywhere."""
        module = sys.modules.get(kind.__module__)
        source = parse(Path(getattr(module, "__file__", None) or ""))
        body = source.classes.get(kind.__name__) if source else None
        if body is not None:
            label = f"{module_label(kind.__module__)}.{kind.__qualname__}"
            self._code.setdefault(label, set()).add(syntax_digest(body))

    def _is_users(self, function: FunctionType) -> bool:
        """Whether a user's function was put in place of a package's."""
        file = function.__code__.co_filename
        return self._owners.of_file(file) == USER and Path(file).is_file()


def _class_name(kind: type) -> str:
    return f"{module_label(kind.__module__)}.{kind.__qualname__}"


def _imported_names(
    statements: Iterable[ast.Import | ast.ImportFrom], scope: dict[str, Any]
) -> dict[str, Any]:
    """What a module's imports bound, whether or not it has the names any more."""
    found: dict[str, Any] = {}
    for statement in statements:
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if isinstance(statement, ast.Import):
                found[bound] = sys.modules.get(alias.name if alias.asname else bound)
            else:
                base = _absolute(statement.module or "", statement.level, scope)
                found[bound] = getattr(sys.modules.get(base), alias.name, None)
    return found


def _texts(values: Any) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, bytes) and len(value) <= _LONGEST_SCALAR:
            yield value.decode(errors="replace")
        elif isinstance(value, tuple | list | frozenset):
            yield from _texts(value)


def _absolute(name: str, level: int, scope: dict[str, Any]) -> str:
    if not level:
        return name
    package = str(scope.get("__package__") or "")
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def _parents(name: str) -> Iterator[ModuleType]:
    parts = name.split(".")
    for depth in range(1, len(parts)):
        module = sys.modules.get(".".join(parts[:depth]))
        if isinstance(module, ModuleType):
            yield module


def _imported_by(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Each module that a statement may import, with the dots before it."""
    if isinstance(statement, ast.Import):
        yield from ((alias.name, 0) for alias in statement.names)
        return
    base = statement.module or ""
    yield base, statement.level
    for alias in statement.names:
        yield ".".join(filter(None, (base, alias.name))), statement.level

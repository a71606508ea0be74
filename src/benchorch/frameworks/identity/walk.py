"""Walk over the values that are reachable from a module, one text for each.

What a value is made of is looked at by its kind. Functions, classes and Python modules are handed
on to whoever looks at code.
"""

import contextvars
import copyreg
import ctypes
import enum
import functools
import logging
import operator
import pickle
import re
import sys
import threading
import types
import typing
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch._library.custom_ops import CustomOpDef

from benchorch.domain.artifact import digest_of
from benchorch.files import file_digest
from benchorch.frameworks.identity.code import code_digest
from benchorch.frameworks.identity.leaves import MOST_ITEMS, Leaves
from benchorch.frameworks.identity.owners import module_label
from benchorch.frameworks.identity.start import Start
from benchorch.frameworks.identity.tensors import tensor_digest

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_TORCH_NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_BY_NAME = (
    *(types.GenericAlias, types.UnionType, typing.TypeVar, typing.ParamSpec),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType),
    *(types.MemberDescriptorType, types.ClassMethodDescriptorType),
    *(slice, range, torch._ops.OpOverload, torch._ops.OpOverloadPacket),
)
_MODULE_NOISE = frozenset(
    {"_non_persistent_buffers_set", "_backward_hooks", "_backward_pre_hooks"}
    | {"_is_full_backward_hook", "_state_dict_hooks", "_state_dict_pre_hooks"}
    | {
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_parameters",
        "_buffers",
        "_modules",
    }
)
_STAMPS = {
    "transformers": {"transformers_version", "_commit_hash", "_name_or_path", "name_or_path"}
    | {"_original_object_hash"},  # another one in every process
    "pydantic": {"cls_ref"},  # with the class's address
}
"""Notes that packages leave in their own objects about where those came from."""

_BY_PICKLE = frozenset({"pandas"})
"""Where objects keep caches and references to each other beside what they pickle."""

_FILE = re.compile(r"/.*|[^\n/]{0,200}[./][^\n]{1,200}", re.DOTALL)
"""Texts that may name a file; only those that do have its content."""

_ADDRESS = re.compile(r"\d{9,}")
_NUMBERED = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")
_REMEDIES = {
    "TextIOWrapper": "read the file in the factory and keep what it holds",
}
_CLOSED_TO_ALL = "what it holds cannot be read; keep it out of the module, or give it __reduce__"
_DEEPEST = 120
_NATIVE_FUNCTION = ctypes.CFUNCTYPE(None).__mro__[1]


class Walk:
    """Walk over an object graph that visits each object once.

    Args:
        leaves: where the texts go.
        reach: is given each function, class and Python module, and a path for what belongs to it.
        start: the process; a path below one of its folders counts as the path from there.

    Attributes:
        files: whose content the values' own texts led to.
    """

    def __init__(self, leaves: Leaves, reach: Callable[[object, str], None], start: Start) -> None:
        self.files: set[str] = set()
        self._leaves = leaves
        self._reach = reach
        self._start = start
        self._seen: dict[int, str] = {}
        self._kept: list[object] = []  # an id is another object's once its owner is gone
        self._depth = 0

    def value(self, path: str, value: object) -> None:
        """Put the texts of a value and all that it holds at a path."""
        if self._depth > _DEEPEST:
            self._leaves.refuse(path, "is nested deeper than can be followed")
            return
        self._depth += 1
        try:
            self._look(path, value)
        finally:
            self._depth -= 1

    def _look(self, path: str, value: Any) -> None:
        if type(value) in _PLAIN:
            self._leaves.put(path, self._spell(value))
            return
        if isinstance(value, enum.Enum):
            self._leaves.put(path, f"{_type(value)}.{value.name} {value.value!r}")
            self._reach(type(value), path)
            return
        if isinstance(value, (*_TORCH_NAMES, np.dtype)):
            self._leaves.put(path, str(value))
            return
        if not isinstance(value, tuple | frozenset):
            if id(value) in self._seen:
                self._leaves.put(path, f"same as {self._seen[id(value)]}")
                return
            self._seen[id(value)] = path
            self._kept.append(value)
        self._kind(path, value)

    def _spell(self, value: object) -> str:
        """A plain value; a path below a folder of the process without it, with its content."""
        if not isinstance(value, str) or not _FILE.fullmatch(value):
            return repr(value)
        path = Path(value)
        try:
            content = f" {self._content(path)}" if path.is_file() else ""
        except (OSError, ValueError):
            content = ""
        return f"{self._start.portable(value)!r}{content}"

    def _content(self, file: Path) -> str:
        self.files.add(str(file.absolute()))
        return file_digest(file)[:32]

    def _kind(self, path: str, value: Any) -> None:
        """Add a value by its kind; the order matters where one kind is a case of another."""
        for kinds, look in _KINDS:
            if isinstance(value, kinds):
                look(self, path, value)
                return
        self._object(path, value)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        try:
            digest = tensor_digest(value)[:32]
        except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
            self._leaves.refuse(path, f"is a tensor whose values cannot be read: {error}")
            return
        shape = "x".join(map(str, value.shape)) or "scalar"
        self._leaves.put(path, f"{str(value.dtype).removeprefix('torch.')} {shape} {digest}")
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            self._reach(type(value), path)
        for name, one in sorted(vars(value).items()) if hasattr(value, "__dict__") else ():
            self.value(f"{path}.{name}", one)

    def _array(self, path: str, value: np.ndarray[Any, Any]) -> None:
        if value.dtype.hasobject:
            self._sequence(path, value.ravel().tolist())
            return
        plain = np.ascontiguousarray(value)
        digest = digest_of([plain.tobytes().hex()])[:32]
        shape = "x".join(map(str, value.shape)) or "scalar"
        self._leaves.put(path, f"array {value.dtype} {shape} {digest}")
        if type(value) not in (np.ndarray, np.memmap):
            self._state(path, value)

    def _scalar(self, path: str, value: Any) -> None:
        self._leaves.put(path, f"{_type(value)} {value!r}")

    def _function(self, path: str, value: types.FunctionType) -> None:
        label = f"{module_label(value.__module__)}.{value.__qualname__}"
        if "<" in value.__qualname__:  # several functions may have that name
            label = f"{label} {code_digest(value.__code__)[:12]}"
        self._leaves.put(path, f"function {label}")
        self._reach(value, path)

    def _method(self, path: str, value: types.MethodType) -> None:
        self._leaves.put(path, f"method {value.__func__.__qualname__}")
        self.value(f"{path}.__self__", value.__self__)
        self.value(f"{path}.__func__", value.__func__)

    def _builtin(self, path: str, value: types.BuiltinFunctionType) -> None:
        module = getattr(value, "__module__", None)
        self._leaves.put(path, f"builtin {module}.{value.__qualname__}")
        owner = value.__self__
        if isinstance(owner, type | types.ModuleType | type(None)):
            self._reach(value, path)
        else:
            self.value(f"{path}.__self__", owner)

    def _partial(self, path: str, value: functools.partial[Any]) -> None:
        self._leaves.put(path, "partial")
        self.value(f"{path}.func", value.func)
        self._sequence(f"{path}.args", value.args)
        self._mapping(f"{path}.keywords", value.keywords)

    def _wrapped(self, path: str, value: Any) -> None:
        """A method of any sort, by the functions that it is made of."""
        self._leaves.put(path, type(value).__name__)
        for name in ("func", "__func__", "__wrapped__", "fget", "fset", "fdel"):
            inner = getattr(value, name, None)
            if inner is not None:
                self.value(f"{path}.{name}", inner)

    def _class(self, path: str, value: type) -> None:
        self._leaves.put(path, f"class {_name(value)}")
        self._reach(value, path)

    def _python_module(self, path: str, value: types.ModuleType) -> None:
        self._leaves.put(path, f"module {module_label(value)}")
        self._reach(value, path)

    def _by_name(self, path: str, value: object) -> None:
        self._leaves.put(path, repr(value))

    def _path(self, path: str, value: PurePath) -> None:
        self._leaves.put(path, f"path {self._spell(str(value))}")

    def _reference(self, path: str, value: weakref.ref[Any]) -> None:
        self.value(path, value())

    def _logger(self, path: str, value: logging.Logger) -> None:
        self._leaves.put(path, f"logger {value.name}")  # it writes, and computes nothing

    def _lock(self, path: str, value: Any) -> None:
        """Add a lock by whether somebody holds it, which its text has; it computes nothing."""
        self._leaves.put(path, f"lock, {'free' if repr(value).startswith('<unlocked') else 'held'}")

    def _pattern(self, path: str, value: re.Pattern[Any]) -> None:
        self._leaves.put(path, f"pattern {value.pattern!r} {value.flags}")

    def _generator(self, path: str, value: torch.Generator) -> None:
        self._leaves.put(path, f"generator {tensor_digest(value.get_state())[:32]}")

    def _sequence(self, path: str, value: Any) -> None:
        items = list(value)
        what = f"{_type(value)} of {len(items)}"
        if len(items) > MOST_ITEMS:
            with self._leaves.folded(path, what):
                self._items(path, items)
        else:
            self._leaves.put(path, what)
            self._items(path, items)
        self._more(path, value, (list, tuple, deque))

    def _items(self, path: str, items: list[Any]) -> None:
        for index, one in enumerate(items):
            self.value(f"{path}[{index}]", one)

    def _set(self, path: str, value: Any) -> None:
        """Each item for itself, and then in the order of their digests: they have no other."""
        digests = sorted(self.alone(one) for one in value)
        self._leaves.put(path, f"{_type(value)} of {len(digests)} {digest_of([*digests])[:32]}")
        self._more(path, value, (set, frozenset))

    def alone(self, value: object) -> str:
        """Digest of a value as if nothing else had been looked at."""
        seen, groups = dict(self._seen), self._leaves.groups
        self._leaves.groups = {}
        try:
            self.value("item", value)
            return digest_of({name: dict(one) for name, one in self._leaves.groups.items()})
        finally:
            self._seen, self._leaves.groups = seen, groups

    def _mapping(self, path: str, value: Mapping[Any, Any]) -> None:
        items = list(value.items())
        named = all(type(key) is str for key, _ in items)
        keys = [key if named else self.alone(key)[:12] for key, _ in items]
        what = f"{_type(value)} of {len(items)} {digest_of([*keys])[:12] if items else ''}".strip()
        if len(items) > MOST_ITEMS:
            with self._leaves.folded(path, what):
                self._entries(path, keys, items)
        else:
            self._leaves.put(path, what)
            self._entries(path, keys, items)
        self._more(path, value, (dict, types.MappingProxyType))

    def _entries(self, path: str, keys: list[str], items: list[tuple[Any, Any]]) -> None:
        for key, (_, one) in zip(keys, items, strict=True):
            self.value(f"{path}.{key}", one)

    def _more(self, path: str, value: object, plain: tuple[type, ...]) -> None:
        """Add a container's own class: its code, and attributes besides the items."""
        if isinstance(value, defaultdict):
            self.value(f"{path}.<default>", value.default_factory)
        if type(value) in plain or type(value).__module__ in ("builtins", "collections"):
            return
        self._reach(type(value), path)
        self._attributes(path, value)

    def _torch_module(self, path: str, value: torch.nn.Module) -> None:
        self._leaves.put(path, _type(value))
        self._reach(type(value), path)
        own = type(value).__module__.startswith("benchorch.")
        noise = _MODULE_NOISE | _stamps(type(value))
        noise |= getattr(type(value), "not_content", frozenset()) if own else set()
        state = vars(value)
        for name in ("_parameters", "_buffers"):
            for key, tensor in state.get(name, {}).items():
                self._weight(f"{path}.{key}", tensor)
        for name, one in sorted(state.items()):
            if name.endswith(_NUMBERED) and isinstance(one, dict) and name not in noise:
                self._items(f"{path}.{name}", list(one.values()))  # keys count the process's hooks
            elif name not in noise:
                self.value(f"{path}.{name}", one)
        parts = state.get("_modules", {})
        for key, part in parts.items():
            self.value(f"{path}.{key}", part)
        if len(parts) > 1:
            self._leaves.put(f"{path}.<order>", ", ".join(parts))

    def _weight(self, path: str, tensor: object) -> None:
        """Add a weight in a separate group, which separates trained values from written ones."""
        self.value(f"weights.{path.partition('.')[2]}", tensor)

    def _script_module(self, path: str, value: Any) -> None:
        """Add a script module as torch.jit.save would write it, without notes on source lines."""
        import io
        import zipfile

        buffer = io.BytesIO(value.save_to_buffer())
        with zipfile.ZipFile(buffer) as archive:
            noise = (".debug_pkl", "serialization_id", "byteorder")
            names = [name for name in archive.namelist() if not name.endswith(noise)]
            digests = [digest_of([name, archive.read(name).hex()]) for name in sorted(names)]
        self._leaves.put(path, f"TorchScript {digest_of([*digests])[:32]}")

    def _context_variable(self, path: str, value: contextvars.ContextVar[Any]) -> None:
        name = _ADDRESS.sub("", value.name)  # torch names some by their owner's
        self._leaves.put(path, f"context variable {name}")
        with suppress(LookupError):  # not set, and without a default
            self.value(f"{path}.<value>", value.get())

    def _graph(self, path: str, value: torch.fx.Graph) -> None:
        self._leaves.put(path, f"graph of {len(value.nodes)}")
        with self._leaves.folded(f"{path}.nodes", "nodes"):
            for node in value.nodes:
                place = f"{path}.nodes.{node.name}"
                self._leaves.put(place, f"{node.op} {node.args!r} {node.kwargs!r}")
                self.value(f"{place}.target", node.target)

    def _library(self, path: str, value: ctypes.CDLL) -> None:
        """Add a library by the bytes of its file; its handle is an address."""
        place = Path(str(value._name))
        if place.is_file():
            self._leaves.put(path, f"library {place.name} {self._content(place)}")
        else:
            self._refuse(path, value)

    def _operator(self, path: str, value: CustomOpDef) -> None:
        """Add an operator by the functions that the user registered for it."""
        self._leaves.put(path, f"operator {value._qualname}{getattr(value, '_schema', '')}")
        self.value(f"{path}.implementation", value._init_fn)
        self._mapping(f"{path}.backends", value._backend_fns)

    def _refuse(self, path: str, value: object) -> None:
        remedy = next(
            (text for sign, text in _REMEDIES.items() if sign in type(value).__name__),
            _CLOSED_TO_ALL,
        )
        self._leaves.refuse(path, f"is a {_type(value)}: {remedy}")

    def _object(self, path: str, value: Any) -> None:
        """Add any other object by its attributes, or by the recipe for copying it."""
        self._leaves.put(path, f"object {_type(value)}")
        self._reach(type(value), path)
        self._state(path, value)

    def _state(self, path: str, value: Any) -> None:
        by_pickle = type(value).__module__.partition(".")[0] in _BY_PICKLE
        if not by_pickle and not _hides_state(type(value)):
            self._attributes(path, value)
            return
        try:
            reduced = _reduced(value)
        except Exception:
            self._refuse(path, value)
            return
        if not by_pickle:
            self._attributes(path, value)
        if isinstance(reduced, str):
            self._global(path, value, reduced)
            return
        for index, part in enumerate(reduced):
            items = list(part) if index in (3, 4) and part is not None else part
            self.value(f"{path}.<reduced>[{index}]", items)

    def _global(self, path: str, value: object, name: str) -> None:
        """Add what pickle knows by its name in a module, where it is what has that name there."""
        module = sys.modules.get(pickle.whichmodule(value, name))  # type: ignore[attr-defined]
        try:
            is_that = operator.attrgetter(name)(module) is value
        except AttributeError:
            is_that = False
        if is_that:
            self._leaves.put(f"{path}.<name>", f"{module_label(module).partition('.')[0]} {name}")
            self._reach(module, "")
        else:
            self._refuse(path, value)

    def _attributes(self, path: str, value: object) -> None:
        stamps = _stamps(type(value))
        for name, one in sorted(_own_state(value).items(), key=lambda item: str(item[0])):
            if name not in stamps:
                self.value(f"{path}.{name}", one)


def _stamps(kind: type) -> set[str]:
    """Names of the notes of a class, which those that derive from it have too."""
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return {name for package in packages for name in _STAMPS.get(package, ())}


def _reduced(value: Any) -> Any:
    """The recipe for copying an object that pickle uses."""
    registered = copyreg.dispatch_table.get(type(value))
    return registered(value) if registered else value.__reduce_ex__(4)


def _name(kind: type) -> str:
    return f"{module_label(kind.__module__)}.{kind.__qualname__}"


def _type(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else _name(kind)


def _own_state(value: Any) -> dict[str, Any]:
    """Attributes of an instance: those in its dict, and those in slots."""
    state = dict(getattr(value, "__dict__", None) or {})
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            name = f"_{kind.__name__.lstrip('_')}{slot}" if _is_private(slot) else slot
            if slot not in ("__dict__", "__weakref__") and hasattr(value, name):
                state[name] = getattr(value, name)
    return state


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _hides_state(kind: type) -> bool:
    """Whether instances hold more than Python's attributes, as CPython itself decides it."""
    slots = sum(
        len((one,) if isinstance(one, str) else tuple(one))
        for base in kind.__mro__
        if (one := vars(base).get("__slots__"))
    )
    word = object.__basicsize__ // 2
    # Those that the interpreter keeps before the object have a negative place, and no size.
    extra = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ != 0 or kind.__basicsize__ > object.__basicsize__ + word * (
        slots + extra
    )


_KINDS: tuple[tuple[Any, Callable[[Any, str, Any], None]], ...] = (
    ((torch.jit.ScriptModule, torch.jit.ScriptFunction), Walk._script_module),
    (torch.nn.Module, Walk._torch_module),
    (torch.Tensor, Walk._tensor),
    (np.ndarray, Walk._array),
    (np.generic, Walk._scalar),
    (torch.Generator, Walk._generator),
    (torch.fx.Graph, Walk._graph),
    (CustomOpDef, Walk._operator),
    (types.ModuleType, Walk._python_module),
    (types.FunctionType, Walk._function),
    (types.MethodType, Walk._method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), Walk._builtin),
    (ctypes.CDLL, Walk._library),
    ((ctypes._Pointer, _NATIVE_FUNCTION), Walk._refuse),
    (functools.partial, Walk._partial),
    ((staticmethod, classmethod, property, functools.cached_property), Walk._wrapped),
    ((functools.partialmethod, functools._lru_cache_wrapper), Walk._wrapped),
    (_BY_NAME, Walk._by_name),
    (type, Walk._class),
    (PurePath, Walk._path),
    (weakref.ref, Walk._reference),
    (logging.Logger, Walk._logger),
    ((type(threading.Lock()), type(threading.RLock())), Walk._lock),
    (re.Pattern, Walk._pattern),
    (contextvars.ContextVar, Walk._context_variable),
    ((types.GeneratorType, types.CoroutineType, types.FrameType), Walk._refuse),
    ((dict, types.MappingProxyType), Walk._mapping),
    ((list, tuple, deque), Walk._sequence),
    ((set, frozenset), Walk._set),
)

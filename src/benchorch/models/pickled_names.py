"""Modules whose classes and functions a pickle names, found without importing any of them."""

from __future__ import annotations

import copyreg
import gc
import math
import os
import pickle
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import IO, Any, ClassVar, final

from benchorch.files import Stamp, stamp

_PYTHON = frozenset({"__builtin__", "copy_reg", *sys.stdlib_module_names})  # two of Python 2's
_JOBLIB_ARRAY = ("joblib.numpy_pickle", "NumpyArrayWrapper")


def names_only(path: Path, packages: Collection[str]) -> bool:
    """Whether a file of pickle or joblib names nothing but those packages, joblib and Python.

    False where the file cannot be read as either writes it uncompressed.
    """
    named = _packages_of(path, stamp(path.stat()))
    return named is not None and named <= {*packages, "joblib", *_PYTHON}


@lru_cache(maxsize=8)
def _packages_of(path: Path, _: Stamp) -> frozenset[str] | None:
    packages: set[str] = set()
    try:
        with path.open("rb") as file:
            _Names(file, packages).load()
    except Exception:  # bytes that are no pickle end in any way
        return None
    return frozenset(packages)


def code_of(value: object, but_of: Collection[str]) -> Sequence[object]:
    """Classes and functions that a pickle of the value names, but of those packages and Python."""
    with Path(os.devnull).open("wb") as nowhere, suppress(Exception):  # such as one too deep
        pickler = _Code(nowhere)
        pickler.dump(value)
    others = {*but_of, "joblib", *_PYTHON}
    return [one for one in pickler.found if str(one.__module__).partition(".")[0] not in others]


class _Code(pickle.Pickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.found: dict[Any, None] = {}

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, type | FunctionType):
            self.found[type(value)] = None
            return _reduced(value)
        self.found[value] = None
        # In place of its name, which is not looked up: cloudpickle writes code that has none.
        return NotImplemented if value is tuple else (tuple, ())


def _reduced(value: Any) -> tuple[Any, ...]:
    """What pickle writes of it; of what only cloudpickle writes, a tuple of all it refers to."""
    reduce = copyreg.dispatch_table.get(type(value))
    with suppress(Exception):
        found = reduce(value) if reduce else value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        return (tuple, ()) if isinstance(found, str) else found
    return tuple, () if isinstance(value, ModuleType) else (gc.get_referents(value),)


class _StandIn:
    """Stands for every class and function, and takes whatever a pickle does with one."""

    state: Any

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __new__(cls, *_: object, **__: object) -> _StandIn:
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None: ...

    def append(self, value: object) -> None: ...

    def extend(self, values: object) -> None: ...

    def add(self, value: object) -> None: ...


class _JoblibArray(_StandIn):
    """Stands for an array, whose values joblib writes between two instructions."""


# Written in Python: joblib derives its own from it, too.
_PythonUnpickler: Any = pickle._Unpickler


@final
class _Names(_PythonUnpickler):  # type: ignore[misc]
    """Reads a pickle's instructions, and runs nothing of what they name."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, file: Any, packages: set[str]) -> None:
        super().__init__(file)
        self._opened = file
        self._packages = packages

    def find_class(self, module: str, name: str) -> type[_StandIn]:
        """A stand-in; the package is noted."""
        self._packages.add(module.partition(".")[0])
        return _JoblibArray if (module, name) == _JOBLIB_ARRAY else _StandIn

    def load_build(self) -> None:
        """Give an object its state; of an array, skip the values that follow."""
        super().load_build()
        built = self.stack[-1]
        if isinstance(built, _JoblibArray):
            self._skip(built.state)

    dispatch[pickle.BUILD[0]] = load_build

    def _skip(self, state: dict[str, Any]) -> None:
        import numpy as np

        dtype = np.dtype(state["dtype"].arguments[0])
        if dtype.hasobject:  # a pickle in the pickle
            _Names(self._opened, self._packages).load()
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            self._opened.seek(self._opened.read(1)[0], 1)
        self._opened.seek(math.prod(map(int, state["shape"])) * dtype.itemsize, 1)

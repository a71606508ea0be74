"""State that calls of a module may change: generators, tensors and Python objects.

Two snapshots tell why a module does not answer twice alike.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from benchorch.frameworks.tensor_parts import dense_parts

if TYPE_CHECKING:
    import torch

Snapshot = Mapping[str, str]
"""A digest of each thing that may change, by what it is called."""

_GENERATOR = "random generator"
_DEEPEST = 6
_MOST_ITEMS = 1000
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# A larger tensor is known by its version counter, which every change in place raises.
_HASHED_BYTES = 16 * 2**20
_ONLY_TORCH = ("torch.", "torch")


def snapshot(module: torch.nn.Module) -> Snapshot:
    """Digests of generators, parameters, buffers and Python attributes, as they are now."""
    found = dict(_generators())
    for name, parameter in module.named_parameters():
        found[f"parameter {name!r}"] = _tensor_digest(parameter)
    for name, buffer in module.named_buffers():
        found[f"buffer {name!r}"] = _tensor_digest(buffer)
    seen: set[int] = set()
    for name, part in module.named_modules():
        where = f"{name}." if name else ""
        for key, value in _own(part).items():
            found[f"the Python attribute {where + key!r}"] = _digest(value, 0, seen)
        for path, value in _shared(type(part)):
            found[path] = _digest(value, 0, seen)
    return found


def changes(module: torch.nn.Module, before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """A phrase for each thing that changed, with the dropout that draws where there is one."""
    names = [name for name in after if before.get(name) != after[name]]
    phrases = [_phrase(name) for name in names]
    if any(name.endswith(_GENERATOR) for name in names):
        active = [name for name, part in module.named_modules() if _drops(part)]
        phrases += [f"dropout is active in {name or 'the model'!r}" for name in active[:1]]
    return tuple(phrases)


def _phrase(name: str) -> str:
    return f"{name} advanced" if name.endswith(_GENERATOR) else f"{name} changed"


def _drops(part: torch.nn.Module) -> bool:
    return "Dropout" in type(part).__name__ and part.training and getattr(part, "p", 1) > 0


def _generators() -> Iterator[tuple[str, str]]:
    import torch

    yield "torch's random generator", _tensor_digest(torch.get_rng_state())
    yield "Python's random generator", _hashed(repr(random.getstate()).encode())
    if "numpy.random" in sys.modules:
        from numpy import random as numpy_random

        state = numpy_random.get_state(legacy=False)  # noqa: NPY002 users may draw from it
        yield "numpy's random generator", _digest(state, 0, set())


def _own(part: torch.nn.Module) -> dict[str, object]:
    """A module's attributes but torch's own bookkeeping."""
    kept = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
    return {
        key: value
        for key, value in vars(part).items()
        if key not in kept and not key.startswith(("_backward", "_forward", "_state_dict", "_load"))
    }


def _shared(kind: type) -> Iterator[tuple[str, object]]:
    """State shared by all modules of a class: its attributes, and globals named in its forward."""
    for one in kind.__mro__:
        if one is object or one.__module__.startswith(_ONLY_TORCH):
            continue
        for key, value in vars(one).items():
            if not key.startswith("__") and _may_change(value):
                yield f"the attribute {key!r} of class {one.__name__}", value
        forward = vars(one).get("forward")
        for key, value in _globals_of(forward).items():
            yield f"the global {key!r} of {one.__module__}", value


def _globals_of(function: object) -> dict[str, object]:
    if not isinstance(function, FunctionType):
        return {}
    known = function.__globals__
    named = (name for name in function.__code__.co_names if name in known)
    found = {name: known[name] for name in named if _may_change(known[name])}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def _may_change(value: object) -> bool:
    return not isinstance(
        value, FunctionType | ModuleType | type | property | classmethod | staticmethod
    )


def _digest(value: object, depth: int, seen: set[int]) -> str:
    """Digest of a value's content; of its type alone for opaque objects."""
    import numpy as np
    import torch

    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, torch.nn.Module) or depth > _DEEPEST or id(value) in seen:
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        return _tensor_digest(value)
    if isinstance(value, np.ndarray):
        return _hashed(value.tobytes()) if value.nbytes <= _HASHED_BYTES else str(value.sum())
    seen.add(id(value))
    try:
        return _inside(value, depth, seen)
    except Exception:  # a user's object may refuse in any way
        return type(value).__name__
    finally:
        seen.discard(id(value))


def _inside(value: object, depth: int, seen: set[int]) -> str:
    import numpy as np
    import torch

    if isinstance(value, torch.Generator):
        return _tensor_digest(value.get_state())
    if isinstance(value, np.random.Generator):
        return _hashed(repr(value.bit_generator.state).encode())
    if isinstance(value, np.random.RandomState):
        return _hashed(repr(value.get_state(legacy=False)).encode())
    if isinstance(value, random.Random):
        return _hashed(repr(value.getstate()).encode())
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, Mapping):
        items = itertools.islice(value.items(), _MOST_ITEMS)
        parts = [f"{key!r}:{_digest(each, depth + 1, seen)}" for key, each in items]
        return f"{len(value)}{{{','.join(parts)}}}"
    if isinstance(value, set | frozenset):
        return _hashed(repr(sorted(map(repr, value))).encode())
    if hasattr(value, "__len__") and hasattr(value, "__iter__"):
        parts = [_digest(each, depth + 1, seen) for each in itertools.islice(value, _MOST_ITEMS)]
        return f"{len(value)}[{','.join(parts)}]"
    if isinstance(value, FunctionType):
        return _digest(_globals_of(value), depth + 1, seen)
    held = getattr(value, "__dict__", None) or {
        name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())
    }
    return (
        f"{type(value).__name__}{_digest(held, depth + 1, seen)}" if held else type(value).__name__
    )


def _tensor_digest(tensor: torch.Tensor) -> str:
    parts = dense_parts(tensor)
    if len(parts) > 1:
        return " ".join(map(_tensor_digest, parts))
    if tensor.is_meta or tensor.nbytes > _HASHED_BYTES:
        version = -1 if tensor.is_inference() else tensor._version
        return f"{tensor.data_ptr()} {version}"
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.layout is not torch.strided or flat.is_quantized:
        return f"{id(tensor)}"
    return _hashed(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else "empty"


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""Structure of a call's result: the dotted path of each tensor and of each other value."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum

from benchorch.domain.outputs import Outputs
from benchorch.frameworks.model_caches import is_cache


def plain(raw: object, _above: frozenset[int] = frozenset()) -> object:
    """The same with what are leaves to torch opened as well.

    Those are subclasses of tuples, lists and mappings, sets, arrays and objects of any class, by
    their attributes. Dataclasses and caches stay: torch is taught to flatten them.
    """
    import torch
    from torch.utils import _pytree

    def opened(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            return leaf
        if isinstance(leaf, Mapping):
            return {key: plain(each, _above) for key, each in leaf.items()}
        if isinstance(leaf, tuple | list):
            return [plain(each, _above) for each in leaf]
        if isinstance(leaf, set | frozenset):
            return [plain(each, _above) for each in sorted(leaf, key=repr)]
        if isinstance(leaf, Enum):
            return leaf.name
        if id(leaf) in _above:  # it refers to itself
            return None
        inside = {} if is_cache(leaf) or is_dataclass(leaf) else attributes(leaf)
        if inside:
            return {name: plain(each, _above | {id(leaf)}) for name, each in inside.items()}
        return of_array(leaf)

    return _pytree.tree_map(opened, raw)


def attributes(leaf: object) -> dict[str, object]:
    """What an object of a class of somebody's own holds; nothing of any other."""
    import torch

    kind = type(leaf)
    if kind.__module__ in ("builtins", "numpy", "torch"):  # a size that is traced is torch's
        return {}
    if isinstance(leaf, torch.Tensor | torch.nn.Module | str | int | float | type):
        return {}
    slots = [name for base in kind.__mro__ for name in _slots(base) if hasattr(leaf, name)]
    return {name: getattr(leaf, name) for name in slots} | getattr(leaf, "__dict__", {})


def _slots(kind: type) -> Iterator[str]:
    declared = vars(kind).get("__slots__", ())
    for name in (declared,) if isinstance(declared, str) else declared:
        if name not in ("__dict__", "__weakref__"):
            mangled = name.startswith("__") and not name.endswith("__")
            yield f"_{kind.__name__.lstrip('_')}{name}" if mangled else name


def of_array(leaf: object) -> object:
    """An array as a tensor, or as lists of what torch has no type for; anything else as it is."""
    import numpy as np
    import torch

    if not isinstance(leaf, np.ndarray | np.generic) or isinstance(leaf, str | float):
        return leaf
    try:
        return torch.from_numpy(np.array(leaf)) if isinstance(leaf, np.ndarray) else leaf.item()
    except TypeError:
        return leaf.tolist()


def leaf_paths(tree: object) -> list[tuple[str, object]]:
    """``past.0.1`` and the leaf itself, in the order of torch's flattening; paths are unique."""
    found: dict[str, object] = {}
    for keys, leaf in _with_keys(tree):
        path = ".".join(map(_part, keys))
        while path in found:
            path += "_"
        found[path] = leaf
    return list(found.items())


def _with_keys(tree: object) -> Iterator[tuple[tuple[object, ...], object]]:
    """Leaves and their keys; positions in nodes that were registered without keys."""
    from torch.utils import _pytree

    def is_keyless(node: object) -> bool:
        known = _pytree.SUPPORTED_NODES.get(type(node))
        return known is not None and known.flatten_with_keys_fn is None

    for keys, leaf in _pytree.tree_flatten_with_path(tree, is_leaf=is_keyless)[0]:
        if not is_keyless(leaf):
            yield keys, leaf
            continue
        for index, child in enumerate(_pytree.SUPPORTED_NODES[type(leaf)].flatten_fn(leaf)[0]):
            for more, each in _with_keys(child):
                yield (*keys, index, *more), each


def _part(key: object) -> str:
    """A key, field or position without dots, which separate them."""
    spelled = str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
    return re.sub(r"\W", "_", spelled) or "_"


def returned(raw: object) -> Outputs:
    """Outputs of a nested result; values that are neither plain nor tensors are unknown."""
    import torch

    leaves = leaf_paths(raw)
    tensors = tuple(path for path, leaf in leaves if isinstance(leaf, torch.Tensor))
    constants = {
        path: leaf
        for path, leaf in leaves
        if isinstance(leaf, str | int | float | bool) or leaf is None
    }
    unknown = tuple(path for path, _ in leaves if path not in {*tensors, *constants})
    return Outputs(tensors=tensors, constants=constants, unknown=unknown)


def is_flat(raw: object) -> bool:
    """Whether it is a tensor or a list of tensors, as files return them."""
    import torch

    leaves = raw if type(raw) in (list, tuple) else [raw]
    return all(isinstance(leaf, torch.Tensor) for leaf in leaves)  # type: ignore[attr-defined]

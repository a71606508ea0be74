"""Structure of a call's result: the dotted path of each tensor and of each other value."""

import re
from collections.abc import Mapping

from benchorch.domain.outputs import Outputs


def plain(raw: object) -> object:
    """The same with subclasses of tuples, lists and mappings, leaves to torch, opened as well."""
    from torch.utils import _pytree

    def opened(leaf: object) -> object:
        if isinstance(leaf, Mapping):
            return {key: plain(each) for key, each in leaf.items()}
        if isinstance(leaf, tuple | list):
            return [*map(plain, leaf)]
        return leaf

    return _pytree.tree_map(opened, raw)


def leaf_paths(tree: object) -> list[tuple[str, object]]:
    """``past.0.1`` and the leaf itself, in the order of torch's flattening; paths are unique."""
    from torch.utils import _pytree

    found: dict[str, object] = {}
    for keys, leaf in _pytree.tree_flatten_with_path(tree)[0]:
        path = ".".join(map(_part, keys))
        while path in found:
            path += "_"
        found[path] = leaf
    return list(found.items())


def _part(key: object) -> str:
    """A key, field or position without dots, which separate them."""
    spelled = str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
    return re.sub(r"\W", "_", spelled) or "_"


def returned(raw: object) -> Outputs:
    """Outputs of a nested result; None and values that are not plain have no value."""
    import torch

    leaves = leaf_paths(raw)
    return Outputs(
        tensors=tuple(path for path, leaf in leaves if isinstance(leaf, torch.Tensor)),
        constants={
            path: leaf
            for path, leaf in leaves
            if isinstance(leaf, str | int | float | bool) or leaf is None
        },
    )


def is_flat(raw: object) -> bool:
    """Whether it is a tensor or a list of tensors, as files return them."""
    import torch

    leaves = raw if type(raw) in (list, tuple) else [raw]
    return all(isinstance(leaf, torch.Tensor) for leaf in leaves)  # type: ignore[attr-defined]

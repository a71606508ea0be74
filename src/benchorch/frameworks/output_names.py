"""What a model calls its outputs: keys of a dict, fields of a dataclass or named tuple."""

from __future__ import annotations

from benchorch.frameworks.torch_call import know_dataclasses


def output_labels(raw: object) -> dict[str, str]:
    """A label for each output that has a name, by its number among the flattened tensors.

    Args:
        raw: what one call returned.
    """
    import torch
    from torch.utils import _pytree

    know_dataclasses(raw)
    paths = [
        path
        for path, leaf in _pytree.tree_flatten_with_path(raw)[0]
        if isinstance(leaf, torch.Tensor)
    ]
    labels = {str(number): _label(path) for number, path in enumerate(paths)}
    return {number: label for number, label in labels.items() if label}


def _label(path: tuple[object, ...]) -> str:
    """``past_key_values.0.1``; empty where no part of it is a name."""
    parts = [
        str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", "")))) for part in path
    ]
    return ".".join(parts) if any(not part.isdigit() for part in parts) else ""

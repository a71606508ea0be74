"""Caches of the transformers library among what a model takes and returns."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

_HOME = "transformers.cache_utils"
_STATES = ("conv_states", "recurrent_states")


def is_cache(value: object) -> bool:
    """Whether it is one of the library's caches; imports nothing."""
    home = sys.modules.get(_HOME)
    return home is not None and isinstance(value, home.Cache | home.EncoderDecoderCache)


def is_layer(value: object) -> bool:
    """Whether it is a layer of such a cache."""
    home = sys.modules.get(_HOME)
    kinds = ("CacheLayerMixin", "LinearAttentionCacheLayerMixin")
    known = tuple(getattr(home, kind) for kind in kinds if hasattr(home, kind))
    return isinstance(value, known)


def is_written(value: object) -> bool:
    """Whether calls write into the tensors of a cache's layer, not beside them."""
    return is_layer(value) and not isinstance(value, sys.modules[_HOME].DynamicLayer)


def holds_tokens(value: object) -> bool:
    """Whether it is a cache that holds keys and values already."""
    return is_cache(value) and any(getattr(x, "is_initialized", False) for x in _layers(value))


def know_cache(kind: type[Any]) -> None:
    """Teach torch to flatten a class of caches, and the class of what `_rebuilt` returns for it."""
    from torch.utils import _pytree
    from transformers.cache_utils import DynamicCache

    for each in {kind, DynamicCache} - set(_pytree.SUPPORTED_NODES):
        _know(each)


def _know(kind: type[Any]) -> None:
    """Teach torch to flatten it: to the tensors of each layer in turn, and their names."""
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        kind,
        lambda cache: (tensors_of_cache(cache), _names(cache)),
        lambda leaves, names: _rebuilt(list(leaves), names),
        serialized_type_name=f"{_HOME}.{kind.__name__}",
        to_dumpable_context=lambda names: names,
        from_dumpable_context=lambda names: names,
        flatten_with_keys_fn=lambda cache: (
            [
                (_pytree.MappingKey(f"{number}.{name}"), tensor)
                for number, layer in enumerate(_layers(cache))
                for name, tensor in _tensors_of_layer(layer).items()
            ],
            _names(cache),
        ),
    )


def _layers(cache: Any) -> list[Any]:
    """Layers of a cache; of an encoder–decoder's, self attention first, then cross attention."""
    parts = (getattr(cache, f"{part}_attention_cache", None) for part in ("self", "cross"))
    return [
        layer for part in (*filter(None, parts), cache) for layer in getattr(part, "layers", ())
    ]


def tensors_of_cache(cache: Any) -> list[Any]:
    """Keys and values of each layer in turn, or its states."""
    return [tensor for layer in _layers(cache) for tensor in _tensors_of_layer(layer).values()]


def _tensors_of_layer(layer: Any) -> dict[str, Any]:
    """Keys and values, and the states of a layer that is recurrent, by their names."""
    found = {"key": layer.keys, "value": layer.values} if hasattr(layer, "keys") else {}
    for name in _STATES:
        states = getattr(layer, name, None)
        if not isinstance(states, dict):  # transformers before 5.14 has one of each kind
            states = {0: states}
        found |= {f"{name}.{n}": each for n, each in states.items() if each is not None}
    return found


def _names(cache: Any) -> list[list[str]]:
    """Of each layer, those of its tensors."""
    return [list(_tensors_of_layer(layer)) for layer in _layers(cache)]


def _rebuilt(leaves: Sequence[Any], names: Any) -> Any:
    """A dynamic cache on these tensors, which an exporter may have replaced by its own values.

    Args:
        leaves: tensors of all layers.
        names: as of `_names`; of programs that were stored before, a word: keys and values alone.
    """
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache, rest = DynamicCache(), iter(leaves)
    for own in names if isinstance(names, list) else [["key", "value"]] * (len(leaves) // 2):
        tensors = {name: next(rest) for name in own}
        states = {name: tensor for name, tensor in tensors.items() if "." in name}
        layer = _with_states(states) if states else DynamicLayer()
        if "key" in tensors:
            layer.keys, layer.values, layer.is_initialized = tensors["key"], tensors["value"], True
        cache.layers.append(layer)
    return cache


def _with_states(states: Mapping[str, Any]) -> Any:
    from transformers.cache_utils import LinearAttentionLayer

    layer = LinearAttentionLayer()
    for name, tensor in states.items():
        kind, _, number = name.partition(".")
        for attribute, value in ((kind, tensor), (f"is_{kind}_initialized", True)):
            if isinstance(getattr(layer, attribute), dict):
                getattr(layer, attribute)[int(number)] = value
            else:
                setattr(layer, attribute, value)
    return layer

"""Caches of the transformers library among what a model takes and returns."""

import sys
from collections.abc import Sequence
from typing import Any

_HOME = "transformers.cache_utils"


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
    """Teach torch to flatten it: to keys and values of each layer in turn."""
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        kind,
        lambda cache: (tensors_of_cache(cache), kind),
        lambda leaves, _: _rebuilt(list(leaves)),
        serialized_type_name=f"{_HOME}.{kind.__name__}",
        to_dumpable_context=lambda context: context.__name__,
        from_dumpable_context=lambda name: name,
        flatten_with_keys_fn=lambda cache: (
            list(zip(map(_pytree.MappingKey, _names(cache)), tensors_of_cache(cache), strict=True)),
            kind,
        ),
    )


def _layers(cache: Any) -> list[Any]:
    """Layers of a cache; of an encoder–decoder's, self attention first, then cross attention."""
    parts = (getattr(cache, f"{part}_attention_cache", None) for part in ("self", "cross"))
    return [
        layer for part in (*filter(None, parts), cache) for layer in getattr(part, "layers", ())
    ]


def tensors_of_cache(cache: Any) -> list[Any]:
    """Keys and values of each layer in turn."""
    return [tensor for layer in _layers(cache) for tensor in (layer.keys, layer.values)]


def _names(cache: Any) -> list[str]:
    return [f"{n}.{part}" for n in range(len(_layers(cache))) for part in ("key", "value")]


def _rebuilt(leaves: Sequence[Any]) -> Any:
    """A dynamic cache on these tensors, which an exporter may have replaced by its own values."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    for keys, values in zip(leaves[::2], leaves[1::2], strict=True):
        layer = DynamicLayer()
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        cache.layers.append(layer)
    return cache

"""A causal language model whose cache of keys and values goes in and out as plain tensors."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from benchorch.domain.tensors import TensorSpec
from benchorch.errors import BuildError
from benchorch.interfaces.generation import IDS, PAST, POSITIONS

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PROBED_TOKENS = 2

_Step = TypeVar("_Step", bound=nn.Module)


class Decoder(nn.Module):
    """One step of generation, from tokens to scores of the next token.

    Prefill is a step of many tokens without a past, decoding a step of one token. Only the last
    position's scores are computed, as serving needs no others.

    Args:
        model: of the transformers library, answering with ``logits`` and ``past_key_values``.
        static: whether the cache has its full size from the start and is written in place.
    """

    def __init__(self, model: nn.Module, *, static: bool = False) -> None:
        super().__init__()
        self.model = model
        self.static = static

    def forward(self, input_ids: Tensor, position_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Logits, shape (batch_size, vocabulary); then each grown tensor of a dynamic cache.

        Args:
            input_ids: shape (batch_size, tokens).
            position_ids: of the same shape; its first is the number of tokens that are cached.
            past: keys and values of each layer, shape (batch_size, heads, tokens, size).
        """
        cache = static_cache(past, position_ids) if self.static else dynamic_cache(past)
        answer = self.model(
            input_ids=input_ids,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
            return_dict=True,
        )
        logits = answer.logits[:, -1]
        return (logits,) if self.static else (logits, *tensors_of_cache(answer.past_key_values))

    def with_static_cache(self) -> Decoder:
        """The same weights on a static cache."""
        return decoder(self.model, static=True)

    def cache_specs(self) -> tuple[TensorSpec, ...]:
        """Each tensor of its cache."""
        return cache_specs(self.model)


def is_language_model(module: object) -> bool:
    """Whether it has transformers' ``generate``."""
    can_generate = getattr(module, "can_generate", None)
    return callable(can_generate) and bool(can_generate()) and hasattr(module, "save_pretrained")


def decoder(model: nn.Module, *, static: bool = False) -> Decoder:
    """The model behind a forward whose signature names each tensor of the cache."""
    names = [IDS, POSITIONS, *(spec.name for spec in cache_specs(model))]
    return named_step(Decoder, names)(model, static=static)


def named_step(kind: type[_Step], names: Sequence[str]) -> type[_Step]:
    """The class whose forward takes its tensors by these names, which tracers read."""

    def forward(self: nn.Module, *args: Tensor, **kwargs: Tensor) -> tuple[Tensor, ...]:
        named = (kwargs[name] for name in names[len(args) :])
        answered: tuple[Tensor, ...] = kind.forward(self, *args, *named)
        return answered

    parameters = [inspect.Parameter(name, _KIND) for name in ("self", *names)]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return type(kind.__name__, (kind,), {"forward": forward})


class _Layer(Protocol):
    keys: Tensor
    values: Tensor


def tensors_of_cache(cache: Any) -> list[Tensor]:
    """Keys and values of each layer."""
    layers: Sequence[_Layer] = cache.layers
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def _pairs(past: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(past[::2], past[1::2], strict=True))


def dynamic_cache(past: Sequence[Tensor]) -> Any:
    """A cache that grows, of its tensors."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    for keys, values in _pairs(past):
        layer = DynamicLayer()
        layer.dtype, layer.device = keys.dtype, keys.device
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        cache.layers.append(layer)
    return cache


def static_cache(past: Sequence[Tensor], position_ids: Tensor) -> Any:
    """A cache of its full size, of its tensors and the positions that come next."""
    from transformers.cache_utils import Cache, StaticLayer

    layers = []
    for keys, values in _pairs(past):
        layer = StaticLayer(max_cache_len=keys.shape[2])
        layer.dtype, layer.device = keys.dtype, keys.device
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        # Each layer counts on by itself, in place, from transformers 5.4 on.
        layer.cumulative_length = position_ids[0, 0].clone()
        layers.append(layer)
    return Cache(layers=layers)


def cache_specs(model: nn.Module) -> tuple[TensorSpec, ...]:
    """Each tensor of the model's cache, from a call of two tokens.

    Raises:
        BuildError: the model has no cache that grows with its tokens.
    """
    ids = torch.zeros(1, _PROBED_TOKENS, dtype=torch.int64, device=next(model.parameters()).device)
    with torch.no_grad():
        cache = model(input_ids=ids, use_cache=True, return_dict=True).get("past_key_values")
    return layer_specs(model, cache, _PROBED_TOKENS, "past")


def layer_specs(model: nn.Module, cache: Any, tokens: int, name: str) -> tuple[TensorSpec, ...]:
    """Each tensor of a cache that holds so many tokens; BuildError for another kind of cache."""
    layers = getattr(cache, "layers", ())
    if not layers or any(not _is_plain(layer, tokens) for layer in layers):
        kinds = sorted({type(layer).__name__ for layer in layers}) or [type(cache).__name__]
        raise BuildError(
            f"{type(model).__name__} cannot generate step by step: its cache is made of "
            f"{', '.join(kinds)}; supported are keys and values that grow with each token.",
            kind="cache",
        )
    return tuple(
        _spec(f"{name}_{number}_{part}", getattr(layer, f"{part}s"))
        for number, layer in enumerate(layers)
        for part in ("key", "value")
    )


def _is_plain(layer: object, tokens: int) -> bool:
    """Whether a layer holds keys and values of every token, and nothing else."""
    keys = getattr(layer, "keys", None)
    return (
        type(layer).__name__ == "DynamicLayer"
        and isinstance(keys, Tensor)
        and keys.dim() == 4
        and keys.shape[2] == tokens
    )


def _spec(name: str, tensor: Tensor) -> TensorSpec:
    _, heads, _, size = tensor.shape
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(name=name, shape=("batch_size", heads, PAST, size), dtype=dtype)

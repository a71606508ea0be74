"""An encoder and a decoder whose caches go in and out as plain tensors, in one module.

The encoder's part and the decoder's share no tensor: keys and values of the source come out of the
first call and go into all others. So a call of either part has an empty batch for the other, and
one artifact serves both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchorch.domain.tensors import TensorSpec
from benchorch.errors import BuildError
from benchorch.interfaces.generation import CROSS, IDS, POSITIONS, PROMPT, SOURCE
from benchorch.models.architectures.decoder import (
    dynamic_cache,
    layer_specs,
    named_step,
    static_cache,
    tensors_of_cache,
)

_PROBED_TOKENS = 3
_CLOSE_RATIO = 1e-3


class EncoderDecoder(nn.Module):
    """One step: scores of the next token, the grown cache, and keys and values of the source.

    Args:
        model: of the transformers library, with an encoder and a decoder.
        sources: names of the encoder's inputs.
        specs: each tensor of the caches, the decoder's own first.
        projections: names of the layers that make keys and values of the encoder's output.
        static: whether the decoder's own cache has its full size and is written in place.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        sources: Sequence[str],
        specs: tuple[TensorSpec, ...],
        projections: Sequence[str],
        static: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.static = static
        self.sources = tuple(sources)
        self.specs = specs
        self.projections = tuple(projections)

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Logits, shape (batch_size, vocabulary); a dynamic cache's tensors; those of the source.

        Args:
            args: the encoder's inputs, shape (source_batch, ...); token ids and positions, shape
                (batch_size, tokens); the decoder's cache; keys and values of the source.
        """
        count, own = len(self.sources), len(self.specs) - len(self.projections)
        ids, positions, *past = args[count:]
        own_past, source_past = past[:own], past[own:]
        made = self._encoded(args[:count], source_past)
        if _skipped(ids):
            return (own_past[0].new_zeros(0), *(() if self.static else own_past), *made)
        return (*self._decoded(ids, positions, own_past, source_past), *made)

    def _encoded(self, sources: Sequence[Tensor], past: Sequence[Tensor]) -> list[Tensor]:
        """Keys and values of each of the decoder's layers."""
        if _skipped(sources[0]):
            return [tensor[:0] for tensor in past]
        encoder = cast(Any, self.model).get_encoder()
        named = dict(zip(self.sources, sources, strict=True))
        hidden = encoder(**named, return_dict=True).last_hidden_state
        made = []
        for name, tensor in zip(self.projections, past, strict=True):
            flat = self.model.get_submodule(name)(hidden)
            shape = (hidden.shape[0], hidden.shape[1], tensor.shape[1], tensor.shape[3])
            made.append(flat.view(shape).transpose(1, 2))
        return made

    def _decoded(
        self, ids: Tensor, positions: Tensor, own: Sequence[Tensor], source: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        from transformers.cache_utils import EncoderDecoderCache

        inner = static_cache(own, positions) if self.static else dynamic_cache(own)
        cache = EncoderDecoderCache(inner, dynamic_cache(source))
        cache.is_updated = dict.fromkeys(range(len(source) // 2), True)
        # With the source's keys and values at hand only its shape is read.
        config = cast(Any, self.model).config
        shape = (ids.shape[0], source[0].shape[2], config.d_model)
        answer = self.model(
            encoder_outputs=(source[0].new_zeros(1, 1, 1).expand(shape),),
            decoder_input_ids=ids,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        )
        grown = () if self.static else tensors_of_cache(answer.past_key_values.self_attention_cache)
        return (answer.logits[:, -1], *grown)

    def with_static_cache(self) -> nn.Module:
        """The same weights on a static cache."""
        return _made(
            self.model,
            sources=self.sources,
            specs=self.specs,
            projections=self.projections,
            static=True,
        )

    def cache_specs(self) -> tuple[TensorSpec, ...]:
        """Each tensor of its caches."""
        return self.specs


def encoder_decoder(model: nn.Module, sources: Sequence[TensorSpec], length: str) -> nn.Module:
    """The model behind a forward whose signature names each tensor of its caches.

    Args:
        model: of the transformers library.
        sources: inputs of its encoder.
        length: the symbol of how many tokens they have; empty where that is fixed.

    Raises:
        BuildError: its cache is of another kind, or no layers make the source's part of it.
    """
    floats = next(each.dtype for each in model.parameters() if each.is_floating_point())
    inputs = {spec.name: _probe(spec, length, floats) for spec in sources}
    start = torch.zeros(1, _PROBED_TOKENS, dtype=torch.int64)
    with torch.no_grad():
        hidden = cast(Any, model).get_encoder()(**inputs, return_dict=True).last_hidden_state
        cache = model(**inputs, decoder_input_ids=start, use_cache=True).get("past_key_values")
        own, source = (
            getattr(cache, f"{part}_attention_cache", None) for part in ("self", "cross")
        )
        specs = layer_specs(model, own, _PROBED_TOKENS, "past")
        of_source = layer_specs(model, source, hidden.shape[1], CROSS.rstrip("_"))
        projections = [_projection(model, hidden, each) for each in tensors_of_cache(source)]
    tokens = PROMPT if length else hidden.shape[1]
    return _made(
        model,
        sources=[spec.name for spec in sources],
        specs=(*specs, *(_of_length(spec, tokens) for spec in of_source)),
        projections=projections,
    )


def _made(model: nn.Module, **options: Any) -> nn.Module:
    sources = [f"{SOURCE}{name}" for name in options["sources"]]
    names = [*sources, IDS, POSITIONS, *(spec.name for spec in options["specs"])]
    return named_step(EncoderDecoder, names)(model, **options)


def _skipped(tensor: Tensor) -> bool:
    """Whether a part has nothing to do; a graph has both parts, whatever it was traced on."""
    return not torch.compiler.is_exporting() and tensor.shape[0] == 0


def _probe(spec: TensorSpec, length: str, floats: torch.dtype) -> Tensor:
    sizes: Mapping[str, int] = {**dict.fromkeys(spec.symbols, 1), length: _PROBED_TOKENS}
    ones = torch.ones(spec.resolve(sizes), dtype=getattr(torch, spec.dtype))
    return ones.to(floats) if ones.is_floating_point() else ones


def _of_length(spec: TensorSpec, tokens: str | int) -> TensorSpec:
    batch, heads, _, size = spec.shape
    return TensorSpec(name=spec.name, shape=(batch, heads, tokens, size), dtype=spec.dtype)


def _projection(model: nn.Module, hidden: Tensor, made: Tensor) -> str:
    """Name of the linear layer that makes this tensor of the encoder's output."""
    _, heads, _, size = made.shape
    wanted = (hidden.shape[-1], heads * size)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and (layer.in_features, layer.out_features) == wanted:
            found = layer(hidden).unflatten(-1, (heads, size)).transpose(1, 2)
            if torch.dist(found, made) <= _CLOSE_RATIO * torch.linalg.vector_norm(made):
                return str(name)
    raise BuildError(
        f"{type(model).__name__} cannot generate step by step: no linear layer makes the keys and "
        "values that its decoder takes from the encoder's output.",
        kind="cache",
    )

"""A language model of the transformers library, called token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import TensorSpec, Workload
from benchorch.interfaces.generation import IDS, NEW, PAST, POSITIONS, PROMPT, DecoderModel
from benchorch.interfaces.model import Model

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

_INPUTS = tuple(
    TensorSpec(name=name, shape=("batch_size", PROMPT), dtype="int64") for name in (IDS, POSITIONS)
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder(DecoderModel):
    """The same weights behind one step of generation.

    Attributes:
        source: the model whose forward scores tokens; its ``input_ids`` are the prompts.
        length: the symbol of its inputs' second axis.
        cache: the tensors of its cache; empty until the model was loaded once.
    """

    source: Model
    length: str
    cache: tuple[TensorSpec, ...] = ()

    @property
    def requires(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the source."""
        return type(self.source).requires

    @property
    def symbols(self) -> tuple[str, ...]:
        """Batch, prompt, and how many tokens are generated."""
        return ("batch_size", PROMPT, NEW)

    @property
    def open_symbols(self) -> tuple[str, ...]:
        """One export serves prefill and every later step."""
        return (PROMPT, PAST)

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of the source."""
        return self.source.labels

    def with_cache(self, cache: tuple[TensorSpec, ...]) -> Decoder:
        """The same model, its cache known."""
        return replace(self, cache=cache)

    def load(self, seed: int) -> torch.nn.Module:
        """One step as a module."""
        return self.source.load_step(seed)

    def specs(self) -> tuple[TensorSpec, ...]:
        """Tokens, their positions, and the cache where it is known."""
        return (*_INPUTS, *self.cache)

    def batch(self, workload: Workload, seed: int) -> Mapping[str, NDArray[generic]]:
        """A prompt that follows a cache of ``new_tokens`` empty places, or of its fixed size."""
        import numpy as np

        symbols = {**workload.symbols, PAST: workload.symbols[NEW]}
        asked = self.source.batch(self._sized(workload, symbols[PROMPT]), seed)
        ids = np.asarray(asked[IDS], dtype=np.int64)
        places = np.arange(ids.shape[1], dtype=np.int64)
        cache = {
            spec.name: np.zeros(spec.resolve(symbols), dtype=_held(spec)) for spec in self.cache
        }
        return {IDS: ids, POSITIONS: np.tile(places, (ids.shape[0], 1)), **cache}

    def keywords(self) -> Mapping[str, Json]:
        """None: a step takes tensors only."""
        return {}

    def identity(self) -> Mapping[str, Json] | None:
        """The source's, called step by step."""
        found = self.source.identity()
        return None if found is None else {**found, "decoder": self.version}

    def requested(self) -> Mapping[str, Json]:
        """The source's options."""
        return {**self.source.requested(), "decoder": self.version}

    def makers(self) -> Sequence[Callable[..., object]]:
        """The source's."""
        return self.source.makers()

    def problems(self, workload: Workload) -> Sequence[str]:
        """Those of the source on all tokens of a sequence, and missing lengths."""
        missing = [
            f"workload.{symbol}: is missing; set workload.{symbol}=..."
            for symbol in (PROMPT, NEW)
            if symbol not in workload.symbols
        ]
        if missing:
            return missing
        tokens = workload.symbols[PROMPT] + workload.symbols[NEW]
        return [
            problem.replace(
                f"symbol {self.length!r} is {tokens}",
                f"{PROMPT} and {NEW} are {tokens} together",
            ).replace(f"workload.{self.length}", f"workload.{PROMPT}")
            for problem in self.source.problems(self._sized(workload, tokens))
        ]

    def _sized(self, workload: Workload, tokens: int) -> Workload:
        return replace(workload, symbols={**workload.symbols, self.length: tokens})


def _held(spec: TensorSpec) -> str:
    """A dtype that numpy has; runtimes cast it to their own."""
    return "float32" if spec.dtype == "bfloat16" else spec.dtype

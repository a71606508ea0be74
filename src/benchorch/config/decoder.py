"""A language model of the transformers library, called token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, TensorSpec, Workload
from benchorch.errors import Correction, Problem
from benchorch.interfaces.generation import (
    DECODED,
    IDS,
    NEW,
    PAST,
    POSITIONS,
    PROMPT,
    SOURCE,
    SOURCE_BATCH,
)
from benchorch.interfaces.model import Model

if TYPE_CHECKING:
    import torch

_BATCH = "batch_size"
_START = "decoder_input_ids"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder(Model):
    """The same weights behind one step of generation.

    Attributes:
        source: the model whose forward scores tokens; its ``input_ids`` are the prompts. Where it
            has ``decoder_input_ids``, generation starts with those, and all else is encoded.
        length: the symbol of its prompts' second axis; empty where that is fixed.
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
        return (_BATCH, *self._lengths, NEW)

    @property
    def open_symbols(self) -> tuple[str, ...]:
        """One export serves encoder, prefill and every later step."""
        return (PROMPT, PAST, *((DECODED, _BATCH, SOURCE_BATCH) if self._encodes else ()))

    @property
    def _encodes(self) -> bool:
        return any(spec.name == _START for spec in self.source.specs())

    @property
    def _lengths(self) -> tuple[str, ...]:
        return (PROMPT,) if self.length else ()

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of the source."""
        return self.source.labels

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the inputs of its encoder; empty without one."""
        return tuple(spec.name for spec in self.specs() if spec.name.startswith(SOURCE))

    def with_cache(self, cache: tuple[TensorSpec, ...]) -> Decoder:
        """The same model, its cache known."""
        return replace(self, cache=cache)

    def token_ids(self, text: str) -> Sequence[int]:
        """By the source's tokenizer."""
        return self.source.token_ids(text)

    def load(self, seed: int) -> torch.nn.Module:
        """One step as a module."""
        return self.source.load_step(seed)

    def specs(self) -> tuple[TensorSpec, ...]:
        """Inputs of an encoder, tokens, their positions, and the cache where it is known."""
        renamed = {_BATCH: SOURCE_BATCH, self.length: PROMPT}
        encoded = [
            replace(
                spec,
                name=f"{SOURCE}{spec.name}",
                shape=tuple(renamed.get(str(size), size) for size in spec.shape),
            )
            for spec in (self.source.specs() if self._encodes else ())
            if spec.name != _START
        ]
        shape = (_BATCH, DECODED if self._encodes else PROMPT)
        tokens = (TensorSpec(name=name, shape=shape, dtype="int64") for name in (IDS, POSITIONS))
        return (*encoded, *tokens, *self.cache)

    def batch(self, workload: Workload, seed: int) -> Arrays:
        """A prompt that follows a cache of ``new_tokens`` empty places, or of its fixed size."""
        import numpy as np

        symbols = {**workload.symbols, PAST: workload.symbols[NEW]}
        source_batch = self.source.batch(self._sized(workload, symbols.get(PROMPT, 0)), seed)
        ids = np.asarray(source_batch[_START if self._encodes else IDS], dtype=np.int64)
        places = np.arange(ids.shape[1], dtype=np.int64)
        encoded = {name: source_batch[name.removeprefix(SOURCE)] for name in self.sources}
        cache = {
            spec.name: np.zeros(spec.resolve(symbols), dtype=_held(spec)) for spec in self.cache
        }
        return {**encoded, IDS: ids, POSITIONS: np.tile(places, (ids.shape[0], 1)), **cache}

    def sequence_tokens(self, workload: Workload) -> int:
        """Tokens that the cache holds in the end: those it starts with, and the new ones."""
        return self._started(workload) + workload.symbols[NEW]

    def _started(self, workload: Workload) -> int:
        if not self._encodes:
            return workload.symbols[PROMPT]
        (start,) = (spec for spec in self.source.specs() if spec.name == _START)
        return start.resolve(workload.symbols)[1]

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
            for symbol in (*self._lengths, NEW)
            if symbol not in workload.symbols
        ]
        if missing:
            return missing
        if self._encodes:
            sized = self._sized(workload, workload.symbols.get(PROMPT, 0))
            found = [self._of_prompt(problem) for problem in self.source.problems(sized)]
            return found or self._size_problems(workload)
        tokens = self.sequence_tokens(workload)
        together = f"{PROMPT} and {NEW} are {tokens} together"
        found = [
            self._of_prompt(problem.replace(f"symbol {self.length!r} is {tokens}", together))
            for problem in self.source.problems(self._sized(workload, tokens))
        ]
        return found or self._size_problems(workload)

    def _size_problems(self, workload: Workload) -> list[str]:
        """Sizes of the workload that are not those of the prompts, where these are fixed."""
        ids = next((spec for spec in self.source.specs() if spec.name == IDS), None)
        if ids is None:
            return []
        wanted = {key: workload.symbols.get(key) for key in (_BATCH, *self._lengths)}
        held = ids.resolve(self._sized(workload, wanted.get(PROMPT) or 0).symbols)
        return [
            Problem(
                f"workload.{key}: is {wanted[key]}, but model.inputs.{IDS} has {size} there; "
                f"set workload.{key}={size}.",
                Correction(settings=[f"workload.{key}={size}"]),
            )
            for key, size in zip(wanted, held, strict=False)
            if wanted[key] != size
        ]

    def _of_prompt(self, problem: str) -> Problem:
        """A problem of the source's length as one of the prompt's, which has a default."""
        text = problem.replace(f"workload.{self.length}", f"workload.{PROMPT}")
        return Problem(text, Correction(typed=f"workload.{PROMPT}") if text != problem else None)

    def _sized(self, workload: Workload, tokens: int) -> Workload:
        sized = {self.length: tokens} if self.length else {}
        return replace(workload, symbols={**workload.symbols, **sized})


def _held(spec: TensorSpec) -> str:
    """A dtype that numpy has; runtimes cast it to their own."""
    return "float32" if spec.dtype == "bfloat16" else spec.dtype

"""onnxruntime-genai on the processor, in a process that never imports torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays
from benchorch.errors import MeasureError
from benchorch.frameworks.token_engine import HostProgram, TokenEngine
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.generation import IDS, PAST, Program
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntimeGenai(Runtime):
    """onnxruntime-genai's own loop and cache, forced to take given next tokens.

    So the choice of tokens is the same as for every runtime. Handing one over costs a copy of as
    many scores as there are words, and finding the largest of them.
    """

    generates = True
    consumes = (Format.ONNX_GENAI,)
    requires = ("onnxruntime-genai", "numpy")
    # For GPUs there is another distribution.
    not_on_gpu = "onnxruntime-genai is called on the processor alone here"

    def cohabits(self, device: str, threads: int) -> bool:
        """True with one thread only: ONNX Runtime's pool spins between calls."""
        return threads == 1

    def load(self, request: LoadRequest) -> Executable:
        """A model with that many threads."""
        import onnxruntime_genai as genai

        genai.disable_telemetry_events()
        threads = {"intra_op_num_threads": request.threads}
        with wrap_errors(MeasureError, "onnxruntime-genai cannot load the model"):
            config = genai.Config(str(request.sources[Format.ONNX_GENAI]))
            config.overlay(json.dumps({"model": {"decoder": {"session_options": threads}}}))
            model = genai.Model(config)
        cache = [spec.name for spec in request.example.specs if PAST in spec.shape]
        return GenaiExecutable(
            model=model,
            cache=tuple(name.replace("past_", "present_", 1) for name in cache),
            threads=request.threads,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GenaiExecutable(TokenEngine):
    """A loaded model.

    Attributes:
        model: an ``onnxruntime_genai.Model``.
        cache: names of the outputs that are cached.
    """

    model: Any
    cache: tuple[str, ...]
    threads: int

    def program(self) -> Program:
        """Calls of one generator."""
        return GenaiProgram(self.model, self.cache)

    def facts(self) -> Mapping[str, Json]:
        """Execution provider; scores are float32 whatever the graph computes in."""
        return {
            "dtype": "float32",
            "threads": self.threads,
            "provider": "onnxruntime-genai CPU",
            "device": "cpu",
        }


@final
class GenaiProgram(HostProgram):
    """Tokens go in and scores come out; keys and values stay in the generator."""

    def __init__(self, model: Any, cache: tuple[str, ...]) -> None:
        self._model = model
        self._cache = cache
        self._generator: Any = None
        self._batch = 0
        self._chosen: Any = None

    def begin(self, *, whole: bool = False) -> None:
        """Forget the sequences; the next call is a prefill."""
        self._chosen = None

    def kept_bytes(self) -> int:
        """Size of keys and values."""
        return sum(self._generator.get_output(name).nbytes for name in self._cache)

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Tokens in its own type; it counts positions itself."""
        return {IDS: arrays[IDS].astype("int32", order="C")} if IDS in arrays else {}

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """Scores after the last token of each sequence."""
        ids: Any = inputs[IDS]
        if self._chosen is None:
            self._prefill(ids)
        else:
            self._append(ids[:, 0])
        return (self._generator.get_logits()[:, 0, :-1],)

    def _prefill(self, ids: Any) -> None:
        import numpy as np
        import onnxruntime_genai as genai

        if self._batch == len(ids):
            self._generator.rewind_to(0)
        else:
            params = genai.GeneratorParams(self._model)
            params.set_search_options(batch_size=len(ids))
            self._generator, self._batch = genai.Generator(self._model, params), len(ids)
        self._generator.append_tokens(ids)
        width = self._generator.get_logits().shape[-1]
        self._chosen = np.full((len(ids), 1, width), -1.0, dtype=np.float32)

    def _append(self, tokens: Any) -> None:
        """Append tokens by giving them the best scores: several sequences accept no others."""
        rows = range(len(tokens))
        self._chosen[rows, 0, tokens] = 1
        self._generator.set_logits(self._chosen)
        self._generator.generate_next_token()
        self._chosen[rows, 0, tokens] = -1

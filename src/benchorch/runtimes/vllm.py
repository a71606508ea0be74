"""vLLM's engine in this process, one request for each prompt of the batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Array, Arrays
from benchorch.errors import MeasureError
from benchorch.frameworks.token_engine import HostProgram, TokenEngine, cache_size
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, SAME_ARITHMETIC_RATIO
from benchorch.interfaces.generation import IDS, Program
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

_VARIABLES = {
    "VLLM_NO_USAGE_STATS": "1",  # it reports its use otherwise
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, which is measured
}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Vllm(Runtime):
    """vLLM's scheduler, paged cache and sampler, a step of the engine for each token.

    The engine chooses the next tokens itself, greedily. A token that the caller chooses otherwise
    begins the sequence anew, with a prefill of all its tokens.

    Args:
        dtype: of weights, cache and arithmetic.
    """

    generates = True
    consumes = (Format.HUB_FOLDER,)
    requires = ("vllm", "numpy")

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"

    @property
    def tolerance_ratio(self) -> float:
        """Error of the dtype."""
        return HALF_PRECISION_RATIOS.get(self.dtype, SAME_ARITHMETIC_RATIO)

    def cohabits(self, device: str, threads: int) -> bool:
        """False: the engine reserves memory for its cache when it starts."""
        return False

    def load(self, request: LoadRequest) -> Executable:
        """An engine that holds the whole batch."""
        os.environ.update(_VARIABLES)
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ["OMP_NUM_THREADS"] = str(request.threads)
        from vllm import EngineArgs, LLMEngine

        batch, prompt = request.example.arrays[IDS].shape
        tokens, numbers = cache_size(request.example)
        longest = max(tokens, prompt) + 1
        with wrap_errors(MeasureError, "vLLM cannot load the model"):
            engine = LLMEngine.from_engine_args(
                EngineArgs(
                    model=str(request.sources[Format.HUB_FOLDER]),
                    skip_tokenizer_init=True,
                    dtype=self.dtype,
                    max_model_len=longest,
                    max_num_seqs=batch,
                    # All prompts in one step: those that wait for the next one would let the
                    # others generate a token meanwhile.
                    max_num_batched_tokens=batch * longest,
                    max_logprobs=-1,
                    logprobs_mode="raw_logits",
                    enable_prefix_caching=False,
                    disable_log_stats=True,
                )
            )
        return VllmExecutable(
            engine=engine,
            dtype=self.dtype,
            device=request.device,
            threads=request.threads,
            tokens=tokens,
            cache_bytes=batch * _BYTES[self.dtype] * numbers,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VllmExecutable(TokenEngine):
    """A running engine.

    Attributes:
        engine: a ``vllm.LLMEngine``.
        tokens: the most that a sequence gets.
        cache_bytes: size of keys and values of all sequences, without the pages' rounding up.
    """

    engine: Any
    dtype: str
    device: str
    threads: int
    tokens: int
    cache_bytes: int

    def program(self) -> Program:
        """Requests to the engine."""
        return VllmProgram(self)

    def facts(self) -> Mapping[str, Json]:
        """The engine's settings."""
        return {
            "dtype": self.dtype,
            "threads": self.threads,
            "provider": f"vLLM {self.device}",
            "device": self.device,
        }


@final
class VllmProgram(HostProgram):
    """Requests of one batch; keys and values stay in the engine."""

    def __init__(self, executable: VllmExecutable) -> None:
        self._executable = executable
        self._sequences: Any = None
        self._requests: dict[str, int] = {}
        self._whole = False
        self._started = 0

    def begin(self, *, whole: bool = False) -> None:
        """Abort all requests; read all scores from now on, or the likeliest token's alone."""
        self._abort()
        self._sequences, self._whole = None, whole

    def _abort(self) -> None:
        if self._requests:
            self._executable.engine.abort_request(list(self._requests))
        self._requests = {}

    def kept_bytes(self) -> int:
        """Size of keys and values."""
        return self._executable.cache_bytes

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Tokens as they are; the engine counts positions itself."""
        return {IDS: arrays[IDS]} if IDS in arrays else {}

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """Scores after the last token of each sequence.

        Unless all are read, the likeliest token alone has one, so that no other is copied.
        """
        import numpy as np

        ids: Any = inputs[IDS]
        if self._sequences is None:
            self._start(ids)
        else:
            follows = np.array_equal(ids[:, 0], self._chosen)
            self._sequences = np.concatenate([self._sequences, ids], axis=1)
            if not follows:
                self._start(self._sequences)
        return (self._step(),)

    def _start(self, sequences: Any) -> None:
        """Request the next tokens of these sequences, in place of all others."""
        from vllm import SamplingParams

        self._abort()
        self._sequences = sequences
        params = SamplingParams(
            temperature=0.0,
            max_tokens=self._executable.tokens,
            ignore_eos=True,
            detokenize=False,
            logprobs=-1 if self._whole else None,
        )
        for row, tokens in enumerate(sequences.tolist()):
            self._started += 1
            name = str(self._started)
            self._requests[name] = row
            self._executable.engine.add_request(name, {"prompt_token_ids": tokens}, params)

    def _step(self) -> Array:
        """Let the engine run until each sequence has its next token."""
        import numpy as np

        engine = self._executable.engine
        width = engine.model_config.get_vocab_size()
        scores = np.full((len(self._requests), width), -np.inf, dtype=np.float32)
        self._chosen = np.full(len(self._requests), -1)
        while (self._chosen < 0).any():
            for output in engine.step():
                row, (found,) = self._requests[output.request_id], output.outputs
                token = found.token_ids[-1]
                self._chosen[row] = token
                scores[row, token] = 0
                if self._whole:
                    pairs = found.logprobs[-1].items()
                    scores[row, [key for key, _ in pairs]] = [each.logprob for _, each in pairs]
        return scores

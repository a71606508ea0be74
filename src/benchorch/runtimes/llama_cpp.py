"""llama.cpp on the processor, through the C interface of llama-cpp-python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays
from benchorch.errors import MeasureError
from benchorch.frameworks.token_engine import HostProgram, TokenEngine, cache_size
from benchorch.interfaces.conversion import HALF_PRECISION_RATIOS, SAME_ARITHMETIC_RATIO
from benchorch.interfaces.generation import IDS, POSITIONS
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

_MODEL_FILE = "model.gguf"
_CACHE_TYPES = {"float32": (0, 4), "float16": (1, 2)}  # GGML_TYPE_F32, GGML_TYPE_F16; bytes
_CELLS = 256  # llama.cpp gives each sequence a multiple of so many tokens


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCpp(Runtime):
    """llama.cpp context in which each prompt of the batch is a sequence.

    Args:
        cache: the type of keys and values; llama.cpp's own default is float16.
        flash_attention: fused attention, as llama.cpp's own default; it rounds to float16.
    """

    generates = True
    consumes = (Format.GGUF,)
    requires = ("llama-cpp-python", "numpy")
    not_on_gpu = "llama.cpp is called on the processor alone here"  # as PyPI's is built

    cache: Literal["float32", "float16"] = "float32"
    flash_attention: bool = False

    @property
    def tolerance_ratio(self) -> float:
        """Error of float16 where keys and values or their products are rounded to it."""
        rounded = self.flash_attention or self.cache == "float16"
        return HALF_PRECISION_RATIOS["float16"] if rounded else SAME_ARITHMETIC_RATIO

    def cohabits(self, device: str, threads: int) -> bool:
        """True with one thread only: the thread pool spins between calls."""
        return threads == 1

    def load(self, request: LoadRequest) -> Executable:
        """A model and a context that holds the whole batch."""
        batch, prompt = request.example.arrays[IDS].shape
        tokens, numbers = cache_size(request.example)
        kind, size = _CACHE_TYPES[self.cache]
        lib, _ = _loaded()
        path = request.sources[Format.GGUF] / _MODEL_FILE
        options = lib.llama_model_default_params()
        options.n_gpu_layers = 0
        model = lib.llama_model_load_from_file(str(path).encode(), options)
        if not model:
            raise MeasureError("llama.cpp cannot load the model.", kind="load")
        settings = lib.llama_context_default_params()
        settings.n_ctx = batch * -(-tokens // _CELLS) * _CELLS
        settings.n_seq_max, settings.n_batch = batch, batch * max(prompt, tokens)
        settings.n_threads = settings.n_threads_batch = request.threads
        settings.flash_attn_type = -1 if self.flash_attention else 0  # LLAMA_FLASH_ATTN_TYPE_AUTO
        settings.type_k = settings.type_v = kind
        context = lib.llama_init_from_model(model, settings)
        if not context:
            lib.llama_model_free(model)
            raise MeasureError("llama.cpp cannot make a context for the batch.", kind="load")
        return LlamaExecutable(
            lib=lib,
            model=model,
            context=context,
            threads=request.threads,
            cache=self.cache,
            cache_bytes=batch * size * numbers,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaExecutable(TokenEngine):
    """A model and its context.

    Attributes:
        lib: the C functions.
        cache: the type of keys and values.
        cache_bytes: size of keys and values of all sequences, without llama.cpp's rounding up.
    """

    lib: Any
    model: Any
    context: Any
    threads: int
    cache: str
    cache_bytes: int

    def program(self) -> LlamaProgram:
        """Calls on the context."""
        return LlamaProgram(executable=self)

    def facts(self) -> Mapping[str, Json]:
        """Settings, and what of the processor llama.cpp was built for."""
        return {
            "dtype": "float32",
            "threads": self.threads,
            "provider": "llama.cpp CPU",
            "device": "cpu",
            "cache_dtype": self.cache,
            "built_for": self.lib.llama_print_system_info().decode().strip(),
        }

    def close(self) -> None:
        """Free context and model."""
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaProgram(HostProgram):
    """Tokens go in and scores come out; keys and values stay in the context."""

    executable: LlamaExecutable
    _batches: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def begin(self, *, whole: bool = False) -> None:
        """Forget all sequences."""
        lib = self.executable.lib
        lib.llama_memory_clear(lib.llama_get_memory(self.executable.context), False)

    def kept_bytes(self) -> int:
        """Size of keys and values."""
        return self.executable.cache_bytes

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Tokens and positions in llama.cpp's own type."""
        found = ((name, arrays[name]) for name in (IDS, POSITIONS) if name in arrays)
        return {name: array.astype("int32", order="C") for name, array in found}

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """Scores after the last token of each sequence."""
        import numpy as np

        lib, context = self.executable.lib, self.executable.context
        ids: Any = inputs[IDS]
        count, length = ids.shape
        batch, tokens, positions = self._batches.get(ids.shape) or self._batch(ids.shape)
        tokens[:], positions[:] = ids.ravel(), inputs[POSITIONS].ravel()  # type: ignore[attr-defined]
        status = lib.llama_decode(context, batch)
        if status:
            raise MeasureError(f"llama.cpp failed to decode (status {status}).", kind="decode")
        width = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.executable.model))
        last = range(length - 1, count * length, length)
        rows = [
            np.ctypeslib.as_array(lib.llama_get_logits_ith(context, at), (width,)) for at in last
        ]
        return (np.stack(rows),)

    def _batch(self, shape: tuple[int, int]) -> Any:
        """A batch for so many sequences and tokens, and views of its tokens and positions."""
        import numpy as np

        size = shape[0] * shape[1]
        batch = self.executable.lib.llama_batch_init(size, 0, 1)
        batch.n_tokens = size
        for at in range(size):
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, at // shape[1]
            batch.logits[at] = (at + 1) % shape[1] == 0
        views = [np.ctypeslib.as_array(each, (size,)) for each in (batch.token, batch.pos)]
        self._batches[shape] = (batch, *views)
        return self._batches[shape]


@cache
def _loaded() -> tuple[Any, object]:
    """llama.cpp's functions, and the log that it calls as long as it is loaded."""
    import llama_cpp

    silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silence, None)
    llama_cpp.llama_backend_init()
    return llama_cpp, silence

"""The loop that generates tokens, the same for every runtime."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from benchorch.config.decoder import Decoder
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.codec import Json
from benchorch.domain.result import ModelCounts
from benchorch.domain.tensors import TensorSpec
from benchorch.errors import MeasureError
from benchorch.interfaces.generation import (
    CONTINUATION,
    CROSS,
    IDS,
    NEW,
    PAST,
    POSITIONS,
    PROMPT,
    SOURCE,
    Program,
    TokenCall,
)
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.interfaces.scenario import Sampling, likeliest

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Arrays = Mapping[str, Array]

SCORES = "logits"
"""Name of what is compared: the scores of each generated position."""

# So many scores are compared for each input; of a longer generation, its beginning.
_MOST_COMPARED = 16 * 2**20


def with_cache(setup: TrialSetup, cache: Sequence[TensorSpec]) -> TrialSetup:
    """The setup whose examples have the tensors of the model's cache; unchanged without any."""
    if not cache or not isinstance(setup.model, Decoder):
        return setup
    specs = [_fixed(spec, setup) for spec in cache] if setup.has_fixed_cache() else cache
    return replace(setup, model=setup.model.with_cache(tuple(specs)))


def _fixed(spec: TensorSpec, setup: TrialSetup) -> TensorSpec:
    tokens = setup.sequence_tokens
    return replace(spec, shape=tuple(tokens if size == PAST else size for size in spec.shape))


def cache_of(setup: TrialSetup, module: torch.nn.Module) -> tuple[TensorSpec, ...]:
    """The tensors of a decoder's cache; empty for other models."""
    return cast(Any, module).cache_specs() if setup.generates else ()


def load_executable(setup: TrialSetup, runtime: Runtime, request: LoadRequest) -> Executable:
    """A loaded artifact whose calls are the scenario's: of the model, or whole generations."""
    loaded = runtime.load(request)
    sampling = setup.scenario.sampling
    if sampling is None:
        return loaded
    program = loaded.program()
    if program is None:
        loaded.close()
        raise MeasureError(
            f"{type(runtime).__name__} has no calls that pass a cache from one token to the next.",
            kind="no_generation",
        )
    return GeneratingExecutable(
        loaded=loaded,
        feeding=program,
        clock=setup.hardware.clock(),
        choose=sampling,
        sources=cast(Decoder, setup.model).sources,
        cache=_cache_in(request.example.specs),
        symbols={name: setup.workload.symbols[name] for name in setup.model.symbols},
        example=request.example.arrays,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratingExecutable(Executable):
    """An artifact whose calls generate tokens.

    Attributes:
        loaded: the artifact, one step a call.
        feeding: its calls that feed each other.
        choose: the next token of each sequence by its scores.
        sources: names of the inputs of its encoder; empty without one.
        cache: the tensors of its cache.
        symbols: of the workload.
        example: inputs of one generation.
    """

    loaded: Executable
    feeding: Program
    clock: Clock
    choose: Sampling
    sources: tuple[str, ...]
    cache: tuple[TensorSpec, ...]
    symbols: Mapping[str, int]
    example: Arrays

    @property
    def artifact(self) -> Executable:
        """Executable with one step per call."""
        return self.loaded

    @property
    def steps_per_call(self) -> int:
        """One for each new token, and the encoder's."""
        return self.symbols[NEW] + (1 if self.sources else 0)

    def bind(self, arrays: Arrays) -> TokenCall:
        """A call that generates all new tokens of these prompts."""
        steps = self._steps(arrays, self.symbols[NEW])
        steps.whole = self.choose is not likeliest
        return Generation(
            steps=steps,
            choose=self.choose,
            now_ns=self.clock.now_ns,
        )

    def _steps(self, arrays: Arrays, count: int) -> GenerationSteps:
        ids = arrays[IDS]
        own = [spec for spec in self.cache if not spec.name.startswith(CROSS)]
        cross = [spec for spec in self.cache if spec.name.startswith(CROSS)]
        positions = _positions(len(ids), ids.shape[1], count)
        place, sources = self.feeding.place, {name: arrays[name] for name in self.sources}
        silent = place(_nobody(sources))
        first = {IDS: ids, POSITIONS: positions[0], **self._empty(own, len(ids))}
        encoded = {**sources, **_nobody({IDS: ids, POSITIONS: positions[0]})}
        return GenerationSteps(
            program=self.feeding,
            encode=place({**encoded, **self._empty(self.cache, 0)}) if sources else None,
            first={**place(first), **silent},
            later=[{**place({POSITIONS: each}), **silent} for each in positions[1:]],
            cache=tuple(spec.name for spec in own),
            cross=tuple(spec.name for spec in cross),
        )

    def _empty(self, specs: Sequence[TensorSpec], batch: int) -> Arrays:
        return _zeros(specs, {**self.symbols, "batch_size": batch, PAST: 0})

    def calling(self) -> AbstractContextManager[object]:
        """The artifact's own context."""
        return self.loaded.calling()

    def outputs(self, raw: object) -> Arrays:
        """The tokens, shape (batch_size, new_tokens)."""
        return {"0": cast("Array", raw)}

    def answer(self, arrays: Arrays) -> Arrays:
        """Scores of every generated position, shape (batch_size, tokens, vocabulary).

        Each position follows the likeliest token of the one before, or ``continuation``'s where
        `arrays` has one. Of a long generation only the first tokens are compared.
        """
        import numpy as np

        steps = self._steps(arrays, self.symbols[NEW])
        steps.whole = True
        forced = arrays.get(CONTINUATION)
        scores: list[Array] = []
        most = self.symbols[NEW]
        with self.loaded.calling():
            for number in range(self.symbols[NEW]):
                token = None
                if number:
                    last = scores[-1].argmax(axis=-1) if forced is None else forced[:, number - 1]
                    token = np.ascontiguousarray(last[:, None], dtype=np.int64)
                scores.append(np.array(steps.scores(number, token)))
                most = min(most, max(1, _MOST_COMPARED // scores[0].size))
                if len(scores) == most:
                    break
        return {SCORES: np.stack(scores, axis=1)}

    def facts(self) -> Mapping[str, Json]:
        """The artifact's, and what its cache takes."""
        return {**self.loaded.facts(), **self._generated()}

    def settings(self) -> Mapping[str, Json]:
        """The artifact's, and what its cache takes."""
        return {**self.loaded.settings(), **self._generated()}

    def _generated(self) -> dict[str, Json]:
        """Memory of the cache after one step of the first prompts."""
        steps, (batch, started) = self._steps(self.example, 1), self.example[IDS].shape
        with self.loaded.calling():
            steps.scores(0, None)
        tokens = started if self._grows else started + self.symbols[NEW]
        held = self.feeding.kept_bytes() + sum(map(self.feeding.size_bytes, steps.held()))
        prompt: dict[str, Json] = {PROMPT: self.symbols[PROMPT]} if PROMPT in self.symbols else {}
        return {
            "cache": "dynamic" if self._grows else "static",
            "kv_cache_bytes_per_token": round(held / (batch * tokens)),
            NEW: self.symbols[NEW],
            **prompt,
        }

    @property
    def _grows(self) -> bool:
        return any(PAST in spec.shape for spec in self.cache)

    def own_profile(self) -> Path | None:
        """The artifact's own."""
        return self.loaded.own_profile()

    def close(self) -> None:
        """Close the artifact."""
        self.loaded.close()


@dataclass(slots=True, kw_only=True)
class GenerationSteps:
    """The steps of one generation, each on the cache that the one before it left.

    Attributes:
        encode: inputs of a call of the encoder alone; None without one.
        first: inputs of the prefill.
        later: positions of each further step.
        cache: names of the decoder's own cache's tensors.
        cross: names of the keys and values of the encoder's output.
        whole: whether all scores are read, as they are to be compared.
    """

    program: Program
    encode: Mapping[str, object] | None
    first: Mapping[str, object]
    later: Sequence[Mapping[str, object]]
    cache: tuple[str, ...]
    cross: tuple[str, ...]
    whole: bool = False
    _past: Mapping[str, object] = field(default_factory=dict)
    _source: Mapping[str, object] = field(default_factory=dict)

    def scores(self, number: int, token: Array | None) -> Array:
        """Scores of that step, from 0, shape (batch_size, vocabulary), on the host.

        Args:
            token: the last one chosen, shape (batch_size, 1), int64; None for the first step.
        """
        if token is None:
            self.program.begin(whole=self.whole)
            self._past = {name: self.first[name] for name in self.cache if name in self.first}
            self._source = self._encoded()
            inputs = {**self.first, **self._source}
        else:
            placed = self.program.place({IDS: token})
            inputs = {**placed, **self.later[number - 1], **self._past, **self._source}
        logits, *present = self.program.call(inputs)
        if grown := present[: len(present) - len(self.cross)]:
            self._past = dict(zip(self.cache, grown, strict=True))
        return self.program.fetch(logits)

    def _encoded(self) -> Mapping[str, object]:
        if self.encode is None:
            return {}
        made = self.program.call(self.encode)[-len(self.cross) :]
        return dict(zip(self.cross, made, strict=True))

    def held(self) -> Sequence[object]:
        """The tensors of the cache."""
        return list(self._past.values())


@final
class Generation(TokenCall):
    """Generation of one batch of prompts.

    Args:
        now_ns: the clock's time.
    """

    def __init__(
        self, *, steps: GenerationSteps, choose: Sampling, now_ns: Callable[[], int]
    ) -> None:
        self._steps = steps
        self._choose = choose
        self._now_ns = now_ns
        self._count = len(steps.later) + 1
        self._times = array("q")

    def __call__(self) -> Array:
        """All tokens, shape (batch_size, new_tokens); the time of each is noted."""
        import numpy as np

        times, now_ns, scores, choose = (
            self._times,
            self._now_ns,
            self._steps.scores,
            self._choose,
        )
        times.append(now_ns())
        token = None
        tokens = []
        for number in range(self._count):
            chosen = choose(scores(number, token), number)
            times.append(now_ns())
            token = np.asarray(chosen, dtype=np.int64)[:, None]
            tokens.append(token)
        return np.concatenate(tokens, axis=1)

    def take_times(self) -> list[tuple[int, ...]]:
        """Start and tokens of each call since the last request."""
        width = self._count + 1
        times, self._times = self._times, array("q")
        return [tuple(times[at : at + width]) for at in range(0, len(times), width)]


def _zeros(specs: Sequence[TensorSpec], symbols: Mapping[str, int]) -> dict[str, Array]:
    import numpy as np

    return {
        spec.name: np.zeros(
            spec.resolve(symbols), dtype="float32" if spec.dtype == "bfloat16" else spec.dtype
        )
        for spec in specs
    }


def _nobody(arrays: Arrays) -> dict[str, Array]:
    """The same inputs of an empty batch."""
    return {name: array[:0] for name, array in arrays.items()}


def _cache_in(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs of a step that are its cache."""
    inputs = (IDS, POSITIONS)
    return tuple(s for s in specs if s.name not in inputs and not s.name.startswith(SOURCE))


def _positions(batch: int, prompt: int, count: int) -> list[Array]:
    """Positions of each step's tokens: of the prompt, then of one token after the other."""
    import numpy as np

    places = [range(prompt), *(range(at, at + 1) for at in range(prompt, prompt + count - 1))]
    return [np.tile(np.asarray(each, dtype=np.int64), (batch, 1)) for each in places]


def continued(one: Arrays, reference: Arrays) -> Arrays:
    """The prompts with what follows: a text's own tokens, or those the baseline found likeliest."""
    if CONTINUATION in one:
        return one
    return {**one, CONTINUATION: reference[SCORES].argmax(axis=-1)}


def count_generation(
    module: torch.nn.Module,
    setup: TrialSetup,
    count: Callable[[torch.nn.Module, Any], ModelCounts],
) -> ModelCounts:
    """The model's size, and the work of a whole generation.

    Work of a step grows evenly with what is cached, so all further steps together are as many of
    the middle one.
    """
    example = setup.example(setup.workload.seed)
    symbols = setup.workload.symbols
    cache = _cache_in(example.specs)
    ids, positions = example.arrays[IDS], example.arrays[POSITIONS]
    sources = {name: example.arrays[name] for name in cast(Decoder, setup.model).sources}
    later, started = symbols[NEW] - 1, ids.shape[1]
    middle = started + later // 2

    def counted(tokens: int, past: int) -> ModelCounts:
        held = _zeros(cache, {**symbols, PAST: past})
        places = positions[:, :tokens] + past
        encoded = _nobody(sources) if past else sources
        arrays = {**encoded, IDS: ids[:, :tokens], POSITIONS: places, **held}
        return count(module, replace(example, arrays=arrays))

    prefill, step = counted(started, 0), counted(1, middle)
    if prefill.macs is None or step.macs is None or prefill.flops is None or step.flops is None:
        return prefill
    return replace(
        prefill,
        macs=prefill.macs + later * step.macs,
        flops=prefill.flops + later * step.flops,
    )

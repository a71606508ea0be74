"""vLLM as a runtime, on a stand-in with the signatures of its documentation.

Source: docs.vllm.ai, "LLMEngine", "Engine Arguments", "SamplingParams" and "CompletionOutput". The
stand-in runs the written folder with transformers and schedules as vLLM's V1 engine does: one token
of each running sequence, then as much of the waiting prompts as max_num_batched_tokens leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.unit.trial.test_generation import (
    BATCH,
    NEW,
    executable,
    module_of,
    prompts,
    reference,
    setup_of,
    whole_scores,
)

from benchorch.errors import BuildError
from benchorch.trial.generation import SCORES


@dataclass(kw_only=True)
class EngineArgs:
    model: str = "Qwen/Qwen3-0.6B"
    skip_tokenizer_init: bool = False
    dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int = 2 * BATCH  # vLLM's is 2048, and no small prompt exceeds it
    max_logprobs: int = 20
    logprobs_mode: str = "raw_logprobs"
    enable_prefix_caching: bool | None = None
    disable_log_stats: bool = False


@dataclass(kw_only=True)
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int | None = 16
    ignore_eos: bool = False
    detokenize: bool = True
    logprobs: int | None = None


@dataclass
class Logprob:
    logprob: float


@dataclass
class Request:
    prompt: list[int]
    params: SamplingParams
    prefilled: int = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] | None = None


class LLMEngine:
    """Running sequences first, then prompts, in pieces where they exceed what is left."""

    made: ClassVar[list[LLMEngine]] = []

    def __init__(self, args: EngineArgs) -> None:
        from transformers import AutoModelForCausalLM

        assert (args.skip_tokenizer_init, args.max_logprobs, args.logprobs_mode) == (
            *(True, -1),
            "raw_logits",
        )
        self.args, self.requests, self.steps = args, dict[str, Request](), 0
        self.model = AutoModelForCausalLM.from_pretrained(args.model, dtype=args.dtype).eval()
        words = self.model.config.vocab_size
        self.model_config = SimpleNamespace(get_vocab_size=lambda: words)
        self.made.append(self)

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> LLMEngine:
        return cls(engine_args)

    def add_request(
        self, request_id: str, prompt: Mapping[str, Any], params: SamplingParams
    ) -> None:
        assert params.temperature == 0
        assert params.ignore_eos
        assert not params.detokenize
        self.requests[request_id] = Request(list(prompt["prompt_token_ids"]), params)

    def abort_request(self, request_ids: list[str]) -> None:
        for each in request_ids:
            self.requests.pop(each, None)

    def step(self) -> list[Any]:
        self.steps += 1
        left, outputs = self.args.max_num_batched_tokens, []
        for name in sorted(self.requests, key=lambda each: not self.requests[each].tokens):
            one = self.requests[name]
            taken = min(left, len(one.prompt) - one.prefilled or 1)
            left, one.prefilled = left - taken, min(one.prefilled + taken, len(one.prompt))
            if taken and one.prefilled == len(one.prompt):
                self._decode(one)
                output = SimpleNamespace(token_ids=list(one.tokens), logprobs=one.logprobs)
                outputs.append(SimpleNamespace(request_id=name, outputs=[output]))
        return outputs

    def _decode(self, one: Request) -> None:
        with torch.no_grad():
            scores = self.model(torch.tensor([one.prompt + one.tokens])).logits[0, -1].float()
        one.tokens.append(int(scores.argmax()))
        if one.params.logprobs == -1:
            found = {token: Logprob(value) for token, value in enumerate(scores.tolist())}
            one.logprobs = [*(one.logprobs or []), found]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm")
    for each in (EngineArgs, SamplingParams, LLMEngine):
        setattr(module, each.__name__, each)
    monkeypatch.setitem(sys.modules, "vllm", module)
    for name in (
        *("VLLM_NO_USAGE_STATS", "VLLM_ENABLE_V1_MULTIPROCESSING"),
        *("VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS"),
    ):
        monkeypatch.setenv(name, "before")
    LLMEngine.made.clear()


@pytest.mark.parametrize("model", ["gpt2_tiny", "llama_tiny"])
def test_the_engine_generates_what_transformers_does(model: str, tmp_path: Path) -> None:
    with closing(executable(setup_of("vllm", model=model), module_of(model), tmp_path)) as it:
        arrays = prompts(model)
        tokens = it.outputs(it.bind(arrays)())["0"]
        assert np.array_equal(tokens, reference(model, arrays))
        (engine,) = LLMEngine.made
        before = engine.steps
        it.bind(arrays)()
        assert engine.steps - before == NEW  # no token is computed twice
        forced = np.arange(BATCH * NEW).reshape(BATCH, NEW)
        scores = it.answer({**arrays, "continuation": forced})[SCORES]
        whole = np.concatenate([arrays["input_ids"], forced[:, :-1]], axis=1)
        expected = whole_scores(model, arrays, whole)[:, arrays["input_ids"].shape[1] - 1 :]
        assert np.allclose(scores, expected, atol=1e-4)


def test_usage_is_not_reported_and_the_engine_stays_in_the_process(tmp_path: Path) -> None:
    import os

    with closing(executable(setup_of("vllm"), module_of("gpt2_tiny"), tmp_path)) as it:
        assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
        assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
        assert it.facts()["kv_cache_bytes_per_token"] == 2 * 2 * 2 * 64 * 4


def test_drawn_tokens_need_all_scores(tmp_path: Path) -> None:
    words = ("scenario.temperature=0.8",)
    drawn = []
    for name in ("eager", "vllm"):
        (tmp_path / name).mkdir()
        setup = setup_of(name, *words)
        with closing(executable(setup, module_of("gpt2_tiny"), tmp_path / name)) as it:
            drawn.append(it.outputs(it.bind(prompts("gpt2_tiny"))())["0"])
    assert np.array_equal(*drawn)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="t5 is not a decoder alone"):
        executable(setup_of("vllm", model="t5_tiny"), module_of("t5_tiny"), tmp_path)

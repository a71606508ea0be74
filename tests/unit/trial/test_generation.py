"""Generation through the parts of a trial, against what transformers itself generates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.errors import BuildError, ConfigError
from benchorch.interfaces.conversion import BuildRequest, ModuleStep
from benchorch.interfaces.runtime import LoadRequest
from benchorch.run.expand import SPEC_KEYS
from benchorch.trial.generation import (
    SCORES,
    cache_of,
    continued,
    count_generation,
    load_executable,
    with_cache,
)
from support.slices import only

PROMPT, NEW, BATCH = 5, 6, 2

SMALL = {
    **dict.fromkeys(("d_model", "max_target_positions"), 32),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **{"vocab_size": 128, "num_mel_bins": 8, "max_source_positions": 10},
    "tie_word_embeddings": "false",
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
}
WHISPER = [
    "model=whisper_tiny",
    *(f"++model.config.{key}={value}" for key, value in SMALL.items()),
    "model.inputs.input_features.shape=[batch_size, 8, 20]",
    "model.inputs.decoder_input_ids.low=3",
    "model.inputs.decoder_input_ids.high=4",
]


@cache
def setup_of(conversion: str, *words: str, model: str = "gpt2_tiny") -> TrialSetup:
    sizes = [f"workload.prompt_tokens={PROMPT}", f"workload.new_tokens={NEW}"]
    chosen = WHISPER if model == "whisper" else [f"model={model}"]
    base = [*chosen, f"conversion={conversion}", "scenario=generate", *sizes]
    composer = Composer(config_loader())
    (cell,) = composer.cells([*base, f"workload.batch_size={BATCH}", *words])
    return open_trial({key: cell.config[key] for key in SPEC_KEYS})


@cache
def module_of(model: str) -> Any:
    return setup_of("eager", model=model).model.load(0)


# One decoder and one encoder-decoder by default.
MODELS = only(["llama_tiny", "whisper"], ["gpt2_tiny", "llama_tiny", "t5_tiny", "whisper"])


@pytest.fixture(params=MODELS, scope="module")
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


BUILT: dict[str, Path] = {}
"""What the steps of a chain left for a model: an export takes 5 to 10 CPU seconds."""


def executable(
    setup: TrialSetup, module: Any, folder: Path, profile_dir: Path | None = None
) -> Any:
    """The conversion's artifact, built and loaded in this process."""
    setup = with_cache(setup, cache_of(setup, module))
    example, sources, chain = setup.example(0), {}, f"{id(module)} {setup.model!r}"
    for name, step in setup.steps:
        chain += repr(step)
        if isinstance(step, ModuleStep):
            module = step.transform(module, example)
            continue
        if chain in BUILT:
            sources = {**sources, type(step).produces: BUILT[chain]}
            continue
        out = folder / name
        out.mkdir()
        step.build(
            BuildRequest(
                module=lambda module=module: module,
                source=None,
                sources=sources,
                example=example,
                calibration=setup.calibration,
                out_dir=out,
                scratch_dir=folder,
                device="cpu",
                threads=1,
            )
        )
        sources = {**sources, type(step).produces: out}
        BUILT[chain] = out
    request = LoadRequest(
        module=lambda: module,
        source=None,
        sources=sources,
        example=example,
        device="cpu",
        threads=1,
        scratch_dir=folder,
        profile_dir=profile_dir,
    )
    return load_executable(setup, setup.runtime, request)


CONVERSIONS = {
    **dict.fromkeys(("eager", "eager_static_cache"), "torch"),
    "onnxruntime": "onnxruntime",
    **dict.fromkeys(("openvino", "openvino_stateful"), "openvino"),
    "onnxruntime_genai": "onnxruntime_genai",
    "llama_cpp": "llama_cpp",
}
"""What each needs."""
DECODERS_ALONE = ("openvino_stateful", "onnxruntime_genai", "llama_cpp")


@pytest.fixture(params=CONVERSIONS, scope="module")
def loaded(
    request: pytest.FixtureRequest, model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    if find_spec(CONVERSIONS[request.param]) is None:
        pytest.skip(f"{request.param} needs {CONVERSIONS[request.param]}")
    if request.param in DECODERS_ALONE and model in ("t5_tiny", "whisper"):
        pytest.skip(f"{request.param} refuses encoder-decoders")
    setup, folder = setup_of(request.param, model=model), tmp_path_factory.mktemp("loaded")
    with closing(executable(setup, module_of(model), folder)) as it:
        yield it


def prompts(model: str, seed: int = 0) -> Any:
    return setup_of("eager", model=model).example(seed).arrays


def reference(model: str, arrays: Any) -> Any:
    """What transformers generates."""
    if "source_input_ids" in arrays or "source_input_features" in arrays:
        return one_by_one(model, arrays)
    ids = torch.tensor(arrays["input_ids"])
    generated = module_of(model).model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        min_new_tokens=NEW,
        max_new_tokens=NEW,
        pad_token_id=0,
    )
    return generated[:, PROMPT:].numpy()


def whole_scores(model: str, arrays: Any, tokens: Any) -> Any:
    """Scores of every position by the transformers library, in one call without a cache."""
    sources = {
        name.removeprefix("source_"): torch.tensor(array)
        for name, array in arrays.items()
        if name.startswith("source_")
    }
    tokens = torch.tensor(tokens)
    given = {**sources, "decoder_input_ids": tokens} if sources else {"input_ids": tokens}
    with torch.no_grad():
        return module_of(model).model(**given).logits.numpy()


def one_by_one(model: str, arrays: Any) -> Any:
    """Greedy tokens, each from the whole sequence anew: no cache is involved."""
    tokens = arrays["input_ids"]
    for _ in range(NEW):
        scores = whole_scores(model, arrays, tokens)
        tokens = np.concatenate([tokens, scores[:, -1:].argmax(axis=-1)], axis=1)
    return tokens[:, -NEW:]


def test_every_conversion_generates_what_transformers_does(loaded: Any, model: str) -> None:
    for seed in (0, 1, 0):  # a static cache holds what the prompt before left
        arrays = prompts(model, seed)
        assert np.array_equal(loaded.bind(arrays)(), reference(model, arrays))


def test_each_call_notes_its_start_and_each_token(loaded: Any, model: str) -> None:
    call = loaded.bind(prompts(model))
    call()
    call()
    times = call.take_times()
    assert [len(each) for each in times] == [NEW + 1, NEW + 1]
    flat = [time for each in times for time in each]
    assert flat == sorted(flat)
    assert call.take_times() == []


def test_a_call_is_made_of_so_many_runs_of_the_artifact(model: str, tmp_path: Path) -> None:
    setup = setup_of("onnxruntime", model=model)
    with closing(executable(setup, module_of(model), tmp_path, profile_dir=tmp_path)) as it:
        call = it.bind(prompts(model))
        for _ in range(2):
            call()
        events = json.loads(it.own_profile().read_text())
    runs = [each for each in events if each["name"] == "model_run"]
    assert len(runs) == 2 * it.steps_per_call
    assert it.artifact.steps_per_call == 1


def test_facts_hold_the_size_of_the_cache(loaded: Any, model: str) -> None:
    layers, heads, size = {
        "gpt2_tiny": (2, 2, 64),
        "llama_tiny": (2, 2, 32),
        "t5_tiny": (2, 4, 32),
        "whisper": (2, 2, 16),
    }[model]
    assert loaded.facts()["kv_cache_bytes_per_token"] == layers * 2 * heads * size * 4


def test_scores_follow_a_given_continuation(loaded: Any, model: str) -> None:
    arrays = prompts(model)
    forced = np.arange(BATCH * NEW).reshape(BATCH, NEW)
    scores = loaded.answer({**arrays, "continuation": forced})[SCORES]
    whole = np.concatenate([arrays["input_ids"], forced[:, :-1]], axis=1)
    expected = whole_scores(model, arrays, whole)[:, arrays["input_ids"].shape[1] - 1 :]
    assert np.allclose(scores, expected, atol=3e-4)  # llama.cpp looks GELU up in a table


def test_a_continuation_is_what_the_baseline_found_likeliest() -> None:
    scores = np.eye(8)[[[4, 2, 7]]]
    assert continued({}, {SCORES: scores})["continuation"].tolist() == [[4, 2, 7]]
    text = np.array([[1, 1, 1]])
    assert continued({"continuation": text}, {SCORES: scores})["continuation"] is text


# Of Whisper the graph before the step that refuses is there: conversions above have built it.
@pytest.mark.parametrize(
    ("conversion", "package", "name", "said"),
    [
        ("openvino_stateful", "openvino", "whisper", "decoder alone"),
        ("onnxruntime_genai", "onnx", "whisper", "decoder alone"),
        ("llama_cpp", "gguf", "t5_tiny", "t5 has no GGUF form.*gpt2, llama, qwen2"),
    ],
)
def test_an_encoder_decoder_is_refused_by_what_serves_decoders_alone(
    conversion: str, package: str, name: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    with pytest.raises(BuildError, match=said) as refused:
        executable(setup_of(conversion, model=name), module_of(name), tmp_path)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("conversion", "most"), [("llama_cpp_q8_0", 0.03), ("llama_cpp_q4_0", 0.2)]
)
def test_fewer_bits_of_llama_cpp_cost_what_it_declares(
    conversion: str, most: float, tmp_path: Path
) -> None:
    pytest.importorskip("llama_cpp")
    arrays = {**prompts("llama_tiny"), "continuation": np.arange(BATCH * NEW).reshape(BATCH, NEW)}
    module = module_of("llama_tiny")
    scores = []
    for name in ("eager", conversion):
        (tmp_path / name).mkdir()
        with closing(executable(setup_of(name, model="llama_tiny"), module, tmp_path / name)) as it:
            scores.append(it.answer(arrays)[SCORES])
    error = np.linalg.norm(scores[1] - scores[0]) / np.linalg.norm(scores[0])
    assert 0 < error < most


def test_biases_and_rotations_of_qwen_are_those_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 128}
    words = [f"model.config.{key}={value}" for key, value in sizes.items()]
    words += ["model.config.num_attention_heads=4", "model.inputs.input_ids.high=128"]
    setup = setup_of("llama_cpp", *words, model="qwen_small")
    module, arrays = setup.model.load(0), setup.example(0).arrays
    for name, weight in module.named_parameters():
        if name.endswith("bias"):  # transformers begins with zeros
            torch.nn.init.normal_(weight)
    scores = []
    for name in ("eager", "llama_cpp"):
        (tmp_path / name).mkdir()
        one = setup_of(name, *words, model="qwen_small")
        with closing(executable(one, module, tmp_path / name)) as it:
            scores.append(it.answer(arrays)[SCORES])
    assert np.allclose(*scores, atol=1e-3)


def test_a_model_in_half_precision_generates_with_frequencies_in_float32(tmp_path: Path) -> None:
    setup = setup_of("eager", model="llama_tiny")
    module = setup.model.load(0)
    frequencies = {name: each for name, each in module.named_buffers() if "inv_freq" in name}
    module.bfloat16()
    for name, each in frequencies.items():  # as from_pretrained leaves them
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, each)
    assert frequencies
    with closing(executable(setup, module, tmp_path)) as it:
        assert it.bind(prompts("llama_tiny"))().shape == (BATCH, NEW)


def test_work_of_a_generation_is_that_of_all_its_steps() -> None:
    setup = setup_of("eager")
    module = module_of("gpt2_tiny")
    setup = with_cache(setup, cache_of(setup, module))
    seen = []

    def count(_: object, example: Any) -> Any:
        from benchorch.domain.result import ModelCounts

        tokens = example.arrays["input_ids"].shape[1]
        past = example.arrays["past_0_key"].shape[2]
        seen.append((tokens, past))
        return ModelCounts(parameters=1, parameter_bytes=4, macs=tokens, flops=2 * tokens)

    counts = count_generation(module, setup, count)
    assert seen == [(PROMPT, 0), (1, PROMPT + (NEW - 1) // 2)]
    assert (counts.macs, counts.flops) == (PROMPT + NEW - 1, 2 * (PROMPT + NEW - 1))


def test_a_model_without_a_cache_is_refused_when_it_is_planned() -> None:
    with pytest.raises(ConfigError, match="needs a language model"):
        setup_of("eager", model="bert_tiny")


def test_a_runtime_that_cannot_pass_a_cache_on_is_skipped_with_the_reason() -> None:
    assert "TorchScript" in str(setup_of("torchscript").unavailable)
    assert setup_of("onnxruntime").unavailable is None


def test_a_sequence_longer_than_the_model_was_built_for_is_refused() -> None:
    setup = setup_of("eager", "workload.prompt_tokens=1020")
    (problem,) = setup.model.problems(setup.workload)
    assert "1026 together" in problem


def test_prompts_of_a_fixed_size_need_a_workload_of_that_size() -> None:
    shape = f"model.inputs.input_ids.shape=[{BATCH}, 8]"
    setup = setup_of("eager", shape, "workload.prompt_tokens=8")
    assert setup.model.problems(setup.workload) == []
    setup = setup_of("eager", shape, "workload.batch_size=3")
    batch, prompt = setup.model.problems(setup.workload)
    assert batch.startswith(f"workload.batch_size: is 3, but model.inputs.input_ids has {BATCH}")
    assert prompt.endswith("set workload.prompt_tokens=8.")


def test_one_export_serves_all_lengths_and_a_fixed_cache_only_its_own() -> None:
    def key(conversion: str, *words: str) -> str:
        return setup_of(conversion, *words).key({}, 2, {}).digest

    longer = "workload.new_tokens=9"
    assert key("onnxruntime") == key("onnxruntime", longer)
    assert key("inductor_static_cache") != key("inductor_static_cache", longer)


def test_a_static_cache_needs_a_model_that_generates() -> None:
    setup = setup_of("eager_static_cache")
    step = setup.steps[0][1]
    assert isinstance(step, ModuleStep)
    with pytest.raises(BuildError, match="no cache"):
        step.transform(torch.nn.Linear(1, 1), replace(setup.example(0)))


@pytest.mark.parametrize(
    "conversion", ["eager_static_cache", "openvino_stateful", "onnxruntime_genai", "llama_cpp"]
)
def test_what_serves_generation_alone_is_skipped_elsewhere(conversion: str) -> None:
    composer = Composer(config_loader())
    (cell,) = composer.cells(["model=mlp", f"conversion={conversion}"])
    setup = open_trial({key: cell.config[key] for key in SPEC_KEYS})
    assert "use scenario=generate" in str(setup.unavailable)

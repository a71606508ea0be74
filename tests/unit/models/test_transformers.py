"""Models of the transformers library, tiny ones, through every way a module is taken apart."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.models.transformers import TransformersModel

WORKLOAD = Workload(symbols={"batch_size": 2, "seq_len": 8})
TEXT: dict[str, Json] = {
    "input_ids": {
        "shape": ["batch_size", "seq_len"],
        "dtype": "int64",
        "generator": "integers",
        "high": 50,
    },
    "attention_mask": {"shape": ["batch_size", "seq_len"], "dtype": "int64", "generator": "mask"},
}
BERT: dict[str, Json] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
GPT2: dict[str, Json] = {"vocab_size": 50, "n_embd": 16, "n_layer": 1, "n_head": 2}


def bert(**rest: object) -> TransformersModel:
    fields: dict[str, object] = {"architecture": "BertModel", "config": BERT, "inputs": TEXT}
    return TransformersModel(**{**fields, **rest})  # type: ignore[arg-type]


def gpt2(**rest: object) -> TransformersModel:
    return bert(**{"architecture": "GPT2LMHeadModel", "config": GPT2, **rest})


def call(model: TransformersModel) -> tuple[torch.nn.Module, Mapping[str, torch.Tensor]]:
    arrays = model.batch(WORKLOAD, 0)
    return model.load(0), {name: torch.from_numpy(array) for name, array in arrays.items()}


def same(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> None:
    torch.testing.assert_close(tuple(one), tuple(other), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated and says so, but is still served
@pytest.mark.parametrize("model", [bert(), gpt2()], ids=["bert", "gpt2"])
def test_every_way_to_trace_gives_the_same_tuple(model: TransformersModel) -> None:
    module, x = call(model)
    eager = module(**x)
    assert isinstance(eager, tuple)
    same(eager, torch.export.export(module, (), dict(x)).module()(**x))
    same(eager, torch.compile(module, backend="eager", fullgraph=True)(**x))
    same(eager, copy.deepcopy(module)(**x))
    same(eager, torch.jit.trace(module, example_kwarg_inputs=dict(x))(**x))


@pytest.mark.parametrize("model", [bert(), gpt2()], ids=["bert", "gpt2"])
def test_a_symbol_can_stay_open_in_an_export(model: TransformersModel) -> None:
    module, x = call(model)
    shapes = {name: {0: torch.export.Dim.DYNAMIC} for name in x}
    program = torch.export.export(module, (), dict(x), dynamic_shapes=shapes)
    more = {name: torch.cat([tensor, tensor]) for name, tensor in x.items()}
    same(module(**more), program.module()(**more))


def test_outputs_are_chosen_and_ordered_by_name() -> None:
    module, x = call(bert(outputs=("pooler_output", "last_hidden_state")))
    assert [tuple(tensor.shape) for tensor in module(**x)] == [(2, 16), (2, 8, 16)]
    module, x = call(bert(outputs=("last_hidden_state",)))
    assert len(module(**x)) == 1


def test_nested_outputs_are_flattened() -> None:
    module, x = call(bert(kwargs={"output_hidden_states": True}, outputs=("hidden_states",)))
    assert len(module(**x, output_hidden_states=True)) == 2


def test_an_unknown_output_is_told_with_those_that_exist() -> None:
    module, x = call(bert(outputs=("logits",)))
    with pytest.raises(ValueError, match="returns no logits; it returns last_hidden_state"):
        module(**x)


def test_one_call_carries_no_cache_to_a_next_one() -> None:
    module, x = call(gpt2())
    assert [tuple(tensor.shape) for tensor in module(**x)] == [(2, 8, 50)]


def test_weights_come_from_a_checkpoint_of_the_class_itself(tmp_path: Path) -> None:
    original = gpt2().load(9).model
    original.save_pretrained(tmp_path)  # leaves out the output layer, which is tied
    loaded = gpt2(checkpoint=str(tmp_path / "model.safetensors")).load(0).model
    expected = original.state_dict()
    assert all(torch.equal(expected[name], value) for name, value in loaded.state_dict().items())


def test_pretrained_weights_come_from_a_saved_folder(tmp_path: Path) -> None:
    original = bert().load(9).model
    original.save_pretrained(tmp_path)
    model = bert(pretrained=True, hub_id=str(tmp_path), config={})
    assert model.problems(WORKLOAD) == []
    expected = original.state_dict()
    loaded = model.load(0).model.state_dict()
    assert all(torch.equal(expected[name], value) for name, value in loaded.items())


CLIP: dict[str, Json] = {
    "model_type": "clip",
    "projection_dim": 4,
    "text_config": {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1},
    "vision_config": {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1},
}


class Evil:
    """Makes the marker when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.mkdir, (self.marker,)


def test_no_configuration_has_a_folders_pickles_unpickled(tmp_path: Path) -> None:
    """The settings of this architecture cannot be read from its files: any name passes for one."""
    marker = tmp_path / "marker"
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CLIP))
    torch.save({"x": Evil(marker)}, folder / "pytorch_model.bin")
    torch.load(folder / "pytorch_model.bin", weights_only=False)  # it does work
    marker.rmdir()
    more: dict[str, object] = {"architecture": "CLIPModel", "pretrained": True}
    config: dict[str, Json]
    for config in ({"weights_only": False}, {"config": {"weights_only": False}}, {}):
        with pytest.raises(BuildError):
            bert(**more, hub_id=str(folder), config=config).load(0)
        assert not marker.exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_saved_folder_names_no_code_of_the_hub(tmp_path: Path, key: str) -> None:
    bert().load(0).model.save_pretrained(tmp_path)
    saved = tmp_path / "config.json"
    saved.write_text(json.dumps({**json.loads(saved.read_text()), key: "evil/code"}))
    with pytest.raises(BuildError, match="'evil/code' would be code of the hub"):
        bert(pretrained=True, hub_id=str(tmp_path), config={}).load(0)


def test_a_part_of_a_saved_configuration_names_no_code_of_the_hub(tmp_path: Path) -> None:
    saved = {**CLIP, "attn_implementation": {"text_config": "evil/code"}}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    clip = bert(architecture="CLIPModel", pretrained=True, hub_id=str(tmp_path), config={})
    with pytest.raises(BuildError, match="'evil/code' would be code of the hub"):
        clip.load(0)


def test_a_saved_folders_settings_may_be_changed_and_others_are_refused(tmp_path: Path) -> None:
    bert().load(0).model.save_pretrained(tmp_path)
    folder = {"pretrained": True, "hub_id": str(tmp_path)}
    changed = bert(**folder, config={"attn_implementation": "eager", "hidden_dropout_prob": 0.5})
    config = changed.load(0).model.config
    assert (config._attn_implementation, config.hidden_dropout_prob) == ("eager", 0.5)
    with pytest.raises(BuildError, match="configuration has no nonsense"):
        bert(**folder, config={"nonsense": 1}).load(0)


@pytest.mark.parametrize(
    ("error", "kind", "remedy", "with_settings"),
    [
        (ImportError("\nrequires optimum"), "missing_package", "install the package", "install"),
        (RuntimeError("GPU is required"), "checkpoint", "", "drop the settings"),
        (OSError("no file"), "checkpoint", "with a connection", "with a connection"),
    ],
)
def test_the_remedy_of_a_folder_that_cannot_be_loaded_is_of_its_reason(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception,
    kind: str,
    remedy: str,
    with_settings: str,
) -> None:
    from transformers import BertModel

    def from_pretrained(*args: object, **options: object) -> None:
        raise error

    bert().load(0).model.save_pretrained(tmp_path)
    monkeypatch.setattr(BertModel, "from_pretrained", from_pretrained)
    settings: dict[str, Json] = {"hidden_dropout_prob": 0.5}
    for config, expected in (({}, remedy), (settings, with_settings)):
        with pytest.raises(BuildError) as caught:
            bert(pretrained=True, hub_id=str(tmp_path), config=config).load(0)
        assert str(caught.value).endswith(f"cannot be loaded: {str(error).strip()}")
        assert caught.value.kind == kind
        assert caught.value.remedy.startswith(expected)
        assert bool(caught.value.remedy) == bool(expected)


def test_pretrained_weights_that_are_not_all_there_are_refused(tmp_path: Path) -> None:
    bert().load(0).model.save_pretrained(tmp_path)
    deeper = bert(pretrained=True, hub_id=str(tmp_path), config={"num_hidden_layers": 2})
    with pytest.raises(BuildError, match="has no weights for") as caught:
        deeper.load(0)
    assert caught.value.kind == "checkpoint"


def test_a_hub_that_cannot_be_reached_is_a_failure_with_a_reason() -> None:
    with pytest.raises(BuildError, match="benchorch/nothing cannot be loaded") as caught:
        bert(pretrained=True, hub_id="benchorch/nothing").load(0)
    assert caught.value.kind == "checkpoint"
    assert caught.value.remedy.startswith("with a connection to the hub")


def test_nothing_is_fetched_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants
    from transformers import BertModel

    seen: list[bool] = []
    before = BertModel.__init__

    def spy(self: BertModel, *args: object, **kwargs: object) -> None:
        seen.append(constants.HF_HUB_OFFLINE)
        before(self, *args, **kwargs)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(BertModel, "__init__", spy)
    bert().load(0)
    assert seen == [True]
    assert constants.HF_HUB_OFFLINE is False


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"architecture": "BertModle"}, "has no model 'BertModle'. Did you mean 'BertModel'?"),
        ({"config": {"num_hiden_layers": 2}}, "Did you mean 'num_hidden_layers'?"),
        ({"pretrained": True}, "hub_id names no model"),
        ({"pretrained": True, "hub_id": "a", "checkpoint": "b"}, "at once"),
        ({"limits": {"seq_len": 4}}, "symbol 'seq_len' is 8, above the 4"),
        ({"kwargs": {"input_ids": 1}}, "is also an input tensor"),
        ({"config": {"weights_only": False}}, "model.config.weights_only: is of how files"),
        ({"config": {"_configuration_file": "x"}}, "is of how files are read"),
        ({"config": {"attn_implementation": "evil/code"}}, "'evil/code' would be code of the hub"),
        ({"config": {"attn_implementation": {"text": "evil/code:x"}}}, "would be code of the hub"),
    ],
)
def test_mistakes_are_told_without_importing_anything(
    changed: dict[str, object], sentence: str
) -> None:
    assert sentence in bert(**changed).problems(WORKLOAD)[0]


def test_an_input_that_forward_does_not_take_is_told() -> None:
    (problem,) = bert(inputs={"input_idz": TEXT["input_ids"]}).problems(WORKLOAD)
    assert "model.inputs.input_idz: this architecture has no such argument. Did you mean" in problem
    rows: dict[str, Json] = {"arguments": {"size": 4}, "tensors": {"input_ids": {"shape": [1, 8]}}}
    for source in ("factory", "datamodule"):
        problems = bert(inputs={source: "nowhere:Rows", **rows}).problems(WORKLOAD)
        assert not any("has no such argument" in problem for problem in problems)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"architecture": "BertConfig"}, "has no model class 'BertConfig'"),
        ({"config": {**BERT, "hidden_size": 15}}, "cannot be built from config"),
        ({"config": {**BERT, "hidden_size": "wide"}}, "cannot be built from config"),
    ],
)
def test_a_configuration_that_gives_no_model_is_a_build_failure(
    changed: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BuildError, match=sentence):
        bert(**changed).load(0)


def test_an_identity_holds_what_fixes_the_module() -> None:
    identity = bert().identity()
    assert identity == bert(inputs={}).identity()
    assert identity != bert(outputs=("pooler_output",)).identity()
    assert identity != bert(config={**BERT, "vocab_size": 51}).identity()
    assert identity is not None
    assert set(identity["packages"]) == {"torch", "transformers"}  # type: ignore[arg-type]


def test_hub_weights_are_identified_only_by_a_commit() -> None:
    hub = {"pretrained": True, "hub_id": "a/b"}
    assert bert(**hub).identity() is None
    assert bert(**hub, revision="main").identity() is None
    identity = bert(**hub, revision="0" * 40).identity()
    assert identity is not None
    assert identity["revision"] == "0" * 40


def test_a_folder_is_identified_by_loading_whatever_revision_is_named(tmp_path: Path) -> None:
    assert bert(pretrained=True, hub_id=str(tmp_path), revision="0" * 40).identity() is None


def test_pretrained_weights_keep_the_precision_that_they_were_saved_in(tmp_path: Path) -> None:
    bert().load(0).bfloat16().model.save_pretrained(tmp_path)
    module = bert(pretrained=True, hub_id=str(tmp_path), config={}).load(0)
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_checkpoint_decides_the_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.save(bert().load(1).model.to(dtype).state_dict(), tmp_path / "saved.pt")
    module = bert(checkpoint=str(tmp_path / "saved.pt")).load(0)
    assert {p.dtype for p in module.parameters()} == {dtype}

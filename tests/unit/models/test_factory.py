"""A user's own model, from a real file."""

from __future__ import annotations

import random
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.config.components import make
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError, ConfigError
from benchorch.frameworks.module_precision import in_workload_dtype, parameter_dtypes
from benchorch.frameworks.torch_call import module_in
from benchorch.interfaces.model import Model
from benchorch.models.factory import FactoryModel
from benchorch.models.weights import checkpoint_digest

WORKLOAD = Workload(symbols={"batch_size": 2})
INPUTS: dict[str, Json] = {"x": {"shape": ["batch_size", 4], "generator": "normal"}}
CODE = """
import random
import numpy as np
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4, scale=1.0):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)
        self.drop = torch.nn.Dropout()
        self.numbers = (random.random(), float(np.random.rand()))
        self.scale = scale

    def forward(self, x, double=False):
        return self.drop(self.layer(x)) * (2 if double else 1) * self.scale

class Open(torch.nn.Module):
    def forward(self, **tensors):
        return tensors["x"]

class Builtin(torch.nn.Module):
    forward = dict

def make_model(width=4): return Net(width)
class Silent(Net):
    def to(self, *args, **kwargs): super().to(*args, **kwargs)
    def train(self, mode=True): super().train(mode)
    def eval(self): super().eval()

def exported():
    program = torch.export.export(Net(), (), {"x": torch.ones(2, 4)})
    return program.module()
def compiled(): return torch.compile(Net())
def compiled_in_place():
    made = Net()
    made.layer.compile()
    made.compile()
    return made
def not_a_module(): return {"weights": 1}
def broken(): return helper()
def helper(): raise KeyError("no such layer")
def leaves(): raise SystemExit("bye")
def greedy(): raise MemoryError
def needs_more():
    import a_package_nobody_has
NOT_CALLABLE = 3
"""


@pytest.fixture(autouse=True)
def _users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "factory_models.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "factory_models", raising=False)


def model(name: str, **rest: object) -> FactoryModel:
    node = {"_target_": "benchorch.models.factory.FactoryModel", "inputs": INPUTS, **rest}
    made = make({**node, "factory": f"factory_models:{name}"}, Model, "model")
    assert isinstance(made, FactoryModel)
    return made


@pytest.mark.parametrize("name", ["make_model", "Net"])
def test_a_function_and_a_class_are_called_with_the_arguments(name: str) -> None:
    made = model(name, arguments={"width": 7})
    assert made.problems(WORKLOAD) == []
    module = made.load(0)
    assert module.layer.weight.shape == (7, 4)
    assert not module.training


@pytest.mark.parametrize("name", ["Silent", "exported"])
def test_a_module_whose_own_methods_return_nothing_or_refuse_is_served(name: str) -> None:
    module = in_workload_dtype(model(name).load(0), "float64")
    assert not any(part.training for part in module.modules())
    assert parameter_dtypes(module) == ("float64",)
    request: Any = SimpleNamespace(sources={}, module=lambda: module, device="cpu")
    assert module_in(request) is module


@pytest.mark.parametrize("name", ["compiled", "compiled_in_place"])
def test_a_compiled_module_is_loaded_as_it_was_before(name: str, tmp_path: Path) -> None:
    file = tmp_path / "w.pt"
    saved = {each: tensor + 1 for each, tensor in model("Net").load(0).state_dict().items()}
    torch.save(saved, file)
    module = model(name, checkpoint=str(file)).load(0)
    assert type(module).__name__ == "Net"
    assert not any(part._compiled_call_impl for part in module.modules())
    assert torch.equal(module.layer.weight, saved["layer.weight"])


def global_state() -> tuple[object, ...]:
    legacy = np.random.get_state()[1].tolist()  # noqa: NPY002 a user's code may draw from it
    return random.getstate(), legacy, torch.get_rng_state().tolist()


def test_everything_random_follows_the_seed_and_the_global_state_is_kept() -> None:
    state = global_state()
    first, again, other = (model("Net").load(seed) for seed in (5, 5, 6))
    assert first.numbers == again.numbers != other.numbers
    assert torch.equal(first.layer.weight, again.layer.weight)
    assert not torch.equal(first.layer.weight, other.layer.weight)
    assert global_state() == state


def test_only_loading_can_tell_what_a_factory_makes() -> None:
    assert model("Net").identity() is None


def test_plain_keywords_reach_forward() -> None:
    made = model("Net", kwargs={"double": True})
    module = made.load(0)
    x = torch.from_numpy(made.batch(WORKLOAD, 0)["x"])
    assert torch.equal(module(x, **made.keywords()), 2 * module(x))


def test_weights_can_come_from_a_checkpoint(tmp_path: Path) -> None:
    torch.save(model("Net").load(8).state_dict(), tmp_path / "weights.pt")
    loaded = model("Net", checkpoint=str(tmp_path / "weights.pt")).load(0)
    assert torch.equal(loaded.layer.weight, model("Net").load(8).layer.weight)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("not_a_module", "factory_models:not_a_module returned dict, not a torch.nn.Module"),
        ("broken", "factory_models:broken raised KeyError: 'no such layer'"),
        ("leaves", "raised SystemExit: bye"),
        ("needs_more", "raised ModuleNotFoundError: No module named 'a_package_nobody_has'"),
        ("NOT_CALLABLE", "cannot be called"),
    ],
)
def test_a_factory_that_fails_is_the_users_bug(name: str, sentence: str) -> None:
    with pytest.raises(BuildError) as caught:
        model(name).load(0)
    assert caught.value.kind == "user_code"
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "kwargs", "reason"),
    [
        ({"y": INPUTS["x"]}, {}, "missing a required argument: 'x'"),
        ({**INPUTS, "mask": INPUTS["x"]}, {}, "got an unexpected keyword argument 'mask'"),
        (INPUTS, {"triple": True}, "got an unexpected keyword argument 'triple'"),
    ],
)
def test_inputs_that_forward_does_not_take_are_told_with_its_signature(
    declared: dict[str, Json], kwargs: dict[str, Json], reason: str
) -> None:
    with pytest.raises(BuildError) as caught:
        model("Net", inputs=declared, kwargs=kwargs).load(0)
    assert caught.value.kind == "inputs"
    names = ", ".join([*declared, *kwargs])
    assert str(caught.value) == (
        f"the inputs {names} do not fit the module of factory_models:Net, whose forward is "
        f"forward(x, double=False): {reason}"
    )
    assert "model.inputs" in caught.value.remedy


@pytest.mark.parametrize("name", ["Builtin", "Open"])
def test_a_forward_that_tells_nothing_of_its_arguments_is_believed(name: str) -> None:
    model(name).load(0)


def test_the_users_traceback_is_kept_as_the_cause() -> None:
    with pytest.raises(BuildError) as caught:
        model("broken").load(0)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    frames = traceback.extract_tb(cause.__traceback__)
    assert [frame.name for frame in frames][-2:] == ["broken", "helper"]


def test_running_out_of_memory_is_not_the_users_bug() -> None:
    with pytest.raises(MemoryError):
        model("greedy").load(0)


def test_all_mistakes_are_told_at_once() -> None:
    made = model(
        "make_modl",
        inputs={"x": {"shape": ["n"], "generator": "normall"}},
        checkpoint="missing.pt",
        kwargs={"x": 1},
    )
    found = list(made.problems(WORKLOAD))
    assert len(found) == 5
    assert "Did you mean 'make_model'?" in found[0]


def test_a_factory_must_be_named() -> None:
    node = {"_target_": "benchorch.models.factory.FactoryModel", "factory": "???", "inputs": "???"}
    with pytest.raises(ConfigError) as caught:
        make(node, Model, "model")
    factory, inputs = sorted(caught.value.problems)
    assert factory.startswith("model.factory: is missing; set model.factory=")
    assert inputs.startswith("model.inputs: is missing; set model.inputs='{x: {shape: ")


GPT = """
from transformers import GPT2Config, GPT2LMHeadModel

def make():
    sizes = dict(vocab_size=50, bos_token_id=0, eos_token_id=49)
    return GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, **sizes))

def plain():
    import torch

    class Plain(torch.nn.Module):
        def forward(self, input_ids):
            return input_ids

    return Plain()
"""


def test_a_decoder_of_a_factory_generates_and_other_modules_do_not(tmp_path: Path) -> None:
    (tmp_path / "gpt.py").write_text(GPT)
    tokens: Json = {
        "input_ids": {
            **{"shape": ["batch_size", "seq_len"], "dtype": "int64"},
            **{"generator": "integers", "high": 50},
        }
    }
    made = FactoryModel(factory=f"{tmp_path}/gpt.py:make", inputs=tokens)
    assert made.prompt_symbol == "seq_len"
    names = [spec.name for spec in made.load_step(0).cache_specs()]
    assert names == ["past_0_key", "past_0_value"]
    other = FactoryModel(factory=f"{tmp_path}/gpt.py:plain", inputs=tokens)
    with pytest.raises(BuildError, match="no decoder of transformers"):
        other.load_step(0)
    features: Json = {"x": {"shape": ["batch_size", 4]}}
    assert FactoryModel(factory="mine:make", inputs=features).prompt_symbol is None


LEAVES = """
import os
import torch
HERE = os.path.dirname(os.path.abspath(__file__))

def build():
    os.chdir(HERE)
    return torch.nn.Linear(4, int(open("width.txt").read()))
"""


@pytest.mark.parametrize("code", [LEAVES, f"{LEAVES}\nos.chdir(HERE)\n"])
def test_names_of_a_trial_hold_although_its_model_changes_the_folder(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "leaves.py").write_text(code)
    (tmp_path / "sub" / "width.txt").write_text("3")
    torch.save(torch.nn.Linear(4, 3).state_dict(), tmp_path / "weights.pt")
    np.savez(tmp_path / "batch.npz", input=np.ones((2, 4), np.float32))
    monkeypatch.chdir(tmp_path)
    made = FactoryModel(
        factory="sub/leaves.py:build", checkpoint="weights.pt", inputs={"file": "batch.npz"}
    )
    for _ in range(2):  # a process loads some models twice
        assert made.load(0).weight.shape == (3, 4)
        assert Path.cwd() == tmp_path / "sub"  # where it may read more, later
    (make_it,) = made.makers()
    assert make_it.__name__ == "build"
    assert checkpoint_digest(made.checkpoint) is not None
    assert made.batch(WORKLOAD, 0)["input"].shape == (2, 4)


def test_a_folder_that_the_user_changes_to_is_where_names_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, width in (("first", 3), ("second", 5)):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "leaves.py").write_text(LEAVES)
        (tmp_path / name / "sub" / "width.txt").write_text(str(width))
    inputs: dict[str, Json] = {"input": {"shape": ["batch_size", 4], "generator": "normal"}}
    made = FactoryModel(factory="sub/leaves.py:build", inputs=inputs)
    monkeypatch.chdir(tmp_path / "first")
    assert made.load(0).out_features == 3
    monkeypatch.chdir(tmp_path / "second")
    assert made.load(0).out_features == 5

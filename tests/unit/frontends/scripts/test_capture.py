"""A script's modules are captured in the run that finds them, as the script calls them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.domain.codec import encode
from benchorch.domain.tensors import Workload
from benchorch.frontends.scripts.discover import Script
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, discover
from benchorch.frontends.scripts.model_configs import write_configs
from benchorch.models.exported import ExportedModel

SCRIPT = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = torch.nn.Linear(width, 3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, scale=2.0):
        return {"y": self.drop(self.layer(x)) * scale}

class Odd(Net):
    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x

net = Net()
net(torch.ones(2, 4), scale=3.0)
net(torch.ones(5, 4), scale=3.0)
drawn, training = torch.rand(1), net.training
half = Net().bfloat16()
half(torch.ones(2, 4, dtype=torch.bfloat16))
with torch.autocast("cpu", dtype=torch.bfloat16):
    Net(6)(torch.ones(2, 6))
odd = Odd(5)
odd(torch.ones(2, 5))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("captured")
    (place / "mine.py").write_text(SCRIPT)
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        patch.setattr(sys, "path", [*sys.path])
        request = DiscoveryRequest(script=place / "mine.py", folder=place / "kept", capture=True)
        reply = discover(request)
    assert reply.problem is None
    return {"labels": {"author": ["me"]}, **cast("dict[str, Any]", encode(reply))}


def call_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    (model,) = (model for model in found["models"] if model["name"] == name)
    return cast("dict[str, Any]", model["invocations"][0])


def answers(call: dict[str, Any]) -> list[Any]:
    import torch

    from benchorch.frameworks.torch_call import live_tensors, tensors_in

    model = ExportedModel(**call["model"])
    assert list(model.problems(Workload(symbols={}))) == []
    module = model.load(0)
    with torch.inference_mode():
        arrays = model.batch(Workload(symbols={}), 0)
        return tensors_in(module(**live_tensors(module, arrays, "cpu")))


def test_a_captured_module_answers_as_the_scripts_does_in_eval_mode(
    found: dict[str, Any],
) -> None:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 3)
    (answer,) = answers(call_of(found, "net"))
    torch.testing.assert_close(answer, layer(torch.ones(2, 4)).detach() * 3)


def test_capturing_changes_neither_the_scripts_random_numbers_nor_its_modes(
    place: Path, found: dict[str, Any]
) -> None:
    import runpy

    import torch

    main = sys.modules["__main__"]
    assert main.__dict__.get("drawn") is None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        alone = runpy.run_path(str(place / "mine.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", main)
        (place / "check.py").write_text(
            f"{SCRIPT}\nassert drawn.item() == {alone['drawn'].item()!r}\nassert training\n"
        )
        request = DiscoveryRequest(script=place / "check.py", folder=place / "kept", capture=True)
        assert discover(request).problem is None


@pytest.mark.parametrize("name", ["half", "Net"])
def test_precision_and_autocast_regions_stay_as_the_script_has_them(
    found: dict[str, Any], name: str
) -> None:
    import torch

    (answer,) = answers(call_of(found, name))
    assert answer.dtype is torch.bfloat16


def test_each_call_is_configured_by_how_it_was_captured(
    place: Path, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    assert "torch.export" in call_of(found, "odd")["not_exported"]
    written = write_configs(Script(path=place / "mine.py"), found)
    nodes = [yaml.safe_load(path.read_text()) for path in written.values()]
    assert {node["labels"]["model"]: node["_target_"].rpartition(".")[2] for node in nodes} == {
        "mine.py:net [2,4]": "ExportedModel",
        "mine.py:net [5,4]": "ExportedModel",
        "mine.py:half": "ExportedModel",
        "mine.py:Net": "ExportedModel",
        "mine.py:odd": "BundledModel",
    }
    assert {node["labels"]["author"] for node in nodes} == {"me"}
    assert {node["architecture"] for node in nodes} == {"Net", "Odd"}


DECODING = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache, StaticCache

sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
config = LlamaConfig(vocab_size=50, num_hidden_layers=2, num_key_value_heads=1, **sizes)
torch.manual_seed(0)
model = LlamaForCausalLM(config).eval()
ids = torch.tensor([[3, 7, 11, 5]])
for cache in (DynamicCache(config=config), StaticCache(config=config, max_cache_len=8)):
    for part in (ids[:, :3], ids[:, 3:]):
        with torch.no_grad():
            model(input_ids=part, past_key_values=cache, use_cache=True)
with torch.no_grad():
    whole = model(ids, use_cache=False)
"""


def test_a_captured_step_on_a_cache_answers_as_the_whole_text_does_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    (tmp_path / "decodes.py").write_text(DECODING)
    request = DiscoveryRequest(script=tmp_path / "decodes.py", folder=tmp_path, capture=True)
    reply = discover(request)
    assert reply.problem is None
    calls = cast("dict[str, Any]", encode(reply))["models"][0]["invocations"]
    _, dynamic, _, static, whole = calls
    (expected,) = answers(whole)
    for call in (dynamic, static):
        model = ExportedModel(**call["model"])
        module, arrays = model.load(0), model.batch(Workload(symbols={}), 0)
        given = {name: torch.tensor(array) for name, array in arrays.items()}
        for _ in range(2):  # a call leaves its inputs as they were
            logits, *cache = module(**given)
            torch.testing.assert_close(logits[0, 0], expected[0, -1], rtol=1e-4, atol=1e-5)
            assert len(cache) == 4


def test_results_that_differ_in_their_imaginary_parts_are_not_alike() -> None:
    import torch

    from benchorch.frontends.scripts.capture import alike

    one = torch.tensor([1 + 2j, 3 - 1j])
    assert alike(one, one.clone())
    assert not alike(one, one.conj())

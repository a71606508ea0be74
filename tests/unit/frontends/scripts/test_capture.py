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
from benchorch.models.bundled import BundledModel
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


IN_OBJECTS = """
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class Boxes:
    corners: torch.Tensor

class Instances:
    def __init__(self, boxes):
        self.fields, self.itself = {"boxes": boxes}, self

class Detector(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.scores, self.boxes = kind, nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        scores, boxes = self.scores(x), self.boxes(x)
        if self.kind == "bundled" and x.sum() < 0:
            return x
        if self.kind == "normal":
            return scores, torch.distributions.Normal(boxes, 1.0, validate_args=False)
        held = Instances(boxes) if self.kind == "object" else Boxes(boxes)
        return {"scores": scores, "boxes": held}

class Nothing(Detector):
    def forward(self, x):
        return {"words": str(self.scores(x))}

a_dataclass, an_object = Detector("dataclass"), Detector("object")
normal, bundled, nothing = Detector("normal"), Detector("bundled"), Nothing("")
for net in (a_dataclass, an_object, normal, bundled, nothing):
    net(torch.ones(2, 4))
"""


@pytest.fixture(scope="module")
def in_objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("in_objects")
    (place / "detects.py").write_text(IN_OBJECTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        request = DiscoveryRequest(script=place / "detects.py", folder=place / "kept", capture=True)
        reply = discover(request)
    assert reply.problem is None
    return cast("dict[str, Any]", encode(reply))


@pytest.mark.parametrize("name", ["a_dataclass", "an_object", "normal", "bundled"])
def test_a_conversion_that_is_wrong_in_an_object_alone_differs(
    in_objects: dict[str, Any], name: str
) -> None:
    import torch

    from benchorch.frameworks.torch_call import arrays_in
    from benchorch.results.parity.judge import parity

    node = call_of(in_objects, name)["model"]
    assert ("bundle" in node) is (name == "bundled")
    kind: Any = BundledModel if "bundle" in node else ExportedModel
    model = kind(**node)
    module, converted = model.load(0), model.load(0)
    with torch.inference_mode():
        for each, values in converted.named_parameters():
            if "boxes" in each:
                values.add_(1.0)
        given = torch.ones(2, 4)
        reference, wrong = (arrays_in(each(x=given)) for each in (module, converted))
    assert parity([reference], [reference], 1e-3).passed
    assert not parity([wrong], [reference], 1e-3).passed


def test_a_call_that_returns_no_tensor_is_not_benchmarked(in_objects: dict[str, Any]) -> None:
    call = call_of(in_objects, "nothing")
    assert call["obstacle"] == "it returns no tensor"
    assert "model" not in call


def models_of(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> dict[str, Any]:
    """What a script gives that is expected to end well."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    (folder / "calls.py").write_text(text)
    request = DiscoveryRequest(script=folder / "calls.py", folder=folder / "kept", capture=True)
    reply = discover(request)
    assert reply.problem is None
    return cast("dict[str, Any]", encode(reply))


PACKED = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(3, 4, batch_first=True)

    def forward(self, packed):
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]

reader = Reader()
reader(pack_padded_sequence(torch.ones(2, 5, 3), [5, 3], batch_first=True))
"""


def test_a_packed_sequence_is_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    call = call_of(models_of(tmp_path, monkeypatch, PACKED), "reader")
    assert [each["name"] for each in call["inputs"]] == ["packed_data", "packed_batch_sizes"]
    model = BundledModel(**call["model"])
    arrays = model.batch(Workload(symbols={}), 0)
    with torch.inference_mode():
        answer = model.load(0)(**{name: torch.tensor(each) for name, each in arrays.items()})
    assert answer.shape == (2, 5, 4)
    assert answer[0].abs().min() > 0
    assert answer[1, 3:].abs().max() == 0


FROZEN = """
import torch

net = torch.jit.freeze(torch.jit.script(torch.nn.Linear(4, 3).eval()))
net(torch.ones(2, 4))
"""


def test_a_frozen_module_which_has_no_mode_ends_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert models_of(tmp_path, monkeypatch, FROZEN)["left_out"] == ["RecursiveScriptModule"]


UNREADABLE = """
import weakref
import torch

class Gone:
    pass

class Odd:
    shape = 3

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, odd=None):
        return self.layer(x)

proxy, net = weakref.proxy(Gone()), Net()
rows = [torch.ones(2, 4), torch.ones(3, 4)]
for layout in (torch.strided, torch.strided, torch.jagged):
    net(torch.nested.nested_tensor(rows, layout=layout))
net(rows[0], odd=Odd())
"""


def test_what_cannot_be_read_of_a_call_is_its_obstacle_and_ends_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model,) = models_of(tmp_path, monkeypatch, UNREADABLE)["models"]
    found = [(call["calls"], call["obstacle"]) for call in model["invocations"]]
    assert found == [
        (3, "x is no dense tensor"),
        (1, "its arguments cannot be read: TypeError: 'int' object is not iterable"),
    ]

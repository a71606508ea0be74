"""Every model of conf/model keeps the promises of the interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchorch.config.components import make
from benchorch.domain.artifact import digest_of
from benchorch.domain.tensors import DTYPES, Workload
from benchorch.files import file_digest
from benchorch.interfaces.model import Model

FOLDER = Path(__file__).resolve().parents[2] / "conf" / "model"
SOURCE = Path(__file__).resolve().parents[2] / "src"
SCRIPT = Path(__file__).resolve().parents[1] / "data" / "scripts" / "good" / "top_level.py"
# Their weights and inputs are files that a live module left:
# tests/unit/frontends/api/test_benchmark.py and scripts/test_bundle.py make some.
NO_SEED = {"exported", "bundled"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in NO_SEED)
WORKLOAD = Workload(symbols={"batch_size": 2, "seq_len": 16})

TINY_FACTORY = """
import torch

def make_model(width=4):
    return torch.nn.Linear(width, 3)
"""

TINY_LIGHTNING = """
import lightning
import torch


class Tiny(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)
"""

# Overrides that keep a model's structure and make it small enough to be loaded again and again.
SMALLER: Mapping[str, Mapping[str, object]] = {
    "bert": {"config": {"num_hidden_layers": 1, "hidden_size": 24, "intermediate_size": 32}},
    "distilbert": {"config": {"n_layers": 1, "dim": 24, "hidden_dim": 32}},
    "gpt2": {"config": {"n_layer": 1, "n_embd": 24}},
    "hub": {
        "architecture": "GPT2LMHeadModel",
        "config": {"n_layer": 1, "n_embd": 24},
        "pretrained": False,
        "hub_id": None,
    },
    "llama_small": {"config": {"num_hidden_layers": 1, "hidden_size": 36, "intermediate_size": 32}},
    "qwen_small": {"config": {"num_hidden_layers": 1, "hidden_size": 28, "intermediate_size": 32}},
    "t5_small": {"config": {"num_layers": 1, "d_model": 24, "d_kv": 6, "d_ff": 8, "num_heads": 4}},
    "vit": {"config": {"num_hidden_layers": 1, "hidden_size": 24, "intermediate_size": 32}},
    "mlp": {"widths": [256, 8, 4]},
    "resnet18": {"inputs": {"x": {"shape": ["batch_size", 3, 32, 32], "generator": "normal"}}},
    "resnet50": {
        "depth": 18,
        "classes": 10,
        "inputs": {"x": {"shape": ["batch_size", 3, 32, 32], "generator": "normal"}},
    },
    "whisper_tiny": {
        "config": {
            **{"d_model": 24, "max_source_positions": 10},
            **dict.fromkeys(("encoder_layers", "decoder_layers"), 1),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 32),
        },
        "inputs": {
            "input_features": {"shape": ["batch_size", 80, 20], "generator": "normal"},
        },
    },
    "factory": {
        "factory": "contract_tiny_factory:make_model",
        "inputs": {"input": {"shape": ["batch_size", 4], "generator": "normal"}},
    },
    "lightning": {
        "module": "contract_tiny_lightning:Tiny",
        "inputs": {"x": {"shape": ["batch_size", 4], "generator": "normal"}},
    },
    "http": {
        "url": "http://127.0.0.1:8000/",
        "inputs": {"x": {"shape": ["batch_size", 4], "generator": "normal"}},
    },
    "estimator": {
        "estimator": "contract_tiny_factory:make_model",
        "inputs": {"X": {"shape": ["batch_size", 4], "generator": "normal"}},
    },
    "script": {
        "script": str(SCRIPT),
        "digest": file_digest(SCRIPT),
        "call": "cd181ac1",
        "inputs": {"x": {"shape": ["batch_size", 4], "generator": "normal"}},
    },
}


def node_of(name: str) -> dict[str, object]:
    node: dict[str, object] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    for key, value in SMALLER.get(name, {}).items():
        before = node[key]
        merge = isinstance(before, dict) and isinstance(value, dict)
        node[key] = {**before, **value} if merge else value
    return node


@pytest.fixture(scope="module")
def users_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("users_code")
    (folder / "contract_tiny_factory.py").write_text(TINY_FACTORY)
    (folder / "contract_tiny_lightning.py").write_text(TINY_LIGHTNING)
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(folder)
    yield folder
    patch.undo()


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, users_code: Path) -> Model:
    if request.param == "estimator":
        pytest.skip("needs a fitted estimator; unit/models/test_estimator.py has them")
    if request.param == "http":
        pytest.skip("needs a server; unit/models/test_http.py has one")
    return make(node_of(request.param), Model, "model")


def test_a_model_as_declared_has_no_problems(model: Model) -> None:
    assert list(model.problems(WORKLOAD)) == []


def test_specs_resolve_with_the_workloads_symbols(model: Model) -> None:
    specs = model.specs()
    assert specs
    for spec in specs:
        assert all(size > 0 for size in spec.resolve(WORKLOAD.symbols))
        assert spec.dtype in DTYPES


def test_a_batch_has_the_shapes_and_order_of_the_specs(model: Model) -> None:
    batch = model.batch(WORKLOAD, 0)
    assert list(batch) == [spec.name for spec in model.specs()]
    for spec in model.specs():
        assert batch[spec.name].shape == spec.resolve(WORKLOAD.symbols)


def test_floating_inputs_take_the_workloads_dtype(model: Model) -> None:
    half = Workload(symbols=WORKLOAD.symbols, dtype="float16")
    floats = [array for array in model.batch(half, 0).values() if array.dtype.kind == "f"]
    assert all(array.dtype == np.float16 for array in floats)


def test_a_seed_gives_the_same_batch_again_and_another_seed_another(model: Model) -> None:
    first, again, other = (model.batch(WORKLOAD, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_a_symbol_without_a_value_is_a_problem(model: Model) -> None:
    (problem,) = model.problems(Workload(symbols={"seq_len": 16}))
    assert "symbol 'batch_size' has no value" in problem


def test_an_identity_is_plain_data_and_stable(model: Model) -> None:
    identity = model.identity()
    if identity is not None:
        assert digest_of(identity) == digest_of(model.identity())


def test_weights_follow_the_seed_and_forward_takes_the_batch(model: Model) -> None:
    import torch

    before = torch.random.get_rng_state()
    first, again, other = (model.load(seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before), "the global state was disturbed"
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_loaded_module_is_ready_to_serve(model: Model) -> None:
    import torch

    module = model.load(0)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    arrays = model.batch(WORKLOAD, 0)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    by_name = module(**tensors, **model.keywords())
    by_place = module(*tensors.values(), **model.keywords())
    for one, other in zip(outputs(by_name), outputs(by_place), strict=True):
        assert torch.equal(one, other)
        assert torch.isfinite(one).all()


def outputs(answer: object) -> list[object]:
    found = list(answer) if isinstance(answer, tuple) else [answer]
    assert found
    return found


UNLOADED = """
import json, sys
from benchorch.config.components import make
from benchorch.domain.tensors import Workload
from benchorch.interfaces.model import Model

workload = Workload(symbols={"batch_size": 2, "seq_len": 16})
models = [make(node, Model, "model") for node in json.load(sys.stdin)]
for model in models:
    assert not model.problems(workload), model.problems(workload)
    model.specs(), model.identity(), model.keywords()
planned = sorted({"torch", "numpy", "transformers", "contract_tiny_factory"} & set(sys.modules))
for model in models:
    model.batch(workload, 0)
measured = sorted({"torch", "transformers"} & set(sys.modules))
print(json.dumps([planned, measured]))
"""


def test_only_load_imports_torch_and_only_batch_numpy(users_code: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", UNLOADED],
        input=json.dumps([node_of(name) for name in NAMES]),
        env={"PYTHONPATH": f"{users_code}:{SOURCE}", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(answer.stdout) == [[], []]

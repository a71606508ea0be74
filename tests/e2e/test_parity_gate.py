"""A conversion that computes something else is told where; a user's own metric can decide."""

import pytest

from support.slices import one_in

SMALL = ["model=mlp", "model.widths=[256,16,8]", "workload.batch_size=2", "recorder=none"]
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["profiler=none", "protocol.canary_tolerance_ratio=null", "executor=inline"]
STRICT = ["conversion=bf16", "conversion.tolerance_ratio=1e-6", "protocol.pairing=none"]
METRIC = """
import numpy as np

def agreement(outputs, references, inputs):
    assert inputs[0]["input"].shape == (2, 256)
    pairs = zip(outputs, references)
    return np.mean([y["0"].argmax(-1) == ref["0"].argmax(-1) for y, ref in pairs])
"""


@pytest.fixture
def metrics(place):
    (place.path / "my_metrics.py").write_text(METRIC)
    return place


def verdict(place, name, directory="out"):
    (result,) = [r for r in place.results(directory) if r["labels"]["conversion"] == name]
    assert result["outcome"] == "ok"
    return result["parity"]


@pytest.mark.slow
def test_the_first_module_beyond_the_tolerance_is_named(place):
    said = place.run(*STRICT, *SMALL, *FAST, "hydra.run.dir=out", code=1).stdout
    found = verdict(place, "bf16")
    assert not found["passed"]
    assert found["first_divergence"].startswith("After the module steps module '0' is the first")
    assert found["first_divergence"] in " ".join(said.split())


@pytest.mark.slow  # unit/trial/test_verify.py has the verdict
def test_a_users_metric_decides(metrics):
    gate = ["parity.metric=my_metrics:agreement", "parity.least_score=0.5"]
    metrics.run(*STRICT, *SMALL, *FAST, *gate, "hydra.run.dir=out")
    found = verdict(metrics, "bf16")
    assert found["passed"]
    assert found["score"] >= 0.5
    assert found["outputs"][0]["relative_l2_ratio"] > 1e-6


RINGS = """
import numpy as np
import torch

def points(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    angle, radius = rng.uniform(0, 2 * np.pi, count), 1 + labels + 0.25 * rng.standard_normal(count)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x.astype(np.float32), labels

def classifier():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 3))

def trained():
    module = classifier()
    module.load_state_dict(torch.load("rings.pt", weights_only=True))
    return module.eval()

def accuracy(outputs, references, inputs):
    right = [y["0"].argmax(-1) == one["labels"] for y, one in zip(outputs, inputs)]
    return np.mean(right)
"""


@pytest.fixture
def rings(place):
    """A classifier of three noisy rings, trained here, and 200 points that it has not seen."""
    import numpy as np
    import torch

    (place.path / "rings.py").write_text(RINGS)
    code = {}
    exec(RINGS, code)
    module, (x, labels) = code["classifier"](), code["points"](600, seed=0)
    x, labels = torch.tensor(x), torch.tensor(labels)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), labels).backward()
        optimizer.step()
    torch.save(module.state_dict(), place.path / "rings.pt")
    x, labels = code["points"](200, seed=1)
    np.savez(place.path / "rings.npz", input=x, labels=labels)
    return place


OF_RINGS = [
    *("model=factory", "model.factory=rings:trained", "workload.batch_size=50"),
    *(
        "model.inputs={input:{shape:[batch_size,2],generator:normal}}",
        "recorder=none",
        "protocol.pairing=none",
    ),
    *("conversion=dynamic_int8", "parity.metric=rings:accuracy", "hydra.run.dir=out"),
]


@pytest.mark.slow  # unit/trial/test_verify.py has the verdict
def test_an_accuracy_below_the_least_one_disqualifies(rings):
    asked = ["parity.data=rings.npz", "parity.least_score=0.999"]
    rings.run(*OF_RINGS, *FAST, *asked, code=1)
    found = verdict(rings, "dynamic_int8")
    assert (found["passed"], found["kind"]) == (False, "differs")
    assert "less than 0.999" in found["reasons"][0]


DIGITS = """
import numpy as np
import torch
from sklearn.datasets import load_digits

def split():
    '1797 handwritten digits of 8 x 8 pixels, every fifth held out.'
    digits = load_digits()
    x, labels = (digits.data / 16).astype(np.float32), digits.target
    held_out = np.arange(len(x)) % 5 == 0
    return (x[~held_out], labels[~held_out]), (x[held_out], labels[held_out])

def classifier():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)]
    return torch.nn.Sequential(*layers)

def trained():
    module = classifier()
    module.load_state_dict(torch.load("digits.pt", weights_only=True))
    return module

def held_out():
    x, labels = split()[1]
    return {"input": x, "label": labels}

def accuracy(outputs, references, inputs):
    right = [y["0"].argmax(-1) == one["label"] for y, one in zip(outputs, inputs)]
    return np.mean(right)

def train():
    module, ((x, labels), _) = classifier(), split()
    x, labels = torch.tensor(x), torch.tensor(labels)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), labels).backward()
        optimizer.step()
    torch.save(module.state_dict(), "digits.pt")
"""


@pytest.mark.slow
def test_int8_is_judged_by_its_accuracy_on_real_handwritten_digits(place, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(place.path)
    (place.path / "handwriting.py").write_text(DIGITS)
    code = {}
    exec(DIGITS, code)
    code["train"]()
    place.run(
        *("model=factory", "model.factory=handwriting:trained", "workload.batch_size=40"),
        "model.inputs={input:{shape:[batch_size,64],generator:normal}}",
        *("conversion=[dynamic_int8]", "recorder=none", "protocol.pairing=none", *FAST),
        *("parity.data=handwriting:held_out", "parity.metric=handwriting:accuracy"),
        *("parity.least_score=0.93", "hydra.run.dir=out"),
    )
    found = verdict(place, "dynamic_int8")
    assert found["passed"]
    assert 0.93 <= found["score"] < 1


RANDOM = """
import torch

class Noisy(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)
"""


def test_a_random_model_is_never_the_same_and_never_fastest(place):
    (place.path / "noisy.py").write_text(RANDOM)
    words = ["model=factory", "model.factory=noisy:Noisy", "recorder=none", "hydra.run.dir=out"]
    words += [
        "model.inputs={x:{shape:[4,8],generator:normal}}",
        "conversion=[eager,torchscript]",
        *FAST,
    ]
    said = place.run(*words, code=1).stdout
    assert "torch's random generator advanced" in " ".join(said.split())
    assert "fastest" not in said
    table = (place.path / "out" / "table.md").read_text()
    assert table.count("| not deterministic |") == 2
    assert "| yes" not in table
    for name in ("eager", "torchscript"):
        found = verdict(place, name)
        assert (found["passed"], found["kind"]) == (False, "not_deterministic")


DECODER = """
import torch

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.key = torch.nn.Linear(8, 8)

    def forward(self, x, kv):
        kv.copy_(torch.cat([self.key(x)[:, None], kv[:, :-1]], 1))
        return (x[:, None] * kv).sum(-1)
"""


@pytest.mark.slow  # unit/trial/test_written_inputs.py has the verdicts
def test_a_cache_that_stays_unwritten_is_another_model_unless_the_user_says_so(place):
    (place.path / "decoding.py").write_text(DECODER)
    words = ["model=factory", "model.factory=decoding:Decoder", "recorder=none", *FAST]
    words += ["conversion=[eager,onnxruntime]", "protocol.pairing=none"]
    words += ["model.inputs={x:{shape:[4,8]},kv:{shape:[4,3,8]}}"]
    said = place.run(*words, "hydra.run.dir=out", code=1).stdout
    found = verdict(place, "onnxruntime")
    assert (found["passed"], found["kind"]) == (False, "differs")
    assert "input kv" in found["reasons"][0]
    assert "parity.ignore_written_inputs=true" in " ".join(said.split())
    place.run(*words, "parity.ignore_written_inputs=true", "hydra.run.dir=accepted")
    found = verdict(place, "onnxruntime", "accepted")
    assert found["passed"]
    assert [*found["unwritten"]] == ["kv"]


@pytest.mark.parametrize(
    ("words", "said"),
    one_in(
        3,
        [
            (["parity.metric=my_metrics.agreement"], "Did you mean 'my_metrics:agreement'?"),
            (["parity.metric=my_metrics:agrees"], "agrees"),
            (["parity.metric=os:system"], "standard library"),
            (["parity.least_score=0.5"], "needs parity.metric"),
            (["parity.metrics=x"], "unknown"),
            (["parity.ignore_written_inputs=perhaps"], "expected true or false, got 'perhaps'"),
            (["parity.task=classfication"], "Did you mean 'classification'?"),
            (["parity.data=nowhere.npz"], "does not exist"),
            (["parity.data=nobody:data"], "nobody"),
        ],
    ),
)
def test_mistakes_are_told_before_anything_runs(metrics, words, said):
    assert said in metrics.run("plan", *SMALL, *words, code=2).stderr

"""A conversion that computes something else is told where; a user's own metric can decide."""

import pytest

SMALL = ["model=mlp", "model.widths=[256,16,8]", "workload.batch_size=2", "recorder=none"]
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["profiler=none"]
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


def verdict(place, name):
    (result,) = [r for r in place.results("out") if r["labels"]["conversion"] == name]
    assert result["outcome"] == "ok"
    return result["parity"]


@pytest.mark.slow
def test_the_first_module_beyond_the_tolerance_is_named(place):
    said = place.run(*STRICT, *SMALL, *FAST, "hydra.run.dir=out", code=1).stdout
    found = verdict(place, "bf16")
    assert not found["passed"]
    assert found["first_divergence"].startswith("After the module steps module '0' is the first")
    assert found["first_divergence"] in " ".join(said.split())


def test_a_users_metric_decides(metrics):
    gate = ["parity.metric=my_metrics:agreement", "parity.least_score=0.5"]
    metrics.run(*STRICT, *SMALL, *FAST, *gate, "hydra.run.dir=out")
    found = verdict(metrics, "bf16")
    assert found["passed"]
    assert found["score"] >= 0.5
    assert found["outputs"][0]["relative_l2_ratio"] > 1e-6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["parity.metric=my_metrics.agreement"], "Did you mean 'my_metrics:agreement'?"),
        (["parity.metric=my_metrics:agrees"], "agrees"),
        (["parity.metric=os:system"], "standard library"),
        (["parity.least_score=0.5"], "needs parity.metric"),
        (["parity.metrics=x"], "unknown"),
    ],
)
def test_mistakes_are_told_before_anything_runs(metrics, words, said):
    assert said in metrics.run("plan", *SMALL, *words, code=2).stderr

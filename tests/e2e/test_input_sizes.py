"""Inputs of several sizes: timed and compared where the workload or the inputs name them."""

import numpy as np
import pytest
import torch

import benchorch
from benchorch.errors import ConfigError
from benchorch.journal.reader import read_results

FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["profiler=none", "recorder=none", "protocol.pairing=none"]
FAST += ["protocol.canary_tolerance_ratio=null", "executor=inline"]
MODEL = """
import torch

class Scaled(torch.nn.Module):
    '''Something else for one length alone, which no tracer of another one meets.'''

    def forward(self, x):
        return x * (3.0 if x.shape[1] == {odd} else 2.0)

def made():
    return Scaled()
"""
X = "model.inputs={x:{shape:[batch_size,seq_len],generator:normal}}"
SIZES = ["workload.batch_size=4", "workload.seq_len=8"]


def run(place, odd, *words):
    (place.path / "scaled.py").write_text(MODEL.replace("{odd}", str(odd)))
    place.run(
        "model=factory", "model.factory=scaled:made", X, *SIZES, *FAST, *words,
        "hydra.run.dir=out", code=1,
    )  # fmt: skip
    return {r.labels["conversion"]: r for r in read_results(place.path / "out")}


def test_every_size_that_the_workload_names_is_compared(place):
    found = run(
        place,
        5,
        "conversion=[eager,torchscript]",
        "workload.dynamic={seq_len:[6,5],batch_size:[2]}",
    )
    verdict = found["torchscript"].parity
    assert found["eager"].parity.passed
    assert not verdict.passed
    assert "input 2" in verdict.reasons[0]
    observed = found["eager"].processes[0].observations
    assert observed.items_per_call == (4 + 7 * 2) / 8  # seven of eight inputs have two rows


@pytest.mark.slow
def test_an_open_size_is_compared_at_others_than_the_timed_one(place):
    found = run(place, 6, "conversion=[eager,torchscript]", "workload.dynamic=[seq_len]")
    assert found["eager"].parity.passed
    assert not found["torchscript"].parity.passed
    assert "input 9" in found["torchscript"].parity.reasons[0]  # eight are timed


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(1)


@pytest.mark.slow
def test_sets_of_several_shapes_from_python_are_exported_open_and_compared(place, monkeypatch):
    monkeypatch.chdir(place.path)
    monkeypatch.setenv("BENCHORCH_CACHE_DIR", place.environment["BENCHORCH_CACHE_DIR"])
    settings = dict(word.split("=") for word in FAST)
    rng = np.random.default_rng(0)
    shapes = [(4, 8), (2, 8), (3, 5)]
    sets = [{"x": rng.standard_normal(shape).astype(np.float32)} for shape in shapes]
    rows = benchorch.benchmark(
        Sum(), sets, ["onnxruntime"], directory="out", quiet=True, **settings
    )
    assert [(row.failure, row.parity.passed) for row in rows] == [(None, True)] * 2
    observed = [read_results(place.path / "out")[n].processes[0].observations for n in range(2)]
    # Eight sets are timed: these three in turn.
    assert {each.items_per_call for each in observed} == {(4 * 3 + 2 * 3 + 3 * 2) / 8}


def test_sizes_are_named_by_the_inputs_or_by_the_workload_not_by_both():
    sets = [{"x": torch.ones(4, 8)}, {"x": torch.ones(4, 5)}]
    with pytest.raises(ConfigError, match="give one of the two"):
        benchorch.benchmark(Sum(), sets, ["eager"], workload={"dynamic": ["batch_size"]})

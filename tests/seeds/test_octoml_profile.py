"""octoml-profile's printed examples run as printed, apart from the line that imports.

Its own import is replaced by ours, with options that make measuring short; backends are this
machine's, as none of its own can be reached.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import benchorch
from benchorch.frontends.accelerate.remote_profile import RemoteProfile
from benchorch.frontends.accelerate.report import AcceleratedReport, FunctionProfile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(560)]

SHORT: dict[str, Any] = {
    **{"stopping": "fixed", "stopping.processes": 2, "stopping.calls": 5, "quiet": True},
    **{"stopping.window_s": 0.05, "protocol.canary_tolerance_ratio": None, "recorder": "none"},
}

GETTING_STARTED = """
import torch
import torch.nn.functional as F
from torch.nn import Linear, ReLU, Sequential

model = Sequential(Linear(100, 200), ReLU(), Linear(200, 10))

@accelerate
def predict(x: torch.Tensor):
    y = model(x)
    z = F.softmax(y, dim=-1)
    return z

# Alternatively you can also directly use `accelerate`
# on a model, e.g. `predict = accelerate(model)` which will leave the
# softmax out of remote execution

session = RemoteInferenceSession()
with remote_profile(session):
    for i in range(10):
        x = torch.randn(1, 100)
        predict(x)
"""

GRAPH_BREAKS = """
import torch
import torch.nn.functional as F
import time

{decorator}
def function_with_graph_breaks(x):
    time.sleep(1) # Uncompiled segment 0
    x = F.relu(x) # graph #1, segment 1
    torch._dynamo.graph_break() # Uncompiled segment 2
    time.sleep(0.1) # continue segment 2
    x = F.relu(x) # graph #2, segment 3
    time.sleep(1) # Uncompiled segment 4
    return x

sess = RemoteInferenceSession('r6i.large/onnxrt-cuda')
with remote_profile():
    for _ in range(2):
        function_with_graph_breaks(torch.tensor(1.))
"""

SIMPLE = """
import torch
import torch.nn.functional as F

@accelerate
def simple_function(x):
    # implicit uncompiled segment 0
    x = F.relu(x) # graph #1, segment 1
    # implicit uncompiled segment 2
    return x

with remote_profile(RemoteInferenceSession()):
    for _ in range(3):
        simple_function(torch.ones(3))
"""


def ran(code: str) -> AcceleratedReport:
    """What the example's own profile reports."""
    torch._dynamo.reset()
    profiles: list[RemoteProfile] = []

    def remote_profile(*given: Any) -> RemoteProfile:
        profiles.append(benchorch.remote_profile(*given, **SHORT))
        return profiles[-1]

    exec(
        compile(code, "example.py", "exec"),
        {
            "accelerate": benchorch.accelerate,
            "RemoteInferenceSession": benchorch.RemoteInferenceSession,
            "remote_profile": remote_profile,
            "__name__": "__main__",
        },
    )
    (profile,) = profiles
    return profile.report()


def profiled(calls: Any, **options: Any) -> FunctionProfile:
    """The only profile of a program of our own."""
    with benchorch.remote_profile(backends="local/eager", **SHORT, **options) as profile:
        calls()
    (seen,) = profile.report().profiles
    return seen


def test_the_first_example_has_its_table() -> None:
    report = ran(GETTING_STARTED)
    (seen,) = report.profiles
    assert (seen.discarded, [segment.runs for segment in seen.segments]) == (1, [9, 9, 9])
    assert [segment.name for segment in seen.segments] == ["Uncompiled", "Graph #1", "Uncompiled"]
    backends = seen.segments[1].backends
    assert list(backends) == ["local/eager", "local/inductor", "local/onnxruntime"]
    for name, measured in backends.items():
        total = seen.totals[name].ms
        assert measured.ms is not None, measured.reason
        assert total is not None
        assert seen.uncompiled_ms is not None
        assert total.value == pytest.approx(seen.uncompiled_ms.value + measured.ms.value)


def test_the_function_with_a_graph_break_has_five_segments_in_order() -> None:
    report = ran(GRAPH_BREAKS.format(decorator="@accelerate"))
    (seen,) = report.profiles
    assert [(segment.name, segment.runs) for segment in seen.segments] == [
        ("Uncompiled", 1),
        ("Graph #1", 1),
        ("Uncompiled", 1),
        ("Graph #2", 1),
        ("Uncompiled", 1),
    ]
    sleeps_ms = [segment.local_ms.value for segment in seen.segments[::2]]
    assert all(slept > asked for slept, asked in zip(sleeps_ms, (1000, 100, 1000), strict=True))
    assert seen.totals["local/eager"].ms is not None
    lines = [each.line for each in report.graph_breaks if "graph_break()" in each.reason]
    assert lines == [10]


def test_as_printed_that_function_is_not_decorated_and_the_report_says_so() -> None:
    report = ran(GRAPH_BREAKS.format(decorator="# (nothing stands here)"))
    assert report.profiles == ()
    assert "decorate it with @benchorch.accelerate" in report.table()


def test_python_before_and_after_a_graph_is_always_a_segment() -> None:
    (seen,) = ran(SIMPLE).profiles
    assert [segment.name for segment in seen.segments] == ["Uncompiled", "Graph #1", "Uncompiled"]


def test_accelerating_the_model_leaves_what_surrounds_it_out() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(100, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)
    )
    predict = benchorch.accelerate(model)

    def calls() -> None:
        for _ in range(3):
            torch.softmax(predict(torch.randn(1, 100)), dim=-1)

    seen = profiled(calls)
    assert (seen.function, len(seen.segments)) == ("Sequential", 3)
    assert seen.totals["local/eager"].ms is not None


def test_a_transformer_with_words_before_and_labels_after() -> None:
    """A whole request: Python turns text to tokens, a model answers, Python reads the answer."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=64, dim=32, hidden_dim=64, n_heads=2, n_layers=2, max_position_embeddings=32
    )
    model = transformers.DistilBertForSequenceClassification(config).eval()
    vocabulary = {
        word: index for index, word in enumerate(["a", "good", "bad", "film", "it", "was"])
    }

    @torch.compiler.disable  # else Dynamo makes a graph for each text, with the tokens inside
    def tokens(text: str) -> torch.Tensor:
        return torch.tensor([[vocabulary.get(word, 63) for word in text.split()]])

    @benchorch.accelerate
    def predict(text: str) -> str:
        scores = model(input_ids=tokens(text)).logits.softmax(-1)
        return ["negative", "positive"][int(scores.argmax())]

    calls = functools.partial(map, predict, ["it was a good film", "it was a bad film"] * 3)
    with benchorch.remote_profile(backends=["local/eager", "local/onnxrt-cpu"], **SHORT) as profile:
        assert set(calls()) <= {"negative", "positive"}
    report = profile.report()
    best = max(report.profiles, key=lambda each: each.segments[0].runs)
    graphs = [segment for segment in best.segments if segment.graph]
    assert graphs, report.table()
    assert all(not segment.stays for segment in graphs), report.table()
    assert {name for name, total in best.totals.items() if total.ms} == {
        "local/eager",
        "local/onnxrt-cpu",
    }, report.table()

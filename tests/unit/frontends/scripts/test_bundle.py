"""A module that torch.export refuses is taken once, with the code that makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.domain.codec import encode
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.frontends.scripts.definitions import definitions
from benchorch.frontends.scripts.discover import Script
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, discover
from benchorch.frontends.scripts.model_configs import RUNS_AGAIN, bundled_sources, write_configs
from benchorch.models import trust
from benchorch.models.bundled import BundledModel

PARTS = """
import torch

class Doubling(torch.nn.Module):
    def forward(self, x):
        return x * 2

@torch.library.custom_op("bundle_test::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@tripled.register_fake
def shape(x):
    return torch.empty_like(x)

class Tripling(torch.nn.Module):
    def forward(self, x):
        return torch.ops.bundle_test.tripled(x)
"""

SCRIPT = """
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from parts import Doubling, Tripling

with Path(sys.argv[1]).open("a") as runs:
    runs.write("x")

OFFSET, LIMITS = 0.5, {"low": -1.0}
SHIFT = torch.full((3,), 0.25)
model = "a name that no definition means"

def halved(x):
    return np.asarray(x) / 2

class Settings:
    def __init__(self, slope):
        self.slope = slope

class Base(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings
        self.layer = nn.Linear(4, 3)
        self.same = self.layer
        self.register_buffer("scale", torch.rand(3), persistent=False)

class Net(Base):
    def __init__(self, settings):
        super().__init__(settings)
        self.twice = Doubling()
        # torch runs no LSTM in bfloat16 on CPUs whose widest vectors are AVX2.
        self.read = nn.GRU(3, 3, batch_first=True)

    def forward(self, x, sign=1.0):
        if x.sum() < LIMITS["low"]:
            return x
        hidden = self.twice(self.layer(x)) * self.scale * self.settings.slope
        numbers = torch.from_numpy(halved(hidden.detach().numpy())) + OFFSET + SHIFT
        answer, _ = self.read(numbers[None])
        return sign * answer[0]

class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.act = lambda x: x.relu() if x.sum() > 0 else x

    def forward(self, x):
        return self.act(self.layer(x))

net = Net(Settings(1.5))
print(net(torch.ones(2, 4), sign=-1.0).tolist())
with torch.autocast("cpu", dtype=torch.bfloat16):
    net(torch.ones(5, 4).to_sparse().to_dense())
triple = Tripling()
triple(torch.ones(2, 4))
held = Held()
held(torch.ones(2, 4))
"""

LOADED = """
import json, sys
import torch
from benchorch.domain.tensors import Workload
from benchorch.models.bundled import BundledModel

answers = []
for node in json.load(sys.stdin):
    model = BundledModel(**node)
    module = model.load(0)
    arrays = model.batch(Workload(symbols={}), 0)
    given = {name: torch.from_numpy(each) for name, each in arrays.items()}
    answers.append(module(**given, **model.kwargs).tolist())
json.dump(answers, sys.stdout)
"""


ORDERLESS = """
import math, json, string, re
import torch

torch.manual_seed(0)

def scaled(x): return x * math.pi
def shifted(x): return x + len(string.digits) + len(json.dumps(1))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.same = self.names = {"alpha", "beta", "gamma", "delta", ("epsilon", 1), None}
        self.fixed = frozenset("abcdefgh")
        for name in ("first", "second", "third"):
            self.register_buffer(name, torch.ones(3), persistent=False)

    def forward(self, x):
        if x.sum() > 0 and re.match("a", "a") and self.same is self.names:
            return shifted(scaled(self.layer(x)) * self.first)
        return x * len(self.fixed)

Net()(torch.ones(2, 4))
"""

DIGEST = """
import json, re, sys
from pathlib import Path
from benchorch.domain.codec import encode
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, discover

folder = Path(sys.argv[1])
found = discover(
    DiscoveryRequest(script=folder / "mine.py", arguments=(), folder=folder / "kept", capture=True)
)
(digest,) = re.findall('"bundle":.*?"digest": "([0-9a-f]{64})"', json.dumps(encode(found)))
sys.stderr.write(digest)
"""


NAMESAKES = """
def scale(x):
    return x * 2

class Net:
    def scale(self, x):
        return scale(act(join(x)))

try:
    from nowhere_at_all import act
except ImportError:
    def act(x):
        return x + 1

try:
    from os.path import join
except ImportError:
    def join(x):
        return x
"""


def test_a_name_means_the_definition_of_the_scripts_own_level() -> None:
    variables: dict[str, object] = {"__name__": "__main__"}
    exec(NAMESAKES, variables)
    source, values = definitions(NAMESAKES, variables, ["Net"])
    written = [line for line in source.splitlines() if line.startswith(("class", "def", "from"))]
    assert written == [
        "from posixpath import join as join",
        *("def scale(x):", "class Net:", "def act(x):"),
    ]
    assert values == {}


def test_a_bundle_has_the_same_digest_in_each_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ORDERLESS)
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stderr[-64:]
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop()) == 64


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundled")
    (place / "mine.py").write_text(SCRIPT)
    (place / "parts.py").write_text(PARTS)
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        patch.setattr(sys, "path", [*sys.path])
        request = DiscoveryRequest(
            script=place / "mine.py",
            arguments=(str(place / "runs"),),
            folder=place / "kept",
            capture=True,
        )
        reply = discover(request)
        sys.modules.pop("parts", None)
    assert reply.problem is None
    return {"labels": {}, **cast("dict[str, Any]", encode(reply))}


def call_of(found: dict[str, Any], name: str, number: int = 0) -> dict[str, Any]:
    (model,) = (model for model in found["models"] if model["name"] == name)
    return cast("dict[str, Any]", model["invocations"][number])


def loaded_elsewhere(*nodes: dict[str, Any]) -> list[list[list[float]]]:
    """What each answers in one other process."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED],
        input=json.dumps(nodes),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return cast("list[list[list[float]]]", json.loads(done.stdout.splitlines()[-1]))


def test_its_calls_are_made_as_in_the_script_which_is_not_run_again(
    place: Path, found: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    call = call_of(found, "net")
    assert "torch.export" in call["not_exported"]
    hidden = {
        name: (place / name).rename(place / f"{name}.away") for name in ("mine.py", "parts.py")
    }
    try:
        (answer,) = loaded_elsewhere(call["model"])
    finally:
        for name, moved in hidden.items():
            moved.rename(place / name)
    assert (place / "runs").read_text() == "x"
    # Loading it has left nothing in its folder. The other call goes by more than keywords.
    other = call_of(found, "net", 1)["model"]
    assert other["kwargs"] == {}
    again, by_position = loaded_elsewhere(call["model"], other)
    assert again == answer
    assert [len(row) for row in by_position] == [3] * 5
    alone = subprocess.run(
        [sys.executable, "-c", SEEDED, str(place / "mine.py"), str(place / "other_runs")],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = json.loads(alone.stdout.splitlines()[-1])
    assert [len(row) for row in answer] == [3, 3]
    for one, other in zip(answer, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


SEEDED = """
import runpy, sys
import torch

torch.manual_seed(0)
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_what_is_no_data_is_taken_from_the_script_and_its_name_shows_it(
    place: Path, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    assert "its code: " in call_of(found, "held")["not_captured"]
    written = write_configs(Script(path=place / "mine.py"), found)
    nodes = [yaml.safe_load(path.read_text()) for path in written.values()]
    kinds = {node["labels"]["model"]: node["_target_"].rpartition(".")[2] for node in nodes}
    assert kinds == {
        "mine.py:net [2,4]": "BundledModel",
        "mine.py:net [5,4]": "BundledModel",
        "mine.py:triple": "BundledModel",
        f"mine.py:held ({RUNS_AGAIN})": "ScriptModel",
    }


def test_an_operator_of_the_users_own_is_there_where_its_module_is_loaded(
    found: dict[str, Any],
) -> None:
    call = call_of(found, "triple")
    assert "operators of its packages: bundle_test.tripled" in call["not_exported"]
    assert loaded_elsewhere(call["model"]) == [[[3.0] * 4] * 2]


def test_its_code_runs_only_where_the_user_trusts_it(found: dict[str, Any]) -> None:
    model = BundledModel(**call_of(found, "net")["model"])
    with trust.declared(["stranger.yaml"]):
        (problem,) = model.problems(Workload(symbols={}))
        assert f"add --trust {model.source}" in problem
        with pytest.raises(BuildError, match="may not be run"):
            model.load(0)
        trust.grant(*bundled_sources([found]))
        assert list(model.problems(Workload(symbols={}))) == []


def test_a_bundle_that_was_changed_is_not_loaded(place: Path, found: dict[str, Any]) -> None:
    import shutil

    node = call_of(found, "net")["model"]
    folder = place / "copied"
    shutil.copytree(node["bundle"], folder)
    source = folder / Path(node["source"]).name
    moved = {**node, "bundle": str(folder), "source": str(source)}
    assert list(BundledModel(**moved).problems(Workload(symbols={}))) == []
    (folder / "parts.py").write_text("raise SystemExit")
    (problem,) = BundledModel(**moved).problems(Workload(symbols={}))
    assert "is not the bundle that was written there" in problem
    (problem,) = BundledModel(**{**moved, "source": node["source"]}).problems(Workload(symbols={}))
    assert "it must be the" in problem

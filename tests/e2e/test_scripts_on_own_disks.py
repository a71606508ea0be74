"""Scripts on the nodes of a cluster whose machines have nothing in common but the network."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chaos.wired import WiredMachines
from support.machines import namespaces
from support.machines.machine import Machine

pytestmark = [pytest.mark.ray_cluster, pytest.mark.slow, pytest.mark.timeout(900)]

CORPUS = "/var/lib/corpus"
SCRIPTS = {
    "lib/parts.py": "import torch\n\ndef make(width):\n    return torch.nn.Linear(width, 3)\n",
    "a/one.py": (
        "import sys\nfrom pathlib import Path\nimport torch\n\n"
        "sys.path.insert(0, str(Path(__file__).parents[1] / 'lib'))\n"
        "from parts import make\n\nnet = make(4)\nnet(torch.ones(2, 4))\n"
    ),
    "b/two.py": (
        "import torch\n\nclass Branch(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.net = torch.nn.Linear(5, 2)\n"
        "    def forward(self, x):\n        return self.net(x) if x.sum() > 0 else x\n\n"
        "net = Branch()\nwith torch.no_grad():\n    while True:\n        net(torch.ones(1, 5))\n"
    ),
    "b/wrong.py": "raise ValueError('no data')\n",
}
FAST = (
    *("stopping=fixed", "profiler=none", "stopping.processes=1", "stopping.calls=5"),
    *("stopping.window_s=0.01", "recorder=none", "protocol.pair_window_s=0.01"),
    *("protocol.pin=false", "protocol.canary_tolerance_ratio=null"),
)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WiredMachines]:
    """A head and two nodes, each with a disk and a home of its own."""
    if reason := namespaces.missing():
        pytest.skip(reason)
    pytest.importorskip("moto", reason="moto stands in for what Ray's nodes look for on AWS")
    from support.aws_emulator.server import Emulator

    place, shared = tmp_path_factory.mktemp("wired"), tmp_path_factory.mktemp("unused")
    with Emulator({}).running() as emulator, pytest.MonkeyPatch.context() as patch:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray reads it once
        patch.setenv("RAY_AUTH_MODE", "token")
        started = WiredMachines(place, shared, "local", "local", aws=emulator)
        try:
            yield started
        finally:
            started.close()


def nodes_of(machines: WiredMachines) -> Sequence[Machine]:
    return [each for each in machines.machines.values() if each is not machines.head]


def test_a_corpus_is_run_and_measured_on_nodes_that_share_no_disk(machines: WiredMachines) -> None:
    for name, text in SCRIPTS.items():
        path = machines.head.file(f"{CORPUS}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    nodes = nodes_of(machines)
    assert not any(node.file(CORPUS).exists() for node in nodes)
    words = [f"{CORPUS}/*/[otw]*.py", "--until-quiet", "3", "hydra.run.dir=/var/lib/out"]
    words += ["executor=ray", f"executor.address={machines.address}", *FAST]
    command = [sys.executable, "-m", "benchorch", "script", *words]
    done = machines.head.run(
        [*command, "hardware=local", "conversion=[eager,onnxruntime]"], timeout_s=800, COLUMNS="200"
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 1, done.stderr
    assert "it raised ValueError: no data" in done.stdout
    results = machines.head.file("/var/lib/out/results.jsonl").read_text().splitlines()
    found = {(r["labels"]["model"], r["labels"]["conversion"]): r for r in map(json.loads, results)}
    assert {name for name, _ in found} == {"one.py:net", "two.py:net"}
    assert found["one.py:net", "onnxruntime"]["parity"]["passed"]
    assert found["two.py:net", "eager"]["outcome"] == "ok"
    state = Path("/var/lib/node/.local/state/benchorch/scripts")
    ran = [sorted(p.name[:3] for p in node.file(str(state)).glob("*")) for node in nodes]
    assert sorted(itertools.chain(*ran)) == ["one", "two", "wro"], ran
    assert "corpus    /var/lib/out/corpus.html" in done.stdout

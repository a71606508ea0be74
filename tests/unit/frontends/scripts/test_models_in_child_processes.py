"""Models that a script's child processes call are found, however the processes are started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.frontends.scripts.discover import Script, discover
from support.slices import only

WORKER = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
net(torch.ones(2, 6))
"""
SCRIPTS = {
    "subprocess": f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {WORKER!r}], check=True)
""",
    "spawn": """
import multiprocessing, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)
    def forward(self, x):
        return self.linear(x)
def work():
    net = Net()
    net(torch.ones(2, 6))
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
""",
    "loader": """
import torch
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.backbone = torch.nn.Sequential(torch.nn.Linear(6, 6))
    def __len__(self):
        return 4
    def __getitem__(self, index):
        with torch.no_grad():
            return self.backbone(torch.ones(2, 6))
head = torch.nn.Linear(6, 1)
for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1):
    head(batch)
""",
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def models_of(tmp_path: Path, text: str, **options: Any) -> dict[str, Any]:
    script = tmp_path / "script.py"
    script.write_text(text)
    found = discover(Script(path=script, **options), timeout_s=300, keep=True)
    assert found["problem"] is None
    return {str(m["class"]).rpartition(".")[2]: m for m in cast("list[Any]", found["models"])}


# A subprocess is found below as well.
@pytest.mark.parametrize(
    ("start", "kind"),
    only(
        lambda case: case[0] != "subprocess",
        [("subprocess", "Sequential"), ("spawn", "Net"), ("loader", "Sequential")],
    ),
)
def test_a_model_of_a_child_process_is_found_and_captured(
    tmp_path: Path, start: str, kind: str
) -> None:
    models = models_of(tmp_path, SCRIPTS[start])
    (call,) = models[kind]["invocations"]
    assert models[kind]["in_child"]
    assert models[kind]["parameters"] == 42
    assert (call["obstacle"], Path(call["model"]["program"]).is_dir()) == ("", True)
    if start == "loader":
        assert models["Linear"]["calls"] == 2  # the head is called beside the workers
        assert "in_child" not in models["Linear"]
        assert models[kind]["name"].endswith("dataset.backbone")


def test_a_model_of_a_child_process_that_is_not_exported_says_why(tmp_path: Path) -> None:
    (model,) = models_of(tmp_path, SCRIPTS["subprocess"], capture=False).values()
    (call,) = model["invocations"]
    assert "model" not in call
    assert "called in a child process" in call["obstacle"]


def test_calls_of_a_child_process_are_found_beside_those_of_the_script(tmp_path: Path) -> None:
    text = """
import multiprocessing, torch
net = torch.nn.Sequential(torch.nn.Linear(6, 6))
net(torch.ones(1, 6))
process = multiprocessing.get_context("fork").Process(target=net, args=(torch.ones(2, 6),))
process.start()
process.join()
net(torch.ones(3, 6))
"""
    (model,) = models_of(tmp_path, text, capture=False).values()
    rows = sorted(call["inputs"][0]["shape"][0] for call in model["invocations"])
    assert (rows, "in_child" in model) == ([1, 2, 3], False)


def test_a_pool_of_processes_that_nobody_shut_down_does_not_keep_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
from concurrent.futures import ProcessPoolExecutor
import torch
net = torch.nn.Sequential(torch.nn.Linear(6, 6))
def work():
    return net(torch.ones(2, 6)).sum().item()
pool = ProcessPoolExecutor(1)
pool.submit(work).result()
""")
    found = discover(Script(path=script), timeout_s=300, keep=False)
    (model,) = cast("list[Any]", found["models"])
    assert (found["ended"], model["in_child"]) == ("end", True)

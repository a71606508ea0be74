"""What a template imports for an exported program, so that no process forked from it has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from benchorch.frameworks.torch_program import save_program
from benchorch.models.exported import program_digest

_LOADED = """
import sys
import torch
from benchorch.models.exported import ExportedModel
x = {"input": {"shape": [1, 4], "dtype": "float32"}}
model = ExportedModel(program=sys.argv[1], digest=sys.argv[2], inputs=x)
if sys.argv[3] == "preloaded":
    model.preload()
before = set(sys.modules)
model.load(0)
print(len(set(sys.modules) - before))
"""


def imported(directory: Path, state: str) -> int:
    argv = [str(directory), program_digest(directory), state]
    found = subprocess.run(
        [sys.executable, "-c", _LOADED, *argv], check=True, capture_output=True, text=True
    )
    return int(found.stdout.split()[-1])


def test_loading_a_program_imports_next_to_nothing_after_its_preload(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))
    save_program(program, tmp_path)
    assert imported(tmp_path, "fresh") > 100
    assert imported(tmp_path, "preloaded") < 20

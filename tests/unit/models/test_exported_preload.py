"""What a template imports for an exported program, so that no process forked from it has to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from benchorch.frameworks.torch_program import save_program
from benchorch.models.exported import program_digest

_LOADED = """
import os
import sys
import torch
from benchorch.models.exported import ExportedModel
x = {"input": {"shape": [1, 4], "dtype": "float32"}}
model = ExportedModel(program=sys.argv[1], digest=sys.argv[2], inputs=x)
fresh = os.fork()
if not fresh:
    before = set(sys.modules)
    model.load(0)
    print(len(set(sys.modules) - before), flush=True)
    os._exit(0)
os.waitpid(fresh, 0)
model.preload()
before = set(sys.modules)
model.load(0)
print(len(set(sys.modules) - before))
"""


def test_loading_a_program_imports_next_to_nothing_after_its_preload(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))
    save_program(program, tmp_path)
    argv = [str(tmp_path), program_digest(tmp_path)]
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, *argv], check=True, capture_output=True, text=True
    )
    fresh, preloaded = map(int, told.stdout.split()[-2:])
    assert fresh > 100
    assert preloaded < 20

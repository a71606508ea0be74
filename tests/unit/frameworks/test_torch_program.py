"""Programs of models whose packages register operators are read where only the file is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from benchorch.frameworks.torch_program import PROGRAM_FILE, load_unchecked_program, save_program

READ = """
import sys
from pathlib import Path
import torch
from benchorch.frameworks.torch_program import load_program
rows, ends = torch.ones(4, 3), torch.tensor([1, 4], dtype=torch.int32)
print(load_program(Path(sys.argv[1])).module()(rows, ends)[0].sum(dim=1).tolist())
"""


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.stack([torch.ones(3, 2), 2 * torch.ones(3, 2)]))

    def forward(self, rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(rows, self.weights, ends)


def test_a_mixture_of_experts_is_read_in_a_process_without_its_package(tmp_path: Path) -> None:
    pytest.importorskip("transformers.integrations.moe")
    call = (torch.ones(4, 3), torch.tensor([2, 4], dtype=torch.int32))
    save_program(torch.export.export(Experts(), call), tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[6.0, 12.0, 12.0, 12.0]", done.stderr


@pytest.mark.parametrize("package", ["torchvision", "torchao"])
def test_the_package_of_an_operator_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    with ZipFile(tmp_path / PROGRAM_FILE, "w") as archive:
        archive.writestr("p/models/model.json", f'{{"target": "torch.ops.{package}.nms.default"}}')
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=package):
        load_unchecked_program(tmp_path)

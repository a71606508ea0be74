"""How an exported program is read from disk, whichever step wrote it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PROGRAM_FILE = "program.pt2"
# What a program may call beyond ATen, by the words that its file holds: importing the module
# registers the operators, and without it torch cannot read the file.
_OPERATORS = {b"quantized_decomposed": "torch.ao.quantization.fx._decomposed"}
_GRAPH = "models/model.json"


def load_program(directory: Path) -> torch.export.ExportedProgram:
    """The program of that directory, the operators it calls registered first.

    Raises:
        RuntimeError, zipfile.BadZipFile: the file is no program of this torch.
    """
    import torch

    path = directory / PROGRAM_FILE
    for module in _needed(path):
        import_module(module)
    return torch.export.load(path)


def _needed(path: Path) -> list[str]:
    """The modules whose operators the program's graph names."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        graphs = [archive.read(name) for name in archive.namelist() if name.endswith(_GRAPH)]
    return [module for word, module in _OPERATORS.items() if any(word in graph for graph in graphs)]

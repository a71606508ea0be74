"""Decomposition of an exported program's compound operators into core ATen operators."""

from dataclasses import dataclass
from typing import final
from zipfile import BadZipFile

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.torch_program import PROGRAM_FILE, decomposed, load_program
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decompositions(FileStep):
    """Some 180 core ATen operators are left; run one by one they are slower than what they were."""

    consumes = (Format.EXPORTED_PROGRAM,)
    produces = Format.EXPORTED_PROGRAM
    version = 2  # 2: views of attention can be written out

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2``."""
        import torch

        with wrap_errors(BuildError, "torch.export cannot decompose the program", BadZipFile):
            program = load_program(request.sources[Format.EXPORTED_PROGRAM])
            torch.export.save(decomposed(program), request.out_dir / PROGRAM_FILE)

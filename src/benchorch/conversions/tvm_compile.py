"""TVM: an exported program becomes a library of generated, untuned kernels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.identity.compilers import GENERATED
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torch_call import program_in
from benchorch.frameworks.torch_program import arguments_of, decomposed
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch

LIBRARY_FILE = "model.so"
NOTES_FILE = "model.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TvmCompile(FileStep):
    """For any processor of the architecture, without a search for better schedules."""

    consumes = (Format.EXPORTED_PROGRAM,)
    produces = Format.TVM_LIBRARY
    requires = ("torch", "apache-tvm")
    not_on_gpu = "TVM compiles for processors here: its kernels for GPUs need a tuned schedule"
    depends_on = ("arch", *GENERATED)
    version = 3  # 2: views of attention can be written out; 3: inputs as the parameters are

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.so``, and how it is to be called into ``model.json``."""
        program = program_in(request)
        notes = {
            "arguments": [name for name, tensor in arguments_of(program).items() if tensor],
            "dtypes": list(parameter_dtypes(program.module())),
        }
        with wrap_errors(BuildError, "TVM refused the exported program"):
            _compile(program, str(request.out_dir / LIBRARY_FILE))
        (request.out_dir / NOTES_FILE).write_text(json.dumps(notes, indent=1), encoding="utf-8")


def _compile(program: torch.export.ExportedProgram, path: str) -> None:
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    core = _with_tensors_alone(decomposed(program))
    module = from_exported_program(core, run_ep_decomposition=False)
    tvm.compile(module, target="llvm").export_library(path)


def _with_tensors_alone(
    program: torch.export.ExportedProgram,
) -> torch.export.ExportedProgram:
    """The program, changed, without the inputs that are built in: TVM takes all for tensors."""
    from torch.export.graph_signature import ConstantArgument

    specs = program.graph_signature.input_specs
    constants = {each.arg.name for each in specs if isinstance(each.arg, ConstantArgument)}
    for node in list(program.graph.nodes):
        if node.op == "placeholder" and node.name in constants:
            program.graph.erase_node(node)
    specs[:] = [each for each in specs if each.arg.name not in constants]
    return program

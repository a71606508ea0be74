"""ExecuTorch: an exported program becomes one small file for its own runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torch_call import program_in
from benchorch.frameworks.torch_program import (
    arguments_of,
    decomposed,
    has_fused_attention,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch

PROGRAM_FILE = "model.pte"
NOTES_FILE = "model.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorchLower(FileStep):
    """XNNPACK gets what it takes; portable kernels run the rest, slowly, and are counted."""

    consumes = (Format.EXPORTED_PROGRAM,)
    produces = Format.EXECUTORCH_PROGRAM
    requires = ("torch", "executorch")
    not_on_gpu = "XNNPACK, to which ExecuTorch hands the model here, runs on processors alone"
    version = 3  # 2: views of attention can be written out; 3: inputs as the parameters are

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.pte``, and how it is to be called into ``model.json``."""
        program = program_in(request)
        notes: dict[str, Json] = {
            "arguments": list(arguments_of(program)),
            "dtypes": list(parameter_dtypes(program.module())),
        }
        with wrap_errors(BuildError, "ExecuTorch refused the exported program", *_own_errors()):
            edge = _lowered(program)
            notes.update(_delegated(edge))
            file = edge.to_executorch().buffer
        (request.out_dir / PROGRAM_FILE).write_bytes(file)
        (request.out_dir / NOTES_FILE).write_text(json.dumps(notes, indent=1), encoding="utf-8")


def _lowered(program: torch.export.ExportedProgram) -> Any:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    if has_fused_attention(program):
        # Written out by ExecuTorch, views of it are refused; XNNPACK wants linear layers whole.
        program = decomposed(program, keep=[torch.ops.aten.linear.default])
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])


def _own_errors() -> tuple[type[Exception], ...]:
    """ExecuTorch's classes that derive from Exception alone."""
    from executorch.exir.error import ExportError, InternalError

    return (ExportError, InternalError)


def _delegated(edge: Any) -> dict[str, Json]:
    """Number of operators that XNNPACK runs, and of its calls."""
    from executorch.devtools.backend_debug import get_delegation_info

    info = get_delegation_info(edge.exported_program().graph_module)
    inside, outside = info.num_delegated_nodes, info.num_non_delegated_nodes
    return {
        "delegate_calls": info.num_delegated_subgraphs,
        "delegated_nodes": inside,
        "fallback_nodes": outside,
        "delegated_share": round(inside / (inside + outside), 4) if inside + outside else 0.0,
    }

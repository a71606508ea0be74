"""torch.export: a module becomes a graph of ATen operators that any process can read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.torch_call import know_dataclasses, live_tensors
from benchorch.frameworks.torch_program import PROGRAM_FILE
from benchorch.frameworks.torch_tracing import open_shapes, traceable
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Export(FileStep):
    """Traces on the CPU whatever the device, so that one program serves all hardware.

    Args:
        strict: trace Python's bytecode too, which checks more and accepts fewer models.
        dynamic: leave every named size open, not only those of ``workload.dynamic``.
    """

    consumes = (Format.MODULE,)
    produces = Format.EXPORTED_PROGRAM

    strict: bool = False
    dynamic: bool = False

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2``."""
        import torch

        module = request.module().to("cpu")
        example = _opened(request.example) if self.dynamic else request.example
        with wrap_errors(BuildError, "torch.export refused the model"):
            program = self._trace(module, example)
        _forget_output_classes(program)
        torch.export.save(program, request.out_dir / PROGRAM_FILE)

    def _trace(self, module: torch.nn.Module, example: Example) -> torch.export.ExportedProgram:
        import torch

        inputs = live_tensors(module, traceable(example), "cpu")
        arguments = {**inputs, **example.keywords}
        with torch.no_grad():
            know_dataclasses(module(**arguments))
        return torch.export.export(
            module,
            (),
            kwargs=arguments,
            dynamic_shapes=open_shapes(example),
            strict=self.strict,
        )


def _opened(example: Example) -> Example:
    """The same call with every symbol open."""
    symbols = [symbol for spec in example.specs for symbol in spec.symbols]
    return replace(example, dynamic=tuple(dict.fromkeys(symbols)))


def _forget_output_classes(program: torch.export.ExportedProgram) -> None:
    """The program returns a flat tuple: reading it needs no class of the model's package."""
    from torch.utils import _pytree

    signature = program.module_call_graph[0].signature
    if signature is not None:
        leaves = tuple(range(signature.out_spec.num_leaves))
        signature.out_spec = _pytree.tree_structure(leaves)

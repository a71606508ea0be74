"""torch.export: a module becomes a graph of ATen operators that any process can read."""

from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.torch_program import save_program
from benchorch.frameworks.torch_tracing import export_module
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


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
    typical_build_s = 10.0
    # 3: names of outputs beside it, and which values depend on an open size
    # 4: with tensors that a dataclass computes
    version = 4

    strict: bool = False
    dynamic: bool = False

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2``."""
        module = request.module().to("cpu")
        example = _opened(request.example) if self.dynamic else request.example
        with wrap_errors(BuildError, "torch.export refused the model"):
            program = export_module(module, example, strict=self.strict)
        save_program(program, request.out_dir)


def _opened(example: Example) -> Example:
    """The same call with every symbol open."""
    symbols = [symbol for spec in example.specs for symbol in spec.symbols]
    return replace(example, dynamic=tuple(dict.fromkeys(symbols)))

"""The live module or an exported program's graph, operator by operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.frameworks.torch_call import live_executable, module_in
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Eager(Runtime):
    """PyTorch as it is: the baseline of every comparison.

    An exported program calls the same kernels without the model's Python, and checks its inputs.
    """

    generates = True
    consumes = (
        *(Format.MODULE, Format.CALLABLE),
        Format.EXPORTED_PROGRAM,
    )
    version = 2

    def load(self, request: LoadRequest) -> Executable:
        """The module on the device."""
        import torch

        torch.set_num_threads(request.threads)
        module = module_in(request)
        return live_executable(request, module, module, _provider(request, module))


def _provider(request: LoadRequest, module: torch.nn.Module) -> str:
    """Name of what runs the module."""
    from benchorch.frameworks.opaque_module import OpaqueModule

    if isinstance(module, OpaqueModule):
        return module.provider
    return "torch export" if Format.EXPORTED_PROGRAM in request.sources else "torch eager"

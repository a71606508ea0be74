"""The order in which the values of images and kernels lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.interfaces.conversion import ModuleStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsLast(ModuleStep):
    """Kernels of convolutions with their channels innermost; live runtimes lay images out alike."""

    consumes = (Format.MODULE,)
    produces = Format.MODULE

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The same module, its 4-D parameters laid out anew."""
        import torch

        if not any(weight.dim() == 4 for weight in module.parameters()):
            raise BuildError(
                "channels_last changes the layout of 4-D weights, and the model has none.",
                remedy="leave channels_last out for models without 2-D convolutions",
            )
        # Torch's annotations do not know this overload of Module.to.
        return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

"""The order in which the values of images and kernels lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Example
from benchorch.interfaces.conversion import ModuleStep

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsLast(ModuleStep):
    """Kernels of convolutions with their channels innermost; live runtimes lay images out alike."""

    consumes = (Format.MODULE,)
    produces = Format.MODULE

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """A model without 4-D weights has nothing to lay out."""
        if facts.get("channels_last_layers") == 0:
            return "the model has no 4-D weights, which are all whose layout it changes"
        return None

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The same module, its 4-D parameters laid out anew."""
        import torch

        # Torch's annotations do not know this overload of Module.to.
        return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

"""A decoder's cache at its full size from the start, written in place."""

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
class StaticCache(ModuleStep):
    """Cache with constant shapes, as compiled code and CUDA graphs require."""

    generates = True
    fixes_cache = True
    consumes = (Format.MODULE,)
    produces = Format.MODULE

    def transform(self, module: torch.nn.Module, example: Example) -> torch.nn.Module:
        """The decoder on a static cache; BuildError for a model that has none."""
        convert = getattr(module, "with_static_cache", None)
        if convert is None:
            raise BuildError(
                f"{type(module).__name__} has no cache of keys and values.",
                kind="cache",
                remedy="scenario=generate",
            )
        changed: torch.nn.Module = convert()
        return changed

"""The live module itself, operator by operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.torch_call import (
    TorchExecutable,
    call_live,
    floating_dtypes,
    live_tensors,
    missing_torch,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Eager(Runtime):
    """PyTorch as it is: the baseline of every comparison."""

    consumes: ClassVar[Format] = Format.MODULE
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 2

    def unavailable(self, device: str) -> str | None:
        """A reason only where torch is missing."""
        return missing_torch()

    def load(self, request: LoadRequest) -> Executable:
        """The live module on the device."""
        import torch

        torch.set_num_threads(request.threads)
        module = request.module().to(request.device)
        return TorchExecutable(
            place=partial(live_tensors, module, device=request.device),
            prepare=call_live(module, request.example.keywords),
            provider="torch eager",
            dtypes=floating_dtypes(module),
            device=request.device,
        )

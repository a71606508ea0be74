"""TorchScript's interpreter on a traced module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.refusal import refusal
from benchorch.torch_call import (
    Bound,
    TorchExecutable,
    floating_dtypes,
    missing_torch,
    tensors_of,
    unrecorded,
)

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchScript(Runtime):
    """The first calls are slow: the interpreter watches them and then specialises."""

    consumes: ClassVar[Format] = Format.TORCHSCRIPT
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 2

    def unavailable(self, device: str) -> str | None:
        """A reason only where torch is missing."""
        return missing_torch()

    def load(self, request: LoadRequest) -> Executable:
        """The traced module on the device."""
        import torch

        assert request.source is not None  # a script is a file
        torch.set_num_threads(request.threads)
        with refusal(MeasureError, "The TorchScript file cannot be loaded"):
            # torch.jit is not annotated
            script = torch.jit.load(  # type: ignore[no-untyped-call]
                str(request.source / "model.pt"), map_location=request.device
            )
        dtypes = floating_dtypes(script)
        return TorchExecutable(
            place=partial(tensors_of, device=request.device, dtypes=dtypes),
            prepare=partial(_prepare, script, tuple(request.example.arrays)),
            provider="torchscript",
            dtypes=dtypes,
            device=request.device,
        )


def _prepare(
    script: torch.nn.Module, order: tuple[str, ...], tensors: Mapping[str, torch.Tensor]
) -> Bound:
    return unrecorded(script, tuple(tensors[name] for name in order), {})

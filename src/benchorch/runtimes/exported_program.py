"""An exported program's graph, run operator by operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final
from zipfile import BadZipFile

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from benchorch.refusal import refusal
from benchorch.torch_call import (
    TorchExecutable,
    call_by_keyword,
    floating_dtypes,
    missing_torch,
    tensors_of,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedProgram(Runtime):
    """The same kernels as eager without the model's Python, and with export's input checks."""

    consumes: ClassVar[Format] = Format.EXPORTED_PROGRAM
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 2

    def unavailable(self, device: str) -> str | None:
        """A reason only where torch is missing."""
        return missing_torch()

    def load(self, request: LoadRequest) -> Executable:
        """The program as a module on the device."""
        import torch

        assert request.source is not None  # a program is a file
        torch.set_num_threads(request.threads)
        with refusal(MeasureError, "The exported program cannot be loaded", BadZipFile):
            program = torch.export.load(request.source / "program.pt2")
        if request.device != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, request.device)
        module = program.module()
        dtypes = floating_dtypes(module)
        return TorchExecutable(
            place=partial(tensors_of, device=request.device, dtypes=dtypes),
            prepare=call_by_keyword(module, request.example.keywords),
            provider="torch export",
            dtypes=dtypes,
            device=request.device,
        )

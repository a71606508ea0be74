"""TorchScript's interpreter on a traced or scripted module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.files import read_json
from benchorch.frameworks.torch_call import (
    Bound,
    TorchExecutable,
    call_by_keyword,
    tensors_of,
    unrecorded,
)
from benchorch.frameworks.torchscript_files import CALL_FILE, SCRIPT_FILE
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchScript(Runtime):
    """The first calls are slow: the interpreter watches them and then specialises."""

    consumes = (Format.TORCHSCRIPT,)
    version = 2

    def load(self, request: LoadRequest) -> Executable:
        """The module on the device."""
        import torch

        source = request.sources[Format.TORCHSCRIPT]
        torch.set_num_threads(request.threads)
        with wrap_errors(MeasureError, "The TorchScript file cannot be loaded"):
            call = read_json(source / CALL_FILE)
            # torch.jit is not annotated
            script = torch.jit.load(  # type: ignore[no-untyped-call]
                str(source / SCRIPT_FILE), map_location=request.device
            )
        dtypes = tuple(call["dtypes"])
        return TorchExecutable(
            place=partial(tensors_of, device=request.device, dtypes=dtypes),
            prepare=partial(_prepare, script, tuple(request.example.arrays))
            if call["method"] == "trace"
            else call_by_keyword(script, request.example.keywords),
            provider="torchscript",
            dtypes=dtypes,
            device=request.device,
        )


def _prepare(
    script: torch.nn.Module, order: tuple[str, ...], tensors: Mapping[str, torch.Tensor]
) -> Bound:
    return unrecorded(script, tuple(tensors[name] for name in order), {})

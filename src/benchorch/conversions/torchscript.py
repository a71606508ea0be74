"""torch.jit.trace: a module becomes a TorchScript graph of what one call did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.interfaces.conversion import BuildRequest, FileStep
from benchorch.refusal import refusal
from benchorch.torch_call import floating_dtypes, tensors_in, tensors_of

if TYPE_CHECKING:
    import torch

SCRIPT_FILE = "model.pt"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchScript(FileStep):
    """Traces one call; branches that it did not take are lost.

    Traced on the device: where the model makes tensors of its own, the trace names their device.
    """

    consumes: ClassVar[tuple[Format, ...]] = (Format.MODULE,)
    produces: ClassVar[Format] = Format.TORCHSCRIPT
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    # A host without a GPU has none: the fact tells the two kinds of traces apart.
    depends_on: ClassVar[tuple[str, ...]] = ("compute_capability",)
    version: ClassVar[int] = 1

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.pt``."""
        import torch

        module = request.module().to(request.device)
        arrays = request.example.arrays
        inputs = tensors_of(arrays, request.device, floating_dtypes(module))
        with refusal(BuildError, "torch.jit.trace refused the model"), torch.no_grad():
            flat = _positional(module, tuple(arrays), request.example.keywords)
            # What the trace computes is compared with the model by the verify stage.
            traced = torch.jit.trace(  # type: ignore[no-untyped-call]
                flat, tuple(inputs.values()), check_trace=False
            )
        torch.jit.save(traced, str(request.out_dir / SCRIPT_FILE))


def _positional(
    module: torch.nn.Module, names: tuple[str, ...], keywords: Mapping[str, Json]
) -> torch.nn.Module:
    """The module with positional tensors in and a flat tuple out: all that a trace can hold."""
    import torch

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            named = dict(zip(names, tensors, strict=True))
            return tuple(tensors_in(self.model(**named, **keywords)))

    return Positional().train(module.training)

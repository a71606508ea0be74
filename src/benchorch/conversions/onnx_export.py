"""torch.onnx: a module becomes an ONNX graph whose inputs are forward's keywords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.interfaces.conversion import BuildRequest, FileStep
from benchorch.refusal import refusal
from benchorch.torch_call import floating_dtypes, tensors_of
from benchorch.torch_trace import open_shapes, traceable

if TYPE_CHECKING:
    import torch

MODEL_FILE = "model.onnx"
# A protobuf message ends at 2 GiB; the graph beside the weights takes some of it.
_LARGEST_SINGLE_FILE_BYTES = 1_900_000_000
_OLDEST_OPSET = 18


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxExport(FileStep):
    """Traces on the CPU, with torch's exporter that is built on torch.export.

    Args:
        opset: version of ONNX's operator set; null means the exporter's own choice.
    """

    consumes: ClassVar[tuple[Format, ...]] = (Format.MODULE,)
    produces: ClassVar[Format] = Format.ONNX
    requires: ClassVar[tuple[str, ...]] = ("torch", "onnx", "onnxscript")
    depends_on: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1

    opset: int | None = None

    def __post_init__(self) -> None:
        if self.opset is not None and self.opset < _OLDEST_OPSET:
            raise ValueError(
                f"opset must be null or at least {_OLDEST_OPSET}, which the exporter writes; "
                f"got {self.opset}."
            )

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``, its weights beside it where they are too large for one file."""
        import torch

        module = request.module().to("cpu")
        example = request.example
        inputs = tensors_of(traceable(example), "cpu", floating_dtypes(module))
        with refusal(BuildError, "torch.onnx.export refused the model"):
            torch.onnx.export(
                module,
                (),
                str(request.out_dir / MODEL_FILE),
                kwargs={**inputs, **example.keywords},
                dynamic_shapes=open_shapes(example),
                opset_version=self.opset,
                external_data=_size_bytes(module) > _LARGEST_SINGLE_FILE_BYTES,
                dynamo=True,
                verbose=False,
            )


def _size_bytes(module: torch.nn.Module) -> int:
    return sum(each.nbytes for each in (*module.parameters(), *module.buffers()))

"""torch.onnx: a module or an exported program becomes an ONNX graph whose inputs are keywords."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.outputs import Outputs
from benchorch.errors import BuildError
from benchorch.frameworks import onnx_files
from benchorch.frameworks.onnx_files import MODEL_FILE
from benchorch.frameworks.onnx_operators import translations
from benchorch.frameworks.program_outputs import read_outputs, write_outputs
from benchorch.frameworks.tensor_parts import stored_bytes
from benchorch.frameworks.torch_call import program_in
from benchorch.frameworks.torch_program import return_tensors
from benchorch.frameworks.torch_tracing import (
    export_module,
    open_shapes,
    traced_arguments,
    traced_outputs,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch

_OLDEST_OPSET = 18


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxExport(FileStep):
    """Traces on the CPU, with torch's exporter that is built on torch.export.

    A program that was exported before is translated as it is, its open sizes included. A model
    that is an ONNX file already, or writes one itself, is taken as it is.

    Args:
        opset: version of ONNX's operator set; null means the exporter's own choice.
    """

    consumes = (
        *(Format.MODULE, Format.ONNX),
        Format.EXPORTED_PROGRAM,
    )
    produces = Format.ONNX
    typical_build_s = 10.0
    requires = ("torch", "onnx", "onnxscript")
    # 4: outputs have the model's names, and beside them what depends on a size
    # 5: with tensors that a dataclass computes
    version = 5

    opset: int | None = None

    def __post_init__(self) -> None:
        if self.opset is not None and self.opset < _OLDEST_OPSET:
            raise ValueError(
                f"opset must be null or at least {_OLDEST_OPSET}, which the exporter writes; "
                f"got {self.opset}."
            )

    def preload(self) -> None:
        """Import the exporter and its table of operators, which each export reads."""
        exporter = "torch.onnx._internal.exporter"
        with suppress(ImportError, AttributeError):  # private modules
            import_module(f"{exporter}._core")
            import_module(f"{exporter}._registration").ONNXRegistry.from_torchlib()

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``, its weights beside it where they are too large for one file."""
        if Format.EXPORTED_PROGRAM in request.sources:
            program = request.sources[Format.EXPORTED_PROGRAM]
            self._write(request, program_in(request), read_outputs(program))
        else:
            self._export(request, request.module().to("cpu"))

    def _export(self, request: BuildRequest, module: torch.nn.Module) -> None:
        from benchorch.frameworks.opaque_module import OpaqueModule

        if not isinstance(module, OpaqueModule):
            self._write(request, *_with_tensors_alone(module, request))
        elif self.opset is not None:
            raise BuildError(
                f"the model comes as an ONNX graph, whose opset stays as it is; opset {self.opset} "
                "was requested.",
                remedy="conversion.steps.onnx.opset=null",
            )
        else:
            module.write(request.out_dir, request.example)

    def _write(
        self,
        request: BuildRequest,
        source: torch.nn.Module | torch.export.ExportedProgram,
        outputs: Outputs | None,
    ) -> None:
        import torch

        names = outputs.file_names(list(request.example.arrays)) if outputs else []
        with wrap_errors(BuildError, "torch.onnx.export refused the model"):
            torch.onnx.export(
                source,
                (),
                str(request.out_dir / MODEL_FILE),
                opset_version=self.opset,
                external_data=_size_bytes(source) > onnx_files.LARGEST_SINGLE_FILE_BYTES,
                dynamo=True,
                verbose=False,
                output_names=names or None,
                custom_translation_table=translations(),
                **_call(request, source),
            )
        if outputs is not None:
            write_outputs(outputs, request.out_dir)


def _with_tensors_alone(
    module: torch.nn.Module, request: BuildRequest
) -> tuple[torch.nn.Module | torch.export.ExportedProgram, Outputs]:
    """The module, or a program of it without the outputs that ONNX has no type for; its outputs."""
    import torch

    with wrap_errors(BuildError, "torch.export refused the model"):
        with torch.no_grad():
            raw = module(**traced_arguments(module, request.example))
        outputs = traced_outputs(raw, request.example)
        if not outputs.constants:
            return module, outputs
        program = export_module(module, request.example, strict=False)
        return program, return_tensors(program)


def _call(
    request: BuildRequest, source: torch.nn.Module | torch.export.ExportedProgram
) -> dict[str, Any]:
    """Arguments and open sizes to trace a module with; none for a program, which has its own."""
    import torch

    if not isinstance(source, torch.nn.Module):
        return {}
    arguments = traced_arguments(source, request.example)
    return {"kwargs": arguments, "dynamic_shapes": open_shapes(request.example)}


def _size_bytes(source: torch.nn.Module | torch.export.ExportedProgram) -> int:
    import torch

    if isinstance(source, torch.nn.Module):
        return stored_bytes(source.state_dict().values())
    return stored_bytes(source.state_dict.values())

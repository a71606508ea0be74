"""PT2E: an exported program whose weights and activations are rounded to int8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.pt2e_annotations import spare_nodes
from benchorch.conversions.quantization import calibrate, check_samples, missing, quietly
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import BuildError
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.torch_program import arguments_of, load_program, save_program
from benchorch.frameworks.torch_tracing import export_module
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

if TYPE_CHECKING:
    import torch

TOLERANCE_RATIO = 5e-2
_STRICT_MARK = "source_fn_stack"
"""Node metadata that only a strict export writes; quantizers find whole layers by it."""
_ROUNDING = "quantized_decomposed.quantize_"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pt2e(FileStep):
    """Marks where values are rounded; what compiles the program turns that into int8 arithmetic.

    Run operator by operator, the program rounds and computes in float32: slower than before.
    Compilers choose int8 kernels where they freeze: ``pt2e_int8+aot_inductor_freezing``.

    Args:
        quantizer: whose kernels are meant: Inductor's on x86, or XNNPACK's in ExecuTorch.
        dynamic: find the scales of activations at every call; no calibration is needed then.
        fold_weights: keep the weights in int8; false keeps them in float and rounds them at every
            call, which computes the same and saves nothing: int8 in appearance alone.
        samples: how many inputs the activations are calibrated on.
        exclude: patterns of module paths (``head.*``) and node names that stay in floats.
        operators: ATen operators that are quantised (``linear``); none means all that can be.
    """

    consumes = (Format.EXPORTED_PROGRAM,)
    produces = Format.EXPORTED_PROGRAM
    requires = ("torch", "torchao")
    version = 2  # 2: integer arithmetic is left alone
    requested_precision = "int8"
    tolerance_ratio = TOLERANCE_RATIO  # error of int8 weights and activations

    quantizer: Literal["x86_inductor", "xnnpack"] = "x86_inductor"
    dynamic: bool = False
    fold_weights: bool = True
    samples: int = 16
    exclude: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_samples(self.samples)

    def unavailable(self, device: str) -> str | None:
        """A missing package, or a device that has no int8 kernels for these marks."""
        if device != "cpu":
            return (
                f"the {self.quantizer} quantizer marks what CPU kernels compute in int8; on "
                f"{device!r} everything would stay in float32 and be rounded besides"
            )
        if self.quantizer != "xnnpack":
            return None
        return missing("executorch", "pip install 'benchorch[executorch]'")

    def build(self, request: BuildRequest) -> None:
        """Writes ``program.pt2``."""
        program = load_program(request.sources[Format.EXPORTED_PROGRAM])
        request = replace(request, example=_opened_alike(program, request.example))
        strict = self._strict(program, request)
        with quietly(), wrap_errors(BuildError, "PT2E quantisation refused the model"):
            converted = self._convert(strict.module(), request)
            _drop_unused(converted)
            made = export_module(converted, request.example, strict=False)
        if not any(_ROUNDING in str(node.target) for node in made.graph.nodes):
            raise BuildError(
                f"The {self.quantizer} quantizer found nothing in the model that it can quantise.",
                remedy=ANOTHER_CONVERSION,
            )
        save_program(made, request.out_dir)

    def _strict(
        self, program: torch.export.ExportedProgram, request: BuildRequest
    ) -> torch.export.ExportedProgram:
        """The previous program if it was exported strictly, else a strict export of the module."""
        if program.dialect != "TRAINING":
            raise BuildError(
                "The program is decomposed already, and quantizers recognise whole operators.",
                remedy="quantise first: pt2e_int8+decompositions",
            )
        if any(_STRICT_MARK in node.meta for node in program.graph.nodes):
            return program
        with (
            quietly(),
            wrap_errors(BuildError, "torch.export in its strict mode refused the model"),
        ):
            return export_module(request.module().to("cpu"), request.example, strict=True)

    def _convert(self, module: Any, request: BuildRequest) -> Any:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        dtypes = parameter_dtypes(module)
        quantizer = self._quantizer()
        spare_nodes(quantizer, self.exclude, self.operators)
        prepared = prepare_pt2e(module, quantizer)
        calibrate(prepared, request, self.samples, dtypes)
        return convert_pt2e(prepared, fold_quantize=self.fold_weights)

    def _quantizer(self) -> Any:
        if self.quantizer == "xnnpack":
            return self._xnnpack()
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config(is_dynamic=self.dynamic)
        return x86.X86InductorQuantizer().set_global(config)

    def _xnnpack(self) -> Any:
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack

        config = xnnpack.get_symmetric_quantization_config(
            is_per_channel=True, is_dynamic=self.dynamic
        )
        return xnnpack.XNNPACKQuantizer().set_global(config)


def _opened_alike(program: torch.export.ExportedProgram, example: Example) -> Example:
    """The example with those sizes open that the program leaves open."""
    shapes = {
        node.name: tuple(node.meta["val"].shape)
        for node in program.graph.nodes
        if node.op == "placeholder" and hasattr(node.meta.get("val"), "shape")
    }
    names = arguments_of(program)
    symbols = [
        symbol
        for spec in example.specs
        for symbol, size in zip(
            spec.shape, shapes.get(names.get(spec.name) or "", ()), strict=False
        )
        if isinstance(symbol, str) and not isinstance(size, int)
    ]
    return replace(example, dynamic=tuple(dict.fromkeys((*example.dynamic, *symbols))))


def _drop_unused(module: Any) -> None:
    """The float weights whose int8 form took their place: an export would keep both."""
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    named = [*module.named_parameters(), *module.named_buffers()]
    for name in {name for name, _ in named} - used:
        parent, _, own = name.rpartition(".")
        delattr(module.get_submodule(parent), own)

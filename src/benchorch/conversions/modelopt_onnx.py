"""NVIDIA Model Optimizer: a module is calibrated and written as ONNX whose types TensorRT keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.conversions.quantization import calibrate, check_samples, quietly
from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.module_precision import parameter_dtypes
from benchorch.frameworks.onnx_files import MODEL_FILE
from benchorch.frameworks.torch_tracing import open_axes, traced_arguments
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep, by_option

if TYPE_CHECKING:
    import torch

_OPSET = {"int8": 21, "fp8": 21, "nvfp4": 23}
"""The first with a type of that many bits, but for what TensorRT 10 reads."""
_TOLERANCE_RATIOS = {"int8": 8e-2, "fp8": 8e-2, "nvfp4": 0.2}
_PRECISIONS = {"int8": "int8", "fp8": "float8", "nvfp4": "float4"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptOnnx(FileStep):
    """Weights and activations are rounded by pairs of QuantizeLinear and DequantizeLinear.

    Args:
        precision: ``int8`` and ``fp8`` (of 4 bits of exponent) have a scale per output channel or
            per tensor, ``nvfp4`` one per 16 weights: Blackwell computes in it.
        samples: how many calibration inputs the model sees.
    """

    consumes = (Format.MODULE,)
    produces = Format.ONNX
    requires = ("torch", "onnx", "nvidia-modelopt", "onnx-graphsurgeon")
    requested_precision = by_option("precision", _PRECISIONS)
    tolerance_ratio = by_option("precision", _TOLERANCE_RATIOS)

    precision: Literal["int8", "fp8", "nvfp4"]
    samples: int = 16

    def __post_init__(self) -> None:
        check_samples(self.samples)

    def unavailable(self, device: str) -> str | None:
        """Unavailable on a CPU for blocks that only a GPU rounds."""
        if self.precision == "nvfp4" and device != "cuda":
            return "Model Optimizer rounds to NVFP4 on NVIDIA GPUs only: hardware=local_gpu"
        return None

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``; BuildError where no operator came to compute in fewer bits."""
        import onnx

        module = request.module().to(request.device)
        with quietly(), wrap_errors(BuildError, "Model Optimizer refused the model"):
            self._quantize(module, request)
            target = request.out_dir / MODEL_FILE
            self._export(module, request, target)
            graph = onnx.load(str(target))
            onnx.save(self._standard(graph), str(target))
        self._check(onnx.load(str(target), load_external_data=False))

    def _quantize(self, module: torch.nn.Module, request: BuildRequest) -> None:
        import modelopt.torch.quantization as mtq

        dtypes = parameter_dtypes(module)
        config = getattr(mtq, f"{self.precision.upper()}_DEFAULT_CFG")
        mtq.quantize(
            module,
            config,
            lambda each: calibrate(each, request, self.samples, dtypes, request.device),
        )

    def _export(self, module: torch.nn.Module, request: BuildRequest, target: Path) -> None:
        """Export by torch's older exporter, the only one with symbols for the quantisers."""
        import torch

        example = request.example
        arguments = {
            name: value.to(request.device) if isinstance(value, torch.Tensor) else value
            for name, value in traced_arguments(module.cpu(), example).items()
        }
        module.to(request.device)
        axes = {
            spec.name: {axis: str(spec.shape[axis]) for axis in open_axes(example)[spec.name]}
            for spec in example.specs
        }
        with torch.no_grad():
            torch.onnx.export(
                module,
                (),
                str(target),
                kwargs=arguments,
                input_names=list(example.arrays),
                dynamic_axes={name: each for name, each in axes.items() if each},
                opset_version=_OPSET[self.precision],
                dynamo=False,
            )

    def _standard(self, graph: Any) -> Any:
        """The graph with ONNX's own types instead of TensorRT's plug-ins, its weights rounded."""
        from modelopt.onnx import export

        exporters = {
            "int8": export.INT8QuantExporter,
            "fp8": export.FP8QuantExporter,
            "nvfp4": export.NVFP4QuantExporter,
        }
        made = exporters[self.precision].process_model(graph)
        for node in made.graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                node.domain = ""  # FP8's keep the domain of the plug-ins that they were
        return made

    def _check(self, graph: Any) -> None:
        kinds = {node.op_type for node in graph.graph.node}
        foreign = sorted({n.op_type for n in graph.graph.node if n.domain.startswith("trt")})
        if foreign:
            raise BuildError(
                f"Model Optimizer left operators of TensorRT's plug-ins: {', '.join(foreign)}.",
                remedy="another release of nvidia-modelopt",
            )
        if not any(kind.endswith(("QuantizeLinear",)) for kind in kinds):
            raise BuildError(
                f"Model Optimizer found no layer that it can round to {self.precision}.",
                kind="nothing_quantized",
                remedy="conversion=tensorrt",
            )

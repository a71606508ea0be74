"""ONNX Runtime's static quantisation: int8 weights and activations, calibrated beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from benchorch.conversions.onnx_prepare import (
    nodes_matching,
    prepared,
    refused,
    require_operators,
)
from benchorch.conversions.quantization import check_samples
from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Array, Arrays
from benchorch.frameworks.onnx_files import (
    MODEL_FILE,
    is_large,
    own_name,
    runtime_distribution,
)
from benchorch.interfaces.conversion import BuildRequest, FileStep

_TYPES = {"int8": "Int8", "uint8": "UInt8", "int16": "Int16", "uint16": "UInt16"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxInt8Static(FileStep):
    """Writes pairs of QuantizeLinear and DequantizeLinear, which providers fuse into int8 kernels.

    Args:
        samples: how many calibration inputs the model sees.
        method: how ranges follow from what was seen; minmax keeps every value.
        per_channel: a scale for every output channel rather than one for the whole weight.
        reduce_range: 7 bit weights, for processors whose 8 bit products saturate (no VNNI).
        activations: type of values between operators; 16 bits cost more and keep small ones.
        exclude: patterns of node names and module paths that stay in floats.
        operators: operator types that are quantised (``Conv``); none means all that can be.
    """

    consumes = (Format.ONNX,)
    produces = Format.ONNX
    requires = ("onnx", runtime_distribution())
    requested_precision = "int8"
    tolerance_ratio = 8e-2  # twice the error of a small BERT

    samples: int = 32
    method: Literal["minmax", "entropy", "percentile"] = "minmax"
    per_channel: bool = True
    reduce_range: bool = False
    activations: Literal["int8", "uint8", "int16", "uint16"] = "int8"
    exclude: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_samples(self.samples)

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        import onnx

        target = request.out_dir / MODEL_FILE
        with refused("ONNX Runtime cannot quantise the graph"):
            self._quantize(request, target)
        graph = onnx.load(str(target), load_external_data=False)
        require_operators(graph, ("QuantizeLinear",), "int8")

    def _quantize(self, request: BuildRequest, target: Path) -> None:
        from onnxruntime.quantization import (
            CalibrationMethod,
            QuantFormat,
            QuantType,
            quantize_static,
        )

        methods = {
            "minmax": CalibrationMethod.MinMax,
            "entropy": CalibrationMethod.Entropy,
            "percentile": CalibrationMethod.Percentile,
        }
        source = request.sources[Format.ONNX]
        with prepared(source) as at:
            quantize_static(
                str(at / MODEL_FILE),
                str(target),
                _reader(self._inputs(request, at / MODEL_FILE)),
                quant_format=QuantFormat.QDQ,
                calibrate_method=methods[self.method],
                per_channel=self.per_channel,
                reduce_range=self.reduce_range,
                activation_type=QuantType[f"Q{_TYPES[self.activations]}"],
                nodes_to_exclude=nodes_matching(at / MODEL_FILE, self.exclude, source / MODEL_FILE),
                op_types_to_quantize=list(self.operators) or None,
                use_external_data_format=is_large(source),
            )

    def _inputs(self, request: BuildRequest, model: Path) -> Iterator[dict[str, Array]]:
        """The calibration inputs in the graph's types."""
        types = _input_types(model)
        for number in range(self.samples):
            arrays: Arrays = request.calibration(number)
            yield {
                name: arrays[own_name(name, arrays) or name].astype(dtype)
                for name, dtype in types.items()
            }


def _input_types(model: Path) -> dict[str, Any]:
    """The numpy type of each input; exporters drop inputs that no output depends on."""
    import onnx

    inputs = onnx.load(str(model), load_external_data=False).graph.input
    to_numpy = onnx.helper.tensor_dtype_to_np_dtype
    return {each.name: to_numpy(each.type.tensor_type.elem_type) for each in inputs}


def _reader(inputs: Iterator[dict[str, Array]]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Array] | None:
            return next(inputs, None)

    return Reader()

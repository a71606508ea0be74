"""ONNX Runtime's dynamic quantisation: int8 weights, activations measured in every call."""

from dataclasses import dataclass
from typing import final

from benchorch.conversions.onnx_prepare import (
    nodes_matching,
    prepared,
    refused,
    require_operators,
)
from benchorch.domain.artifact import Format
from benchorch.frameworks.onnx_files import MODEL_FILE, is_large, runtime_distribution
from benchorch.interfaces.conversion import BuildRequest, FileStep

_QUANTIZED = ("Integer", "DynamicQuantizeLSTM", "QAttention", "DynamicQuantizeMatMul")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxInt8Dynamic(FileStep):
    """Needs no calibration; made for matrix products, slow for convolutions.

    Args:
        per_channel: a scale for every output channel rather than one for the whole weight.
        reduce_range: 7 bit weights, for processors whose 8 bit products saturate (no VNNI).
        exclude: patterns of node names and module paths that stay in floats.
        operators: operator types that are quantised (``Conv``); none means all that can be.
    """

    consumes = (Format.ONNX,)
    produces = Format.ONNX
    requires = ("onnx", runtime_distribution())
    requested_precision = "int8"
    tolerance_ratio = 6e-2  # twice the error of BERT base

    per_channel: bool = False
    reduce_range: bool = False
    exclude: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        source = request.sources[Format.ONNX]
        target = request.out_dir / MODEL_FILE
        with (
            refused("ONNX Runtime cannot quantise the graph"),
            prepared(source) as at,
        ):
            excluded = nodes_matching(at / MODEL_FILE, self.exclude, source / MODEL_FILE)
            quantize_dynamic(
                str(at / MODEL_FILE),
                str(target),
                weight_type=QuantType.QInt8,
                per_channel=self.per_channel,
                reduce_range=self.reduce_range,
                # The quantiser makes a product, called so, of each Gemm before it looks for names.
                nodes_to_exclude=[*excluded, *(f"{name}_MatMul" for name in excluded)],
                op_types_to_quantize=list(self.operators) or None,
                use_external_data_format=is_large(source),
            )
        graph = onnx.load(str(target), load_external_data=False)
        require_operators(graph, _QUANTIZED, "int8")

"""ONNX Runtime's block-wise weights: the matrices of matrix products in 4 or 8 bits."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, final

from benchorch.conversions.onnx_prepare import (
    prepared,
    refused,
    require_operators,
    without_gemms,
)
from benchorch.conversions.quantization import only_weights
from benchorch.domain.artifact import Format
from benchorch.frameworks.onnx_files import MODEL_FILE, is_large, runtime_distribution, write_graph
from benchorch.interfaces.conversion import BuildRequest, FileStep, by_option

_TOLERANCE_RATIOS = {4: 2e-1, 8: 2e-2}
_ACCURACY_LEVELS = {"float32": 1, "int8": 4}
"""ONNX Runtime's numbers for what the activations are rounded to inside of the kernel."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxBlockWeights(FileStep):
    """Each block of weights has a scale of its own; activations keep their type outside.

    Args:
        bits: of a weight.
        block_size: how many weights share a scale: a power of two of at least 16.
        symmetric: zero means zero; otherwise each block has a zero point too.
        compute: what the kernel rounds activations to: int8 is faster, float32 exact.
    """

    consumes = (Format.ONNX,)
    produces = Format.ONNX
    requires = ("onnx", "onnx-ir", runtime_distribution())
    tolerance_ratio = by_option("bits", _TOLERANCE_RATIOS)

    bits: Literal[4, 8] = 4
    block_size: Literal[16, 32, 64, 128, 256] = 32
    symmetric: bool = True
    compute: Literal["float32", "int8"] = "int8"

    @property
    def requested_precision(self) -> str:
        """Dtype of the weights, and whether activations are rounded, too."""
        dtype = f"int{self.bits}"
        return dtype if self.compute == "int8" else only_weights(dtype)

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        source = request.sources[Format.ONNX]
        with refused("ONNX Runtime cannot quantise the graph"):
            model = self._quantized(request)
            require_operators(model, ("MatMulNBits",), f"{self.bits} bit weights")
            write_graph(model, request.out_dir, large=is_large(source))

    def _quantized(self, request: BuildRequest) -> Any:
        import onnx
        from onnxruntime.quantization import matmul_nbits_quantizer as nbits

        with prepared(request.sources[Format.ONNX]) as at:
            model = onnx.load(str(at / MODEL_FILE))
        without_gemms(model)
        # The quantiser itself takes the number of bits only from 1.24 on.
        config = nbits.DefaultWeightOnlyQuantConfig(
            bits=self.bits,
            block_size=self.block_size,
            is_symmetric=self.symmetric,
            accuracy_level=_ACCURACY_LEVELS[self.compute],
        )
        with _silence():
            quantizer = nbits.MatMulNBitsQuantizer(model, algo_config=config)
            quantizer.process()
        return quantizer.model.model


@contextmanager
def _silence() -> Iterator[None]:
    """The quantiser logs a line for every node, and sets the root logger up for that."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)

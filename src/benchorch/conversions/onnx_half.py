"""An ONNX graph in half precision, cast after the export."""

from dataclasses import dataclass
from typing import final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE, is_large, runtime_distribution, write_graph
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxHalf(FileStep):
    """Weights and operators in float16, except those that it would make inaccurate.

    Unlike a module that is cast before the export, operators that float16 has not, or would spoil,
    keep float32. A provider may still compute in float32 where it has no other kernel.

    Args:
        keep_io_types: leave inputs and outputs in float32.
    """

    consumes = (Format.ONNX,)
    produces = Format.ONNX
    requires = ("onnx", runtime_distribution())
    requested_precision = "float16"
    tolerance_ratio = 5e-3  # error of rounding every value to 11 bits

    keep_io_types: bool = False

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        source = request.sources[Format.ONNX]
        large = is_large(source)
        with wrap_errors(BuildError, "ONNX Runtime cannot cast the graph to float16"):
            model = convert_float_to_float16(
                onnx.load(str(source / MODEL_FILE)),
                keep_io_types=self.keep_io_types,
                # It needs the graph in one message; the exporter has written every shape anyway.
                disable_shape_infer=large,
            )
            write_graph(model, request.out_dir, large=large)

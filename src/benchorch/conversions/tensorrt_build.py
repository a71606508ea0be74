"""TensorRT: an ONNX graph becomes an engine for one kind of GPU."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE
from benchorch.frameworks.tensorrt_support import ELSEWHERE, products_ratio, refuse_open_sizes
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

ENGINE_FILE = "model.engine"
NOTES_FILE = "model.json"
_FLOATS = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "FP8": "float8_e4m3fn"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRtBuild(FileStep):
    """Types are the graph's own; for half precision put a cast before the export.

    Args:
        tf32: let float32 products be rounded to 10 bits of mantissa, as tensor cores want them.
    """

    consumes = (Format.ONNX,)
    produces = Format.TENSORRT_ENGINE
    requires = ("tensorrt",)
    depends_on = ("arch", "compute_capability")

    tf32: bool = False

    @property
    def tolerance_ratio(self) -> float:
        """Error of such products, or of another order of the same operations."""
        return products_ratio(tf32=self.tf32)

    def unavailable(self, device: str) -> str | None:
        """Unavailable except on NVIDIA GPUs."""
        return None if device == "cuda" else ELSEWHERE

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.engine``, and what it computes in into ``model.json``."""
        refuse_open_sizes(request.example)
        with wrap_errors(BuildError, "TensorRT refused the ONNX graph"):
            network, engine = self._built(request.sources[Format.ONNX] / MODEL_FILE)
        notes = {
            "outputs": [network.get_output(i).name for i in range(network.num_outputs)],
            "dtypes": _dtypes(network),
        }
        (request.out_dir / ENGINE_FILE).write_bytes(engine)
        (request.out_dir / NOTES_FILE).write_text(json.dumps(notes, indent=1))

    def _built(self, graph: Path) -> tuple[Any, bytes]:
        """The network and its engine's bytes; RuntimeError with TensorRT's own words."""
        import tensorrt

        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        builder = tensorrt.Builder(logger)
        network = builder.create_network(_strongly_typed(tensorrt))
        parser = tensorrt.OnnxParser(network, logger)
        if not parser.parse_from_file(str(graph)):
            raise RuntimeError(str(parser.get_error(0)))
        config = builder.create_builder_config()
        change = config.set_flag if self.tf32 else config.clear_flag
        change(tensorrt.BuilderFlag.TF32)
        engine = builder.build_serialized_network(network, config)
        if engine is None:
            raise RuntimeError("no engine could be built; the log above says why")
        return network, bytes(engine)


def _strongly_typed(tensorrt: Any) -> int:
    """The flag that keeps the graph's types; later versions keep them always and may lack it."""
    flag = getattr(tensorrt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _dtypes(network: Any) -> list[str]:
    """The floating types of what the layers give, sorted."""
    layers = [network.get_layer(i) for i in range(network.num_layers)]
    names = {layer.get_output(i).dtype.name for layer in layers for i in range(layer.num_outputs)}
    return sorted(_FLOATS[name] for name in names if name in _FLOATS)

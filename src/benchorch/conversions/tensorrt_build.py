"""TensorRT: an ONNX graph becomes an engine for one kind of GPU."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE, own_name
from benchorch.frameworks.tensorrt_support import NOT_ON_CPU, Bounds, bounds_of, check_profile
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep

ENGINE_FILE = "model.engine"
NOTES_FILE = "model.json"
_FLOATS = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "FP8": "float8_e4m3fn",
    "FP4": "float4_e2m1fn",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRtBuild(FileStep):
    """Types are the graph's own; for half precision put a cast before the export.

    Args:
        profile: smallest, best and largest size of each symbol of ``workload.dynamic``, e.g.
            ``{batch_size: [1, 8, 32]}``: one engine then serves all sizes between.
    """

    consumes = (Format.ONNX,)
    produces = Format.TENSORRT_ENGINE
    requires = ("tensorrt",)
    not_on_cpu = NOT_ON_CPU
    depends_on = ("arch", "compute_capability")
    version = 2  # 2: sizes may be open

    profile: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_profile(self.profile or {})

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.engine``, and what it computes in into ``model.json``."""
        bounds = bounds_of(request.example, self.profile or {}, "tensorrt")
        with wrap_errors(BuildError, "TensorRT refused the ONNX graph"):
            graph = request.sources[Format.ONNX] / MODEL_FILE
            network, engine = _built(graph, bounds, tf32=request.tf32)
        notes = {
            "outputs": [network.get_output(i).name for i in range(network.num_outputs)],
            "dtypes": _dtypes(network),
        }
        (request.out_dir / ENGINE_FILE).write_bytes(engine)
        (request.out_dir / NOTES_FILE).write_text(json.dumps(notes, indent=1), encoding="utf-8")


def _built(graph: Path, bounds: Mapping[str, Bounds], *, tf32: bool) -> tuple[Any, bytes]:
    """The network and its engine's bytes; RuntimeError with TensorRT's own words."""
    import tensorrt

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(_strongly_typed(tensorrt))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(graph)):
        raise RuntimeError(str(parser.get_error(0)))
    config = builder.create_builder_config()
    change = config.set_flag if tf32 else config.clear_flag
    change(tensorrt.BuilderFlag.TF32)
    if bounds:
        config.add_optimization_profile(_profile(builder, network, bounds))
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise RuntimeError("no engine could be built; see the log above")
    return network, bytes(engine)


def _profile(builder: Any, network: Any, bounds: Mapping[str, Bounds]) -> Any:
    """TensorRT's form of the bounds, for the inputs that the graph has."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        name = network.get_input(index).name
        known = own_name(name, bounds)
        if known is not None:
            each = bounds[known]
            profile.set_shape(name, each.smallest, each.best, each.largest)
    return profile


def _strongly_typed(tensorrt: Any) -> int:
    """The flag that keeps the graph's types; later versions keep them always and may lack it."""
    flag = getattr(tensorrt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _dtypes(network: Any) -> list[str]:
    """The floating types of what the layers give, sorted."""
    layers = [network.get_layer(i) for i in range(network.num_layers)]
    names = {layer.get_output(i).dtype.name for layer in layers for i in range(layer.num_outputs)}
    return sorted(_FLOATS[name] for name in names if name in _FLOATS)

"""ONNX Runtime's transformer optimiser: patterns of operators become one operator of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from benchorch.conversions.quantization import quietly
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import (
    FUSED,
    MODEL_FILE,
    is_large,
    runtime_distribution,
    write_graph,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxOptimize(FileStep):
    """Fuses attention, layer norms, GELU and embeddings; only ONNX Runtime runs the result.

    Args:
        model_type: whose patterns are looked for; bert fits most encoders.
        num_heads: of attention; 0 has them found in the graph.
        hidden_size: of attention; 0 has it found in the graph.
    """

    consumes = (Format.ONNX,)
    produces = Format.ONNX
    requires = ("onnx", runtime_distribution())

    model_type: Literal["bert", "bart", "clip", "gpt2", "t5", "vit", "unet", "vae"] = "bert"
    num_heads: int = 0
    hidden_size: int = 0

    def without_effect(self, facts: Mapping[str, Json], device: str) -> str | None:
        """A graph without its patterns stays as it was."""
        if facts.get("fused_operators") == 0:
            return f"no pattern of {self.model_type} was found: as many nodes as before"
        return None

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx``."""
        import onnx
        from onnxruntime.transformers.optimizer import optimize_model

        source = request.sources[Format.ONNX]
        refused = wrap_errors(
            BuildError, "ONNX Runtime's transformer optimiser refused the graph", AssertionError
        )
        with quietly(), refused:
            optimized = optimize_model(
                str(source / MODEL_FILE),
                model_type=self.model_type,
                num_heads=self.num_heads,
                hidden_size=self.hidden_size,
                opt_level=0,  # what a session does by itself it does when it is opened
            )
        before = onnx.load(str(source / MODEL_FILE), load_external_data=False)
        fused = len(before.graph.node) - len(optimized.model.graph.node)
        optimized.model.metadata_props.add(key=FUSED, value=str(fused))
        write_graph(optimized.model, request.out_dir, large=is_large(source))

"""NNCF's weight compression of an OpenVINO graph: 8 or 4 bit weights, floating activations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from benchorch.conversions.quantization import only_weights
from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.openvino_files import (
    NOT_ON_GPU,
    import_openvino,
    quiet_nncf,
    read_graph,
    write_graph,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep, by_option

_TOLERANCE_RATIOS = {8: 3e-2, 4: 2e-1}
"""Twice the error of resnet18 (8 bits) and of a small BERT (4 bits)."""

_TYPES = {8: ("u8", "i8"), 4: ("u4", "i4")}
_SMALLEST_GROUP = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoWeights(FileStep):
    """Needs no calibration.

    Args:
        bits: of a weight.
        symmetric: zero means zero; otherwise there are zero points too.
        group_size: how many weights share a scale; null means a scale for each output channel.
            Where it does not divide a weight's channels, a smaller one that does is taken.
        all_layers: with 4 bits, whether embeddings and the last layer have them too rather than 8;
            null means where nothing else would have.
    """

    consumes = (Format.OPENVINO_IR,)
    produces = Format.OPENVINO_IR
    requires = ("openvino", "nncf")
    not_on_gpu = NOT_ON_GPU
    requested_precision = by_option("bits", {8: only_weights("int8"), 4: only_weights("int4")})
    tolerance_ratio = by_option("bits", _TOLERANCE_RATIOS)

    bits: Literal[4, 8] = 8
    symmetric: bool = False
    group_size: int | None = None
    all_layers: bool | None = None

    def __post_init__(self) -> None:
        if self.bits == 8 and (self.group_size is not None or self.all_layers):
            raise ValueError("group_size and all_layers are for bits=4.")

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.xml`` and ``model.bin``."""
        import_openvino()
        with wrap_errors(BuildError, "NNCF cannot compress the graph's weights"):
            model = self._compressed(request.sources[Format.OPENVINO_IR])
        if not _n_packed(model, self.bits):
            raise BuildError(
                "NNCF found no weight in the graph that it can compress.",
                kind="nothing_quantized",
                remedy="conversion=openvino",
            )
        write_graph(model, request.out_dir)

    def _compressed(self, source: Path) -> Any:
        with quiet_nncf():
            model = self._attempt(read_graph(source), all_layers=bool(self.all_layers))
            if self.all_layers is None and not _n_packed(model, self.bits):
                model = self._attempt(read_graph(source), all_layers=True)
        return model

    def _attempt(self, model: Any, *, all_layers: bool) -> Any:
        import nncf

        kind = "sym" if self.symmetric else "asym"
        mode = nncf.CompressWeightsMode(f"int{self.bits}_{kind}")
        if self.bits == 8:
            return nncf.compress_weights(model, mode=mode)
        fallback = nncf.GroupSizeFallbackMode.ADJUST
        return nncf.compress_weights(
            model,
            mode=mode,
            group_size=self.group_size or -1,
            all_layers=all_layers,
            advanced_parameters=nncf.AdvancedCompressionParameters(
                group_size_fallback_mode=fallback, min_adjusted_group_size=_SMALLEST_GROUP
            ),
        )


def _n_packed(model: Any, bits: int) -> int:
    """Number of weights with `bits` bits."""
    constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    types = [node.get_element_type().get_type_name() for node in constants]
    # One byte is also what a zero point has, and a bias of whole numbers; it must be a matrix.
    shapes = [list(node.get_output_shape(0)) for node in constants]
    return sum(
        kind in _TYPES[bits] and len(shape) > 1 and max(shape[1:]) > 1
        for kind, shape in zip(types, shapes, strict=True)
    )

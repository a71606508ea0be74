"""NNCF's post-training quantisation of an OpenVINO graph: int8 weights and activations."""

from dataclasses import dataclass
from typing import Any, Literal, final

from benchorch.conversions.quantization import check_samples, matches, require_matches
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
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoInt8(FileStep):
    """Calibrated on the model's own inputs.

    Args:
        samples: how many calibration inputs the model sees.
        preset: symmetric activations are faster, asymmetric ones (mixed) lose less.
        model_type: transformer keeps the operators of attention that int8 would spoil in floats.
        exclude: patterns of node names that stay in floats.
        operators: operator types that are quantised (``Convolution``); none means all that can be.
    """

    consumes = (Format.OPENVINO_IR,)
    produces = Format.OPENVINO_IR
    requires = ("openvino", "nncf")
    not_on_gpu = NOT_ON_GPU
    version = 2
    requested_precision = "int8"
    tolerance_ratio = 5e-2  # twice the error of BERT base

    samples: int = 32
    preset: Literal["performance", "mixed"] | None = None
    model_type: Literal["transformer"] | None = None
    exclude: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_samples(self.samples)

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.xml`` and ``model.bin``."""
        import_openvino()
        with wrap_errors(BuildError, "NNCF cannot quantise the graph"), quiet_nncf():
            model = self._quantized(request)
        if not any(node.get_type_name() == "FakeQuantize" for node in model.get_ops()):
            raise BuildError(
                "NNCF found no operator in the graph that it can quantise.",
                kind="nothing_quantized",
                remedy="conversion=openvino",
            )
        write_graph(model, request.out_dir)

    def _quantized(self, request: BuildRequest) -> Any:
        import nncf

        model = read_graph(request.sources[Format.OPENVINO_IR])
        names = [port.any_name for port in model.inputs]
        batches = [request.calibration(number) for number in range(self.samples)]
        return nncf.quantize(
            model,
            nncf.Dataset([{name: batch[name] for name in names} for batch in batches]),
            subset_size=self.samples,
            preset=nncf.QuantizationPreset(self.preset) if self.preset else None,
            model_type=nncf.ModelType(self.model_type) if self.model_type else None,
            ignored_scope=self._ignored(model),
        )

    def _ignored(self, model: Any) -> Any:
        """Nodes that stay in floating point."""
        import nncf

        nodes = [(node.get_friendly_name(), node.get_type_name()) for node in model.get_ops()]
        require_matches(self.exclude, [name for name, _ in nodes])
        others = {kind for _, kind in nodes if self.operators and kind not in self.operators}
        return nncf.IgnoredScope(
            names=[name for name, _ in nodes if matches(self.exclude, [name])],
            # Embeddings are looked up rather than computed with, and BERT's stop NNCF: it has no
            # statistics for one of their Gathers.
            types=sorted({"Gather", *others}),
            validate=False,
        )

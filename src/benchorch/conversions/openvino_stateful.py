"""A decoder's cache kept by OpenVINO itself, in variables of the graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import TensorSpec
from benchorch.errors import BuildError
from benchorch.frameworks.openvino_files import (
    NOT_ON_GPU,
    import_openvino,
    read_graph,
    write_graph,
)
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep
from benchorch.interfaces.generation import IDS, PAST


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoStateful(FileStep):
    """Each tensor of the cache becomes a variable, empty at first, that the graph itself grows.

    Source: OpenVINO's documentation, "Stateful models and State API".
    """

    generates = True
    consumes = (Format.OPENVINO_IR,)
    produces = Format.OPENVINO_IR
    requires = ("openvino",)
    not_on_gpu = NOT_ON_GPU

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.xml`` and ``model.bin``; BuildError for a model without such a cache."""
        import_openvino()
        cache = [spec for spec in request.example.specs if PAST in spec.shape]
        with wrap_errors(BuildError, "OpenVINO cannot keep the cache in variables"):
            model = read_graph(request.sources[Format.OPENVINO_IR])
            # An encoder-decoder has outputs besides: keys and values of the source.
            if not cache or len(model.outputs) != len(cache) + 1:
                raise BuildError(
                    "The model has no cache of a decoder alone that grows with each token.",
                    kind="cache",
                    remedy="scenario=generate with a causal language model, or conversion=openvino",
                )
            _keep_cache(model, cache)
            write_graph(model, request.out_dir)


def _keep_cache(model: Any, cache: Sequence[TensorSpec]) -> None:
    """Connect each input of the cache with its grown output; prompts begin with no tokens."""
    from openvino import opset13 as ops
    from openvino._offline_transformations import apply_make_stateful_transformation

    model.reshape({spec.name: _shape(spec) for spec in cache})
    names = [spec.name for spec in cache]
    grown = [port.any_name for port in model.outputs[1:]]
    apply_make_stateful_transformation(model, dict(zip(names, grown, strict=True)))
    sizes = ops.shape_of(model.input(IDS), output_type="i64")
    batch = ops.gather(sizes, ops.constant([0]), ops.constant(0))
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            others = [size.min_length for size in node.get_output_partial_shape(0)][1:]
            shape = ops.concat([batch, ops.constant(others)], axis=0)
            zero = ops.constant(0.0, dtype=node.get_output_element_type(0).to_dtype())
            node.set_arguments([ops.broadcast(zero, shape)])
    model.validate_nodes_and_infer_types()


def _shape(spec: TensorSpec) -> Any:
    """Heads and their sizes as declared, tokens and batch open."""
    sizes = [size if isinstance(size, int) else -1 for size in spec.shape]
    return import_openvino().PartialShape(sizes)

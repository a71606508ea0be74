"""Preparation of a graph for ONNX Runtime's quantisers, and a check of their result."""

from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchorch.conversions.quantization import matches, require_matches
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE, is_large, write_graph
from benchorch.frameworks.upstream_errors import wrap_errors

_SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata key under which torch's exporter stores a node's module paths."""


def refused(what: str) -> AbstractContextManager[None]:
    """BuildError for what ONNX and ONNX Runtime's quantisers raise."""
    from onnx.checker import ValidationError
    from onnx.shape_inference import InferenceError

    return wrap_errors(BuildError, what, InferenceError, ValidationError)


@contextmanager
def prepared(source: Path) -> Iterator[Path]:
    """A directory with the graph folded and fused, its shapes inferred; gone afterwards.

    BuildError where the graph is not sound.
    """
    from onnxruntime.quantization.shape_inference import quant_pre_process

    large = is_large(source)
    with TemporaryDirectory() as name:
        with refused("The ONNX graph is not sound"):
            quant_pre_process(
                str(source / MODEL_FILE),
                str(Path(name) / MODEL_FILE),
                # The exporter has written every shape that is known.
                skip_symbolic_shape=True,
                save_as_external_data=large,
                all_tensors_to_one_file=True,
            )
            _list_weights_once(Path(name), large=large)
        yield Path(name)


def _list_weights_once(directory: Path, *, large: bool) -> None:
    """As initialisers: of a shape or an input beside one, quantisers change neither with it."""
    import onnx

    model = onnx.load(str(directory / MODEL_FILE))
    weights = {each.name for each in model.graph.initializer}
    for listed in (model.graph.value_info, model.graph.input):
        kept = [each for each in listed if each.name not in weights]
        del listed[:]
        listed.extend(kept)
    model.ir_version = max(model.ir_version, 4)  # before, each weight had to be an input
    write_graph(model, directory, large=large)


def nodes_matching(model: Path, patterns: Sequence[str], source: Path) -> list[str]:
    """Names of the nodes whose own name or module path fits a pattern.

    Args:
        model: the prepared graph. Once it has fused a node, ONNX Runtime drops all module paths.
        patterns: of names and module paths; BuildError for one that fits none.
        source: the graph before, which has them.
    """
    if not patterns:
        return []
    scopes = {node.name: _scopes(node) for node in _nodes(source)}
    named = {
        # What was fused is called after its first part: linear_mm/MatMulAddFusion.
        name: [name, *scopes.get(name, scopes.get(name.rpartition("/")[0], []))]
        for name in (node.name for node in _nodes(model))
    }
    require_matches(patterns, [name for names in named.values() for name in names])
    return [name for name, names in named.items() if matches(patterns, names)]


def _nodes(model: Path) -> Sequence[Any]:
    import onnx

    nodes: Sequence[Any] = onnx.load(str(model), load_external_data=False).graph.node
    return nodes


def _scopes(node: Any) -> list[str]:
    """The modules that torch's exporter made the node from."""
    scopes = next((p.value for p in node.metadata_props if p.key == _SCOPES), "[]")
    return [scope for scope in literal_eval(scopes) if scope]


def require_operators(model: Any, required: tuple[str, ...], scheme: str) -> None:
    """BuildError where a quantiser changed no operator of the graph.

    Args:
        model: an ``onnx.ModelProto``.
        wanted: of which operators at least one must be there, by the end of their names.
        scheme: what was to be done, for people.
    """
    if not any(node.op_type.endswith(required) for node in model.graph.node):
        raise BuildError(
            f"ONNX Runtime found no operator with constant weights that it can change to {scheme}.",
            kind="nothing_quantized",
            remedy="conversion=onnxruntime",
        )


def without_gemms(model: Any) -> None:
    """Every ``Gemm`` with a constant matrix becomes ``MatMul`` and ``Add``, in place.

    Weight-only quantisation knows ``MatMul`` alone, and exporters write linear layers as ``Gemm``.
    """
    weights = {each.name: each for each in model.graph.initializer}
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type == "Gemm" and _is_linear(node) and node.input[1] in weights:
            nodes.extend(_as_product(node, weights, model))
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _drop_unused(model)


def _drop_unused(model: Any) -> None:
    """Weights that no node takes any more."""
    used = set(_used(model.graph))
    kept = [each for each in model.graph.initializer if each.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _used(graph: Any) -> Iterator[str]:
    """Names that a graph's nodes and outputs take, those of its branches and loops too."""
    yield from (each.name for each in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _used(inner)


def _is_linear(node: Any) -> bool:
    """Whether nothing is scaled and the input is taken as it is."""
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
    values = {each.name: each.f if each.type == 1 else each.i for each in node.attribute}
    return all(values.get(name, value) == value for name, value in plain.items())


def _as_product(node: Any, weights: dict[str, Any], model: Any) -> Iterator[Any]:
    from onnx import helper

    matrix = node.input[1]
    if any(each.name == "transB" and each.i for each in node.attribute):
        matrix = _transposed(matrix, weights, model)
    has_bias = len(node.input) > 2 and node.input[2]
    product = f"{node.output[0]}_product" if has_bias else node.output[0]
    yield helper.make_node("MatMul", [node.input[0], matrix], [product], name=f"{node.name}_matmul")
    if has_bias:
        yield helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=node.name)


def _transposed(name: str, weights: dict[str, Any], model: Any) -> str:
    """The transposed weight's name; it is added once."""
    from onnx import numpy_helper

    new = f"{name}_transposed"
    if new not in weights:
        array = numpy_helper.to_array(weights[name]).T.copy()
        weights[new] = numpy_helper.from_array(array, new)
        model.graph.initializer.append(weights[new])
    return new

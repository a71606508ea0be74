"""Which nodes of a graph a PT2E quantizer may mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchorch.conversions.quantization import matches, require_matches

if TYPE_CHECKING:
    import torch

_KEY = "quantization_annotation"


def spare_nodes(quantizer: Any, exclude: Sequence[str], operators: Sequence[str]) -> None:
    """Keep a quantizer's marks from integer arithmetic, and from what should stay in floats.

    Quantizers mark an addition by its operator, and models add positions and masks too, whose
    integers no observer can count.

    Args:
        quantizer: one of PT2E's; its method ``annotate`` is extended.
        exclude: patterns of node names and module paths that stay in floats.
        operators: names of ATen operators (``linear``); if there are any, all others stay.
    """
    annotate = quantizer.annotate

    def annotate_and_spare(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        annotate(model)
        nodes = list(model.graph.nodes)
        require_matches(exclude, [name for node in nodes for name in _names(node)])
        _spare(nodes, lambda node: _stays(node, exclude, operators))
        return model

    quantizer.annotate = annotate_and_spare


def _stays(node: torch.fx.Node, exclude: Sequence[str], operators: Sequence[str]) -> bool:
    """Whether the node is computed in its own dtype."""
    if not _is_floating(node):
        return True
    if matches(exclude, _names(node)):
        return True
    return bool(operators) and _operator(node) not in operators


def _is_floating(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    dtype = getattr(value[0] if isinstance(value, tuple | list) and value else value, "dtype", None)
    return dtype is None or bool(dtype.is_floating_point)


def _names(node: torch.fx.Node) -> list[str]:
    """The node's own name, and the paths of the modules that it is in."""
    modules = (node.meta.get("nn_module_stack") or {}).values()
    paths = [str(path).replace("L['self'].", "").removeprefix("L['self']") for path, _ in modules]
    return [node.name, *filter(None, paths)]


def _operator(node: torch.fx.Node) -> str:
    """``linear`` of ``aten.linear.default``."""
    words = str(node.target).split(".")
    return words[1] if len(words) > 1 else words[0]


def _spare(nodes: Sequence[torch.fx.Node], stays: Callable[[torch.fx.Node], bool]) -> None:
    """Remove the marks of nodes that stay, of their edges, and those shared with either."""
    gone: set[object] = set()
    for node in nodes:
        annotation = node.meta.get(_KEY)
        if annotation is None:
            continue
        given = list(annotation.input_qspec_map)
        dropped = given if stays(node) else [each for each in given if not _is_floating(each)]
        gone |= {(each, node) for each in dropped}
        if stays(node):
            gone.add(node)
            del node.meta[_KEY]
        else:
            kept = {k: v for k, v in annotation.input_qspec_map.items() if k not in dropped}
            annotation.input_qspec_map = kept
    while gone:
        gone = _spare_sharing(nodes, gone)


def _spare_sharing(nodes: Sequence[torch.fx.Node], gone: set[object]) -> set[object]:
    """Remove marks that take their scale from one that is gone; what is gone with them."""
    more: set[object] = set()
    for node in nodes:
        annotation = node.meta.get(_KEY)
        if annotation is None:
            continue
        if _shares(annotation.output_qspec, gone):
            annotation.output_qspec = None
            more.add(node)
        for each, spec in list(annotation.input_qspec_map.items()):
            if _shares(spec, gone):
                del annotation.input_qspec_map[each]
                more.add((each, node))
    return more


def _shares(spec: Any, gone: set[object]) -> bool:
    return getattr(spec, "edge_or_node", None) in gone

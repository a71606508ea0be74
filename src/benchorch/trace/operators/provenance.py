"""Provenance of compiled kernels: the nodes of the model's graph that each does the work of."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.errors import TraceError
from benchorch.files import read_json
from benchorch.formatting import whole_number

MAPPINGS = "inductor_provenance_tracking_node_mappings"  # begin of files' names
_NUMBERED_GRAPH = re.compile(r"^graph_\d+_")
_NUMBER = re.compile(r"_\d+$")
_CALL = re.compile(r"^(?P<name>.*):(?P<call>[0-9]{1,18})$")
_OF_TORCH = re.compile(r"^torch\.ops\.[^.]*\.([^.]*)")
_FUSED = re.compile(r"^(?:triton_(?:[a-z]+_)?|cpp_)fused_(?P<ops>.+?)_\d+$")
_LONG_OPS = (
    *("_native_batch_norm_legit_no_training", "_scaled_dot_product_flash_attention"),
    *("native_layer_norm_backward", "native_layer_norm", "native_group_norm", "native_dropout"),
    *("max_pool2d_with_indices", "_adaptive_avg_pool2d", "constant_pad_nd", "index_select"),
    *("layer_norm", "batch_norm", "group_norm", "log_softmax", "_log_softmax", "_softmax"),
    *("_to_copy", "_unsafe_index", "_unsafe_view", "masked_fill", "embedding_dense_backward"),
    *("new_zeros", "convert_element_type", "scalar_tensor", "threshold_backward"),
    *("bitwise_and", "bitwise_not", "logical_not", "logical_and", "full_like", "ones_like"),
    *("zeros_like", "leaky_relu", "avg_pool2d", "index_put", "rms_norm", "scaled_dot_product"),
)
"""Names of operators that are more than one word; others are taken to be one."""

_VIEWS = {
    *("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "select", "slice"),
    *("split", "squeeze", "unsqueeze", "unbind", "alias", "detach"),
    "getitem",
}

_OP = re.compile(rf"({'|'.join(sorted(_LONG_OPS, key=len, reverse=True))}|_?[^_]+)(?:_|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A compiler's record of its kernels."""

    # by kernel, as `kernel_of` spells it, for each of its calls in order the nodes that it does the
    # work of
    calls: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def nodes(self, kernel: str, call: int) -> tuple[str, ...]:
        """Nodes of one call, counted from 0 within a run of the graph; empty if unknown."""
        known = self.calls.get(kernel_of(kernel), ())
        return known[call % len(known)] if known else ()


def read(path: Path, expected: Collection[str] = ()) -> Provenance:
    """The provenance in Inductor's ``inductor_provenance_tracking_node_mappings`` file."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: no provenance of kernels can be read: {error}") from error
    if not isinstance(content, Mapping):
        raise TraceError(f"{path}: expected an object with cppCodeToPost, saw a list or a value")
    return of_inductor(content, expected)


def beside(trace: Path, expected: Collection[str] = ()) -> tuple[Provenance, ...]:
    """The provenance of each compiled graph in the trace's folder, in the order of compilation."""
    files = trace.parent.glob(f"{MAPPINGS}_*.json")
    numbers = ((whole_number(file.stem.rpartition("_")[2]), file) for file in files)
    numbered = sorted((number, file) for number, file in numbers if number is not None)
    return tuple(read(file, expected) for _, file in numbered)


def of_inductor(content: Mapping[str, object], wanted: Collection[str] = ()) -> Provenance:
    """Nodes of each kernel's calls, in the graph whose node names are `wanted`.

    Names after decomposition are translated. Only a kernel that is the first to list a node does
    its work: others inlined it. Views, such as ``permute_1``, do none unless they are alone.
    """
    after = _lists(content.get("cppCodeToPost"))
    before = _lists(content.get("postToPre"))
    numbered = sorted(
        (int(match["call"]), match["name"], nodes)
        for key, nodes in after.items()
        if (match := _CALL.match(key))
    )
    seen: set[str] = set()
    calls: dict[str, list[tuple[str, ...]]] = {}
    for _, name, nodes in numbered:
        fresh = [node for node in nodes if node not in seen] or list(nodes)
        working = [node for node in fresh if _NUMBER.sub("", node) not in _VIEWS] or fresh
        seen.update(nodes)
        calls.setdefault(kernel_of(name), []).append(_translated(working, before, wanted))
    return Provenance(calls={name: tuple(listed) for name, listed in calls.items()})


def kernel_of(name: str) -> str:
    """A kernel's name without what its trace and its compiler add: ``addmm``, ``cpp_fused_...``."""
    bare = _NUMBERED_GRAPH.sub("", name)
    if called := _OF_TORCH.match(bare):
        return called[1]
    return bare.removeprefix("extern_kernels.").rpartition("::")[2]


def fused_ops(kernel: str) -> tuple[str, ...]:
    """The operators that a fused kernel's name lists, each once; none for any other kernel.

    Lossy: long names are shortened and joined with a sign that is also inside of names.
    """
    match = _FUSED.match(kernel_of(kernel))
    listed = tuple(_OP.findall(match["ops"])) if match else ()
    return tuple(op for op in listed if op not in _VIEWS) or listed


def is_fused(kernel: str) -> bool:
    """Whether a compiler made it of several operators, by its name."""
    return _FUSED.match(_NUMBERED_GRAPH.sub("", kernel)) is not None


def _translated(
    nodes: list[str], before: Mapping[str, tuple[str, ...]], expected: Collection[str]
) -> tuple[str, ...]:
    if not expected or any(node in expected for node in nodes):
        return tuple(sorted(set(nodes)))
    return tuple(sorted({origin for node in nodes for origin in before.get(node, (node,))}))


def _lists(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        return {}
    return {
        str(key): tuple(map(str, items)) for key, items in value.items() if isinstance(items, list)
    }

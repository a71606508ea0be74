"""Exported programs on disk, and their decomposition."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.domain.codec import Json
from benchorch.domain.outputs import Outputs
from benchorch.errors import BuildError
from benchorch.frameworks.output_paths import leaf_paths
from benchorch.frameworks.program_archive import check_program, load_unchecked
from benchorch.frameworks.program_outputs import write_outputs
from benchorch.frameworks.torch_operators import program_operators
from benchorch.frameworks.upstream_errors import wrap_errors

if TYPE_CHECKING:
    import torch

PROGRAM_FILE = "program.pt2"
# What a program may call beyond ATen, by the words that its file holds: importing the module
# registers the operators, and without it torch cannot read the file.
_OPERATORS = {
    b"quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    b"torch.ops.transformers.grouped_mm_fallback": "transformers.integrations.moe",
    b"torch.ops.torchvision.": "torchvision",
    b"torch.ops.torchao.": "torchao",
}
_OF_TORCH = frozenset({"aten", "prims", "prim", "quantized", "higher_order"})
READABLE = frozenset(
    {
        *("quantized_decomposed", "transformers", "torchvision", "torchao"),
        *("_quantized", "inductor", "mkl", "mkldnn", "onednn", "profiler", "rngprims", "sparse"),
    }
)
"""Further namespaces of operators that any process has, or gets as it reads a program."""
_GRAPH = "models/model.json"
_NUMERIC = re.compile(
    r"((Optional|List)\[)*(Tensor|int|float|bool|number|Device|ScalarType|Layout|MemoryFormat)\]*"
)


def load_program(directory: Path) -> torch.export.ExportedProgram:
    """The program of that directory, the operators it calls registered first.

    It may call operators that the model's own code has registered in this process.

    Raises:
        BuildError: the file holds what could run code, or is no program of this torch.
        zipfile.BadZipFile: it is no archive.
    """
    check_program(directory / PROGRAM_FILE, is_own_operator)
    return load_unchecked_program(directory)


def load_unchecked_program(directory: Path) -> torch.export.ExportedProgram:
    """As `load_program`, but objects in the file may run code as they are read.

    For formats that a store hands out only if a trusted key has signed the entry.
    """
    path = directory / PROGRAM_FILE
    for module in _needed(path):
        import_module(module)
    return load_unchecked(path)


def save_program(program: torch.export.ExportedProgram, directory: Path) -> None:
    """Write the program to that directory; what it returns becomes a flat tuple of tensors.

    Reading it needs no class of the model's package then. Names of its outputs, and strings,
    numbers and None among them, which no format carries, are written beside it. BuildError where
    torch cannot write it, as with a sparse tensor that is compressed by rows.
    """
    import torch

    outputs = return_tensors(program)
    write_outputs(replace(outputs, operators=program_operators(program)), directory)
    with wrap_errors(BuildError, "torch.export.save refused the program"):
        torch.export.save(program, directory / PROGRAM_FILE)


def return_tensors(program: torch.export.ExportedProgram) -> Outputs:
    """Have the program return a flat tuple of its tensors; what it returned before."""
    from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument
    from torch.utils import _pytree

    signature = program.module_call_graph[0].signature
    if signature is None:
        return Outputs(tensors=())
    specs = program.graph_signature.output_specs
    returned = [each.arg for each in specs if each.kind is OutputKind.USER_OUTPUT]
    leaves = list(zip(_paths(signature.out_spec), returned, strict=True))
    others = {path: each for path, each in leaves if not isinstance(each, TensorArgument)}
    found = Outputs(
        tensors=tuple(path for path, each in leaves if isinstance(each, TensorArgument)),
        constants={
            path: _plain(each.value) if isinstance(each, ConstantArgument) else None
            for path, each in others.items()
        },
        unknown=tuple(
            path for path, each in others.items() if not isinstance(each, ConstantArgument)
        ),
    )
    tensors = [each for each in returned if isinstance(each, TensorArgument)]
    signature.outputs = [*tensors] if signature.outputs else []
    signature.out_spec = _pytree.tree_structure(tuple(range(len(tensors))))
    kept = [
        each.kind is not OutputKind.USER_OUTPUT or isinstance(each.arg, TensorArgument)
        for each in specs
    ]
    specs[:] = [each for each, keep in zip(specs, kept, strict=True) if keep]
    node = program.graph.output_node()
    given: Any = node.args[0]
    node.args = (tuple(each for each, keep in zip(given, kept, strict=True) if keep),)
    program.graph_module.recompile()
    return found


def _paths(spec: Any) -> list[str]:
    """Dotted paths of the leaves of a nested result, in the order of torch's flattening."""
    from torch.utils import _pytree

    return [path for path, _ in leaf_paths(_pytree.tree_unflatten(range(spec.num_leaves), spec))]


def _plain(value: object) -> Json:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def decomposed(
    program: torch.export.ExportedProgram, *, keep: Sequence[object] = ()
) -> torch.export.ExportedProgram:
    """The program in terms of the core ATen operators; the one given is changed.

    What fused attention returns lies in memory otherwise than what its parts do, and a view of it
    that was right is then refused: views become reshapes first.

    Args:
        program: of any operators.
        keep: operators that are left as they are, where they occur.
    """
    import torch

    for node in program.graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    table = torch.export.default_decompositions()
    for operator in keep:
        table.pop(operator)  # type: ignore[no-untyped-call]
    whole: torch.export.ExportedProgram = program.run_decompositions(table)
    return whole


def foreign_operators(
    program: torch.export.ExportedProgram, readable: Set[str] = frozenset()
) -> list[str]:
    """Operators that a process without the imports of the model's own code does not have.

    Args:
        program: of which model.
        readable: namespaces besides torch's own that such a process has.
    """
    graphs = (getattr(part, "graph", None) for part in program.graph_module.modules())
    targets = {node.target for graph in graphs if graph is not None for node in graph.nodes}
    return sorted(
        str(target)
        for target in targets
        if getattr(target, "namespace", "aten") not in _OF_TORCH | readable
    )


def has_fused_attention(program: torch.export.ExportedProgram) -> bool:
    """Whether attention is one operator of it."""
    import torch

    fused = torch.ops.aten.scaled_dot_product_attention.default
    return any(node.target is fused for node in program.graph.nodes)


def arguments_of(program: torch.export.ExportedProgram) -> dict[str, str | None]:
    """Arguments of the program in order: keywords and the graph's names for them.

    None stands for the name of what is no tensor.
    """
    from torch.export.graph_signature import InputKind, TensorArgument
    from torch.utils import _pytree

    given = [
        each.arg
        for each in program.graph_signature.input_specs
        if each.kind is InputKind.USER_INPUT
    ]
    _, keywords = _pytree.tree_unflatten(given, program.call_spec.in_spec)
    return {
        name: each.name if isinstance(each, TensorArgument) else None
        for name, each in keywords.items()
    }


def is_own_operator(name: str) -> bool:
    """Whether the model's code, or that of its package, registered an operator in this process.

    One that is not written in Python may name no file, nor hold an object: it takes no text.
    """
    import torch
    from torch._library.custom_ops import OPDEFS

    written = OPDEFS.get(name)
    if written is not None:
        return not str(written._init_fn.__module__).startswith("torch.")
    schemas = torch._C._jit_get_schemas_for_operator(name)
    kinds = [str(argument.type) for schema in schemas for argument in schema.arguments]
    return bool(schemas) and all(_NUMERIC.fullmatch(kind) for kind in kinds)


def _needed(path: Path) -> list[str]:
    """The modules whose operators the program's graph names."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        graphs = [archive.read(name) for name in archive.namelist() if name.endswith(_GRAPH)]
    return [module for word, module in _OPERATORS.items() if any(word in graph for graph in graphs)]

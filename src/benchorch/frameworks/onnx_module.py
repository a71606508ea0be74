"""An ONNX file as a torch module, run by ONNX Runtime without optimisations.

So it has a plain run that conversions can be compared with, as every model has. Its module holds no
weights: stand-ins of their shapes and dtypes tell its size, and a digest of the file its content.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from benchorch.domain.tensors import Example
from benchorch.files import file_digest
from benchorch.frameworks.onnx_external import external_files
from benchorch.frameworks.onnx_files import LARGEST_SINGLE_FILE_BYTES, write_graph
from benchorch.frameworks.opaque_module import OpaqueModule

_LEARNT = ("float", "bfloat", "int8", "uint8", "int4", "uint4")
"""Dtypes of weights; initialisers of other types are sizes, indices and axes."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """An input of an ONNX graph.

    Attributes:
        name: as the graph has it.
        argument: the name as forward's argument, which no other tensor of the graph has.
        dtype: numpy's word.
        sizes: whole numbers, or the names of open sizes.
    """

    name: str
    argument: str
    dtype: str
    sizes: tuple[int | str, ...]


@final
class OnnxGraph(OpaqueModule):
    """Calls the graph with tensors by name.

    Args:
        path: the file, weights that lie beside it included.

    Attributes:
        inputs: of the graph, in its order.

    Raises:
        ConfigError: its weights lie where `external_files` does not read them.
    """

    provider = "onnxruntime, not optimised"
    not_content = frozenset({"path", "_session"})  # a buffer has the digest of all that is read

    def __init__(self, path: Path) -> None:
        super().__init__()
        model = _read(path)
        self.path = path
        self.inputs = _inputs(model)
        _check_outputs(model)
        self._session: tuple[int, Any] | None = None
        self.register_buffer("content", _content(model, path))
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(stand_in, requires_grad=False) for stand_in in _stand_ins(model)
        )

    def answer(self, **tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The graph's outputs, in its order."""
        fed = {
            each.name: tensors[each.argument].numpy().astype(each.dtype, copy=False)
            for each in self.inputs
        }
        answer = self._opened().run(None, fed)
        outputs = tuple(torch.from_numpy(array) for array in answer)
        return outputs[0] if len(outputs) == 1 else outputs

    def _opened(self) -> Any:
        """A session with as many threads as torch has now."""
        import onnxruntime

        threads = torch.get_num_threads()
        if self._session is None or self._session[0] != threads:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 3  # errors only
            session = onnxruntime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
            self._session = (threads, session)
        return self._session[1]

    def write(self, directory: Path, example: Example) -> None:
        """The graph as a file of its own there, its inputs named as forward's arguments."""
        import onnx
        from onnx import helper

        model = onnx.load(str(self.path))
        nodes = []
        for each in self.inputs:
            if each.argument != each.name:
                held = next(one for one in model.graph.input if one.name == each.name)
                held.name = each.argument
                nodes.append(helper.make_node("Identity", [each.argument], [each.name]))
        nodes += model.graph.node
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        # Beyond 2 GiB protobuf cannot tell the size of a graph in memory.
        files = (self.path, *external_files(_read(self.path), self.path))
        size_bytes = sum(file.stat().st_size for file in files)
        write_graph(model, directory, large=size_bytes > LARGEST_SINGLE_FILE_BYTES)

    def tensors(self, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Inputs of these sizes: normal numbers, and zeros and ones where they are whole.

        An open first size is 1 unless it is given. ValueError where another one is open, or where
        a size is given that the graph has not.
        """
        known = _sizes(self.inputs, sizes)
        return {
            each.argument: _drawn(tuple(known[str(size)] for size in each.sizes), each.dtype)
            for each in self.inputs
        }


def _sizes(inputs: Sequence[GraphInput], given: Mapping[str, int]) -> dict[str, int]:
    """Every size by its name; of a whole number its own digits."""
    sizes = [size for each in inputs for size in each.sizes]
    names = list(dict.fromkeys(size for size in sizes if isinstance(size, str)))
    unknown = [name for name in given if name not in names]
    if unknown:
        there = f"it leaves open: {', '.join(names)}" if names else "it leaves none open"
        raise ValueError(f"the graph has no open size {', '.join(unknown)}; {there}")
    firsts = {each.sizes[0]: 1 for each in inputs if each.sizes}
    known = {name: given.get(name, firsts.get(name, 0)) for name in names}
    still = [name for name, size in known.items() if size < 1]
    if still:
        words = " ".join(f"{name}=128" for name in still)
        raise ValueError(f"the graph leaves {', '.join(still)} open; give sizes: :: {words}")
    return {**{str(size): size for size in sizes if isinstance(size, int)}, **known}


def _drawn(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    torch_dtype = getattr(torch, dtype)
    if torch_dtype.is_floating_point:
        return torch.randn(shape).to(torch_dtype)
    return torch.randint(0, 2, shape).to(torch_dtype)


def _read(path: Path) -> Any:
    """The graph without the weights that lie beside it; ValueError where it is none."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise ValueError("not a valid ONNX file (wrong format or truncated)") from error
    if not model.graph.node:
        raise ValueError("not a valid ONNX file: it contains no graph")
    return model


def _inputs(model: Any) -> tuple[GraphInput, ...]:
    """Inputs that are not weights, which old files list, too; ValueError for non-tensors."""
    from onnx import helper

    weights = {each.name for each in model.graph.initializer}
    taken = weights | {each.name for each in model.graph.input}
    taken.update(name for node in model.graph.node for name in node.output)
    found = []
    for each in model.graph.input:
        if each.name in weights:
            continue
        kind = each.type.tensor_type
        if not each.type.HasField("tensor_type"):
            raise ValueError(f"its input {each.name} is no tensor")
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        if not hasattr(torch, dtype) or dtype == "bfloat16":
            raise ValueError(f"its input {each.name} holds {dtype}, which no file of inputs can")
        sizes = tuple(_size(each.name, axis, one) for axis, one in enumerate(kind.shape.dim))
        argument = _argument(each.name, taken - {each.name})
        taken.add(argument)
        found.append(GraphInput(name=each.name, argument=argument, dtype=dtype, sizes=sizes))
    return tuple(found)


def _check_outputs(model: Any) -> None:
    """ValueError for outputs that hold no numbers, as those of scikit-learn's classifiers do."""
    from onnx import TensorProto

    for each in model.graph.output:
        kind = each.type.WhichOneof("value") or "tensor_type"  # ONNX Runtime infers others
        if kind != "tensor_type" or each.type.tensor_type.elem_type == TensorProto.STRING:
            raise ValueError(
                f"its output {each.name} is no tensor of numbers; skl2onnx writes one with "
                "options={'zipmap': False} and labels that are numbers"
            )


def _argument(name: str, taken: Set[str]) -> str:
    """The name as a keyword of Python that is not taken."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    found = plain if plain.isidentifier() else f"input_{plain}"
    while found in taken:
        found += "_"
    return found


def _size(name: str, axis: int, dimension: Any) -> int | str:
    if dimension.HasField("dim_value") and dimension.dim_value > 0:
        return int(dimension.dim_value)
    return dimension.dim_param or f"{name}.{axis}"


def _tensors(model: Any) -> Iterator[Any]:
    """The weights and constants of a graph."""
    yield from model.graph.initializer
    for node in model.graph.node:
        if node.op_type == "Constant":
            yield from (each.t for each in node.attribute if each.name == "value")


def _stand_ins(model: Any) -> Iterator[torch.Tensor]:
    """Substitute for each weight: a tensor of its shape and dtype without memory."""
    from onnx import helper

    for each in _tensors(model):
        name = helper.tensor_dtype_to_np_dtype(each.data_type).name
        if name.startswith(_LEARNT):
            dtype = getattr(torch, name, torch.uint8)
            kept = torch.uint8 if "int4" in name else dtype  # torch has no numbers of half a byte
            yield torch.zeros((), dtype=kept).expand(tuple(each.dims))


def _content(model: Any, path: Path) -> torch.Tensor:
    """SHA-256 over the file and those that hold its weights, as 32 bytes; ConfigError as there."""
    total = hashlib.sha256()
    for file in (path, *external_files(model, path)):
        total.update(bytes.fromhex(file_digest(file)))
    return torch.tensor(list(total.digest()), dtype=torch.uint8)

"""Tensors that an operator read, as its profiler recorded them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from benchorch.formatting import whole_number

ITEM_BYTES: Mapping[str, float] = {
    **{"float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16},
    **{"float32": 4, "int32": 4, "uint32": 4},
    **{"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2},
    **{"int8": 1, "uint8": 1, "bool": 1, "float8": 1, "int4": 0.5, "uint4": 0.5},
}
_SPELLINGS: Mapping[str, str] = {
    **{
        "double": "float64",
        "float": "float32",
        "c10::Half": "float16",
        "c10::BFloat16": "bfloat16",
    },
    **{"long int": "int64", "long": "int64", "long long": "int64", "int": "int32"},
    **{"short": "int16", "short int": "int16", "signed char": "int8", "unsigned char": "uint8"},
    **{"c10::complex<float>": "complex64", "c10::complex<double>": "complex128"},
    **{"c10::qint8": "int8", "c10::quint8": "uint8", "c10::qint32": "int32"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One operand."""

    shape: tuple[int, ...]  # its extents; ``()`` of a number in a tensor
    dtype: str = ""  # as PyTorch spells it, empty where the trace does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """Operands of one call."""

    # by position; None where something other than a tensor was passed
    inputs: tuple[Tensor | None, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Tensor inputs."""
        return tuple(tensor for tensor in self.inputs if tensor is not None)

    @property
    def dtype(self) -> str:
        """Dtype of the first floating-point input, else of the first input with a dtype."""
        named = [tensor.dtype for tensor in self.tensors if tensor.dtype]
        floating = [dtype for dtype in named if "float" in dtype]
        return next(iter(floating or named), "")

    @property
    def shapes(self) -> str:
        """For people and for joining: ``1024x256, 256x768``."""
        return ", ".join("x".join(map(str, tensor.shape)) or "1" for tensor in self.tensors)


def recorded(arguments: Mapping[str, object]) -> OperatorCall | None:
    """The tensors in an event's arguments; None where there are none."""
    if "Input Dims" in arguments:
        return _of_pytorch(arguments)
    if "input_type_shape" in arguments:
        return OperatorCall(inputs=_of_onnx_runtime(arguments["input_type_shape"]))
    return None


def integers(text: str) -> tuple[int, ...]:
    """Integers of a constant list, ``[1, 2]``; empty for anything else."""
    parts = [part.strip() for part in text.strip("[] ").split(",")]
    return tuple(int(part) for part in parts if whole_number(part.removeprefix("-")) is not None)


def spelled(dtype: object) -> str:
    """A dtype as PyTorch spells it; empty for what is none, such as ``Scalar``."""
    text = _SPELLINGS.get(str(dtype), str(dtype)).removeprefix("tensor(").removesuffix(")")
    text = _SPELLINGS.get(text, text).removeprefix("torch.").removeprefix("c10::").lower()
    text = "float8" if text.startswith("float8") else text
    return text if text in ITEM_BYTES else ""


def _of_pytorch(arguments: Mapping[str, object]) -> OperatorCall:
    """Kineto's parallel lists, one entry per argument of the operator."""
    shapes = _listed(arguments.get("Input Dims"))
    types = _listed(arguments.get("Input type"))
    inputs: list[Tensor | None] = []
    for shape, dtype in zip_longest(shapes, types[: len(shapes)], fillvalue=""):
        inputs.extend(_operands(shape, str(dtype)))
    return OperatorCall(inputs=tuple(inputs))


def _operands(shape: object, dtype: str) -> list[Tensor | None]:
    """Tensors of one argument: none for a number, several for a list of tensors."""
    extents = _listed(shape)
    known = spelled(dtype)
    if extents and all(isinstance(one, list | tuple) for one in extents):
        return [Tensor(shape=_whole(one), dtype=known) for one in extents]
    return [Tensor(shape=_whole(extents), dtype=known) if known else None]


def _of_onnx_runtime(listed: object) -> tuple[Tensor, ...]:
    """``[{"float": [8, 128]}, ...]``, without the weights that were packed beforehand."""
    return tuple(
        Tensor(shape=_whole(shape), dtype=spelled(dtype))
        for entry in _listed(listed)
        if isinstance(entry, Mapping)
        for dtype, shape in entry.items()
    )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _whole(values: object) -> tuple[int, ...]:
    return tuple(value for value in _listed(values) if isinstance(value, int))

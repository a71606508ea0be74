"""Tensors that an operator read, as its profiler recorded them."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from benchorch.formatting import whole_number

ITEM_BYTES: Mapping[str, float] = {
    **{"float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16},
    **{"float32": 4, "int32": 4, "uint32": 4},
    **{"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2},
    **{"int8": 1, "uint8": 1, "bool": 1, "float8": 1, "int4": 0.5, "uint4": 0.5},
}
_SPELLINGS: Mapping[str, str] = {
    **{"double": "float64", "float": "float32", "c10::Half": "float16"},
    "c10::BFloat16": "bfloat16",
    **{"long int": "int64", "long": "int64", "long long": "int64", "int": "int32"},
    **{"short": "int16", "short int": "int16", "signed char": "int8", "unsigned char": "uint8"},
    **{"c10::complex<float>": "complex64", "c10::complex<double>": "complex128"},
    **{"c10::qint8": "int8", "c10::quint8": "uint8", "c10::qint32": "int32"},
}


class Operands(NamedTuple):
    """Tensors that one call of an operator read."""

    dtype: str  # of the first that has floating points, else of the first with a dtype
    shapes: str  # ``1024x256, 256x768``; 1 for a number in a tensor


def recorded(arguments: Mapping[str, object]) -> Operands | None:
    """The tensors in an event's arguments; None where there are none."""
    found: list[tuple[object, object]] = []  # shapes and dtypes
    if "Input Dims" in arguments:  # Kineto's parallel lists, an entry for each argument
        shapes, types = (_listed(arguments.get(f"Input {one}")) for one in ("Dims", "type"))
        for shape, dtype in zip_longest(shapes, types[: len(shapes)], fillvalue=""):
            several = _listed(shape)
            if several and all(isinstance(one, list | tuple) for one in several):
                found += [(one, dtype) for one in several]  # a list of tensors
            elif spelled(dtype):  # else a number
                found.append((shape, dtype))
    elif "input_type_shape" in arguments:  # ONNX Runtime: ``[{"float": [8, 128]}, ...]``
        for entry in _listed(arguments["input_type_shape"]):
            if isinstance(entry, Mapping):
                found += [(shape, dtype) for dtype, shape in entry.items()]
    else:
        return None
    named = [dtype for _, one in found if (dtype := spelled(one))]
    extents = ([one for one in _listed(shape) if isinstance(one, int)] for shape, _ in found)
    return Operands(
        dtype=next((one for one in named if "float" in one), next(iter(named), "")),
        shapes=", ".join("x".join(map(str, shape)) or "1" for shape in extents),
    )


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


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()

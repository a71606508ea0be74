"""Operands of an operator, as its profiler recorded them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_SPELLINGS: Mapping[str, str] = {
    **{"float64": "double", "float32": "float", "float16": "c10::Half half"},
    **{"bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>"},
    **{"complex128": "c10::complex<double>", "int64": "long long_int long_long"},
    **{"int32": "int c10::qint32", "int16": "short short_int", "bool": ""},
    **{"int8": "signed_char c10::qint8", "uint8": "unsigned_char c10::quint8"},
    **{"uint16": "", "uint32": "", "uint64": "", "int4": "", "uint4": ""},
}
_DTYPES = {name: name for name in _SPELLINGS} | {
    word: name for name, words in _SPELLINGS.items() for word in words.split()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Tensors of one call: ``1024x256, 256x768``, and the dtype of the first floating-point one."""

    shapes: str
    dtype: str


def recorded(arguments: Mapping[str, object]) -> Operands | None:
    """The tensors in an event's arguments; None where there are none."""
    if "Input Dims" in arguments:
        tensors = [*_of_pytorch(arguments)]
    elif "input_type_shape" in arguments:
        entries = _listed(arguments["input_type_shape"])
        pairs = [pair for entry in entries if isinstance(entry, Mapping) for pair in entry.items()]
        tensors = [(shape, spelled(dtype)) for dtype, shape in pairs]
    else:
        return None
    known = [dtype for _, dtype in tensors if dtype]
    floating = [dtype for dtype in known if "float" in dtype]
    shapes = ("x".join(map(str, _listed(shape))) or "1" for shape, _ in tensors)
    return Operands(shapes=", ".join(shapes), dtype=next(iter(floating or known), ""))


def spelled(dtype: object) -> str:
    """A dtype as PyTorch spells it; empty for what is none, such as ``Scalar``."""
    word = str(dtype).removeprefix("tensor(").removesuffix(")").removeprefix("torch.")
    known = _DTYPES.get(word.replace(" ", "_"), "")
    return known or ("float8" if "float8" in word.lower() else "")


def _of_pytorch(arguments: Mapping[str, object]) -> Iterator[tuple[object, str]]:
    """Shape and dtype of each tensor in Kineto's parallel lists, one entry per argument.

    A list of tensors is several; numbers are none.
    """
    shapes = _listed(arguments.get("Input Dims"))
    types = _listed(arguments.get("Input type"))
    for shape, dtype in zip_longest(shapes, types[: len(shapes)], fillvalue=""):
        extents, known = _listed(shape), spelled(dtype)
        if extents and all(isinstance(one, list | tuple) for one in extents):
            yield from ((one, known) for one in extents)
        elif known:
            yield shape, known


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()

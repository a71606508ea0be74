"""Declaration of a tensor in YAML: a shape of numbers and symbols, and a dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchorch.config.components import misspelt
from benchorch.domain.codec import Json
from benchorch.domain.tensors import DTYPES, TensorSpec, Workload
from benchorch.errors import ConfigError

UNSTATED_DTYPE = "float32"
"""Dtype of a spec whose dtype is left to the workload; `batch` decides."""


def tensor_spec(name: str, shape: Json, dtype: Json) -> TensorSpec:
    """The spec of a declared tensor; ConfigError for an invalid shape."""
    complaints = shape_problems(f"model.inputs.{name}", shape)
    if complaints:
        raise ConfigError(complaints)
    sizes = tuple(size for size in _sizes(shape) if isinstance(size, int | str))
    return TensorSpec(name=name, shape=sizes, dtype=str(dtype or UNSTATED_DTYPE))


def is_float(dtype: str) -> bool:
    """Whether a dtype of the YAML is a floating-point one."""
    return dtype.startswith(("float", "bfloat"))


def dtype_of(declared: Json, workload: Workload) -> str:
    """The declared dtype, or the workload's where none is declared."""
    return str(declared or workload.dtype)


def dtype_for(held: str, declared: Json, workload: Workload) -> str:
    """The dtype that values of another one get: the declared one, or for floats the workload's.

    float32 is what a workload has by default: half precision stays as it is, as a module's does.
    """
    is_half = held in ("float16", "bfloat16") and workload.dtype == UNSTATED_DTYPE
    kept = is_half or not is_float(held)
    return held if kept and not declared else dtype_of(declared, workload)


def shape_problems(where: str, shape: Json) -> list[str]:
    """Sizes that are neither a whole number above 0 nor a symbol."""
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        return [f"{where}.shape: must be a list such as [batch_size, 16], got {shape!r}."]
    return [
        f"{where}.shape: {size!r} is neither a whole number above 0 nor the name of a symbol."
        for size in shape
        if not (size.isidentifier() if isinstance(size, str) else is_size(size))
    ]


def is_size(size: object) -> bool:
    """Whether a value is a whole number above 0; booleans are not."""
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def symbol_problems(shape: Json, workload: Workload) -> list[str]:
    """Symbols of a shape without a value, or with one that is no size."""
    symbols = [size for size in _sizes(shape) if isinstance(size, str) and size.isidentifier()]
    missing: list[str] = [
        misspelt(
            f"symbol {symbol!r} has no value; set +workload.{symbol}=...", symbol, workload.symbols
        )
        for symbol in symbols
        if symbol not in workload.symbols
    ]
    return missing + [
        f"symbol {symbol!r} is {workload.symbols[symbol]!r}; "
        f"workload.{symbol} must be a whole number above 0."
        for symbol in symbols
        if symbol in workload.symbols and not is_size(workload.symbols[symbol])
    ]


def dtype_problems(where: str, declared: Json, workload: Workload) -> list[str]:
    """A dtype that does not exist."""
    dtype = dtype_of(declared, workload)
    if dtype not in DTYPES:
        return [
            misspelt(
                f"{where}.dtype: unknown dtype {dtype!r}.",
                dtype,
                DTYPES,
                f" Dtypes: {', '.join(DTYPES)}.",
            )
        ]
    return []


def key_problems(where: str, node: Mapping[str, Json], known: Sequence[str]) -> list[str]:
    """Unknown keys of a node."""
    return [
        misspelt(f"{where}.{key}: unknown option.", key, known, f" Options: {', '.join(known)}.")
        for key in node
        if key not in known
    ]


def unique(problems: Sequence[str]) -> list[str]:
    """Each problem once, in order: several tensors may lack the same symbol."""
    return list(dict.fromkeys(problems))


def _sizes(shape: Json) -> Sequence[Json]:
    return shape if isinstance(shape, Sequence) and not isinstance(shape, str) else ()

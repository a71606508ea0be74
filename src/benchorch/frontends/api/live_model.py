"""Transfer of a module that exists only in this process, as an exported program and tensors.

Nothing is pickled: a trial's process reads the graph, its weights and the inputs from files, and
needs none of the user's classes.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.config.components import suggest
from benchorch.domain.codec import Json
from benchorch.domain.tensors import DTYPES
from benchorch.errors import ConfigError
from benchorch.frameworks.torch_program import save_program
from benchorch.models.exported import program_digest
from benchorch.models.script_inputs import digest_of_arrays

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[generic]]

FACTORY_REMEDY = (
    "Give what makes the module instead: a function in a file, as 'path.py:function', "
    "which is imported where it is measured and not exported."
)
_OPTIONS = ("file", "shapes")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def forward_names(module: torch.nn.Module) -> tuple[str, ...]:
    """The arguments of forward that can be named, in its order."""
    parameters = inspect.signature(module.forward).parameters.values()
    return tuple(one.name for one in parameters if one.kind in _BY_NAME)


def named_arrays(inputs: object, names: Sequence[str] | None) -> Arrays:
    """The inputs by their names; ConfigError with every problem.

    Args:
        inputs: a mapping, a tuple or list in the order of `names`, or a single tensor.
        names: of the model's arguments; None where nobody knows them.
    """
    by_name = _by_name(inputs, names)
    problems: list[str] = []
    arrays = {}
    for name, value in by_name.items():
        problem = _tensor_problem(value)
        if problem:
            problems.append(f"inputs[{name!r}]: {problem}")
        else:
            arrays[name] = _array(value)
    if names is not None:
        taken = f"The model takes: {', '.join(names)}."
        problems += [
            f"inputs[{name!r}]: the model takes no {name!r}.{suggest(name, names)} {taken}"
            for name in by_name
            if name not in names
        ]
    problems += [f"inputs[{name!r}]: cannot name a tensor." for name in by_name if not _good(name)]
    if problems:
        raise ConfigError(problems)
    return arrays


def _good(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and name not in _OPTIONS


def _by_name(inputs: object, names: Sequence[str] | None) -> Mapping[str, object]:
    if isinstance(inputs, Mapping):
        if inputs:
            return inputs
        raise ConfigError(["inputs: is empty; give the tensors that the model is called with."])
    values = inputs if isinstance(inputs, tuple | list) else (inputs,)
    if names is None:
        raise ConfigError(["inputs: the arguments have no names here; give a dict: {'x': tensor}."])
    if not values or len(values) > len(names):
        raise ConfigError(
            [f"inputs: {len(values)} given; the model takes {', '.join(names) or 'none by name'}."]
        )
    return dict(zip(names, values, strict=False))


def _tensor_problem(value: object) -> str:
    """Why a value is no input; empty where it is one."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if not dtype or not hasattr(value, "shape"):
        return f"expected a torch tensor or a numpy array, got {_kind(value)}."
    if getattr(value, "is_meta", False):
        return "is on the meta device, where tensors have no values; make it on the CPU."
    if getattr(value, "is_sparse", False) or getattr(value, "is_quantized", False):
        return "is sparse or quantized; give a dense tensor."
    if dtype == "bfloat16":
        return "numpy has no bfloat16; give float32 and convert the model, or cast in its forward."
    if dtype not in DTYPES:
        return f"its dtype is {dtype}; expected one of {', '.join(DTYPES)}."
    if 0 in tuple(getattr(value, "shape", ())):
        return f"has no elements: its shape is {list(getattr(value, 'shape', ()))}."
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _array(value: Any) -> NDArray[generic]:
    import numpy as np

    detach = getattr(value, "detach", None)
    # Copied: what the caller does to a tensor afterwards must not reach the measurement.
    array: NDArray[generic] = np.array(value if detach is None else detach().cpu().numpy())
    return array


def common_rows(arrays: Arrays) -> int | None:
    """The first size where all tensors that have one agree on it: the batch size."""
    rows = {array.shape[0] for array in arrays.values() if array.ndim}
    return rows.pop() if len(rows) == 1 else None


def write_inputs(arrays: Arrays, directory: Path) -> dict[str, Json]:
    """Keep the inputs in the directory; the node ``model.inputs`` that reads them."""
    import numpy as np
    from safetensors.numpy import save_file

    directory.mkdir(parents=True, exist_ok=True)
    # Named by what it holds: runs that have the same inputs are known by it.
    path = (directory / f"{digest_of_arrays(arrays)[:16]}.safetensors").resolve()
    # Not ascontiguousarray, which makes a single number an array of one.
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)
    batch: list[Json] = [] if common_rows(arrays) is None else ["batch_size"]
    declared = {
        name: {
            "shape": [*(batch if array.ndim else []), *array.shape[len(batch) :]],
            "dtype": array.dtype.name,
        }
        for name, array in arrays.items()
    }
    return {"file": str(path), **declared}


def module_problems(module: torch.nn.Module) -> list[str]:
    """Why a module cannot travel whatever it is called with."""
    from torch.nn.parameter import is_lazy

    named = [*module.named_parameters(), *module.named_buffers()]
    lazy = [name for name, tensor in named if is_lazy(tensor)]
    if lazy:
        return [f"model: {lazy[0]} has no shape yet; call the module once before."]
    meta = [name for name, tensor in named if tensor.is_meta]
    if meta:
        where = "is on the meta device, where tensors have no values"
        return [
            f"model: {meta[0]} {where} ({len(meta)} of {len(named)} tensors); load the weights."
        ]
    return _subclass_problems(module)


def _subclass_problems(module: torch.nn.Module) -> list[str]:
    """Parameters whose values are a kind of tensor that torch writes and cannot read again.

    Those that are made of plain tensors, as quantised weights are, travel as these.
    """
    import torch
    from torch.utils import _python_dispatch as wrapping

    held = {name: parameter.data for name, parameter in module.named_parameters()}
    odd = {
        name: type(values).__name__
        for name, values in held.items()
        if type(values) is not torch.Tensor
        and not wrapping.is_traceable_wrapper_subclass_type(type(values))
    }
    return [
        f"model: {name} is a {kind}, a kind of tensor that an exported program cannot hold "
        f"({len(odd)} such); make it a plain one by .as_subclass(torch.Tensor). {FACTORY_REMEDY}"
        for name, kind in list(odd.items())[:1]
    ]


def export(module: torch.nn.Module, arrays: Arrays) -> torch.export.ExportedProgram:
    """The module's graph for these inputs; ConfigError where they do not fit, or it refuses."""
    import torch

    with _as_served(module) as served, torch.no_grad():
        _try_out(served, arrays)
        try:
            return torch.export.export(served, (), _tensors(arrays))
        except Exception as error:
            said = error_words(error)
            problem = f"model: {_name(module)} cannot be exported: {said} {FACTORY_REMEDY}"
            raise ConfigError([problem]) from error


def write_program(program: torch.export.ExportedProgram, directory: Path) -> dict[str, Json]:
    """Keep the program in the directory; what of ``model`` says where it is."""
    directory.mkdir(parents=True, exist_ok=True)
    program.example_inputs = None  # they would be pickled
    save_program(program, directory)
    return {"program": str(directory.resolve()), "digest": program_digest(directory)}


@contextmanager
def _as_served(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module in eval mode on the CPU: itself where it is there, and as it was afterwards."""
    plain = getattr(module, "_orig_mod", module)  # of torch.compile, whose graph is not its module
    if any(tensor.device.type != "cpu" for tensor in _state(plain)):
        plain = copy.deepcopy(plain).to("cpu")
    modes = [(part, part.training) for part in plain.modules()]
    try:
        yield plain.eval()
    finally:
        for part, training in modes:
            part.training = training


def _state(module: torch.nn.Module) -> Iterable[torch.Tensor]:
    return (*module.parameters(), *module.buffers())


def _try_out(module: torch.nn.Module, arrays: Arrays) -> None:
    """Call it once: what fails here is the caller's own, and not the export's."""
    try:
        module(**_tensors(arrays))
    except Exception as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        problem = f"inputs: {_name(module)} called with {shapes} raised {error_words(error)}"
        raise ConfigError([problem]) from error


def _tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
    import torch

    return {name: torch.tensor(array) for name, array in arrays.items()}


def _name(module: torch.nn.Module) -> str:
    return type(getattr(module, "_orig_mod", module)).__name__


def error_words(error: Exception) -> str:
    """The error's class and the first line that says something."""
    lines = (line.strip() for line in str(error).splitlines())
    return f"{type(error).__name__}: {next(filter(None, lines), 'without a word')}"

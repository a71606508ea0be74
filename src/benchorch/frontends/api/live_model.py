"""Transfer of a live module to a trial's process, as an exported program and tensors.

Nothing is pickled: the process reads the graph, its weights and the inputs from files, and needs
none of the user's classes.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchorch.config.components import suggest
from benchorch.domain.codec import Json
from benchorch.domain.tensors import DTYPES, Array, Arrays, Example, common_rows
from benchorch.errors import ConfigError, summary_of
from benchorch.frameworks.eval_mode import served
from benchorch.frameworks.host_arrays import array_of
from benchorch.frameworks.torch_call import live_tensors, tensors_in
from benchorch.frameworks.torch_program import READABLE, foreign_operators
from benchorch.frameworks.torch_tracing import open_shapes, traceable
from benchorch.frontends.api.input_shapes import InputShapes
from benchorch.models.script_inputs import save_arrays

if TYPE_CHECKING:
    import torch


FACTORY_REMEDY = (
    "Give a function that makes the module instead, as 'path.py:function': it is imported where "
    "it is measured, not exported. A function can be called by the forward of such a module."
)
_NO_GRADIENT = "does not require grad"
OPTIONS = ("file", "further", "shapes")
"""Keys of ``model.inputs`` that are no names of tensors."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class OpenNames(tuple[str, ...]):
    """Names of a forward's arguments that takes others by name, too."""

    __slots__ = ()


def forward_names(module: torch.nn.Module) -> tuple[str, ...]:
    """The arguments of forward that can be named, in its order; ConfigError where none can."""
    schema = getattr(module.forward, "schema", None)  # of a scripted module
    if schema is not None:
        return tuple(one.name for one in schema.arguments[1:])
    parameters = inspect.signature(module.forward).parameters.values()
    names = tuple(one.name for one in parameters if one.kind in _BY_NAME)
    is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    if parameters and not names and not is_open:
        problem = f"model: {model_name(module)} does not name its arguments"
        raise ConfigError([f"{problem}; give lambda x, y: model(x, y)."])
    return OpenNames(names) if is_open else names


def named_arrays(inputs: object, names: Sequence[str] | None) -> Arrays:
    """The inputs by their names; ConfigError with every problem.

    Args:
        inputs: a mapping, a tuple or list in the order of `names`, or a single tensor.
        names: of the model's arguments; None where they are unknown.
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
    problems += name_problems(by_name, names)
    if problems:
        raise ConfigError(problems)
    return arrays


def name_problems(by_name: Mapping[str, object], names: Sequence[str] | None) -> list[str]:
    """Names that the model does not take, or that no tensor can have."""
    problems = [
        f"inputs[{name!r}]: the model takes no {name!r}.{suggest(name, names)} "
        f"The model takes: {', '.join(names)}."
        for name in by_name
        if names is not None and not isinstance(names, OpenNames) and name not in names
    ]
    return problems + [
        f"inputs[{name!r}]: is not a valid name of a tensor."
        for name in by_name
        if not _is_name(name)
    ]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and name not in OPTIONS


def _by_name(inputs: object, names: Sequence[str] | None) -> Mapping[str, object]:
    if isinstance(inputs, Mapping):
        if inputs:
            return inputs
        raise ConfigError(["inputs: is empty; give the tensors that the model is called with."])
    values = inputs if isinstance(inputs, tuple | list) else (inputs,)
    if names is None or (not names and isinstance(names, OpenNames)):
        raise ConfigError(["inputs: the arguments have no names here; give a dict: {'x': tensor}."])
    if not values or len(values) > len(names):
        raise ConfigError(
            [f"inputs: {len(values)} given; the model takes {', '.join(names) or 'none by name'}."]
        )
    return dict(zip(names, values, strict=False))


def _tensor_problem(value: object) -> str:
    """Why a value is no valid input; empty where it is."""
    layout = str(getattr(value, "layout", "torch.strided"))
    if getattr(value, "is_nested", False) or layout != "torch.strided":
        return "is sparse or nested; give a dense tensor."
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if not dtype or not hasattr(value, "shape"):
        return f"expected a torch tensor or a numpy array, got {_kind(value)}."
    if getattr(value, "is_meta", False):
        return "is on the meta device, where tensors have no values; make it on the CPU."
    if getattr(value, "is_quantized", False):
        return "is quantized; give a dense tensor."
    if dtype not in DTYPES:
        return f"its dtype is {dtype}; expected one of {', '.join(DTYPES)}."
    if 0 in tuple(getattr(value, "shape", ())):
        return f"has no elements: its shape is {list(getattr(value, 'shape', ()))}."
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _array(value: object) -> Array:
    """A copy: the caller may change the tensor afterwards."""
    return array_of(value).copy()


def input_sets(inputs: object, names: Sequence[str] | None) -> list[Arrays]:
    """The inputs by their names: one set, or each of a list of mappings; ConfigError otherwise."""
    sets = [named_arrays(each, names) for each in sets_by_name(inputs, names)]
    kinds = [{name: (a.ndim, a.dtype.name) for name, a in each.items()} for each in sets]
    problems = [
        f"inputs[{number}]: holds {_spelled(sets[number])}; inputs[0] holds {_spelled(sets[0])}. "
        "All sets must have the same names, numbers of axes and dtypes."
        for number, kind in enumerate(kinds)
        if kind != kinds[0]
    ]
    if problems:
        raise ConfigError(problems)
    return sets


def sets_by_name(inputs: object, names: Sequence[str] | None) -> list[Mapping[str, object]]:
    """The values of each input set, whatever they are, by the names of forward."""
    several = isinstance(inputs, tuple | list) and all(isinstance(x, Mapping) for x in inputs)
    if not several or not inputs:
        return [_by_name(inputs, names)]
    return [_by_name(each, names) for each in inputs]  # type: ignore[attr-defined]


def _spelled(arrays: Arrays) -> str:
    return ", ".join(f"{name} {list(a.shape)} {a.dtype.name}" for name, a in arrays.items())


def in_batches(sets: Sequence[Arrays], rows: int | None) -> list[Arrays]:
    """Sets of so many rows each, where the given ones have more; None leaves them as they are."""
    if rows is None or all(common_rows(each) in (None, rows) for each in sets):
        return list(sets)
    return [
        {name: array[start : start + rows] if array.ndim else array for name, array in one.items()}
        for one in sets
        for start in range(0, (common_rows(one) or 0) - rows + 1, rows)
    ]


def write_inputs(sets: Sequence[Arrays], directory: Path) -> dict[str, Json]:
    """Write the input sets to the directory; the node ``model.inputs`` that reads them."""
    path, *further = (str(save_arrays(arrays, directory.resolve())) for arrays in sets)
    more: dict[str, Json] = {"further": further} if further else {}
    return {"file": path, **more, **InputShapes.of(sets).declared()}


def module_problems(module: torch.nn.Module) -> list[str]:
    """Why a module cannot be exported with any inputs."""
    from torch.nn.parameter import is_lazy

    if getattr(module.forward, "__name__", "") == "_forward_unimplemented":
        return [f"model: {model_name(module)} has no forward, so it cannot be called."]
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
    """Parameters of a tensor subclass that torch writes and cannot read again.

    Subclasses made of plain tensors, such as quantised weights, are stored as those.
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


def export(
    module: torch.nn.Module, sets: Sequence[Arrays], dynamic: Sequence[str] = ()
) -> torch.export.ExportedProgram:
    """The module's graph for these inputs; ConfigError where the call or the export fails.

    Args:
        module: stays as it is.
        sets: at least one; sizes in which they differ are left open.
        dynamic: symbols of their shapes that are left open besides.
    """
    import torch

    shapes = InputShapes.of(sets)
    example = Example(
        arrays=sets[0],
        keywords={},
        specs=shapes.specs,
        dynamic=tuple(dict.fromkeys((*shapes.open, *dynamic))),
    )
    eager = torch.compiler.set_stance("force_eager")  # also for what is compiled inside
    plain = getattr(module, "_orig_mod", module)  # of torch.compile, whose graph is not its module
    with served(plain) as evaluated, torch.no_grad(), eager:
        nothing = _call_once(evaluated, sets[0])
        tensors = live_tensors(evaluated, traceable(example), "cpu")
        try:
            with _without_dumps():
                program = torch.export.export(
                    _unscripted(evaluated, tensors),
                    (),
                    tensors,
                    dynamic_shapes=open_shapes(example),
                )
        except Exception as error:
            reason = summary_of(error).rstrip(".")
            problem = f"model: {model_name(module)} cannot be exported: {reason}. {FACTORY_REMEDY}"
            if nothing:  # such as a generator, which is the reason
                problem = f"model: {model_name(module)} {nothing}."
            raise ConfigError([problem]) from error
    if nothing:
        raise ConfigError([f"model: {model_name(module)} {nothing}."])
    foreign = foreign_operators(program, READABLE)
    if foreign:
        problem = f"model: {model_name(module)} calls {foreign[0]}, an operator"
        raise ConfigError([f"{problem} that a trial's process does not have. {FACTORY_REMEDY}"])
    return program


def _unscripted(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """A module that torch.export traces, also of a scripted one, which it does not."""
    import torch

    if not isinstance(module, torch.jit.ScriptModule):
        return module
    from torch._export.converter import TS2EPConverter  # as torch.export's own error names it

    from benchorch.frontends.api.function_model import PositionalModule

    arguments = cast("Any", module.forward).schema.arguments[1:]
    defaults = {one.name: one.default_value for one in arguments if one.has_default_value()}
    given = {**defaults, **tensors}
    # The converter takes every argument, each in its place.
    places = [one.name for one in arguments if one.name in given]
    converted = TS2EPConverter(module, tuple(given[name] for name in places)).convert()
    return PositionalModule(converted.module(), places, defaults)


@contextmanager
def _without_dumps() -> Iterator[None]:
    """No warnings and no graphs, which torch prints of an export that fails."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _call_once(module: torch.nn.Module, arrays: Arrays) -> str | None:
    """Call it, so that an error of the call is not reported as one of the export.

    Returns:
        Why there is nothing to compare, or None.
    """
    try:
        answer = module(**live_tensors(module, arrays, "cpu"))
    except Exception as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        problem = f"inputs: {model_name(module)} called with {shapes} raised {summary_of(error)}"
        if _NO_GRADIENT in str(error):
            problem += (
                ". Models are called without recording gradients: give what is called in service, "
                "without its backward pass"
            )
        raise ConfigError([problem]) from error
    return (
        None
        if tensors_in(answer)
        else f"returned {_kind(answer)}, in which is no tensor to compare"
    )


def model_name(module: torch.nn.Module) -> str:
    """The class's name, or what a scripted module or a function was called before."""
    name = getattr(module, "original_name", None)
    return name if isinstance(name, str) else type(module).__name__

"""A function as a module, so that it is exported and measured as one.

Modules and parameters that the function uses become parts of the module: those of its closure, its
globals, the object it is bound to, and its partial arguments.
"""

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from benchorch.errors import ConfigError

_PLACE_OR_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def is_function(model: Callable[..., Any]) -> bool:
    """Whether a callable is measured itself: a module's method, or one that needs arguments."""
    if isinstance(model, type):
        return False
    whole = model
    while isinstance(whole, functools.partial):
        whole = whole.func
    if isinstance(getattr(whole, "__self__", None), torch.nn.Module):
        return True
    try:
        _signature(model).bind()
    except (TypeError, ValueError):  # one that is not written in Python may have no signature
        return True
    return False


class FunctionModule(torch.nn.Module):
    """A function as forward, its arguments given by name; ConfigError where they have no names.

    Attributes:
        original_name: the function's, as a scripted module has its class's.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.original_name = function_name(function)
        self.forward = _forward(function, self.original_name)
        for number, part in enumerate(_state(function)):
            if isinstance(part, torch.nn.Module):
                self.add_module(f"part_{number}", part)
            else:
                self.register_parameter(f"part_{number}", part)


class PositionalModule(torch.nn.Module):
    """A module that takes its inputs by position, called by name.

    Args:
        places: names of those arguments, in order.
        defaults: values of those that are no inputs.
        keywords: names of the arguments that it takes by name.

    Attributes:
        original_name: what it is called for people.
    """

    original_name: str

    def __init__(
        self,
        module: torch.nn.Module,
        places: Sequence[str],
        defaults: Mapping[str, object] = types.MappingProxyType({}),
        keywords: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.module = module
        arguments = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in (*places, *keywords)
            if name not in defaults
        ]

        def forward(**named: Any) -> Any:
            given = {**defaults, **named}
            by_name = {name: given[name] for name in keywords}
            return module(*(given[name] for name in places), **by_name)

        self.forward = _with_arguments(forward, arguments)


def by_name(module: torch.nn.Module) -> torch.nn.Module:
    """The module, or a wrapper of an exported program's that insists on arguments by position."""
    tree = getattr(getattr(getattr(module, "graph", None), "_codegen", None), "pytree_info", None)
    if tree is None or tree.in_spec is None or tree.in_spec.num_children != 2:
        return module
    by_place, _ = tree.in_spec.children()
    names, count = [*inspect.signature(module.forward).parameters], by_place.num_children
    if not count:
        return module
    wrapped = PositionalModule(module, names[:count], keywords=names[count:])
    wrapped.original_name = "ExportedProgram"  # its class keeps no other name
    return wrapped


def _as_lambda(function: Callable[..., Any], name: str) -> str:
    """A function of one argument that makes the same call."""
    given = ["x"]
    if isinstance(function, functools.partial):
        given = [*("..." for _ in function.args), "x", *(f"{key}=..." for key in function.keywords)]
    return f"lambda x: {name}({', '.join(given)})"


def _forward(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function called by name, those arguments included that it takes by position alone."""
    try:
        signature = _signature(function)
    except ValueError as error:
        raise ConfigError(
            [f"model: {name} does not declare its arguments; give {_as_lambda(function, name)}."]
        ) from error
    parameters = [one for one in signature.parameters.values() if one.kind not in _VARIADIC]
    more = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    if not parameters and not more:
        raise ConfigError(
            [f"model: {name}{signature} does not name its arguments; give lambda x: {name}(x)."]
        )
    by_place = (inspect.Parameter.POSITIONAL_ONLY, _PLACE_OR_NAME)
    places = [one.name for one in parameters if one.kind in by_place]

    def forward(**named: Any) -> Any:
        # As far as possible by place: wrappers such as vmap's have the names and do not take them.
        first = [named.pop(each) for each in itertools.takewhile(named.__contains__, places)]
        return function(*first, **named)

    return _with_arguments(forward, [*parameters, *more])


def _with_arguments(
    forward: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> Callable[..., Any]:
    """Give a forward the names of its inputs, which tracers read from its signature."""
    by_name = [
        one if one.kind is one.VAR_KEYWORD else one.replace(kind=one.KEYWORD_ONLY)
        for one in parameters
    ]
    forward.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    return forward


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """A function's arguments; of a module with some given, those of its forward."""
    if isinstance(function, functools.partial) and isinstance(function.func, torch.nn.Module):
        forward = function.func.forward
        function = functools.partial(forward, *function.args, **function.keywords)
    if isinstance(function, torch.jit.ScriptFunction):
        schema: Any = function.schema
        names = (argument.name for argument in schema.arguments)
        return inspect.Signature([inspect.Parameter(name, _PLACE_OR_NAME) for name in names])
    return inspect.signature(function)


def function_name(function: Callable[..., Any]) -> str:
    """``Class.method`` or ``function``; of a lambda, the word; of an object, its class."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, types.BuiltinFunctionType):
        return function.__name__
    if isinstance(function, torch.jit.ScriptFunction):
        return str(function.name).strip("<>")
    name = str(getattr(function, "__qualname__", type(function).__name__))
    return name.rpartition("<locals>.")[2].strip("<>")


def _state(function: Callable[..., Any]) -> Iterator[torch.nn.Module | torch.nn.Parameter]:
    """Modules and parameters within reach, each once; what is inside a module comes with it."""
    seen: set[int] = set()
    waiting: list[object] = [function]
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.nn.Module | torch.nn.Parameter):
            yield getattr(each, "_orig_mod", each)
        else:
            waiting += _used(each)


def _used(value: object) -> list[object]:
    """What a value refers to and can call; nothing of libraries, which keep no model."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return _used_by_code(value)
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, type | types.ModuleType | torch.Tensor):
        return []
    return list(getattr(value, "__dict__", {}).values())


def _used_by_code(function: types.FunctionType) -> list[object]:
    compiled = getattr(function, "_torchdynamo_orig_callable", None)
    if compiled is not None:
        return [compiled]
    if (function.__module__ or "").partition(".")[0] == "torch":
        return []
    names = inspect.getclosurevars(function)
    return [
        *names.nonlocals.values(),
        *names.globals.values(),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    ]

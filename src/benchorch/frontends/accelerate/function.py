"""A drop-in for torch.compile, whose graphs a remote profile can measure elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from benchorch.errors import ConfigError
from benchorch.frontends.accelerate.capture import Accelerated, CaptureContext, capture_graph

if TYPE_CHECKING:
    import torch

F = TypeVar("F", bound=Callable[..., Any])

_ACTIVE: list[CaptureContext] = []
_MARK = "_benchorch_accelerated"


@overload
def accelerate(model: F, **options: Any) -> F: ...
@overload
def accelerate(model: None = None, **options: Any) -> Callable[[F], F]: ...
def accelerate(model: Any = None, *, dynamic: bool | None = None, **options: Any) -> Any:
    """The same function, method or module, compiled; a remote profile measures its graphs.

    Outside ``with benchorch.remote_profile(...)`` it is what ``torch.compile`` makes of it.

    Args:
        model: a function, a method or a module; without one, a decorator is returned.
        dynamic: True for one graph for all shapes; None leaves it to torch, as there.
        options: any other of ``torch.compile``: ``fullgraph``, ``backend``, ``mode``, ``options``;
            ``local_backend`` is ``backend``, as octoml-profile calls it.

    Raises:
        ConfigError: it is none of these, or compiled or accelerated already.
    """
    if "local_backend" in options:
        if "backend" in options:
            raise ConfigError(["accelerate: give backend or local_backend, not both."])
        options["backend"] = options.pop("local_backend")
    if model is None:
        return functools.partial(accelerate, dynamic=dynamic, **options)
    problem = _problem(model)
    if problem:
        raise ConfigError([f"accelerate: {problem}"])
    import torch

    options["dynamic"] = dynamic
    within = {key: value for key, value in options.items() if key in ("dynamic", "fullgraph")}
    if isinstance(model, torch.nn.Module):
        return _module(model, options, within)
    outside = torch.compile(model, **options)
    inside = torch.compile(model, backend=capture_graph, **within)
    return _switch(model, outside, inside)


def activate(capture: CaptureContext) -> None:
    """Start recording accelerated functions; ConfigError where a recording is open."""
    if _ACTIVE:
        raise ConfigError(
            [
                "remote_profile: another remote_profile is still open; profiles cannot be nested. "
                "Name all backends in one: remote_profile(backends=[...])."
            ]
        )
    _ACTIVE.append(capture)


def deactivate() -> None:
    """Stop recording accelerated functions."""
    _ACTIVE.clear()


def _module(
    module: torch.nn.Module, options: dict[str, Any], within: dict[str, Any]
) -> torch.nn.Module:
    """The module compiled by torch.compile, its forward switched by an open recording."""
    import torch

    compiled: Any = torch.compile(module, **options)
    captured: Any = torch.compile(module, backend=capture_graph, **within)
    compiled.forward = _switch(module, compiled.forward, captured.forward)
    result: torch.nn.Module = compiled
    return result


def _switch(
    model: Any, outside: Callable[..., Any], inside: Callable[..., Any]
) -> Callable[..., Any]:
    import torch

    function = Accelerated(name=_name(model))

    def accelerated(*args: Any, **kwargs: Any) -> Any:
        if (
            torch.compiler.is_dynamo_compiling()
        ):  # a part of something larger that is being captured
            return model(*args, **kwargs)
        if not _ACTIVE:
            return outside(*args, **kwargs)
        with _ACTIVE[0].run(function):
            return inside(*args, **kwargs)

    if not isinstance(model, torch.nn.Module):
        functools.update_wrapper(accelerated, model)
    setattr(accelerated, _MARK, True)
    return accelerated


def _problem(model: Any) -> str:
    """Reason why an object cannot be accelerated; empty where it can."""
    if isinstance(model, type):
        return f"{model.__name__} is a class; decorate its method, or accelerate an object of it."
    if not callable(model):
        return f"expected a function, a method or a module, got a {type(model).__name__}."
    name = _name(model)
    own = getattr(model, "__dict__", {})
    if _MARK in own or _MARK in getattr(own.get("forward"), "__dict__", {}):
        return f"{name} is accelerated already."
    if _is_compiled(model):
        return (
            f"{name} is compiled already; pass it without torch.compile, which accelerate replaces."
        )
    return ""


def _name(model: Any) -> str:
    """Without the function that it is defined in."""
    return str(getattr(model, "__qualname__", type(model).__name__)).rpartition("<locals>.")[2]


def _is_compiled(model: Any) -> bool:
    disabled = getattr(model, "_torchdynamo_disable", False)
    compiled = getattr(model, "_torchdynamo_orig_callable", None) is not None
    in_place = getattr(model, "_compiled_call_impl", None) is not None
    return (compiled and not disabled) or in_place

"""A user's own callable, named ``package.module:attribute``: checked unimported, then called.

The rule for what may be called: any importable function or class that is not part of Python's
standard library, so that a configuration from elsewhere cannot name ``os:system``.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.models.source import argument_problems, attribute_problems, module_source

if TYPE_CHECKING:
    import torch

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.([A-Za-z_]\w*)")


def callable_problems(where: str, reference: str, arguments: Mapping[str, Json]) -> list[str]:
    """Why a reference cannot be called so: its spelling, module, attribute and arguments."""
    problems = reference_problems(where, reference)
    module_name, _, attribute = reference.partition(":")
    source = None if problems else module_source(module_name)[0]
    if source is None:
        return problems
    beside = f"{where.rpartition('.')[0]}.arguments"
    return argument_problems(beside, source, attribute, arguments)


def reference_problems(where: str, reference: str) -> list[str]:
    """Why a reference cannot be called at all: its spelling, module or attribute."""
    if not _REFERENCE.fullmatch(reference):
        dotted = _DOTTED.fullmatch(reference)
        guess = f" Did you mean {f'{dotted[1]}:{dotted[2]}'!r}?" if dotted else ""
        return [f"{where}: {reference!r} is not of the form 'package.module:callable'.{guess}"]
    module_name, _, attribute = reference.partition(":")
    if _is_standard(module_name):
        return [
            f"{where}: {module_name!r} belongs to Python's standard library, which is not called."
        ]
    source, problem = module_source(module_name)
    if problem:
        return [f"{where}: {problem}"]
    found = attribute_problems(source, attribute) if source else []
    return [f"{where}: {said}" for said in found]


def resolve_callable(reference: str) -> Callable[..., object]:
    """Import what a reference names; BuildError with the user's own traceback as its cause."""
    module_name, _, attribute = reference.partition(":")
    if _is_standard(module_name) or not _REFERENCE.fullmatch(reference):
        raise BuildError(f"{reference!r} may not be called", kind="user_code")
    with UserCode(reference):
        found: object = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    if not callable(found):
        raise BuildError(f"{reference} is {found!r}, which cannot be called", kind="user_code")
    return cast(Callable[..., object], found)


def check_forward(reference: str, module: torch.nn.Module, names: Sequence[str]) -> None:
    """BuildError where forward does not take arguments of these names, which it is called with."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):  # some that are not written in Python have none
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise BuildError(
            f"the inputs {', '.join(names)} do not fit the module of {reference}, whose forward is "
            f"forward{_without_annotations(signature)}: {error}",
            kind="inputs",
            remedy="name model.inputs and model.kwargs after forward's arguments",
        ) from error


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    parameters = [one.replace(annotation=empty) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=empty)


def _is_standard(module_name: str) -> bool:
    return module_name.partition(".")[0] in sys.stdlib_module_names


class UserCode:
    """Around every call into a user's code: what it raises becomes a BuildError of kind user_code.

    Running out of memory stays what it is: that is the machine's answer, not a bug.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception | SystemExit) or isinstance(error, MemoryError):
            return
        if isinstance(error, BuildError):
            return
        raise BuildError(
            f"{self._reference} raised {type(error).__name__}: {error}{_place(trace)}",
            kind="user_code",
            remedy="the traceback in the trial's log shows where",
        ) from error


def _place(trace: TracebackType | None) -> str:
    """Where it was raised, for the one-line message; the cause keeps the whole traceback."""
    frames = traceback.extract_tb(trace)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""

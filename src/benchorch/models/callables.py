"""Reference to a user's own callable: checked without importing it, then resolved.

It is named ``package.module:attribute`` or ``path/to/file.py:attribute``. What may be called is
`benchorch.models.trust`'s to say, once by the reference, before its module is imported, and once by
what it has led to; a configuration from elsewhere can name neither ``os:system`` nor
``torch:os.system`` nor ``psutil:Popen``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from benchorch.domain.codec import Json
from benchorch.errors import BuildError, Correction, Problem, as_problem, summary_of
from benchorch.models import trust
from benchorch.models.source import (
    ParsedModule,
    argument_problems,
    attribute_problems,
    defined,
    file_source,
    is_no_module,
    module_source,
)
from benchorch.models.start_folder import departures_noted, from_start

if TYPE_CHECKING:
    import torch

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.([A-Za-z_]\w*)")


def callable_problems(where: str, reference: str, arguments: Mapping[str, Json]) -> list[str]:
    """Problems of a call: the reference's spelling, module, attribute, and the arguments."""
    problems = reference_problems(where, reference)
    source = None if problems else _source(reference)[0]
    if source is None:
        return problems
    attribute = reference.rpartition(":")[2]
    beside = f"{where.rpartition('.')[0]}.arguments"
    return argument_problems(beside, source, attribute, arguments)


def reference_problems(where: str, reference: str) -> list[str]:
    """Problems of a reference alone: its spelling, module or attribute."""
    if not trust.is_reference(reference):
        meant = _with_callable(reference)
        guess = f" Did you mean {meant!r}?" if meant else ""
        form = f"{where}: {reference!r} is not of the form 'package.module:callable'."
        correction = Correction(allowed=[meant]) if meant else None
        return [Problem(f"{form}{guess} A file's is 'path.py:callable'.", correction)]
    module_name, _, attribute = reference.rpartition(":")
    if _is_standard(reference):
        return [
            f"{where}: {module_name!r} belongs to Python's standard library, which is not called."
        ]
    source, problem = _source(reference)
    if problem:
        here = sorted(f"{file.name}:{attribute}" for file in Path.cwd().glob("*.py"))
        in_file = as_problem(problem).in_file
        correction = Correction(allowed=here) if here and not in_file else None
        return [Problem(f"{where}: {problem}", correction, in_file=in_file)]
    may_not = f"{where}: {reference!r} may not be called: "
    refused = trust.refusal(reference)
    if refused:
        return [refused.within(may_not, ".")]
    found = attribute_problems(source, attribute) if source else []
    known = [f"{module_name}:{name}" for name in source.definitions] if source else []
    if found or source is None:
        return [Problem(f"{where}: {one}", Correction(allowed=known)) for one in found]
    leads_to = defined(source, attribute)
    if leads_to and is_no_module(*leads_to):
        refused = trust.definition_refusal(reference, leads_to[0].path)
    return [refused.within(may_not, ".")] if refused else []


def _with_callable(reference: str) -> str:
    """A file with its first callable, or a dotted name with a colon; empty for anything else."""
    if Path(reference).suffix == ".py" and Path(reference).is_file():
        source, _ = file_source(Path(reference), reference)
        return f"{reference}:{next(iter(source.definitions), 'make')}" if source else ""
    dotted = _DOTTED.fullmatch(reference)
    return f"{dotted[1]}:{dotted[2]}" if dotted else ""


def resolve_callable(reference: str) -> Callable[..., object]:
    """Import what a reference names; BuildError with the user's own traceback as its cause."""
    module_name, _, attribute = reference.rpartition(":")
    if _is_standard(reference) or not trust.is_reference(reference):
        raise BuildError(f"{reference!r} may not be called", kind="user_code")
    refused = trust.refusal(reference)
    if refused:
        raise BuildError(f"{reference!r} may not be called: {refused}", kind="user_code")
    with user_code(reference):
        found: object = imported(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    if not callable(found):
        raise BuildError(f"{reference} is {found!r}, which cannot be called", kind="user_code")
    why = trust.may_call(found, reference)
    if why:
        raise BuildError(
            f"{reference!r} is {found!r}, which may not be called: {why}", kind="user_code"
        )
    return found


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
            remedy=_renaming(signature, names),
        ) from error


def _renaming(signature: inspect.Signature, names: Sequence[str]) -> str:
    """How the inputs are to be called, where as many have a wrong name as arguments lack one."""
    named = [one for one in signature.parameters.values() if one.kind not in _VARIADIC]
    lacking = [one.name for one in named if one.default is one.empty and one.name not in names]
    wrong = [name for name in names if name not in signature.parameters]
    if len(wrong) != len(lacking) or not wrong:
        return "name model.inputs and model.kwargs after forward's arguments"
    pairs = (f"{name} as {meant}" for name, meant in zip(wrong, lacking, strict=True))
    return f"in model.inputs, or --input of init, write {', '.join(pairs)}"


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    parameters = [one.replace(annotation=empty) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=empty)


def _is_standard(reference: str) -> bool:
    """Whether a module of Python's own is named; a user's file may be called as one is."""
    first = reference.rpartition(":")[0].partition(".")[0]
    return not trust.IN_FILE.fullmatch(reference) and first in sys.stdlib_module_names


def _source(reference: str) -> tuple[ParsedModule | None, str]:
    """The parsed source of the module or file that a reference names, or the problem."""
    name = reference.rpartition(":")[0]
    return (
        file_source(Path(name), name) if trust.IN_FILE.fullmatch(reference) else module_source(name)
    )


def imported(name: str) -> ModuleType:
    """The module of that name; of a trusted file, what running it once gives, beside its folder."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = from_start(name).resolve()
    # A name of its own: files are often called as installed packages are.
    own = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if own in sys.modules:
        return sys.modules[own]
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    trust.look_beside(path)
    module = sys.modules[own] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


@contextmanager
def user_code(reference: str) -> Iterator[None]:
    """Exceptions of a user's code become BuildErrors.

    Running out of memory stays what it is: that is the machine's answer, not a bug.
    """
    try:
        with departures_noted():
            yield
    except (BuildError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise BuildError(
            f"{reference} raised {summary_of(error)}{_place(error.__traceback__)}",
            kind="user_code",
            remedy="the traceback in the trial's log shows where",
        ) from error


def _place(trace: TracebackType | None) -> str:
    """Location of the error, for the one-line message; the cause keeps the whole traceback."""
    frames = traceback.extract_tb(trace)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""

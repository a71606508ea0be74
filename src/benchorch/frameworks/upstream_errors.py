"""Wrapping of an upstream package's exceptions in ours, with a readable message."""

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchorch.errors import BuildError, MeasureError, TrialError, causes, text_of

# What compilers and exporters raise when they refuse a model. Not OSError (a full disk is not the
# model's fault) and not MemoryError: those keep their own class.
_REFUSALS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_OUT_OF_MEMORY = ("OutOfMemoryError", "can't allocate memory")
_DISK_FULL = "No space left on device"
_TORCHSCRIPT = "The following operation failed in the TorchScript interpreter"
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FOLDERS = re.compile(r"""(?<=[\s'"(])/(?:[^\s/'"()]+/)+(?=[^\s/'"()])""")
# A tensor among the words, as torch prints it: all its numbers, then its type and shape.
_TENSOR = re.compile(r" ?\([\s\dColumnsandtife(.,)=+*-]*+\[ [\w.]+\{[\d,]*\} \]\)")
_LONGEST_LINE = 300
_DATA_DEPENDENT = re.compile("data.dependent", re.IGNORECASE)
_BY_VALUE = "it branches on a tensor's value, or takes a number from one: "

ANOTHER_CONVERSION = "another conversion for this model, of those that benchorch conversions lists"
"""Remedy where a conversion refuses a model."""

_REMEDIES: Mapping[type[TrialError], str] = {
    BuildError: ANOTHER_CONVERSION,
    MeasureError: f"rebuild=always, which renews what is stored, or {ANOTHER_CONVERSION}",
}


@contextmanager
def wrap_errors(kind: type[TrialError], what: str, *more: type[Exception]) -> Iterator[None]:
    """Raises `kind` where upstream refuses, e.g. ``torch.export refused the model: ...``.

    Args:
        kind: BuildError in a step, MeasureError in a runtime.
        what: who refuses what, the beginning of the message.
        more: upstream's own classes that derive from Exception alone.

    Raises:
        OSError: where upstream hid a full disk in another exception.
    """
    kinds = (*_REFUSALS, *more)
    try:
        yield
    except kinds as error:
        text = f"{type(error).__name__}: {text_of(error)}"
        if any(sign in text for sign in _OUT_OF_MEMORY):
            raise
        if _DISK_FULL in text:
            raise OSError(errno.ENOSPC, _DISK_FULL) from error
        place = place_in_model(error)
        line = first_line(error)
        why = _BY_VALUE if _DATA_DEPENDENT.search(line) else ""
        message = f"{what}: {why}{line}{f' ({place})' if place else ''}"
        raise kind(message, remedy=_REMEDIES.get(kind, "")) from error


@contextmanager
def raised_by_backend() -> Iterator[None]:
    """Unwrap Dynamo's report of a failed backend into the backend's own exception."""
    from torch._dynamo.exc import BackendCompilerFailed

    try:
        yield
    except BackendCompilerFailed as error:
        raise error.inner_exception from error.inner_exception.__cause__


def first_line(error: BaseException) -> str:
    """First informative line of the original error, without numbers of tensors.

    Of a path, which could fill it, the name is left.
    """
    *_, error = causes(error)
    text = _TENSOR.sub("", without_colours(text_of(error)))
    lines = (line.strip() for line in text.splitlines())
    informative = [line for line in lines if line] or [type(error).__name__]
    # TorchScript puts its own traceback before the error.
    line = informative[-1] if informative[0].startswith(_TORCHSCRIPT) else informative[0]
    line = _FOLDERS.sub("", line)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def without_colours(text: str) -> str:
    """The text without colour codes."""
    return _COLOURS.sub("", text)


def place_in_model(error: BaseException) -> str:
    """Line of the model that a tracer reports, or an empty string."""
    found = _PLACE.findall(text_of(error))
    if not found:
        return ""
    path, line, function = found[-1]
    return f"{Path(path).name}:{line} in {function}"

"""Named ranges in a torch trace: each call, each module, each wait, each compiled kernel.

They are opened the fast way (1 µs instead of 35 µs for a documented ``record_function``), which
records them as operators; `as_annotations` gives them their proper category in the file.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CALL = "benchorch:call"
PREFIXES = ("benchorch:", "mod:", "wait:")

_AS_OPERATOR = re.compile(rb'("cat":\s*)"cpu_op"(,\s*"name":\s*"(?:benchorch|mod|wait):)')
# How Inductor names the C++ kernels of a generated file; those of Triton show themselves.
_KERNEL = re.compile(r"cpp_\w+")
# Where a thread waits for another one or for a device: who owns the function, its name, the range.
_WAITS = (
    ("threading:Thread", "join", "join"),
    ("threading:Event", "wait", "flag"),
    ("concurrent.futures:Future", "result", "future"),
    ("queue:Queue", "get", "queue"),
    ("torch.jit", "wait", "jit"),
    ("torch.cuda", "synchronize", "device"),
    ("torch.cuda:Stream", "synchronize", "stream"),
    ("torch.cuda:Event", "synchronize", "event"),
    ("torch.utils.data.dataloader:_BaseDataLoaderIter", "__next__", "dataloader"),
)


def marked(name: str) -> AbstractContextManager[object]:
    """A range of that name on this thread."""
    from torch._C._profiler import _RecordFunctionFast

    return _RecordFunctionFast(name)


def as_annotations(trace: bytes) -> bytes:
    """A chrome trace in which our own ranges have the category of annotations."""
    return _AS_OPERATOR.sub(rb'\1"user_annotation"\2', trace)


@contextmanager
def modules(module: torch.nn.Module | None) -> Iterator[None]:
    """The forward of each module in the model in a range ``mod:<qualified name>``."""
    with ExitStack() as hooks:
        for name, part in module.named_modules() if module is not None else ():
            if name:  # the model itself is the call
                _mark_module(hooks, part, f"mod:{name}")
        yield


def _mark_module(hooks: ExitStack, part: torch.nn.Module, name: str) -> None:
    """A range ends on the thread where it began, the last one begun first."""
    opened: defaultdict[int, list[AbstractContextManager[object]]] = defaultdict(list)

    def enter(*_: object) -> None:
        mark = marked(name)
        mark.__enter__()
        opened[get_ident()].append(mark)

    def leave(*_: object) -> None:
        mine = opened[get_ident()]
        if mine:
            mine.pop().__exit__(None, None, None)

    before = part.register_forward_pre_hook(enter, prepend=True)
    after = part.register_forward_hook(leave, always_call=True)
    hooks.callback(before.remove)
    hooks.callback(after.remove)


@contextmanager
def waits() -> Iterator[None]:
    """Each wait for a thread, a queue, a data loader or a device in a range ``wait:<what>``.

    Only what is loaded already is looked at: nothing else can be waited for by the model.
    """
    with ExitStack() as replaced:
        for place, name, what in _WAITS:
            owner = _loaded(place)
            if owner is not None:
                _replace(replaced, owner, name, f"wait:{what}")
        yield


@contextmanager
def compiled_kernels() -> Iterator[None]:
    """Each C++ kernel that Inductor compiled in this process in a range of the kernel's name.

    The generated file looks its kernels up by name at every call, so that nothing need be
    compiled anew to see them.
    """
    cache = sys.modules.get("torch._inductor.codecache")
    generated = cache.PyCodeCache.modules if cache else ()
    with ExitStack() as replaced:
        for module in generated:
            for name in [name for name in vars(module) if _KERNEL.fullmatch(name)]:
                if callable(getattr(module, name)):
                    _replace(replaced, module, name, name)
        yield


def _loaded(place: str) -> Any:
    """A module, or a class in it, if the module has been imported."""
    module, _, name = place.partition(":")
    found = sys.modules.get(module)
    return getattr(found, name, None) if name and found else found


def _replace(undo: ExitStack, owner: Any, name: str, mark: str) -> None:
    """Run `owner.name` in a range until `undo` is closed."""
    original = getattr(owner, name, None)
    if original is None:
        return
    inherited = isinstance(owner, type) and name not in vars(owner)
    setattr(owner, name, _in_range(original, mark))
    if inherited:
        undo.callback(delattr, owner, name)
    else:
        undo.callback(setattr, owner, name, original)


def _in_range(original: Callable[..., object], mark: str) -> Callable[..., object]:
    @wraps(original, assigned=_names_of(original))
    def called(*positional: object, **named: object) -> object:
        with marked(mark):
            return original(*positional, **named)

    return called


def _names_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Attributes that a wrapper can copy from a function; compiled functions have few."""
    return tuple(name for name in ("__module__", "__name__", "__doc__") if hasattr(function, name))

"""Record of the modules that a running script calls, their inputs and call counts.

Every call of a module passes one method of torch.nn.Module, so watching that one sees all of them,
however they are bound. Modules that other modules call are let through at once.
"""

from __future__ import annotations

import _thread
import hashlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

from benchorch.models.script_inputs import CapturedArguments, capture_arguments, raw_key

if TYPE_CHECKING:
    import torch

HASH_DIGITS = 8
MOST_INVOCATIONS = 100
"""Signatures of one model that are told apart; later ones are only counted."""

_TRANSPARENT = frozenset({"OptimizedModule", "DataParallel", "DistributedDataParallel"})
_SYMBOLS = frozenset({"KerasTensor", "FakeTensor", "FunctionalTensor"})
_PROGRESS_EVERY_S = 1.0
_LONGEST_CONTAINER = 1000  # items that are looked through for a name


class StopScriptError(BaseException):
    """End of a script at the requested call; no script catches it by class."""


@dataclass(slots=True, kw_only=True)
class CallSignature:
    """One signature that a model was called with.

    Attributes:
        hash: of the model's and of the signature.
        signature: each argument in words.
    """

    hash: str
    signature: tuple[str, ...]
    calls: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class FoundModel:
    """A model that was called.

    Attributes:
        order: when it was called first, among all models.
        depth: how many modules' calls that call was inside of.
        name: the variable it was bound to, and the way from there.
        place: the file and line of that call.
        structure: digest of its class, parts, and parameters' names, shapes and dtypes.
        hash: of structure and of its number among models that have the same.
        module: itself, for as long as the script keeps it.
        instances: how often the script made it anew.
    """

    order: int
    depth: int
    name: str
    place: str
    structure: str
    hash: str
    kind: type
    module: Callable[[], torch.nn.Module | None]
    parameters: int
    parameter_bytes: int
    buffer_bytes: int
    dtypes: tuple[str, ...]
    calls: int = 0
    seconds: float = 0.0
    instances: int = 1
    uncounted: int = 0
    invocations: dict[str, CallSignature] = field(default_factory=dict)
    raw: dict[object, CallSignature | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """The first call of a signature, just after it was made."""

    seen: FoundModel
    invocation: CallSignature
    module: torch.nn.Module
    arguments: CapturedArguments
    answer: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewCall:
    """Record made before the first call of a signature."""

    order: int
    name: str
    place: str
    arguments: CapturedArguments


class _Local(threading.local):
    """The recorded calls that this thread is in."""

    def __init__(self) -> None:
        self.depth = 0
        self.stack: list[tuple[torch.nn.Module, str]] = []
        self.resting = False


@final
class Watch:
    """Context that records every module's call.

    Args:
        max_depth: how far inside other modules' calls a module still counts.
        on_first_call: called at the first call of each signature; may `stop` the script.
        on_progress: called with a model after the first call of each of its signatures, and from
            then on at its calls about once a second.

    Attributes:
        models: in the order in which their first calls ended.
        main: the script as a module: runpy forgets it, yet its classes say that they live there.
    """

    def __init__(
        self,
        max_depth: int,
        on_first_call: Callable[[FirstCall], None],
        on_progress: Callable[[FoundModel], None] = lambda _: None,
    ) -> None:
        self.models: list[FoundModel] = []
        self.main: ModuleType | None = None
        self._stopped = False
        self._max_depth = max_depth
        self._on_first_call = on_first_call
        self._on_progress = on_progress
        self._next_progress_s = 0.0
        self._by_id: dict[int, FoundModel] = {}
        self._count = 0
        self._local = _Local()
        self._lock = threading.RLock()

    def stop(self) -> None:
        """End the script: at once, and wherever it calls a module after that."""
        self._stopped = True

    def _leave(self) -> NoReturn:
        if threading.current_thread() is not threading.main_thread():
            _thread.interrupt_main()  # it may be waiting for this thread's answer
        raise StopScriptError

    def __enter__(self) -> Self:
        import torch

        self._kept = (torch.nn.Module.__call__, torch.compile)
        torch.nn.Module.__call__ = self._watching(torch.nn.Module.__call__)  # type: ignore[method-assign]
        torch.compile = _as_it_is
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Whatever a script makes of being stopped, it was we who stopped it."""
        import torch

        torch.nn.Module.__call__, torch.compile = self._kept  # type: ignore[method-assign]
        return self._stopped

    def _watching(self, original: Callable[..., object]) -> Callable[..., object]:
        """Replacement of the modules' own ``__call__``."""
        local, max_depth, now_s = self._local, self._max_depth, time.monotonic
        by_id = self._by_id

        def watched(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> object:
            depth = local.depth
            if depth > max_depth or local.resting or type(module).__name__ in _TRANSPARENT:
                return original(module, *args, **kwargs)
            if self._stopped:
                self._leave()
            key = raw_key(args, kwargs)
            seen = by_id.get(id(module))
            if seen is not None and seen.module() is not module:
                seen = None
            known = seen is not None and key in seen.raw
            unseen = None if known else self._prepare_record(module, args, kwargs, seen)
            name = seen.name if seen else unseen.name if unseen else ""
            local.stack.append((module, name))
            local.depth = depth + 1
            began_s = now_s()
            try:
                answer = original(module, *args, **kwargs)
            finally:
                local.depth = depth
                local.stack.pop()
            ended_s = now_s()
            if unseen is not None:
                seen = self._record(module, key, unseen, answer)
            if seen is not None:
                _count(seen, key, ended_s - began_s)
                if unseen is not None or ended_s > self._next_progress_s:
                    self._report_progress(seen)
            if self._stopped:
                self._leave()
            return answer

        return watched

    def _prepare_record(
        self, module: torch.nn.Module, args: Any, kwargs: Any, seen: FoundModel | None
    ) -> _NewCall | None:
        """Record of the call before it is made; None while the module is being traced."""
        if _is_being_traced() or any(type(each).__name__ in _SYMBOLS for each in args):
            return None
        frame = sys._getframe(2)
        name = seen.name if seen else self._name(module, frame)
        with self._lock:
            self._count += 1
            order = self._count
        return _NewCall(
            order=order,
            name=name,
            place=_place(frame),
            arguments=capture_arguments(module.forward, args, kwargs),
        )

    def _name(self, module: torch.nn.Module, frame: FrameType) -> str:
        """The module's variable, or its path in the outermost model being called."""
        if not self._local.stack:
            return name_in(frame, module)
        top, name = self._local.stack[0]
        path = next((path for path, part in top.named_modules() if part is module), "?")
        return f"{name}.{path}"

    def _record(
        self, module: torch.nn.Module, key: object, before: _NewCall, answer: object
    ) -> FoundModel:
        """Record the signature of a call; report it where it is new."""
        with self._lock:
            seen = self._by_id.get(id(module))
            if seen is None or seen.module() is not module:
                seen = self._add_model(module, before)
            signature = before.arguments.signature
            digest = _short(seen.hash, *signature)
            new = digest not in seen.invocations
            if new and len(seen.invocations) >= MOST_INVOCATIONS:
                seen.uncounted += 1
                seen.raw.clear()  # no list of what is not told apart
                seen.raw[key] = None
                return seen
            if new:
                seen.invocations[digest] = CallSignature(hash=digest, signature=signature)
            seen.raw[key] = seen.invocations[digest]
            if new:
                self._report(seen, seen.invocations[digest], module, before.arguments, answer)
        return seen

    def _report(
        self,
        seen: FoundModel,
        invocation: CallSignature,
        module: torch.nn.Module,
        arguments: CapturedArguments,
        answer: object,
    ) -> None:
        """Report a new signature; calls that the callback makes are not recorded."""
        self._local.resting = True
        try:
            self._on_first_call(
                FirstCall(
                    seen=seen,
                    invocation=invocation,
                    module=module,
                    arguments=arguments,
                    answer=answer,
                )
            )
        finally:
            self._local.resting = False

    def _report_progress(self, seen: FoundModel) -> None:
        self._local.resting = True
        try:
            with self._lock:
                self._on_progress(seen)
        finally:
            self._local.resting = False
            self._next_progress_s = time.monotonic() + _PROGRESS_EVERY_S

    def _add_model(self, module: torch.nn.Module, before: _NewCall) -> FoundModel:
        """Record of a model at its first call, or of its next instance."""
        self.main = sys.modules["__main__"]
        depth, structure = self._local.depth, structure_of(module)
        alike = [each for each in self.models if each.structure == structure]
        alike = [each for each in alike if each.depth == depth]
        for each in alike:
            if each.name == before.name and each.place == before.place and each.module() is None:
                each.module = weakref.ref(module)
                each.instances += 1
                self._by_id[id(module)] = each
                return each
        parameters = [p for p in module.parameters() if _has_values(p)]
        buffers = [b for b in module.buffers() if _has_values(b)]
        seen = FoundModel(
            order=before.order,
            depth=depth,
            name=before.name,
            place=before.place,
            structure=structure,
            hash=_short(structure, str(depth), str(len(alike))),
            kind=type(module),
            module=weakref.ref(module),
            parameters=sum(p.numel() for p in parameters),
            parameter_bytes=sum(p.nbytes for p in parameters),
            buffer_bytes=sum(b.nbytes for b in buffers),
            dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in parameters})),
        )
        self.models.append(seen)
        self._by_id[id(module)] = seen
        return seen


def _count(seen: FoundModel, key: object, took_s: float) -> None:
    seen.calls += 1
    seen.seconds += took_s
    invocation = seen.raw.get(key)
    if invocation is not None:
        invocation.calls += 1
        invocation.seconds += took_s


def _as_it_is(model: Any = None, **options: Any) -> Any:
    """Replacement of torch.compile that leaves the module as it is."""
    return (lambda function: function) if model is None else model


def _is_being_traced() -> bool:
    import torch

    tracing: bool = torch._C._is_tracing()
    return tracing or torch.compiler.is_compiling()


def _has_values(tensor: torch.Tensor) -> bool:
    from torch.nn.parameter import is_lazy

    return not is_lazy(tensor)


def structure_of(module: torch.nn.Module) -> str:
    """SHA-256 (hex) over the classes of a module's parts, and its tensors' names and kinds."""
    total = hashlib.sha256()
    for name, part in module.named_modules():
        total.update(f"{name}|{type(part).__module__}.{type(part).__qualname__}\n".encode())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        shape = tuple(tensor.shape) if _has_values(tensor) else "unknown"
        total.update(f"{name}|{tensor.dtype}|{shape}\n".encode())
    return total.hexdigest()


def _short(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:HASH_DIGITS]


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def name_in(frame: FrameType | None, module: object) -> str:
    """The variable that holds an object, from the innermost frame outwards; else its class.

    The script's own variables come first: what a library calls it tells a person little.
    """
    frames = list(_outwards(frame))
    own = [each for each in frames if each.f_globals.get("__name__") == "__main__"]
    scopes = [
        *(scope for each in own for scope in (each.f_locals, each.f_globals)),
        vars(sys.modules["__main__"]),
        *(each.f_locals for each in frames),
    ]
    names = (name for scope in scopes for name in _names_in(scope, module))
    return next(names, type(module).__name__)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _names_in(scope: Mapping[str, object], module: object) -> Iterator[str]:
    """First the variables themselves, then what they hold."""
    items = [(name, value) for name, value in list(scope.items()) if not name.startswith("__")]
    yield from (name for name, value in items if value is module and name != "self")
    for name, value in items:
        for step, held in _held(value):
            if held is module:
                yield f"{name}{step}"


def _held(value: object) -> Iterator[tuple[str, object]]:
    """Items of a container or attributes of an object, each with its access path."""
    if isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(value[:_LONGEST_CONTAINER]))
    elif isinstance(value, dict) and len(value) <= _LONGEST_CONTAINER:
        yield from ((f"[{key!r}]", item) for key, item in list(value.items()))
    elif not isinstance(value, type) and hasattr(type(value), "__dict__"):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and len(attributes) <= _LONGEST_CONTAINER:
            yield from ((f".{name}", item) for name, item in list(attributes.items()))
            parts = attributes.get("_modules")
            if isinstance(parts, dict):
                yield from ((f".{name}", item) for name, item in parts.items())

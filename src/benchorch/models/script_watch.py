"""Record of the modules that a running script calls, their inputs and call counts.

Every call of a module passes one method of torch.nn.Module, so watching that one sees all of them,
however they are bound. Modules that other modules call are let through at once.
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import inspect
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

from benchorch.errors import summary_of
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.stacks import GENERATED, kind_of
from benchorch.frameworks.tensor_parts import stored_bytes
from benchorch.models.script_inputs import CapturedArguments, capture_arguments, raw_key

if TYPE_CHECKING:
    import torch

HASH_DIGITS = 8
MOST_INVOCATIONS = 100
"""Limit of distinct signatures of one model; further ones are only counted."""

_TRANSPARENT = frozenset({"OptimizedModule", "DataParallel", "DistributedDataParallel"})
_PARTS = frozenset({"ParametrizationList"})  # what torch calls to compute a parameter
_TRACERS = ("torch.jit._trace", "torch.onnx", "torch.export._trace", "torch._export")
"""Modules of torch that call a model themselves, to record it or to check the record."""
_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
_SYMBOLS = frozenset({"KerasTensor", "FakeTensor", "FunctionalTensor"})
_LIGHTNING_STEPS = frozenset({"training_step", "validation_step", "test_step", "predict_step"})
_MAINS = dict.fromkeys(("__main__", "__mp_main__"), "__main__")
_PROGRESS_EVERY_S = 1.0
_LONGEST_CONTAINER = 1000  # items that are looked through for a name


class StopScriptError(BaseException):
    """End of a script at the requested call; no script catches it by class."""


@dataclass(slots=True, kw_only=True)
class CallSignature:
    """Signature of a model's call.

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
    """The first call of a signature, just after it was made.

    Attributes:
        step: of a LightningModule, the step that was called; "" for the module itself.
        autocast: the dtype of the autocast region that it was made in; "" outside of one.
    """

    seen: FoundModel
    invocation: CallSignature
    module: torch.nn.Module
    arguments: CapturedArguments
    answer: object
    step: str = ""
    autocast: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewCall:
    """Record made before the first call of a signature."""

    order: int
    name: str
    place: str
    arguments: CapturedArguments
    step: str = ""


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
        self._leaving = threading.Lock()
        self._is_over = False

    def stop(self) -> None:
        """End the script: at once, and wherever it calls a module after that."""
        self._stopped = True

    def _leave(self) -> NoReturn:
        if threading.current_thread() is not threading.main_thread():
            with self._leaving:
                if not self._is_over:
                    _thread.interrupt_main()  # it may be waiting for this thread's answer
        raise StopScriptError

    def __enter__(self) -> Self:
        import torch

        module = torch.nn.Module
        self._undo = ExitStack()
        for owner, name, new in (
            (module, "__call__", self._watching(module.__call__)),
            (module, "__init_subclass__", classmethod(self._new_class)),
            (torch, "compile", _as_it_is),
        ):
            self._replace(owner, name, new)
        return self

    def _replace(self, owner: Any, name: str, new: object) -> None:
        if name in vars(owner):
            self._undo.callback(setattr, owner, name, vars(owner)[name])
        else:
            self._undo.callback(delattr, owner, name)
        setattr(owner, name, new)

    def _new_class(self, kind: type[torch.nn.Module], /, **options: Any) -> None:
        """Record the calls of a class that has a way of its own to be called, too."""
        import torch

        super(torch.nn.Module, kind).__init_subclass__(**options)
        own = vars(kind).get("__call__")
        if inspect.isfunction(own) and _is_users(own.__code__.co_filename):
            self._replace(kind, "__call__", self._watching(own))
        if any(base.__name__ == "LightningModule" for base in kind.__mro__):
            for name in _LIGHTNING_STEPS & set(vars(kind)):
                self._replace(kind, name, self._watching_step(vars(kind)[name]))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Whatever a script makes of being stopped, it was we who stopped it."""
        try:
            self._end()
        finally:
            self._undo.close()
        return self._stopped

    def _end(self) -> None:
        """From here on no thread interrupts this one."""
        while not self._is_over:
            try:
                with self._leaving:
                    self._is_over = True
                time.sleep(0)  # an interrupt that is on its way arrives here
            except KeyboardInterrupt:
                if not self._stopped:
                    raise

    def _watching(self, original: Callable[..., object]) -> Callable[..., object]:
        """Replacement of the modules' own ``__call__``."""
        local, max_depth = self._local, self._max_depth

        @functools.wraps(original)
        def watched(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> object:
            kind = type(module).__name__
            if local.depth > max_depth or local.resting or kind in _TRANSPARENT:
                return original(module, *args, **kwargs)
            if local.stack and local.stack[-1][0] is module:  # its class's call, of its own call
                return original(module, *args, **kwargs)
            if kind in _PARTS:
                with self._at_rest():
                    return original(module, *args, **kwargs)
            if self._stopped:
                self._leave()
            key = _key(args, kwargs)
            seen = self._seen(module)
            known = seen is not None and key in seen.raw
            unseen = None if known else self._prepare_record(module, args, kwargs, seen)
            local.depth += 1
            try:
                answer, took_s = self._timed(original, module, args, kwargs, seen or unseen)
            finally:
                local.depth -= 1
            self._counted(module, key, seen, unseen, answer, took_s)
            return answer

        return watched

    def _watching_step(self, original: Callable[..., object]) -> Callable[..., object]:
        """Replacement of a LightningModule's step, which its Trainer calls instead of the module.

        The modules that the step calls are recorded as well, by their way from the module.
        """
        local, name = self._local, original.__name__

        @functools.wraps(original)
        def step(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> object:
            if local.stack or local.resting:
                return original(module, *args, **kwargs)
            key = (name, _key(args, kwargs))
            seen = self._seen(module)
            unseen = None
            if seen is None or key not in seen.raw:
                arguments = _captured(original.__get__(module), args, kwargs)
                signature = (name, *arguments.signature)
                arguments = replace(arguments, signature=signature, keywords=None)
                unseen = self._new_call(module, seen, sys._getframe(1), arguments, step=name)
            answer, took_s = self._timed(original, module, args, kwargs, seen or unseen)
            self._counted(module, key, seen, unseen, answer, took_s)
            return answer

        return step

    def _seen(self, module: torch.nn.Module) -> FoundModel | None:
        seen = self._by_id.get(id(module))
        return seen if seen is not None and seen.module() is module else None

    def _timed(
        self,
        original: Callable[..., object],
        module: torch.nn.Module,
        args: Any,
        kwargs: Any,
        known: FoundModel | _NewCall | None,
    ) -> tuple[object, float]:
        """The answer of a call, and its seconds; what it calls is below this module."""
        stack = self._local.stack
        stack.append((module, known.name if known else ""))
        began_s = time.monotonic()
        try:
            answer = original(module, *args, **kwargs)
        finally:
            stack.pop()
        return answer, time.monotonic() - began_s

    def _counted(
        self,
        module: torch.nn.Module,
        key: object,
        seen: FoundModel | None,
        unseen: _NewCall | None,
        answer: object,
        took_s: float,
    ) -> None:
        """Record a call after it was made; end the script where that was requested."""
        if unseen is not None:
            seen = self._record(module, key, unseen, answer)
        if seen is not None:
            _count(seen, key, took_s)
            if unseen is not None or time.monotonic() > self._next_progress_s:
                self._report_progress(seen)
        if self._stopped:
            self._leave()

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """While calls of this thread are not recorded."""
        self._local.resting = True
        try:
            yield
        finally:
            self._local.resting = False

    def _prepare_record(
        self, module: torch.nn.Module, args: Any, kwargs: Any, seen: FoundModel | None
    ) -> _NewCall | None:
        """Record of the call before it is made; None while the module is being traced."""
        frame = sys._getframe(2)
        if any(type(each).__name__ in _SYMBOLS for each in args) or _is_being_traced(frame):
            return None
        arguments = _captured(_called_method(module), args, kwargs)
        return self._new_call(module, seen, frame, arguments)

    def _new_call(
        self,
        module: torch.nn.Module,
        seen: FoundModel | None,
        frame: FrameType,
        arguments: CapturedArguments,
        step: str = "",
    ) -> _NewCall:
        name = seen.name if seen else self._name(module, frame)
        with self._lock:
            self._count += 1
            order = self._count
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return _NewCall(order=order, name=name, place=place, arguments=arguments, step=step)

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
                self._report(seen, seen.invocations[digest], module, before, answer)
        return seen

    def _report(
        self,
        seen: FoundModel,
        invocation: CallSignature,
        module: torch.nn.Module,
        before: _NewCall,
        answer: object,
    ) -> None:
        """Report a new signature; calls that the callback makes are not recorded."""
        if before.step:
            from benchorch.models.architectures.lightning_step import LightningStep

            module = LightningStep(module, before.step)
        call = FirstCall(
            seen=seen,
            invocation=invocation,
            module=module,
            arguments=before.arguments,
            answer=answer,
            step=before.step,
            autocast=_autocast(),
        )
        with self._at_rest():
            self._on_first_call(call)

    def _report_progress(self, seen: FoundModel) -> None:
        with self._at_rest(), self._lock:
            self._on_progress(seen)
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
        own = [p for p in module.parameters() if _has_values(p)]
        parameters = [*own, *_packed_weights(module)]
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
            parameter_bytes=stored_bytes(parameters),
            buffer_bytes=stored_bytes(buffers),
            dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in parameters})),
        )
        self.models.append(seen)
        self._by_id[id(module)] = seen
        return seen


def _autocast() -> str:
    """The dtype of the autocast region of a GPU or of the CPU that this thread is in, or ""."""
    import torch

    device = next((each for each in ("cuda", "cpu") if torch.is_autocast_enabled(each)), None)
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.") if device else ""


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


def _is_being_traced(frame: FrameType | None) -> bool:
    """Whether torch calls a model to record it; it calls it again to check what it recorded."""
    import torch

    if torch._C._is_tracing() or torch.compiler.is_compiling():
        return True
    callers = (each.f_globals.get("__name__") or "" for each in _outwards(frame))
    return any(name.startswith(_TRACERS) for name in callers)


def _key(args: Any, kwargs: Any) -> tuple[object, ...]:
    """What tells calls apart at a glance; nothing where they cannot be looked at."""
    try:
        return raw_key(args, kwargs)
    except Exception:  # an error here is no reason to end the script
        return ()


def _captured(forward: Callable[..., object], args: Any, kwargs: Any) -> CapturedArguments:
    """Arguments of a call; where they cannot be read, the reason as the obstacle."""
    try:
        return capture_arguments(forward, args, kwargs)
    except Exception as error:  # an error here is no reason to end the script
        return CapturedArguments(
            tensors={},
            positional=(),
            named={},
            signature=("arguments that cannot be read",),
            keywords=None,
            obstacle=f"its arguments cannot be read: {summary_of(error)}",
        )


def _called_method(module: torch.nn.Module) -> Callable[..., object]:
    """The method whose parameters name a call's arguments: forward, where a class has one."""
    import torch

    unwritten = inspect.getattr_static(module, "forward", None) is torch.nn.Module.forward
    return type(module).__call__.__get__(module) if unwritten else module.forward


def _is_users(file: str) -> bool:
    """Whether code is neither installed nor Python's own; code without a file is the user's."""
    return kind_of(file) in (USER, GENERATED)


def _has_values(tensor: torch.Tensor) -> bool:
    from torch.nn.parameter import is_lazy

    return not is_lazy(tensor)


def _packed_weights(module: torch.nn.Module) -> list[torch.Tensor]:
    """Weights and biases of torch's quantised layers, which are no parameters of theirs."""
    layers = [each for each in module.modules() if type(each).__module__.startswith(_QUANTIZED)]
    readers = [getattr(each, part, None) for each in layers for part in ("weight", "bias")]
    held = [read() for read in readers if callable(read)]
    return [each for each in held if each is not None]


def structure_of(module: torch.nn.Module) -> str:
    """SHA-256 (hex) over the classes of a module's parts, and its tensors' names and kinds."""
    total = hashlib.sha256()
    for name, part in module.named_modules():
        total.update(f"{name}|{class_name(type(part))}\n".encode())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        shape = tuple(tensor.shape) if _has_values(tensor) else "unknown"
        total.update(f"{name}|{tensor.dtype}|{shape}\n".encode())
    return total.hexdigest()


def class_name(kind: type) -> str:
    """A class with its module; of a script in a process that it spawned, as in its own."""
    if kind.__qualname__.startswith("GraphModule.__new__"):  # torch.fx derives one for each graph
        kind = kind.__mro__[1]
    return f"{_MAINS.get(kind.__module__, kind.__module__)}.{kind.__qualname__}"


def _short(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:HASH_DIGITS]


def name_in(frame: FrameType | None, module: object) -> str:
    """The variable that holds an object, from the innermost frame outwards; else its class.

    The script's own variables come first: what a library calls it tells a person little.
    """
    frames = list(_outwards(frame))
    own = [each for each in frames if each.f_globals.get("__name__") in _MAINS]
    scopes = [
        *((each, scope) for each in own for scope in (each.f_locals, each.f_globals)),
        (None, vars(sys.modules["__main__"])),
        *((each, each.f_locals) for each in frames),
    ]
    found = ((frame, scope, name) for frame, scope in scopes for name in _names_in(scope, module))
    holding, scope, name = next(found, (None, {}, type(module).__name__))
    holder, _, path = name.partition(".")
    if holding is None or not path or not _is_own_instance(holder, scope, holding):
        return name
    owner = scope[holder]
    known_as = name_in(holding.f_back, owner)
    home = getattr(sys.modules.get(type(owner).__module__), "__file__", None)
    if known_as == type(owner).__name__ and home and not _is_users(home):
        return type(module).__name__  # a library's own object tells a person less
    return f"{known_as}.{path}"


def _is_own_instance(name: str, scope: Mapping[str, object], frame: FrameType) -> bool:
    """Whether a variable is the object that the frame's method belongs to, mostly ``self``."""
    code = frame.f_code
    is_first = code.co_argcount > 0 and code.co_varnames[0] == name
    return name == "self" or (is_first and hasattr(type(scope.get(name)), code.co_name))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _names_in(scope: Mapping[str, object], module: object) -> Iterator[str]:
    """First the variables themselves, then what they hold."""
    items = [(name, value) for name, value in list(scope.items()) if not name.startswith("__")]
    yield from (name for name, value in items if value is module and name != "self")
    for name, value in items:
        with suppress(Exception):  # it may not be looked at, as a proxy of something gone
            yield from (f"{name}{step}" for step, held in _held(value) if held is module)


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

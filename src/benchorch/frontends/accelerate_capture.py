"""Which graphs does a function consist of, and what were they called with? Dynamo tells."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchorch.frontends.accelerate_runs import Call, Run, Tape
from benchorch.hardware.cpu import CpuClock

if TYPE_CHECKING:
    import torch

    Signature = tuple[object, ...]

_PLACE = re.compile(
    r"in user code at (?P<file>.+):(?P<line>\d+)\nGraph Break Reason:(?P<why>[^$]*)"
)
_SKIPPED = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+)')
_LIMIT = re.compile(
    r"hit config\.\w+ \((?P<most>\d+)\)\s+function: .* \((?P<file>.+):(?P<line>\d+)\)"
)
_LOGGERS = ("symbolic_convert", "convert_frame")
_PREFACES = ("Encountered graph break", "Failed to handle graph break")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """Where a function could not be captured in one piece.

    Attributes:
        file, line: of the user's code; empty and 0 where Dynamo does not say.
        reason: its first line.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.file else self.reason


@dataclass(slots=True, kw_only=True)
class Accelerated:
    """One accelerated function: its name, and the breaks that were met when it was compiled."""

    name: str
    breaks: dict[GraphBreak, None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Graph:
    """What Dynamo captured; it lives as long as Dynamo's own compiled code."""

    module: torch.fx.GraphModule


@dataclass(slots=True, kw_only=True)
class Seen:
    """One call of a graph, to be repeated elsewhere.

    Attributes:
        arguments: copies of what it was called with, weights as they are; empty beyond the limit.
        outputs: what it answered here.
    """

    number: int
    arguments: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()


@dataclass(slots=True, kw_only=True)
class SeenGraph:
    """A graph within one profile: its number, and each signature it was called with."""

    number: int
    graph: Graph
    signatures: dict[Signature, Seen] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Capture:
    """Everything that accelerated functions do while it is in force.

    Attributes:
        most: how many distinct calls are kept, to be repeated elsewhere.
    """

    most: int
    now_ns: Callable[[], int] = field(default_factory=lambda: CpuClock().now_ns)
    runs: list[Run] = field(default_factory=list)
    graphs: dict[Graph, SeenGraph] = field(default_factory=dict)
    functions: dict[int, Accelerated] = field(default_factory=dict)
    raised: int = 0
    _kept: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def run(self, function: Accelerated) -> Iterator[None]:
        """Write down one run; within another one, what happens is a part of that."""
        if _tape() is not None:
            yield
            return
        self.functions[id(function)] = function
        compiled_before = _frames_compiled()
        tape = _THREAD.tape = Tape(now_ns=self.now_ns, function=function.name)
        _THREAD.capture = self
        try:
            with _noted_breaks(function):
                tape.start()
                yield
                tape.stop()
        except BaseException:
            self.raised += 1
            raise
        finally:
            _THREAD.tape = _THREAD.capture = None
        self.runs.append(tape.run(compiled=_frames_compiled() != compiled_before))

    def call(self, tape: Tape, graph: Graph, arguments: Sequence[Any]) -> Any:
        """Answer a graph's call here, and write it down."""
        seen_graph, seen = self._seen(graph, arguments)
        began_ns = self.now_ns()
        outputs = graph.module.forward(*arguments)
        took_ns = self.now_ns() - began_ns
        if seen.arguments and not seen.outputs:
            seen.outputs = tuple(map(_copied, outputs))
        tape.add(Call(graph=seen_graph.number, signature=seen.number, local_ns=took_ns))
        return outputs

    def _seen(self, graph: Graph, arguments: Sequence[Any]) -> tuple[SeenGraph, Seen]:
        signature = tuple(_spelled(each) for each in arguments)
        with self._lock:
            found = self.graphs.get(graph)
            if found is None:
                found = SeenGraph(number=len(self.graphs) + 1, graph=graph)
                self.graphs[graph] = found
            seen = found.signatures.get(signature)
            if seen is None:
                seen = Seen(number=len(found.signatures) + 1)
                found.signatures[signature] = seen
                if self._kept < self.most:
                    self._kept += 1
                    seen.arguments = tuple(map(_copied, arguments))
        return found, seen

    def breaks(self) -> list[GraphBreak]:
        """Those of every function that was called, each once."""
        every = (each for function in self.functions.values() for each in function.breaks)
        return list(dict.fromkeys(every))


_THREAD = threading.local()


def _tape() -> Tape | None:
    tape: Tape | None = getattr(_THREAD, "tape", None)
    return tape


def capture_graph(module: torch.fx.GraphModule, _: Sequence[object]) -> Callable[..., Any]:
    """A backend of torch.compile: graphs run as they were captured, and are written down.

    It is one for all profiles: what is compiled for one of them need not be for the next.
    """
    graph = Graph(module=module)

    def call(*arguments: Any) -> Any:
        tape = _tape()
        if tape is None:  # called from a thread that the function itself has started
            return module.forward(*arguments)
        tape.stop()
        try:
            return _THREAD.capture.call(tape, graph, arguments)
        finally:
            tape.start()

    return call


def is_weight(argument: object) -> bool:
    """Whether an argument of a graph is a parameter or buffer of a module, the same each time."""
    import torch

    fixed = getattr(argument, "_dynamo_static_input_type", None) is not None
    return isinstance(argument, torch.nn.Parameter) or fixed


def _copied(argument: Any) -> Any:
    """What the program does to a tensor afterwards must not reach what is kept of it."""
    import torch

    if not isinstance(argument, torch.Tensor) or is_weight(argument):
        return argument
    return argument.detach().clone()


def _spelled(argument: Any) -> object:
    """What tells two calls of a graph apart."""
    import torch

    if isinstance(argument, torch.Tensor):
        return tuple(argument.shape), str(argument.dtype)
    return argument if isinstance(argument, bool | int | float) else type(argument).__name__


def _frames_compiled() -> int:
    """How many frames Dynamo has looked at so far in this process."""
    from torch._dynamo.utils import counters

    return int(counters["frames"]["total"])


class _Listener(logging.Handler):
    """Hears of graph breaks from Dynamo's own log: not every one of them ends a graph."""

    def __init__(self, breaks: dict[GraphBreak, None]) -> None:
        super().__init__(logging.DEBUG)
        self._breaks = breaks

    def emit(self, record: logging.LogRecord) -> None:
        """Take down a message that tells of a break; any other is passed over."""
        text = record.getMessage()
        told = _PLACE.search(text)
        limit = _LIMIT.search(text)
        if told:
            self._add(told["file"], int(told["line"]), told["why"])
        elif limit:
            why = f"compiled for {limit['most']} shapes, torch's limit; others run in Python: try"
            self._add(limit["file"], int(limit["line"]), f"{why} dynamic=True")
        elif record.exc_info and record.exc_info[1] is not None:
            places = list(_SKIPPED.finditer(text))
            file, line = (places[-1]["file"], int(places[-1]["line"])) if places else ("", 0)
            self._add(file, line, str(record.exc_info[1]))

    def _add(self, file: str, line: int, text: str) -> None:
        self._breaks[GraphBreak(file=file, line=line, reason=_reason(text))] = None


def _reason(text: str) -> str:
    """The first line that gives one, behind what only says that there was a break."""
    lines = (line.strip() for line in text.splitlines())
    told = (line for line in lines if line and not line.startswith(_PREFACES))
    return next(told, "Dynamo gives no reason")


@contextlib.contextmanager
def _noted_breaks(function: Accelerated) -> Iterator[None]:
    listener = _Listener(function.breaks)
    loggers = [logging.getLogger(f"torch._dynamo.{name}.__graph_breaks") for name in _LOGGERS]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        # Who has asked Dynamo for this log goes on reading it; nobody else does now.
        logger.propagate = logger.propagate and logger.isEnabledFor(logging.DEBUG)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(listener)
    warner = logging.getLogger("torch._dynamo.convert_frame")
    warner.addHandler(listener)
    try:
        yield
    finally:
        warner.removeHandler(listener)
        for logger, level, propagate in before:
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate

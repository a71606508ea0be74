"""Capture of a function's graphs and of the arguments of each call, by Dynamo."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchorch.frontends.accelerate.graph_breaks import GraphBreak, noted_breaks
from benchorch.frontends.accelerate.runs import FunctionRun, GraphCall, Tape
from benchorch.hardware.cpu import CpuClock

if TYPE_CHECKING:
    import torch

    Signature = tuple[object, ...]


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
class RecordedCall:
    """One call of a graph, to be repeated elsewhere.

    Attributes:
        is_kept: whether it is; beyond the limit it is not.
        arguments: copies of what it was called with, weights as they are.
        outputs: what it answered here.
    """

    number: int
    is_kept: bool = False
    arguments: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()

    def release(self) -> None:
        """It has been repeated, or never will be."""
        self.arguments = self.outputs = ()


@dataclass(slots=True, kw_only=True)
class SeenGraph:
    """A graph within one profile: its number, and each signature it was called with."""

    number: int
    graph: Graph
    signatures: dict[Signature, RecordedCall] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class CaptureContext:
    """Everything that accelerated functions do while it is in force.

    Attributes:
        most: how many distinct calls are kept, to be repeated elsewhere.
    """

    most: int
    now_ns: Callable[[], int] = field(default_factory=lambda: CpuClock().now_ns)
    runs: list[FunctionRun] = field(default_factory=list)
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
            with noted_breaks(function.breaks):
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
        if seen.is_kept and not seen.outputs:
            seen.outputs = tuple(map(_copied, outputs))
        tape.add(GraphCall(graph=seen_graph.number, signature=seen.number, local_ns=took_ns))
        return outputs

    def _seen(self, graph: Graph, arguments: Sequence[Any]) -> tuple[SeenGraph, RecordedCall]:
        signature = tuple(_spelled(each) for each in arguments)
        with self._lock:
            found = self.graphs.get(graph)
            if found is None:
                found = SeenGraph(number=len(self.graphs) + 1, graph=graph)
                self.graphs[graph] = found
            seen = found.signatures.get(signature)
            if seen is None:
                seen = RecordedCall(number=len(found.signatures) + 1)
                found.signatures[signature] = seen
                if self._kept < self.most:
                    self._kept += 1
                    seen.is_kept = True
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

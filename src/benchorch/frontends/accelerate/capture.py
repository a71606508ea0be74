"""Capture of a function's graphs and of the arguments of each call, by Dynamo."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchorch.frontends.accelerate.graph_breaks import GraphBreak, recorded_breaks
from benchorch.frontends.accelerate.runs import FunctionRun, GraphCall, RunRecorder
from benchorch.hardware.cpu import CpuClock

if TYPE_CHECKING:
    import torch

    Signature = tuple[object, ...]


@dataclass(slots=True, kw_only=True)
class Accelerated:
    """One accelerated function: its name, and its graph breaks."""

    name: str
    breaks: dict[GraphBreak, None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Graph:
    """A graph captured by Dynamo; it lives as long as Dynamo's own compiled code."""

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
        """Free the copies, once the call has been exported or refused."""
        self.arguments = self.outputs = ()


@dataclass(slots=True, kw_only=True)
class RecordedGraph:
    """A graph within one profile: its number, and each signature it was called with."""

    number: int
    graph: Graph
    signatures: dict[Signature, RecordedCall] = field(default_factory=dict)


def _clock() -> Callable[[], int]:
    """Clock that waits for launched kernels, which belong to the code that launched them."""
    import torch

    host = CpuClock()

    def now_ns() -> int:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
            torch.cuda.synchronize()
        return host.now_ns()

    return now_ns


@dataclass(slots=True, kw_only=True)
class CaptureContext:
    """Recording of all runs of accelerated functions in one profile.

    Attributes:
        most: how many distinct calls are kept, to be repeated elsewhere.
    """

    most: int
    now_ns: Callable[[], int] = field(default_factory=_clock)
    runs: list[FunctionRun] = field(default_factory=list)
    graphs: dict[Graph, RecordedGraph] = field(default_factory=dict)
    functions: dict[int, Accelerated] = field(default_factory=dict)
    raised: int = 0
    _kept: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def run(self, function: Accelerated) -> Iterator[None]:
        """Record one run; a nested run is a part of the outer one."""
        if _recorder() is not None:
            yield
            return
        self.functions[id(function)] = function
        compiled_before = _frames_compiled()
        recorder = _THREAD.recorder = RunRecorder(now_ns=self.now_ns, function=function.name)
        _THREAD.capture = self
        try:
            with recorded_breaks(function.breaks):
                recorder.start()
                yield
                recorder.stop()
        except BaseException:
            self.raised += 1
            raise
        finally:
            _THREAD.recorder = _THREAD.capture = None
        self.runs.append(recorder.run(compiled=_frames_compiled() != compiled_before))

    def call(self, recorder: RunRecorder, graph: Graph, arguments: Sequence[Any]) -> Any:
        """Run a graph's call here, and record it."""
        seen_graph, recorded = self._seen(graph, arguments)
        began_ns = self.now_ns()
        outputs = graph.module.forward(*arguments)
        took_ns = self.now_ns() - began_ns
        if recorded.is_kept and not recorded.outputs:
            recorded.outputs = tuple(map(_copied, outputs))
        recorder.add(
            GraphCall(graph=seen_graph.number, signature=recorded.number, local_ns=took_ns)
        )
        return outputs

    def _seen(self, graph: Graph, arguments: Sequence[Any]) -> tuple[RecordedGraph, RecordedCall]:
        signature = tuple(_spelled(each) for each in arguments)
        with self._lock:
            found = self.graphs.get(graph)
            if found is None:
                found = RecordedGraph(number=len(self.graphs) + 1, graph=graph)
                self.graphs[graph] = found
            recorded = found.signatures.get(signature)
            if recorded is None:
                recorded = RecordedCall(number=len(found.signatures) + 1)
                found.signatures[signature] = recorded
                if self._kept < self.most:
                    self._kept += 1
                    recorded.is_kept = True
                    recorded.arguments = tuple(map(_copied, arguments))
        return found, recorded

    def breaks(self) -> list[GraphBreak]:
        """Those of every function that was called, each once."""
        every = (each for function in self.functions.values() for each in function.breaks)
        return list(dict.fromkeys(every))


_THREAD = threading.local()


def _recorder() -> RunRecorder | None:
    recorder: RunRecorder | None = getattr(_THREAD, "recorder", None)
    return recorder


def capture_graph(module: torch.fx.GraphModule, _: Sequence[object]) -> Callable[..., Any]:
    """A backend of torch.compile: graphs run as they were captured, and are written down.

    It is one for all profiles: what is compiled for one of them need not be for the next.
    """
    graph = Graph(module=module)

    def call(*arguments: Any) -> Any:
        recorder = _recorder()
        if recorder is None:  # called from a thread that the function itself has started
            return module.forward(*arguments)
        recorder.stop()
        try:
            return _THREAD.capture.call(recorder, graph, arguments)
        finally:
            recorder.start()

    return call


def is_weight(argument: object) -> bool:
    """Whether an argument of a graph is a parameter or buffer of a module, the same each time."""
    import torch

    fixed = getattr(argument, "_dynamo_static_input_type", None) is not None
    return isinstance(argument, torch.nn.Parameter) or fixed


def _copied(argument: Any) -> Any:
    """Copy of a tensor that the program may change later."""
    import torch

    if not isinstance(argument, torch.Tensor) or is_weight(argument):
        return argument
    return argument.detach().clone()


def _spelled(argument: Any) -> object:
    """Part of a call's signature."""
    import torch

    if isinstance(argument, torch.Tensor):
        return tuple(argument.shape), str(argument.dtype)
    return argument if isinstance(argument, bool | int | float) else type(argument).__name__


def _frames_compiled() -> int:
    """Number of frames that Dynamo has processed in this process."""
    from torch._dynamo.utils import counters

    return int(counters["frames"]["total"])

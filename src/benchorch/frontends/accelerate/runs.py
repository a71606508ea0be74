"""Runs of an accelerated function as a sequence of Python time and graph calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCall:
    """One call of a graph in one run.

    Attributes:
        graph: its number, from 1.
        signature: the number of the shapes it was called with, from 1.
        local_ns: what it took here, run as it was captured.
    """

    graph: int
    signature: int
    local_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRun:
    """One call of an accelerated function, from its beginning to its end.

    Attributes:
        function: its name.
        calls: the graphs, in order.
        gaps_ns: time before, between and after them; one more than `calls`.
        compiled: whether anything was compiled meanwhile, which is in the gaps.
    """

    function: str
    calls: tuple[GraphCall, ...]
    gaps_ns: tuple[int, ...]
    compiled: bool

    @property
    def graphs(self) -> tuple[int, ...]:
        """The graphs' numbers, in order."""
        return tuple(call.graph for call in self.calls)


@dataclass(slots=True, kw_only=True)
class RunRecorder:
    """Recorder of one run: times Python code, paused while a graph runs.

    Attributes:
        now_ns: the clock.
        function: the name of what runs.
    """

    now_ns: Callable[[], int]
    function: str
    _calls: list[GraphCall] = field(default_factory=list)
    _gaps_ns: list[int] = field(default_factory=list)
    _since_ns: int = 0

    def start(self) -> None:
        """Resume the time of Python code."""
        self._since_ns = self.now_ns()

    def stop(self) -> None:
        """Pause the time of Python code."""
        self._gaps_ns.append(self.now_ns() - self._since_ns)

    def add(self, call: GraphCall) -> None:
        """Add a graph's call; the time of Python code stays paused until `start`."""
        self._calls.append(call)

    def run(self, *, compiled: bool) -> FunctionRun:
        """The whole, once it has been stopped for the last time."""
        return FunctionRun(
            function=self.function,
            calls=tuple(self._calls),
            gaps_ns=tuple(self._gaps_ns),
            compiled=compiled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """All runs that went through the same graphs in the same order.

    Attributes:
        function: whose runs they are.
        runs: those that count.
        discarded: how many others there were, in which something was compiled.
        compiled: whether those that count were such, for want of others.
    """

    function: str
    runs: tuple[FunctionRun, ...]
    discarded: int
    compiled: bool

    @property
    def graphs(self) -> tuple[int, ...]:
        """The graphs' numbers, in order."""
        return self.runs[0].graphs


def group_runs(runs: Sequence[FunctionRun]) -> list[RunGroup]:
    """Group runs by function and graphs, in the order of first appearance.

    A run in which something was compiled counts only until one comes by in which nothing was.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[FunctionRun]] = {}
    for run in runs:
        groups.setdefault((run.function, run.graphs), []).append(run)
    return [_run_group(group) for group in groups.values()]


def _run_group(runs: Sequence[FunctionRun]) -> RunGroup:
    clean = [run for run in runs if not run.compiled]
    return RunGroup(
        function=runs[0].function,
        runs=tuple(clean or runs),
        discarded=len(runs) - len(clean) if clean else 0,
        compiled=not clean,
    )

"""``with remote_profile(...)``: the cost of a function on other machines, its Python included."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, final

from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import keyword_overrides, lift_lists
from benchorch.domain.codec import encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.session import ROUND, Event
from benchorch.errors import BenchorchError, ConfigError, ExecutorError, RecordError
from benchorch.files import write_json, write_text
from benchorch.formatting import plural
from benchorch.frontends.accelerate.arguments import NotExportable
from benchorch.frontends.accelerate.backends import RemoteInferenceSession, RequestedBackend, opened
from benchorch.frontends.accelerate.capture import CaptureContext
from benchorch.frontends.accelerate.cost import Key, ProfileCosts
from benchorch.frontends.accelerate.function import activate, deactivate
from benchorch.frontends.accelerate.outcomes import Outcomes
from benchorch.frontends.accelerate.report import AcceleratedReport
from benchorch.frontends.accelerate.transfer import ExportedCall, GraphExporter
from benchorch.host.processes.sigterm import TERMINATED, Terminated, sigterm_as_interrupt
from benchorch.journal import run_directory
from benchorch.journal.registry import new_directory
from benchorch.results.report.console import ConsoleReport, silent_console
from benchorch.run.invocation import Invocation

TEXT, JSON = "segments.txt", "segments.json"
_MOST = 32
_COMPARED = 2
"""So many backends with figures make a table worth showing."""
_OWN = {
    "model": "the models are the graphs that the program runs.",
    "workload": "the inputs are those that the program runs with.",
    "conversion": "give backends=['local/onnxruntime'].",
    "hardware": "give backends=['g5.xlarge/onnxrt-cuda'].",
    "hydra": "give directory=... for another place of the run.",
    "resume": "resume on the command line: python -m benchorch resume=DIRECTORY.",
}
_ONE_PROCESS = ("stopping.processes=1", "stopping.window_s=0")
_WARMUPS = "num_warmups has no effect: each process's warm-up is detected and left out."
_USUALLY = {"profiler": "none", "baseline": "null", "name": "remote_profile"}


def remote_inference(backend: str, **options: Any) -> RemoteProfile:
    """Context of one backend on which each graph is called once, as octoml-profile has it.

    The program gets the results of its own graphs; the backend's are compared with them.

    Args:
        backend: such as ``"local/onnxruntime"``.
        options: those of `remote_profile`.
    """
    return remote_profile(backends=[backend], num_repeats=1, **options)


def remote_profile(
    session: RemoteInferenceSession | None = None,
    *,
    backends: str | Sequence[str] | None = None,
    directory: str | Path | None = None,
    quiet: bool = False,
    graphs: int = _MOST,
    num_repeats: int | None = None,
    num_warmups: int | None = None,
    print_results_to: IO[str] | None = None,
    **overrides: object,
) -> RemoteProfile:
    """Context that captures accelerated functions, to be measured on each backend.

    Gradients are off inside, as in octoml-profile; `torch.enable_grad()` switches them on again.

    Args:
        session: backends that were chosen before; or give `backends`.
        backends: such as ``"g5.xlarge/onnxrt-cuda"`` and ``"local/inductor"``; None for the usual
            ones of this machine.
        directory: where the run is kept; None for a new place under ``runs``.
        quiet: print nothing.
        graphs: how many graphs, each with each of its shapes, are measured at most.
        num_repeats: calls of each graph on each backend, all in one process, as in octoml-profile;
            None measures until the stopping rule ends it.
        num_warmups: accepted for octoml-profile's programs; warm-up is detected.
        print_results_to: a text stream for the table; None for standard output.
        overrides: any key of the configuration, as in `benchorch.benchmark`. Unless they are given,
            there is no profiler and no baseline.

    Raises:
        ConfigError: with every problem; of what can be seen before it is entered.
    """
    if session is not None and backends is not None:
        raise ConfigError(["remote_profile: give a session or backends, not both."])
    if session is not None and not isinstance(session, RemoteInferenceSession):
        raise ConfigError(
            [
                f"remote_profile: expected a RemoteInferenceSession, got {session!r}; "
                "name backends as backends=[...]."
            ]
        )
    if graphs < 1:
        raise ConfigError([f"graphs: expected 1 or more, got {graphs}."])
    problems = _octoml_problems(num_repeats, num_warmups, print_results_to)
    if num_repeats is not None and any(key.partition(".")[0] == "stopping" for key in overrides):
        problems.append("num_repeats: give it or stopping, not both.")
    if problems:
        raise ConfigError(problems)
    words = [f"{key}={value}" for key, value in _USUALLY.items() if not _given(key, overrides)]
    if num_repeats is not None:
        words += ["stopping=fixed", f"stopping.calls={num_repeats}", *_ONE_PROCESS]
    return RemoteProfile(
        names=(session or RemoteInferenceSession(backends)).backends,
        words=(*words, *keyword_overrides(overrides, _OWN)),
        stream=print_results_to,
        own_notes=() if num_warmups is None else (_WARMUPS,),
        directory=Path(directory) if directory else new_directory(),
        quiet=quiet,
        capture=CaptureContext(most=graphs),
    )


@contextmanager
def _silent_dynamo() -> Iterator[None]:
    """No warnings of graph breaks, which the report has with file and line."""
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\._dynamo")
            yield
    finally:
        logger.setLevel(before)


def _octoml_problems(repeats: object, warmups: object, stream: object) -> list[str]:
    """Problems of the arguments that octoml-profile has."""
    problems = []
    if repeats is not None and not _at_least(1, repeats):
        problems.append(f"num_repeats: expected a whole number from 1, got {repeats!r}.")
    if warmups is not None and not _at_least(0, warmups):
        problems.append(f"num_warmups: expected a whole number from 0, got {warmups!r}.")
    if stream is not None and not hasattr(stream, "write"):
        problems.append(f"print_results_to: expected a text stream, got {stream!r}.")
    return problems


def _at_least(least: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _given(key: str, overrides: Mapping[str, object]) -> bool:
    return any(each.partition(".")[0] == key and "." not in each for each in overrides)


class _Progress(ConsoleReport):
    """The report of the run, which shows the profile's table as soon as backends compare.

    Args:
        some: shows it where some backends are ready and others are not.
        first: shows it once every graph has a figure.
    """

    def __init__(self, some: Callable[[], None], first: Callable[[], None], *, quiet: bool) -> None:
        super().__init__(silent_console() if quiet else None)
        self._some, self._first = some, first

    def figures(self, results: Sequence[TrialResult], summaries: Mapping[str, Summary]) -> None:
        """Show what one more process measured."""
        super().figures(results, summaries)
        self._some()

    def event(self, event: Event) -> None:
        """Show what a trial does; after the first round the table."""
        super().event(event)
        if event.stage == ROUND:
            self._first()


@final
@dataclass(slots=True, kw_only=True)
class RemoteProfile:
    """The context; its `report` is complete when the context has ended.

    Attributes:
        names: the backends, as they were asked for.
        words: overrides for all of them.
        directory: of the run.
        stream: where the table is printed; None for standard output, unless `quiet`.
        own_notes: of the report, about what was asked for.
    """

    names: Sequence[str]
    words: Sequence[str]
    directory: Path
    quiet: bool
    capture: CaptureContext
    stream: IO[str] | None = None
    own_notes: Sequence[str] = ()
    _backends: list[RequestedBackend] = field(default_factory=list)
    _stays: dict[Key, str] = field(default_factory=dict)
    _exported: dict[Key, ExportedCall] = field(default_factory=dict)
    _invocation: Invocation | None = None
    _is_shown: bool = False
    _entered: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> RemoteProfile:
        import torch

        if (self.directory / run_directory.PLAN).exists():
            raise ConfigError([f"directory: {self.directory} holds a run already; give another."])
        self._backends = opened(self.names, self.words, Composer(config_loader()))
        activate(self.capture)
        self._entered.enter_context(torch.no_grad())
        self._entered.enter_context(_silent_dynamo())
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # else the program has its own way
            self._entered.enter_context(sigterm_as_interrupt())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        deactivate()
        self._entered.close()
        if kind is None:
            self.measure()
            return
        for key, _seen in self._calls():
            self._stays.setdefault(key, f"the profile was left by {kind.__name__}")
        self._show()
        if issubclass(kind, Terminated):  # whoever sent it wants no traceback
            raise SystemExit(TERMINATED) from None

    def measure(self) -> AcceleratedReport:
        """Measure each captured graph on each backend; what the end of the context does."""
        exporter = GraphExporter(directory=(self.directory / "model").resolve())
        self._export_calls(exporter)
        if self._exported:
            self._run(exporter)
        self._show()
        return self.report()

    def report(self) -> AcceleratedReport:
        """The report so far."""
        outcomes = self._outcomes()
        return AcceleratedReport(
            profiles=ProfileCosts(
                backends=[each.name for each in self._backends],
                measured=dict(outcomes.measured()),
                stays=self._stays,
                usd_per_hour=dict(outcomes.usd_per_hour()),
            ).profiles(self.capture.runs),
            graph_breaks=tuple(self.capture.breaks()),
            notes=tuple(self._notes()),
            processors=dict(outcomes.processors()),
            directory=self.directory if self.directory.exists() else None,
        )

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def _outcomes(self) -> Outcomes:
        return Outcomes(
            backends=self._backends, exported=self._exported, invocation=self._invocation
        )

    def _calls(self) -> Iterator[tuple[Key, Any]]:
        for graph in self.capture.graphs.values():
            for call in graph.signatures.values():
                yield (graph.number, call.number), (graph, call)

    def _export_calls(self, exporter: GraphExporter) -> None:
        """Every call of a graph is written for its journey, or stays with a reason."""
        self._stays.clear()
        for key, (graph, call) in self._calls():
            if key in self._exported:
                continue
            if not call.is_kept:
                self._stays[key] = (
                    f"more than {self.capture.most} graphs and shapes were called; "
                    f"remote_profile(graphs=...) measures more"
                )
                continue
            try:
                self._exported[key] = exporter.export(graph, call)
            except NotExportable as error:
                self._stays[key] = str(error)
            call.release()

    def _run(self, exporter: GraphExporter) -> None:
        composer = Composer(config_loader([exporter.configs]))
        jobs = [
            lift_lists([f"model={t.model}", *t.words, *each.words, *self.words], composer.groups)
            for t in dict.fromkeys(self._exported.values())
            for each in self._backends
            if not each.unavailable
        ]
        invocation = Invocation(
            composer=composer,
            directory=self.directory,
            report=_Progress(self._show_some, self._show_first, quiet=self.quiet),
        )
        self._invocation = invocation
        invocation.open()
        try:
            with sigterm_as_interrupt():
                invocation.run(jobs)
        except KeyboardInterrupt as interrupt:
            self._write()  # before the end: what is in the directory goes to the tracker then
            invocation.interrupt()
            self._show()
            if isinstance(interrupt, Terminated):
                raise SystemExit(TERMINATED) from None
            raise
        except RecordError:
            invocation.abandon()
            raise
        except ExecutorError:
            self._write()
            invocation.cut_short()
            raise
        except BenchorchError:
            self._write()
            raise
        self._write()
        invocation.close(complete=True)

    def _show_some(self) -> None:
        """Show the table of two backends, once, where others still have graphs to build."""
        if self._is_shown:
            return
        ready = self._outcomes().ready()
        waiting = [b.name for b in self._backends if not b.unavailable and b.name not in ready]
        if len(ready) < _COMPARED or not waiting:
            return
        self._is_shown = True
        later = ", ".join(waiting)
        self._show(f"First figures, from one process each; {later} will follow.\n\n")

    def _show_first(self) -> None:
        self._is_shown = True
        self._show("First figures, from one process each; they are refined now.\n\n")

    def _show(self, before: str = "") -> None:
        self._write()
        text = f"\n{before}{self.report().table()}"
        if self.stream is not None:
            self.stream.write(f"{text}\n")
            return
        ConsoleReport(silent_console() if self.quiet else None).text(text)

    def _write(self) -> None:
        """As files of the run's directory, which go to the tracker with it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        report = self.report()
        write_text(self.directory / TEXT, f"{report.table()}\n")
        write_json(self.directory / JSON, encode(report))

    def _notes(self) -> Iterator[str]:
        yield from self.own_notes
        if not self.capture.runs:
            yield (
                "no accelerated function was called: decorate it with @benchorch.accelerate, or "
                "call what benchorch.accelerate(model) returns, inside the context."
            )
        elif not self.capture.graphs:
            yield "no graph was captured; all the time is Python's."
        if self._outcomes().rehearsed:
            yield "rehearsed: other machines were played on this one, and times are its own."
        if self.capture.raised:
            runs = plural(self.capture.raised, "run")
            yield f"{runs} that ended in an exception are not counted."

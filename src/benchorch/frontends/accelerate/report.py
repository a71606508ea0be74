"""Report of accelerated functions: Python code here, each graph on each backend, and totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, final

from benchorch.domain.estimate import Estimate
from benchorch.formatting import interval_text
from benchorch.frontends.accelerate.graph_breaks import GraphBreak
from benchorch.frontends.api.results import data_frame
from benchorch.results.metrics.cost import ITEMS
from benchorch.results.report.console_table import table_text
from benchorch.stats.interval_arithmetic import scaled
from benchorch.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]  # it comes without types

_MS_PER_S = 1000.0
_MEDIAN = " (median)"
_HEAD = ("Segment", "Runs", "Mean ms [95 %]", "Failures")
_INDENT = " " * 5
_FUNCTION_HEAD = (
    *("Instance", "Processor", "Backend", "Backend ms [95 %]", "Total ms [95 %]"),
    "USD per million calls",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTiming:
    """A graph on one backend.

    Attributes:
        runs: how many calls were timed, each on its own or as one of a block.
        ms: the mean, or the median where the calls' tail is too heavy for a mean; None where
            nothing was measured, or the outputs are wrong.
        is_median: whether it is the median.
        failures: how many of the graph's measurements failed on that backend.
        reason: why there is no number; empty where there is one.
    """

    runs: int = 0
    ms: Estimate | None = None
    is_median: bool = False
    failures: int = 0
    reason: str = ""


NOT_MEASURED = GraphTiming(reason="it was not measured")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a function: a graph, or Python code between graphs.

    Attributes:
        graph: the number of the graph that runs; None for Python's code between graphs.
        runs: how often it ran here.
        local_ms: its time here: of a graph as it was captured, operator by operator.
        backends: the graph's time on each; empty for Python's code.
        stays: why calls of the graph ran here only; empty where none did. Where some shapes did,
            these count with their time here; where all did, no backend has a total.
    """

    graph: int | None
    runs: int
    local_ms: Estimate
    backends: Mapping[str, GraphTiming] = field(default_factory=dict)
    stays: str = ""

    @property
    def name(self) -> str:
        """``Uncompiled`` or ``Graph #1``."""
        return "Uncompiled" if self.graph is None else f"Graph #{self.graph}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A whole function on one backend.

    Attributes:
        graphs_ms: all graphs there; None where there is none, or one has no time there.
        ms: these, and Python's code, counted once.
        usd_per_million_calls: that long, on a machine of that price; None where it has none.
        reason: why there is no total; empty where there is one.
    """

    graphs_ms: Estimate | None
    ms: Estimate | None
    usd_per_million_calls: Estimate | None
    reason: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionProfile:
    """All runs of a function through the same graphs in the same order.

    Attributes:
        function: its name.
        discarded: runs left out because something was compiled in them.
        compiled: whether there were only such runs, and these numbers are of them.
        uncompiled_ms: the sum over Python's segments.
    """

    function: str
    segments: tuple[Segment, ...]
    discarded: int
    compiled: bool
    uncompiled_ms: Estimate | None
    totals: Mapping[str, Total]

    @property
    def fastest(self) -> str | None:
        """The backend with the least total; None where there is no total."""
        known = {name: each.ms.value for name, each in self.totals.items() if each.ms}
        return min(known, key=known.__getitem__, default=None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratedReport:
    """The result of one remote profile; notebooks show it by themselves.

    Attributes:
        graph_breaks: where functions were split into several graphs, and why.
        notes: that qualify the numbers.
        processors: of each backend on which something ran.
        directory: of the run; None where nothing was stored.
    """

    profiles: tuple[FunctionProfile, ...]
    graph_breaks: tuple[GraphBreak, ...] = ()
    notes: tuple[str, ...] = ()
    processors: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None

    def table(self) -> str:
        """The report as text."""
        blocks = [
            "\n".join(_profile_lines(profile, index, len(self.profiles)))
            for index, profile in enumerate(self.profiles, 1)
        ]
        for function in dict.fromkeys(profile.function for profile in self.profiles):
            blocks += filter(None, [self._function_table(function)])
        if self.graph_breaks:
            blocks.append("\n".join(["Graph breaks:", *(f"  {b}" for b in self.graph_breaks)]))
        blocks += [f"note  {note}" for note in self.notes]
        return "\n\n".join(blocks)

    def _function_table(self, function: str) -> str:
        """One table of a function: each of its profiles on each backend; empty without backends."""
        rows = [
            (str(number), *self._backend_cells(profile, backend))
            for number, profile in enumerate(self.profiles, 1)
            if profile.function == function
            for backend in profile.totals
        ]
        return table_text([(function, *_FUNCTION_HEAD), *rows]) if rows else ""

    def _backend_cells(self, profile: FunctionProfile, backend: str) -> tuple[str, ...]:
        """``r6i.large``, its processor, what runs there, its time, the total and the price."""
        instance, _, runs = backend.partition("/")
        whole = profile.totals[backend]
        times = (whole.graphs_ms, whole.ms, whole.usd_per_million_calls)
        known = (interval_text(each) if each else "–" for each in times)
        return instance, self.processors.get(backend, ""), runs, *known

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each segment, and for each backend of a graph; needs pandas."""
        return data_frame([row for profile in self.profiles for row in _records(profile)])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return self.table()

    def __rich__(self) -> str:
        from rich.markup import escape as plain

        return plain(self.table())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.table())}</pre>"


def usd_per_million_calls(ms: Estimate, usd_per_hour: float) -> Estimate:
    """Cost of a million calls, one after the other, on a machine paid by the hour."""
    usd_per_ms = usd_per_hour / SECONDS_PER_HOUR / _MS_PER_S
    cost = scaled(ms, usd_per_ms * ITEMS)
    return replace(cost, unit="usd", method=f"hourly price times {ms.method}")


def _profile_lines(profile: FunctionProfile, index: int, count: int) -> Iterator[str]:
    yield f"Profile {index}/{count}: {profile.function}"
    yield f"Runs discarded because compilation occurred: {profile.discarded}"
    if profile.compiled:
        yield "Compilation occurred in every run: call the function again for times without it."
    rows = [_HEAD, *(r for i, each in enumerate(profile.segments) for r in _rows(i, each))]
    head, *body = _aligned(rows)
    yield head
    yield "=" * len(head)
    yield from body
    yield "-" * len(head)
    if profile.uncompiled_ms is not None:
        yield f"Total uncompiled code run time: {interval_text(profile.uncompiled_ms)} ms"
    if profile.totals:
        yield from _total_lines(profile.totals)


def _rows(place: int, segment: Segment) -> Iterator[tuple[str, ...]]:
    """A segment's cells; a row of one cell is a sentence."""
    name = f"{place}  {segment.name}"
    here = (str(segment.runs), interval_text(segment.local_ms), "")
    if segment.graph is None:
        yield name, *here
        return
    yield (name,)
    if segment.stays:
        yield f"{_INDENT}here", *here
        yield (f"{_INDENT}  stays here: {segment.stays}",)
    for backend, measured in segment.backends.items():
        mean = interval_text(measured.ms) if measured.ms else "–"
        median = _MEDIAN if measured.is_median else ""
        yield f"{_INDENT}{backend}", str(measured.runs), f"{mean}{median}", str(measured.failures)
        if measured.reason:
            yield (f"{_INDENT}  {measured.reason}",)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Names to the left, all else to the right; sentences as they are."""
    widths = [max(len(row[i]) for row in rows if len(row) > 1) for i in range(len(_HEAD))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))]).rstrip()
        if len(row) > 1
        else row[0]
        for row in rows
    ]


def _total_lines(totals: Mapping[str, Total]) -> Iterator[str]:
    yield "Total times (compiled + uncompiled) per backend, ms:"
    paid = any(total.usd_per_million_calls for total in totals.values())
    width = max(map(len, totals))
    for backend, total in totals.items():
        ms = interval_text(total.ms) if total.ms else f"N/A  {total.reason}"
        cost = total.usd_per_million_calls
        usd = f"  {interval_text(cost)} USD per million calls" if cost else ""
        unpaid = "  no price is known" if paid and total.ms and not cost else ""
        yield f"    {backend:<{width}}  {ms}{usd}{unpaid}"


def _records(profile: FunctionProfile) -> Iterator[dict[str, object]]:
    for place, segment in enumerate(profile.segments):
        same = {"function": profile.function, "segment": place, "name": segment.name}
        yield {
            **same,
            "backend": "here",
            "runs": segment.runs,
            **_numbers(segment.local_ms),
            "failures": 0,
            "reason": segment.stays,
        }
        for backend, measured in segment.backends.items():
            yield {
                **same,
                "backend": backend,
                "runs": measured.runs,
                **_numbers(measured.ms),
                "failures": measured.failures,
                "reason": measured.reason,
            }


def _numbers(ms: Estimate | None) -> dict[str, object]:
    names = ("value", "low", "high")
    keys = ("mean_ms", "mean_ms_low", "mean_ms_high")
    return {key: getattr(ms, name) if ms else None for key, name in zip(keys, names, strict=True)}

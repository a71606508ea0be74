"""The table that fills while a run goes on: a row for each trial, and the expected end."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.results.report.rich_table import fitting, rich_table
from benchorch.results.report.tables import primary_metric, speedup_text
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_MOST_ROWS = 30
WAITS = "waits"
_SEEN = re.compile(r" \([^()]* seen, n = \d+\)")
_NOW = "now"


@dataclass(slots=True)
class LiveRow:
    """What is shown of one trial.

    Attributes:
        figure: its primary metric so far, with the interval.
        verdict: its ratio to the baseline so far, with the interval and the verdict.
        cost: by which rows are ordered; infinite before the first figure.
    """

    name: str
    figure: str = "–"
    verdict: str = "–"
    processes: int = 0
    state: str = WAITS
    cost: tuple[float, float] = (math.inf, math.inf)

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of the table."""
        return self.name, self.figure, self.verdict, str(self.processes), self.state


@final
@dataclass(slots=True)
class LiveTable:
    """Rows by trial id, and the expected end.

    Attributes:
        spending: on launched machines so far, for people; empty without any.
        latest: what began last and of which trial, for terminals without a column for that.
        ends_s: the expected end on the monotonic clock; None where it is not known.
        compared: whether there are baselines, as `has_baseline` tells.
        against: the title of what they are compared with, as `tables.against` has it.
    """

    rows: dict[str, LiveRow] = field(default_factory=dict)
    ends_s: float | None = None
    spending: str = ""
    latest: str = ""
    started_s: float = field(default_factory=time.monotonic)
    compared: bool = True
    against: str = "vs baseline"

    @property
    def elapsed(self) -> str:
        """Time since the start, for people."""
        return format_seconds(time.monotonic() - self.started_s)

    def begin(self, names: Mapping[str, str]) -> None:
        """Add a row for each of these trials, by id and name."""
        for trial_id, name in names.items():
            self.rows.setdefault(trial_id, LiveRow(name=name))

    def expect(self, left_s: float) -> None:
        """Note in how many seconds the run is expected to end."""
        self.ends_s = time.monotonic() + left_s

    def state(self, trial_id: str, text: str) -> None:
        """Note what a trial does now."""
        if trial_id in self.rows:
            self.rows[trial_id].state = text
            self.latest = f"{self.rows[trial_id].name}: {text}"

    def figures(self, results: Sequence[TrialResult], summaries: Mapping[str, Summary]) -> None:
        """Note what was measured so far of the trials of one table."""
        for result in results:
            row, summary = self.rows.get(result.trial_id), summaries[result.trial_id]
            if row is None:
                continue
            primary = primary_metric(summary.metrics)
            if len(result.valid) != row.processes:  # one has ended
                row.processes, row.state = len(result.valid), WAITS
            row.verdict = speedup_text(summary, result, self.compared)
            if primary is not None:
                row.figure, row.cost = _brief(primary.text), primary.cost

    def ranked(self) -> list[LiveRow]:
        """The best figure first; those without one last, in the order of the plan."""
        return sorted(self.rows.values(), key=lambda row: row.cost)

    def cells(self) -> list[tuple[str, ...]]:
        """The headers and the first rows."""
        headers = ("conversion", "so far", f"{self.against} [95 %]", "processes", _NOW)
        return [headers, *(row.cells for row in self.ranked()[:_MOST_ROWS])]

    def footer(self) -> str:
        """Elapsed time and, where they are known, the expected end and the spending."""
        spending = f"; {self.spending}" if self.spending else ""
        if self.ends_s is None:
            return f"elapsed {self.elapsed}{spending}"
        left_s = self.ends_s - time.monotonic()
        left = f"about {format_seconds(left_s)} left" if left_s >= 1 else "longer than expected"
        return f"elapsed {self.elapsed}, {left}{spending}"

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich.text import Text

        rest = len(self.rows) - _MOST_ROWS
        more = f"and {rest:,} more; " if rest > 0 else ""
        cells = self.cells()
        yield rich_table(cells, options.max_width)
        if self.latest and _NOW in fitting(cells, options.max_width)[1]:
            yield Text(f"  {self.latest}", no_wrap=True, overflow="ellipsis")
        yield Text(f"  {more}{self.footer()}")


def _brief(figure: str) -> str:
    """A figure without the values seen, so that a narrow terminal shows what is being done."""
    return "not known yet" if "not known yet" in figure else _SEEN.sub("", figure)

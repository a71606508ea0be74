"""The report at the terminal: plan, live progress, table, next commands."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan, Trial
from benchorch.formatting import plural
from benchorch.journal import certificates
from benchorch.journal.run_directory import PLAN, RESULTS, TABLE
from benchorch.results.compare.detectable import summary
from benchorch.results.report.overview import (
    alike_failures,
    alike_skips,
    overall,
    overview_rows,
    some_of,
)
from benchorch.results.report.tables import (
    conclusions,
    names_of,
    primary_metric,
    skip_text,
    table_rows,
    warnings_of,
)
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

# Redrawing more often would take time from the core that is being measured.
_REDRAWS_PER_S = 2
MOST_ROWS = 100
"""A longer table scrolls away before it is read: an overview is shown in its place."""
_MOST_CONCLUSIONS = 20
_MOST_SKIPS = 20
_MOST_FAILURES = 10
_NOTES_SHOWN = 3
_CURVES_SHOWN = 3
# Too short-lived for a line of its own in a log.
_PASSING = (": loading", ": first call", ": measuring")


class ConsoleReport:
    """The report on one console; its only state is what is on the screen."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._names: Mapping[str, str] = {}
        self._started_s = time.monotonic()

    def plan(self, plan: Plan, done: int) -> None:
        """Print the number of trials, and every skip with its reason."""
        already = f", {done} already there" if done else ""
        count = plural(len(plan.trials), "trial")
        self._console.print(f"[bold]{_plain(plan.name)}[/] plan {plan.plan_id}: {count}{already}")
        for text in _skips(plan):
            self._console.print(f"  [yellow]skip[/] {_plain(text)}", highlight=False)
        for note in plan.notes:
            self._console.print(f"  [yellow]note[/] {_plain(note)}", highlight=False)
        self._names = names_of(plan.trials)

    @contextlib.contextmanager
    def live(self, trials: Sequence[Trial]) -> Iterator[None]:
        """Show progress while trials run; plain lines where there is no terminal."""
        if not trials or not self._console.is_terminal:
            yield
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("[bold blue]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left about"),
            TimeRemainingColumn(),
        )
        with Progress(
            *columns, console=self._console, refresh_per_second=_REDRAWS_PER_S, transient=True
        ) as progress:
            self._progress = progress
            self._task = progress.add_task("starting", total=len(trials))
            try:
                yield
            finally:
                self._progress = self._task = None

    def event(self, event: Event) -> None:
        """Show what a trial is doing."""
        name = self._name(event.trial_id)
        text = f"{name}: {event.stage} {event.message}".rstrip()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)
        elif not event.message.endswith(_PASSING):
            elapsed = format_seconds(time.monotonic() - self._started_s)
            self._console.print(f"  [{elapsed}] {text}", markup=False, highlight=False)

    def result(self, result: TrialResult, summary: Summary) -> None:
        """Print one line as soon as a trial ends."""
        name = self._name(result.trial_id)
        primary = primary_metric(summary.metrics)
        if result.failure:
            mark, text = ("✗", "red"), f"{result.failure.kind}: {result.failure.message}"
        elif result.parity and not result.parity.passed:
            mark, text = ("≠", "red"), result.parity.explanation
        else:
            mark, text = ("✓", "green"), primary.text if primary else "no data"
        from rich.text import Text

        self._console.print(Text.assemble(mark, f" {name}  {text}"), soft_wrap=True)
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)

    def table(
        self,
        plan: Plan,
        results: Mapping[str, TrialResult],
        summaries: Mapping[str, Summary],
        directory: Path,
    ) -> None:
        """Print the final table, or an overview of a large sweep; notes, conclusions, failures."""
        large = len(plan.trials) > MOST_ROWS
        head, *rows = (overview_rows if large else table_rows)(plan, results, summaries)
        shown = [[_plain(cell) for cell in row] for row in (head, *rows[:MOST_ROWS])]
        self._console.print()
        self._console.print(rich_table(shown))
        if len(rows) > MOST_ROWS:
            self.text(f"and {len(rows) - MOST_ROWS:,} more models and machines")
        if large:
            self.text(
                f"every row  {directory / TABLE}\n"
                f"           python -m benchorch report {plan.plan_id} --output report.html   "
                "(.csv for a sheet)"
            )
        self._notes(summaries, directory)
        self._conclusions(plan, results, summaries, directory)
        self._failures(results, directory)
        self._calibration(results)

    def _calibration(self, results: Mapping[str, TrialResult]) -> None:
        """Print what this machine can tell, where that was calibrated and it measured any."""
        found = certificates.kept()
        places = [one.environment for one in results.values()]
        if found and any(found.is_of(p.get("host"), p.get("cpu_model")) for p in places):
            self.text(f"\nmachine   {summary(found)}")

    def _notes(self, summaries: Mapping[str, Summary], directory: Path) -> None:
        warnings = list(warnings_of(summaries).items())
        for warning, trial_ids in warnings[:_NOTES_SHOWN]:
            note = f"{some_of([self._name(trial_id) for trial_id in trial_ids])}: {warning}"
            self._console.print(f"[yellow]note[/] {_plain(note)}", highlight=False, soft_wrap=True)
        if len(warnings) > _NOTES_SHOWN:
            rest = plural(len(warnings) - _NOTES_SHOWN, "more note")
            self._console.print(f"[yellow]note[/] {rest} in {_plain(str(directory / TABLE))}")

    def _conclusions(
        self,
        plan: Plan,
        results: Mapping[str, TrialResult],
        summaries: Mapping[str, Summary],
        directory: Path,
    ) -> None:
        """Print the conclusion of each case, or of many cases together."""
        found = conclusions(plan, results, summaries)
        sentences = "\n".join(one.sentence for one in found)
        if len(found) > _MOST_CONCLUSIONS:
            of_all = overall([(one.fastest, summaries) for one in found])
            sentences = f"{of_all} Each case: {directory / TABLE}"
        self._console.print(f"\n[bold]{_plain(sentences)}[/]", highlight=False)

    def recording(self) -> None:
        """Print that MLflow is being filled; Ctrl-C ends only the waiting."""
        self._console.print("recording in MLflow ... (Ctrl-C stops waiting; nothing is lost)")

    def keeping(self) -> None:
        """Print that the archive is being filled; Ctrl-C ends only the waiting."""
        self._console.print("copying to the bucket ... (Ctrl-C stops waiting; nothing is lost)")

    def closing(self, plan: Plan, directory: Path, *, recorded: bool, kept: bool = True) -> None:
        """Print where everything is, and the next commands.

        Args:
            recorded: whether the tracker has all of it.
            kept: whether the bucket has all of it, where one is named.
        """
        self.text(f"\nresults   {directory}")
        curves = sorted(directory.glob("trials/*/load.svg"))
        for curve in curves[:_CURVES_SHOWN]:
            self.text(f"curve     {curve}")
        if len(curves) > _CURVES_SHOWN:
            self.text(
                f"curves    {len(curves) - _CURVES_SHOWN} more: {directory}/trials/*/load.svg"
            )
        if recorded:
            self.text("look      python -m benchorch ui")
        else:
            self.text(
                f"record    python -m benchorch record {directory}   (the tracker could not be "
                "reached; nothing is lost)"
            )
        place = plan.session.get("keep_at")
        if place and kept:
            self.text(f"kept      python -m benchorch fetch {plan.plan_id} --at {place}")
        elif place:
            self.text(
                f"keep      python -m benchorch keep {directory} --at {place}   (not all of it "
                "could be copied; nothing is lost)"
            )
        self.text(f"resume    python -m benchorch resume={plan.plan_id}")
        self.text("next      python -m benchorch cache list      python -m benchorch plan --help")

    def _failures(self, results: Mapping[str, TrialResult], directory: Path) -> None:
        """Print each kind of failure with its remedy and a log."""
        found = alike_failures(results.values())
        for failure, trial_ids in found[:_MOST_FAILURES]:
            names = some_of([self._name(trial_id) for trial_id in trial_ids])
            self._console.print(f"\n[red]✗[/] {_plain(names)}: {failure.kind} in {failure.stage}")
            log = directory / "trials" / trial_ids[0] / "log.txt"
            lines = (failure.message, failure.remedy and f"try: {failure.remedy}", f"log: {log}")
            for line in filter(None, lines):
                self.text(f"    {line}")
        rest = sum(len(one.trial_ids) for one in found[_MOST_FAILURES:])
        if rest:
            self.text(f"\nand {plural(rest, 'more failure')}, each in {directory / RESULTS}")

    def _name(self, trial_id: str) -> str:
        return self._names.get(trial_id, trial_id)

    def text(self, text: str) -> None:
        """Print plain text."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def interrupted(self, directory: Path) -> None:
        """Print that only the trial in flight is lost, and how to resume."""
        self.text(
            f"\nInterrupted. Every finished trial is kept; go on with\n"
            f"  python -m benchorch resume={directory}"
        )


def _plain(text: str) -> str:
    """Text whose brackets are no markup."""
    from rich.markup import escape

    return escape(text)


def _skips(plan: Plan) -> list[str]:
    """Every skip with its reason; equal reasons once, with their number."""
    if len(plan.skips) <= _MOST_SKIPS:
        return [skip_text(skip) for skip in plan.skips]
    alike = alike_skips(plan.skips)
    texts = [
        skip_text(skip) + (f" ({count - 1:,} more like it)" if count > 1 else "")
        for skip, count in alike[:_MOST_SKIPS]
    ]
    rest = sum(count for _, count in alike[_MOST_SKIPS:])
    return [*texts, *([f"{plural(rest, 'more cell')}; see {PLAN}"] if rest else [])]


def rich_table(rows: Sequence[Sequence[str]]) -> Table:
    """A header and its rows, the first column to the left and all others to the right."""
    from rich import box
    from rich.table import Table

    head, *body = rows
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for index, title in enumerate(head):
        table.add_column(title, justify="left" if index == 0 else "right", overflow="fold")
    for row in body:
        table.add_row(*row)
    return table


def _console() -> Console:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else 160, soft_wrap=not terminal)


def silent_console() -> Console:
    """A console without output."""
    from rich.console import Console

    return Console(quiet=True)

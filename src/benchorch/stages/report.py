"""What a person at the terminal sees: the plan, live progress, the table, what to do next."""

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
from benchorch.tables import (
    cell_name,
    conclusion,
    headline,
    markdown,
    plural,
    skip_text,
    table_rows,
    varying_labels,
)
from benchorch.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

# Redrawing more often would take time from the core that is being measured.
_REDRAWS_PER_S = 2
_NOTES_SHOWN = 3
# Too short-lived for a line of its own in a log.
_PASSING = (": loading", ": first call", ": measuring")


class Report:
    """Writes to one console; remembers only what is on the screen."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._names: dict[str, str] = {}
        self._started_s = time.monotonic()

    def plan(self, plan: Plan, done: int) -> None:
        """How much there is to do, and every skip with its reason."""
        already = f", {done} already there" if done else ""
        count = plural(len(plan.trials), "trial")
        self._console.print(f"[bold]{_plain(plan.name)}[/] plan {plan.plan_id}: {count}{already}")
        for skip in plan.skips:
            self._console.print(f"  [yellow]skip[/] {_plain(skip_text(skip))}", highlight=False)
        for note in plan.notes:
            self._console.print(f"  [yellow]note[/] {_plain(note)}", highlight=False)
        varying = varying_labels([trial.labels for trial in plan.trials])
        self._names = {t.trial_id: cell_name(t.labels, varying) for t in plan.trials}

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
        """What is happening now."""
        name = self._names.get(event.trial_id, event.trial_id)
        text = f"{name}: {event.stage} {event.message}".rstrip()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)
        elif not event.message.endswith(_PASSING):
            elapsed = format_seconds(time.monotonic() - self._started_s)
            self._console.print(f"  [{elapsed}] {text}", markup=False, highlight=False)

    def result(self, result: TrialResult, summary: Summary) -> None:
        """One line as soon as a trial ends."""
        name = self._names.get(result.trial_id, result.trial_id)
        first = headline(summary.metrics)
        if result.failure:
            mark, text = ("✗", "red"), f"{result.failure.kind}: {result.failure.message}"
        elif result.parity and not result.parity.passed:
            mark, text = ("≠", "red"), result.parity.explanation
        else:
            mark, text = ("✓", "green"), first.text if first else "no data"
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
    ) -> str:
        """Print the final table and its conclusion; returns the same as Markdown."""
        rows = table_rows(plan, results, summaries)
        said = conclusion(plan, results, summaries)
        self._console.print()
        self._console.print(rich_table([[_plain(cell) for cell in row] for row in rows]))
        notes = _notes(summaries, self._names)
        for note in notes[:_NOTES_SHOWN]:
            self._console.print(f"[yellow]note[/] {_plain(note)}", highlight=False, soft_wrap=True)
        if len(notes) > _NOTES_SHOWN:
            rest = plural(len(notes) - _NOTES_SHOWN, "more note")
            self._console.print(f"[yellow]note[/] {rest} in {_plain(str(directory / 'table.md'))}")
        self._console.print(f"\n[bold]{_plain(said)}[/]", highlight=False)
        self._failures(results, directory)
        return markdown(rows, plan, said, notes)

    def recording(self) -> None:
        """Say what is waited for; Ctrl-C ends only the waiting."""
        self._console.print("recording in MLflow ... (Ctrl-C stops waiting; nothing is lost)")

    def keeping(self) -> None:
        """Say what is waited for; Ctrl-C ends only the waiting."""
        self._console.print("copying to the bucket ... (Ctrl-C stops waiting; nothing is lost)")

    def closing(self, plan: Plan, directory: Path, *, recorded: bool, kept: bool = True) -> None:
        """Where everything is and the next commands to try.

        Args:
            recorded: whether the tracker has all of it.
            kept: whether the bucket has all of it, where one is named.
        """
        say = self._console
        say.print(f"\nresults   {directory}", markup=False, highlight=False, soft_wrap=True)
        for curve in sorted(directory.glob("trials/*/load.svg")):
            say.print(f"curve     {curve}", markup=False, highlight=False, soft_wrap=True)
        if recorded:
            say.print("look      python -m benchorch ui", markup=False, highlight=False)
        else:
            say.print(
                f"record    python -m benchorch record {directory}   (the tracker could not be "
                "reached; nothing is lost)",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        place = plan.session.get("keep_at")
        if place:
            how = (
                f"python -m benchorch fetch {plan.plan_id} --at {place}"
                if kept
                else f"python -m benchorch keep {directory} --at {place}   (not all of it could be "
                "copied; nothing is lost)"
            )
            say.print(f"kept      {how}", markup=False, highlight=False, soft_wrap=True)
        say.print(
            f"resume    python -m benchorch resume={plan.plan_id}", markup=False, highlight=False
        )
        say.print(
            "next      python -m benchorch cache list      python -m benchorch plan --help",
            markup=False,
            highlight=False,
        )

    def _failures(self, results: Mapping[str, TrialResult], directory: Path) -> None:
        """Each failure with what to try and where its log is."""
        for result in results.values():
            failure = result.failure
            if failure is None:
                continue
            name = self._names.get(result.trial_id, result.trial_id)
            self._console.print(f"\n[red]✗[/] {_plain(name)}: {failure.kind} in {failure.stage}")
            log = directory / "trials" / result.trial_id / "log.txt"
            lines = (failure.message, failure.remedy and f"try: {failure.remedy}", f"log: {log}")
            for line in filter(None, lines):
                self._console.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)

    def text(self, text: str) -> None:
        """Words as they are."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def interrupted(self, directory: Path) -> None:
        """Say that nothing but the trial in flight is lost."""
        self._console.print(
            f"\nInterrupted. Every finished trial is kept; go on with\n"
            f"  python -m benchorch resume={directory}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _plain(text: str) -> str:
    """What is in brackets is text and no style."""
    from rich.markup import escape

    return escape(text)


def _notes(summaries: Mapping[str, Summary], names: Mapping[str, str]) -> list[str]:
    """Each doubt once, with the trials it concerns."""
    concerned: dict[str, list[str]] = {}
    for trial_id, summary in summaries.items():
        for warning in summary.warnings:
            concerned.setdefault(warning, []).append(names.get(trial_id, trial_id))
    return [f"{', '.join(trials)}: {warning}" for warning, trials in concerned.items()]


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
    """For a report that nobody reads."""
    from rich.console import Console

    return Console(quiet=True)

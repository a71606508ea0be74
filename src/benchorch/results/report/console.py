"""The report at the terminal: plan, live progress, table, next commands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.session import AGAIN, DECIDED, ROUND, Event
from benchorch.domain.spending import Spending
from benchorch.domain.trial import Plan, Trial
from benchorch.formatting import plural, printable, shell_word
from benchorch.journal import certificates
from benchorch.journal.run_directory import PLAN, RESULTS, TABLE
from benchorch.pages.markup import shortened
from benchorch.recorders.mlflow_links import MlflowLinks, mlflow_links
from benchorch.results.compare.detectable import summary
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.console_table import EVERY_COLUMN, columns_of, folded
from benchorch.results.report.live_table import WAITS, LiveTable
from benchorch.results.report.notes import few, notes_of
from benchorch.results.report.overview import (
    alike_failures,
    alike_skips,
    overall,
    overview_rows,
    some_of,
)
from benchorch.results.report.plan_text import names_of, skip_text
from benchorch.results.report.request_coverage import pending
from benchorch.results.report.rich_table import rich_table
from benchorch.results.report.run_page import PAGE
from benchorch.results.report.tables import (
    against,
    conclusions,
    has_baseline,
    primary_metric,
    table_rows,
)

if TYPE_CHECKING:
    from rich.console import Console

# Redrawing more often would take time from the core that is being measured.
_REDRAWS_PER_S = 2
MOST_ROWS = 100
"""A longer table scrolls away before it is read: an overview is shown in its place."""
_MOST_CONCLUSIONS = 20
_MOST_SKIPS = 20
_MOST_FAILURES = 10
# Of other stages, a log has the first event of each trial.
_ALWAYS_TOLD = ("wait", "retry", AGAIN)


class ConsoleReport:
    """The report on one console; its only state is what is on the screen."""

    def __init__(
        self, console: Console | None = None, *, quiet: bool = False, verbose: bool = False
    ) -> None:
        self._console = console or console_on(sys.stdout)
        self._quiet = quiet
        self._verbose = verbose
        self._names: Mapping[str, str] = {}
        self._live = LiveTable()
        self._is_drawn = False
        self._begun: set[tuple[str, str]] = set()
        self._machines: Mapping[str, int] = {}
        self._one_winner = False

    def plan(self, plan: Plan, done: int, whole: Plan | None = None) -> None:
        """Print the number of trials, and every skip with its reason.

        Args:
            whole: the plan with the trials of earlier batches, where there are any.
        """
        already = f", {done} already there" if done else ""
        count = plural(len(plan.trials), "trial")
        if not self._quiet:
            title = f"[bold]{_plain(shortened(plan.name))}[/] plan {plan.plan_id}: {count}{already}"
            self._console.print(title, highlight=False)
        for text in _skips(plan):
            self._console.print(f"  [yellow]skip[/] {_plain(text)}", highlight=False)
        for note in plan.notes:
            self._console.print(f"  [yellow]note[/] {_plain(note)}", highlight=False)
        trials = (whole or plan).trials
        self._live.against = printable(against(trials))
        self._names = {key: printable(name) for key, name in names_of(trials).items()}

    @contextlib.contextmanager
    def live(self, trials: Sequence[Trial]) -> Iterator[None]:
        """Show a table that fills while trials run; lines where there is no terminal."""
        self._live.compared = has_baseline(trials)
        self._live.begin({trial.trial_id: self._name(trial.trial_id) for trial in trials})
        if not trials or not self._console.is_terminal or self._quiet or self._verbose:
            yield
            return
        from rich.live import Live

        with Live(
            self._live, console=self._console, refresh_per_second=_REDRAWS_PER_S, transient=True
        ):
            self._is_drawn = True
            try:
                yield
            finally:
                self._is_drawn = False

    def expect(self, left_s: float) -> None:
        """Note in how many seconds the run is expected to end."""
        self._live.expect(left_s)

    def event(self, event: Event) -> None:
        """Show what a trial does; of lines, only those that are worth one."""
        if event.spending is not None:
            self._spending(event.spending)
            return
        text = f"{event.stage} {event.message}".rstrip()
        if event.stage != ROUND:
            self._live.state(event.trial_id, event.message if event.stage == DECIDED else text)
        if self._quiet or (self._is_drawn and event.stage != AGAIN):
            return
        if self._verbose:
            self._line(f"{self._name(event.trial_id)}: {text}".removeprefix(": "))
        elif event.stage == ROUND:
            self._line(self._first_figures())
        elif event.stage == DECIDED:
            self._line(self._decision(event))
        elif event.stage in _ALWAYS_TOLD or (event.trial_id, event.stage) not in self._begun:
            self._begun.add((event.trial_id, event.stage))
            self._line(f"{self._name(event.trial_id)}: {text}")

    def _spending(self, spending: Spending) -> None:
        """Show what machines have cost; as a line, only where machines came or went."""
        machines = dict(spending.machines)
        if machines != self._machines and not self._is_drawn:
            self._line(spending.text)
        self._machines, self._live.spending = machines, spending.text

    def figures(self, results: Sequence[TrialResult], summaries: Mapping[str, Summary]) -> None:
        """Show what was measured so far of the trials of one table."""
        self._live.figures(results, summaries)

    def _first_figures(self) -> str:
        """The order so far in the first round, which nothing is concluded from."""
        ranked = self._live.ranked()
        rows = [f"{row.name} {row.figure}" for row in ranked if row.processes]
        waiting = [row.name for row in ranked if not row.processes and row.state == WAITS]
        later = f"; not yet: {some_of(waiting)}" if waiting else ""
        left = "" if self._live.ends_s is None else f" ({self._live.footer()})"
        return f"first figures: {some_of(rows)}{later}{left}"

    def _decision(self, event: Event) -> str:
        row = self._live.rows.get(event.trial_id)
        known = (row.figure, row.verdict) if row else ()
        found = ", ".join(text for text in known if text != "–")
        return f"{self._name(event.trial_id)}: {event.message}: {found}"

    def _line(self, text: str) -> None:
        self._console.print(
            f"  [{self._live.elapsed}] {printable(text)}", markup=False, highlight=False
        )

    def result(self, result: TrialResult, summary: Summary) -> None:
        """Print one line as soon as a trial ends."""
        name = self._name(result.trial_id)
        self._live.figures([result], {result.trial_id: summary})
        self._live.state(result.trial_id, _end_of(result))
        primary = primary_metric(summary.metrics)
        if result.failure:
            mark, text = ("✗", "red"), f"{result.failure.kind}: {result.failure.message}"
        elif result.parity and not result.parity.passed:
            mark, text = ("≠", "red"), result.parity.explanation
        elif self._is_drawn or self._quiet:  # its row shows it
            return
        else:
            mark, text = ("✓", "green"), primary.text if primary else "no data"
        from rich.text import Text

        shown = folded(f"{mark[0]} {printable(name)}  {printable(text)}", self._console.file)
        self._console.print(Text.assemble(mark, shown[1:]), soft_wrap=True)

    def table(self, run: RunResults) -> None:
        """Print the final table, or an overview of a large sweep; notes, conclusions, failures."""
        large = len(run.plan.trials) > MOST_ROWS
        head, *rows = (overview_rows if large else table_rows)(run)
        shown = [[printable(cell) for cell in row] for row in (head, *rows[:MOST_ROWS])]
        self._console.print()
        self._console.print(rich_table(shown, self._console.width))
        if len(rows) > MOST_ROWS:
            self.text(f"and {len(rows) - MOST_ROWS:,} more models and machines")
        if large:
            self.text(
                f"every row  {run.directory / TABLE}\n"
                f"           python -m benchorch report {run.plan.plan_id} --output report.html   "
                "(.csv for a sheet)"
            )
        self._notes(run)
        waits_for = pending(run) if run.running else ""
        if waits_for:
            self.text(f"\n{waits_for}")
        else:
            self._conclusions(run)
        self._failures(run)
        self._calibration(run.results)

    def _calibration(self, results: Mapping[str, TrialResult]) -> None:
        """Print what this machine can tell, where that was calibrated and it measured any."""
        found = certificates.kept_of(one.environment for one in results.values())
        if found:
            self.text(f"\nmachine   {summary(found)}")

    def _notes(self, run: RunResults) -> None:
        notes = notes_of(run.summaries)
        shown = few(notes)
        for one in shown:
            note = f"{some_of([self._name(trial_id) for trial_id in one.trial_ids])}: {one.text}"
            others = some_of([self._name(trial_id) for trial_id in one.alike_ids])
            likewise = f" Likewise {others}." if others else ""
            self._console.print(f"[yellow]note[/] {_plain(note + likewise)}", highlight=False)
        if len(notes) > len(shown):
            rest = plural(len(notes) - len(shown), "more note")
            self.text(f"note {rest} in {run.directory / TABLE}")

    def _conclusions(self, run: RunResults) -> None:
        """Print the conclusion of each case, or of many cases together."""
        found = conclusions(run)
        self._one_winner = [one.fastest is not None for one in found].count(True) == 1
        sentences = "\n".join(one.sentence for one in found)
        if len(found) > _MOST_CONCLUSIONS:
            of_all = overall([(one.fastest, run.summaries) for one in found])
            sentences = f"{of_all} Each case: {run.directory / TABLE}"
        self._console.print(f"\n[bold]{_plain(sentences)}[/]", highlight=False)

    def waiting(self, what: str) -> None:
        """Print what the end waits for; Ctrl-C ends only the waiting."""
        self.text(f"{what} ... (Ctrl-C stops waiting; nothing is lost)")

    def closing(
        self,
        plan: Plan,
        directory: Path,
        *,
        recorded: bool,
        reason: str = "",
        kept: bool = True,
        whole: bool = True,
    ) -> None:
        """Print where everything is, and the next commands.

        Args:
            whole: whether every trial has its final result, so that nothing is left to resume.
            recorded: whether the tracker has all of it.
            reason: why it has not.
            kept: whether the bucket has all of it, where one is named.
        """
        self.text(f"\nresults   {directory}")
        if not whole:
            self.text(f"resume    python -m benchorch resume={plan.plan_id}")
        if self._quiet:
            return
        if (directory / PAGE).exists():
            self.text(f"page      {(directory / PAGE).resolve().as_uri()}")
        if recorded:
            self._mlflow(mlflow_links(directory))
        else:
            self.text(
                f"record    python -m benchorch record {shell_word(directory)}   "
                f"(the tracker lacks results: {reason}; nothing is lost)"
            )
        place = plan.session.get("keep_at")
        if place and kept:
            self.text(f"kept      python -m benchorch fetch {plan.plan_id} --at {place}")
        elif place:
            self.text(
                f"keep      python -m benchorch keep {shell_word(directory)} --at {place}   "
                "(not all of it could be copied; nothing is lost)"
            )
        self.text(f"next      python -m benchorch open {plan.plan_id}")
        if self._one_winner and whole:
            self.text(f"          python -m benchorch export {plan.plan_id} --output FOLDER")

    def _mlflow(self, links: MlflowLinks) -> None:
        """Print where MLflow shows the run and the table, and what serves it, once recorded."""
        if links.parent:
            before = "" if links.served else "benchorch ui   then "
            self.text(f"MLflow    {before}{links.parent}")
            self.text(f"table     {links.table}")

    def _failures(self, run: RunResults) -> None:
        """Print each kind of failure with its remedy and a log."""
        found = alike_failures(run.results.values())
        for failure, trial_ids in found[:_MOST_FAILURES]:
            names = some_of([self._name(trial_id) for trial_id in trial_ids])
            self._console.print(f"\n[red]✗[/] {_plain(names)}: {failure.kind} in {failure.stage}")
            log = run.directory / "trials" / trial_ids[0] / "log.txt"
            lines = (failure.message, failure.remedy and f"try: {failure.remedy}", f"log: {log}")
            for line in filter(None, lines):
                self.text(f"    {line}")
        rest = sum(len(one.trial_ids) for one in found[_MOST_FAILURES:])
        if rest:
            self.text(f"\nand {plural(rest, 'more failure')}, each in {run.directory / RESULTS}")

    def _name(self, trial_id: str) -> str:
        return self._names.get(trial_id, trial_id)

    def text(self, text: str) -> None:
        """Print plain text."""
        shown = folded(printable(text), self._console.file)
        self._console.print(shown, markup=False, highlight=False, soft_wrap=True)

    def interrupted(self, directory: Path, *, results: int) -> None:
        """Print how far the run has come, and how to go on."""
        so_far = "the table is partial. All results so far are stored."  # and how it is resumed
        line = f"python -m benchorch resume={shell_word(directory)}"
        nothing = f"no trial has a result yet. To continue:\n  {line}"
        self.text(f"\nInterrupted: {so_far if results else nothing}")


def _end_of(result: TrialResult) -> str:
    """What became of a trial, in a word or two."""
    if result.failure:
        return f"failed: {result.failure.kind}"
    return "not the same model" if result.disagrees else "done"


def _plain(text: str) -> str:
    """Text whose brackets are no markup, and that no terminal obeys."""
    from rich.markup import escape

    return escape(printable(text))


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


def console_on(stream: TextIO) -> Console:
    """A console as wide as `columns_of` a stream says, else wide enough for every column."""
    from rich.console import Console

    terminal = stream.isatty()
    width = None if terminal else columns_of(stream) or EVERY_COLUMN
    return Console(file=stream, width=width, soft_wrap=not terminal, emoji=False)


def silent_console() -> Console:
    """A console without output."""
    from rich.console import Console

    return Console(quiet=True)

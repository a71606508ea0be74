"""The report in a notebook: one output that is updated, and no other."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan
from benchorch.formatting import shell_word
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.console import ConsoleReport, silent_console
from benchorch.results.report.html_table import html_table
from benchorch.results.report.tables import conclusion

_LEAST_S = 0.5  # between two drawings: each goes to the browser


class NotebookReport(ConsoleReport):
    """Rows that fill while trials run; at the end the conclusion, since the results show the table.

    Args:
        handle: of the output, as ``IPython.display.display(..., display_id=True)`` gives it.
    """

    def __init__(self, handle: Any) -> None:
        super().__init__(silent_console())
        self._handle = handle
        self._drawn_s = 0.0

    def plan(self, plan: Plan, done: int, whole: Plan | None = None) -> None:
        """Note the trials' names."""
        super().plan(plan, done, whole)
        self._show(f"<p>benchorch: {len(plan.trials)} trials</p>")

    def event(self, event: Event) -> None:
        """Show what a trial does."""
        super().event(event)
        self._draw()

    def figures(self, results: Sequence[TrialResult], summaries: Mapping[str, Summary]) -> None:
        """Show what was measured so far."""
        super().figures(results, summaries)
        self._draw()

    def table(self, run: RunResults) -> None:
        """Show the conclusion and the directory."""
        found = escape(conclusion(run))
        self._show(f"<p>{found}</p><p><code>{escape(str(run.directory))}</code></p>")

    def interrupted(self, directory: Path, *, results: int) -> None:
        """Show how to go on."""
        words = escape(f"python -m benchorch resume={shell_word(directory)}")
        state = "all results so far are stored" if results else "no trial has a result yet"
        self._show(f"<p>Interrupted: {state}. To continue: <code>{words}</code></p>")

    def _draw(self) -> None:
        if time.monotonic() - self._drawn_s < _LEAST_S:
            return
        self._drawn_s = time.monotonic()
        self._show(f"{html_table(self._live.cells())}<p>{escape(self._live.footer())}</p>")

    def _show(self, html: str) -> None:
        self._handle.update({"text/html": html, "text/plain": "benchorch"}, raw=True)


def report_of(*, quiet: bool) -> ConsoleReport:
    """The report of Python code: none, in the cell of a notebook, or at the terminal."""
    if quiet:
        return ConsoleReport(silent_console())
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return ConsoleReport()
    from IPython.display import display

    start = {"text/html": "<p>benchorch</p>", "text/plain": "benchorch"}
    handle = display(start, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    return NotebookReport(handle)

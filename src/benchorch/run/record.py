"""Replay of the journal on disk to a tracker: whatever is missing there, each trial once.

Measuring never waits for a tracker. The replay runs beside it or any time later, notes in
``recorded.jsonl`` what has been recorded, and can be killed and started again at any point.

A trial's comparison depends on all others of its table. While a run goes on, trials are recorded
without it; once the run has ended, each gets the figures of the table.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.codec import encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import RecordError, StoreError
from benchorch.files import write_json
from benchorch.formatting import shell_word
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory, uploads
from benchorch.journal.lease import lease
from benchorch.journal.record_cursor import RecordCursor
from benchorch.recorders.mlflow_links import TRACKING
from benchorch.results.metrics.without_figures import WITHOUT_FIGURES, reason
from benchorch.run import sidecar
from benchorch.run.sidecar import Wait
from benchorch.stores.objects import bucket_at

if TYPE_CHECKING:
    from benchorch.results.metrics.summary import TrialFindings

    Derive = Callable[[TrialResult, TrialResult | None], TrialFindings]

POLL_S = 1.0
LONGEST_WAIT_S = 30.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The outcome of a replay.

    Attributes:
        recorded: trials that were recorded now.
        remaining: trials that were not.
        reason: why not, or an empty string; also set where only the parent's end is missing.
        parent_run_id: empty where the tracker was never reached.
    """

    recorded: int
    remaining: int
    reason: str
    parent_run_id: str


def replay(
    directory: Path,
    recorder: Recorder,
    *,
    follow: bool = False,
    derive: Derive | None = None,
    wait: Wait | None = None,
) -> Replayed:
    """Record what the tracker lacks; one that follows takes over from a dead run's recorder.

    Args:
        directory: an invocation's.
        follow: go on until `wait` reports the end of the run.
        derive: derives figures from a result and its baseline's; a test may replace it.
        wait: waits for the end of the run, on stdin unless a test replaces it.

    Raises:
        ConfigError: the directory holds no plan.
        RecordError: another process records this directory.
    """
    if not recorder.address:
        return Replayed(recorded=0, remaining=0, reason="", parent_run_id="")
    cursor = RecordCursor(directory, recorder.address)
    with lease(directory, take_over=follow):
        cursor.read_recorded()
        task = _Replay(directory, recorder, cursor, derive or _derive, warn=follow)
        complete = _follow(task, wait or end_on_stdin) if follow else None
        cursor.read_plan()
        cursor.read_on()
        _finish(task, complete=cursor.is_whole() if complete is None else complete)
    return Replayed(
        recorded=task.recorded,
        remaining=len(cursor.pending(final=True)) + len(cursor.refused) + cursor.damaged,
        reason=task.reason or cursor.problem,
        parent_run_id=task.parent_run_id or cursor.parent_run_id,
    )


def command(directory: Path) -> str:
    """The command that records the rest once the tracker is back."""
    return f"python -m benchorch record {shell_word(directory)}"


def end_on_stdin(timeout_s: float) -> bool | None:
    """None while stdin is silent; then ``complete`` of its JSON line, or False where it closes."""
    try:
        ready, _, _ = select.select([0], [], [], timeout_s)
        line = os.read(0, 4096) if ready else None
    except (OSError, ValueError):
        return False
    if line is None:
        return None
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(line).get("complete") is True
    return False


@dataclass(slots=True)
class _Replay:
    """A replay in progress.

    Attributes:
        warn: whether the next failure is logged; only the first one is.
        findings: of each trial, before it is compared within its table, and the state of the cursor
            that they are of.
        table: each trial's summary, once the run has ended.
    """

    directory: Path
    recorder: Recorder
    cursor: RecordCursor
    derive: Derive
    parent_run_id: str = ""
    recorded: int = 0
    reason: str = ""
    warn: bool = False
    postponed: dict[str, None] = field(default_factory=dict)
    findings: dict[str, tuple[str, TrialFindings]] = field(default_factory=dict)
    table: Mapping[str, Summary] = field(default_factory=dict)

    def once(self, *, final: bool) -> bool:
        """Record what is missing; whether nothing failed."""
        self.cursor.read_on()
        try:
            self._open()
            if final:
                self.table = self._whole_table()
            self._record_pending(final=final)
        except RecordError as error:
            self._failed(error)
            return False
        self.reason = ""
        return True

    def end(self, *, complete: bool) -> None:
        """End the parent run, unless it has ended so before."""
        if self.cursor.is_closed(complete=complete):
            return
        try:
            self._open()
            self._amend_recorded()
            self.recorder.close(self.cursor.plan, self.directory, complete=complete)
        except RecordError as error:
            self._failed(error)
        else:
            self.cursor.mark_closed(self.parent_run_id, complete=complete)

    def _open(self) -> None:
        if not self.parent_run_id:
            if not (self.directory / TRACKING).exists():
                self._note_address("")
            self.parent_run_id = self.recorder.open(self.cursor.plan, self.directory)
            self._note_address(self.parent_run_id)

    def _note_address(self, parent_run_id: str) -> None:
        ids = {**self.recorder.ids, "parent_run_id": parent_run_id or None}
        address = {**self.recorder.address, **ids}
        write_json(self.directory / TRACKING, address)

    def _record_pending(self, *, final: bool) -> None:
        """Record in order, trials that failed before last; two failures in a row end the round.

        So one trial that the tracker rejects delays no other, and a tracker that is down does not
        get a request for each trial.
        """
        pending = self.cursor.pending(final=final)
        rejected: RecordError | None = None
        in_a_row = 0
        for trial_id in sorted(pending, key=lambda one: one in self.postponed):
            try:
                self._record(self.cursor.trial(trial_id))
                in_a_row = 0
            except RecordError as error:
                self.postponed[trial_id] = None
                rejected, in_a_row = error, in_a_row + 1
                if in_a_row > 1:
                    break
        if rejected is not None:
            raise rejected

    def _record(self, trial: Trial) -> None:
        read = self._read(trial.trial_id)
        if read is None:
            return
        result, found = read
        summary = self.table.get(trial.trial_id, found.summary)
        self._download_uploads(result)
        run_id = self.recorder.record(trial, result, summary, self._folder(trial.trial_id))
        self.cursor.mark(trial.trial_id, run_id, _digest(summary))
        self.recorded += 1
        self.postponed.pop(trial.trial_id, None)

    def _read(self, trial_id: str) -> tuple[TrialResult, TrialFindings] | None:
        """A trial's newest result and its findings; None, and it is refused, where it has none.

        Only findings are held: the series of all results together may not fit into memory.
        """
        try:
            result = self.cursor.result(trial_id)
            if not self._has_findings(trial_id):
                found = self.derive(result, self.cursor.baseline(trial_id))
                self.findings[trial_id] = self.cursor.state(trial_id), found
        except run_directory.SeriesError as error:
            self.cursor.refused[trial_id] = str(error)
            return None
        except WITHOUT_FIGURES as error:
            text = f"Trial {trial_id}: no figures follow from what is stored ({reason(error)})."
            self.cursor.refused[trial_id] = text
            return None
        return result, self.findings[trial_id][1]

    def _has_findings(self, trial_id: str) -> bool:
        state, _ = self.findings.get(trial_id, ("", None))
        return state == self.cursor.state(trial_id)

    def _folder(self, trial_id: str) -> Path:
        return run_directory.trial_directory(self.directory, trial_id)

    def _whole_table(self) -> Mapping[str, Summary]:
        """The summaries of all trials that have ended, candidates of one baseline together."""
        from benchorch.results.metrics.summary import together

        for trial_id in self.cursor.ended():
            if not self._has_findings(trial_id):
                self._read(trial_id)
        found = {trial_id: self.findings[trial_id][1] for trial_id in self.cursor.ended()}
        try:
            return together(found)
        except WITHOUT_FIGURES:  # each has its own figures all the same
            return {trial_id: one.summary for trial_id, one in found.items()}

    def _amend_recorded(self) -> None:
        """Replace figures that were recorded before the whole table was known."""
        for trial_id, summary in self.table.items():
            figures = _digest(summary)
            if self.cursor.has_figures(trial_id, figures) or (read := self._read(trial_id)) is None:
                continue
            trial, folder = self.cursor.trial(trial_id), self._folder(trial_id)
            run_id = self.recorder.amend(trial, read[0], summary, folder)
            self.cursor.mark(trial_id, run_id, figures)

    def _download_uploads(self, result: TrialResult) -> None:
        """Files that a node put into the run's archive by itself."""
        place = self.cursor.plan.session.get("keep_at")
        if not place or not result.uploads:
            return
        try:
            archive = bucket_at(f"{place}/{self.cursor.plan.plan_id}")
            uploads.complete(self.directory, result, archive.download)
        except StoreError as error:
            LOG.warning("Files of trial %s stay in the bucket: %s", result.trial_id, error)

    def _failed(self, error: RecordError) -> None:
        self.reason = str(error)
        if self.warn:
            self.warn = False
            LOG.warning("Results wait on disk: %s; later: %s", error, command(self.directory))


def _follow(task: _Replay, wait: Wait) -> bool:
    """Record results as they appear; whether the run ended complete."""
    once = partial(task.once, final=False)
    return sidecar.follow(once, wait, poll_s=POLL_S, longest_s=LONGEST_WAIT_S)


def _finish(task: _Replay, *, complete: bool) -> None:
    """Record what is left for as long as some of it succeeds, then end the parent."""
    if task.cursor.is_closed(complete=complete):
        return
    while True:
        before = task.recorded
        if task.once(final=True):
            task.end(complete=complete)
            return
        if task.recorded == before:
            return


def _derive(result: TrialResult, baseline: TrialResult | None) -> TrialFindings:
    from benchorch.results.metrics.summary import finding

    return finding(result, baseline)


def _digest(summary: Summary) -> str:
    return hashlib.sha256(json.dumps(encode(summary)).encode()).hexdigest()[:16]

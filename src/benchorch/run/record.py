"""Replay of the journal on disk to a tracker: whatever is missing there, each trial once.

Measuring never waits for a tracker. The replay runs beside it or any time later, notes in
``recorded.jsonl`` what has been recorded, and can be killed and started again at any point.
"""

import contextlib
import json
import logging
import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

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

POLL_S = 1.0
LONGEST_WAIT_S = 30.0

Summarise = Callable[[TrialResult, TrialResult | None], Summary]
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
    summarise: Summarise | None = None,
    wait: Wait | None = None,
) -> Replayed:
    """Record what the tracker lacks; one that follows takes over from a dead run's recorder.

    Args:
        directory: an invocation's.
        follow: go on until `wait` reports the end of the run.
        summarise: derives metrics from a result; a test may replace it.
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
        task = _Replay(directory, recorder, cursor, summarise or _summarise, warn=follow)
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
    """

    directory: Path
    recorder: Recorder
    cursor: RecordCursor
    summarise: Summarise
    parent_run_id: str = ""
    recorded: int = 0
    reason: str = ""
    warn: bool = False
    postponed: dict[str, None] = field(default_factory=dict)

    def once(self, *, final: bool) -> bool:
        """Record what is missing; whether nothing failed."""
        self.cursor.read_on()
        try:
            self._open()
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
        try:
            result = self.cursor.result(trial.trial_id)
            baseline = self.cursor.baseline(trial.trial_id)
        except run_directory.SeriesError as error:
            self.cursor.refused[trial.trial_id] = str(error)
            return
        try:
            summary = self.summarise(result, baseline)
        except WITHOUT_FIGURES as error:
            text = (
                f"Trial {trial.trial_id}: no figures follow from what is stored ({reason(error)})."
            )
            self.cursor.refused[trial.trial_id] = text
            return
        folder = run_directory.trial_directory(self.directory, trial.trial_id)
        self._download_uploads(result)
        run_id = self.recorder.record(trial, result, summary, folder)
        self.cursor.mark(trial.trial_id, run_id)
        self.recorded += 1
        self.postponed.pop(trial.trial_id, None)

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


def _summarise(result: TrialResult, baseline: TrialResult | None) -> Summary:
    from benchorch.results.metrics.summary import summarise

    return summarise(result, baseline)

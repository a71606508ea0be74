"""From the journal on disk to a tracker: whatever is missing there, each trial once.

Measuring never waits for a tracker. This runs beside it (or any time later), remembers in
``recorded.jsonl`` what has arrived, and can be killed and started again at any point.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import RecordError
from benchorch.files import write_json
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.journal.record_cursor import CURSOR, RecordCursor
from benchorch.run import sidecar
from benchorch.run.sidecar import Wait

TRACKING = "tracking.json"
POLL_S = 1.0
LONGEST_WAIT_S = 30.0

Summarise = Callable[[TrialResult, TrialResult | None], Summary]
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay came to.

    Attributes:
        recorded: trials that arrived now.
        remaining: trials that did not.
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
    """Bring to the tracker what it lacks, and say what could not be brought.

    Args:
        directory: an invocation's own.
        follow: stay until `wait` says that the run has ended.
        summarise: what is derived from a result; the analysis stage's unless a test brings its own.
        wait: listens on stdin unless a test brings its own.

    Raises:
        ConfigError: the directory holds no plan.
        RecordError: another process records this directory.
    """
    if not recorder.address:
        return Replayed(recorded=0, remaining=0, reason="", parent_run_id="")
    run_directory.read_plan(directory)
    with _alone(directory):
        backlog = RecordCursor(directory, recorder.address)
        derive = summarise or _default_summarise()
        task = _Replay(directory, recorder, backlog, derive, aloud=follow)
        complete = _follow(task, wait or word_on_stdin) if follow else None
        backlog.read_plan()
        backlog.read_on()
        _finish(task, complete=backlog.is_whole() if complete is None else complete)
    return Replayed(
        recorded=task.recorded,
        remaining=len(backlog.pending(final=True)),
        reason=task.reason,
        parent_run_id=task.parent_run_id or backlog.parent_run_id,
    )


def command(directory: Path) -> str:
    """What brings the rest once the tracker is back."""
    return f"python -m benchorch record {directory}"


def word_on_stdin(timeout_s: float) -> bool | None:
    """None while nothing is said; then what ``{"complete": ...}`` says; False if stdin closes."""
    try:
        ready, _, _ = select.select([0], [], [], timeout_s)
        word = os.read(0, 4096) if ready else None
    except (OSError, ValueError):
        return False
    if word is None:
        return None
    with contextlib.suppress(ValueError, AttributeError):
        return json.loads(word).get("complete") is True
    return False


@dataclass(slots=True)
class _Replay:
    """One replay under way.

    Attributes:
        aloud: whether the next trouble is still to be said; only the first one is.
    """

    directory: Path
    recorder: Recorder
    backlog: RecordCursor
    summarise: Summarise
    parent_run_id: str = ""
    recorded: int = 0
    reason: str = ""
    aloud: bool = False
    postponed: dict[str, None] = field(default_factory=dict)

    def once(self, *, final: bool) -> bool:
        """One round over what is missing; whether nothing failed in it."""
        self.backlog.read_on()
        try:
            self._open()
            self._record_pending(final=final)
        except RecordError as error:
            self._complain(error)
            return False
        self.reason = ""
        return True

    def end(self, *, complete: bool) -> None:
        """The parent's end, unless it ended so before."""
        if self.backlog.is_closed(complete=complete):
            return
        try:
            self._open()
            self.recorder.close(self.directory, complete=complete)
        except RecordError as error:
            self._complain(error)
        else:
            self.backlog.mark_closed(self.parent_run_id, complete=complete)

    def _open(self) -> None:
        if not self.parent_run_id:
            if not (self.directory / TRACKING).exists():
                self._note_address("")
            self.parent_run_id = self.recorder.open(self.backlog.plan, self.directory)
            self._note_address(self.parent_run_id)

    def _note_address(self, parent_run_id: str) -> None:
        address = {**self.recorder.address, "parent_run_id": parent_run_id or None}
        write_json(self.directory / TRACKING, address)

    def _record_pending(self, *, final: bool) -> None:
        """Trials that failed before come last, and two failures in a row end the round.

        So one trial that the tracker refuses holds up no other, and a tracker that is away is not
        asked for each trial.
        """
        pending = self.backlog.pending(final=final)
        refused: RecordError | None = None
        in_a_row = 0
        for trial_id in sorted(pending, key=lambda one: one in self.postponed):
            try:
                self._record(self.backlog.trial(trial_id))
                in_a_row = 0
            except RecordError as error:
                self.postponed[trial_id] = None
                refused, in_a_row = error, in_a_row + 1
                if in_a_row > 1:
                    break
        if refused is not None:
            raise refused

    def _record(self, trial: Trial) -> None:
        result = self.backlog.result(trial.trial_id)
        summary = self.summarise(result, self.backlog.baseline(trial.trial_id))
        folder = run_directory.trial_directory(self.directory, trial.trial_id)
        run_id = self.recorder.record(trial, result, summary, folder)
        self.backlog.mark(trial.trial_id, run_id)
        self.recorded += 1
        self.postponed.pop(trial.trial_id, None)

    def _complain(self, error: RecordError) -> None:
        self.reason = str(error)
        if self.aloud:
            self.aloud = False
            LOG.warning("Results wait on disk: %s; later: %s", error, command(self.directory))


def _follow(task: _Replay, wait: Wait) -> bool:
    """Record as results come; whether the run said that it is complete."""
    once = partial(task.once, final=False)
    return sidecar.follow(once, wait, poll_s=POLL_S, longest_s=LONGEST_WAIT_S)


def _finish(task: _Replay, *, complete: bool) -> None:
    """Record what is left for as long as some of it arrives, then end the parent."""
    if task.backlog.is_closed(complete=complete):
        return
    while True:
        before = task.recorded
        if task.once(final=True):
            task.end(complete=complete)
            return
        if task.recorded == before:
            return


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Only one process records a directory at a time."""
    with (directory / CURSOR).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RecordError(f"{directory} is being recorded by another process") from error
        yield


def _default_summarise() -> Summarise:
    from benchorch.results.metrics.summary import summarise

    return summarise

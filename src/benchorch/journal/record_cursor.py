"""Cursor over an invocation's results: those that a tracker does not have yet.

``recorded.jsonl`` remembers what was recorded, one line a run::

    {"uri": ..., "experiment": ..., "trial_id": ..., "run_id": ..., "state": ..., "figures": ...}
    {"uri": ..., "experiment": ..., "parent_run_id": ..., "complete": ..., "state": ...}

A trial's state is the digest of its line in ``results.jsonl`` and of its baseline's, from which
the speed-up is derived: when either changes, the trial is recorded again, on the same run. The
digest of its figures differs once more trials have ended that are judged together with it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.files import open_regular
from benchorch.formatting import plural, shell_word
from benchorch.journal import chain, run_directory
from benchorch.journal.reader import JournalEntry, entry_of

CURSOR = "recorded.jsonl"


@dataclass(frozen=True, slots=True)
class _NewestLine:
    """A trial's newest line, which is read again where its result is needed.

    Attributes:
        start: its offset in the file, in bytes.
        baseline_id: that of the result; empty where it names none.
    """

    start: int
    digest: str
    baseline_id: str


class RecordCursor:
    """Reads new lines only, so following a long run stays cheap; it holds no results."""

    def __init__(self, directory: Path, address: Mapping[str, str]) -> None:
        self._directory = directory
        self._address = dict(address)
        self.plan: Plan
        self._trials: dict[str, Trial]
        self._plan_version: tuple[int, ...] | None = None
        self.read_plan()
        self._lines: dict[str, _NewestLine] = {}
        self._offset, self._inode = 0, -1
        self._checked = chain.Checker()
        self.damaged = 0
        self.refused: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._figures: dict[str, str] = {}
        self._closed: str | None = None
        self.parent_run_id = ""

    def read_recorded(self) -> None:
        """Read what was recorded before; in the recorder's lease, as another may still add."""
        for line in run_directory.read_lines(self._directory / CURSOR):
            self._remember(line)

    def read_plan(self) -> None:
        """Read trials that were planned since: a sweeper plans batch after batch."""
        version = _version(self._directory / run_directory.PLAN)
        if version is None or version != self._plan_version:
            self.plan = run_directory.read_plan(self._directory)
            self._trials = {trial.trial_id: trial for trial in self.plan.trials}
            self._plan_version = version

    def read_on(self) -> None:
        """Read results that were added since; one stat where there are none."""
        path = self._directory / run_directory.RESULTS
        if not path.exists():
            return
        status = path.stat()
        if status.st_ino != self._inode or status.st_size < self._offset:  # it was salvaged
            self._inode, self._offset = status.st_ino, 0
            self._checked = chain.Checker()
        if status.st_size <= self._offset:
            return
        with open_regular(path) as file:
            file.seek(self._offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                self._read_line(raw[:-1], self._offset)
                self._offset += len(raw)

    def pending(self, *, final: bool) -> list[str]:
        """Trials to record; while more may come, only those whose baseline has ended."""
        return [
            trial_id
            for trial_id in self._lines
            if trial_id not in self.refused
            and self._recorded.get(trial_id) != self.state(trial_id)
            and (final or self._has_baseline(trial_id))
        ]

    def ended(self) -> list[str]:
        """Trials that have a result which can be read."""
        return [trial_id for trial_id in self._lines if trial_id not in self.refused]

    def has_figures(self, trial_id: str, figures: str) -> bool:
        """Whether these figures of the trial, by their digest, are recorded."""
        return self._figures.get(trial_id) == figures

    def trial(self, trial_id: str) -> Trial:
        """The planned trial."""
        return self._trials[trial_id]

    def result(self, trial_id: str) -> TrialResult:
        """A trial's newest result, raw series included; SeriesError where they are refused.

        It is read beside its baseline's.
        """
        baseline = self._lines.get(self._baseline_id(trial_id))
        result = self._entry(self._lines[trial_id]).whole(self._directory)
        return result.beside(self._entry(baseline).result if baseline else None)

    def baseline(self, trial_id: str) -> TrialResult | None:
        """The result it is compared with, or None where it has none."""
        baseline_id = self._baseline_id(trial_id)
        return self.result(baseline_id) if baseline_id in self._lines else None

    def mark(self, trial_id: str, run_id: str, figures: str) -> None:
        """Remember durably that a trial is recorded, and with which figures."""
        state = self.state(trial_id)
        self._append(trial_id=trial_id, run_id=run_id, state=state, figures=figures)

    def state(self, trial_id: str) -> str:
        """The digest of its result and of its baseline's."""
        baseline = self._lines.get(self._baseline_id(trial_id))
        return self._lines[trial_id].digest + (f"+{baseline.digest}" if baseline else "")

    def is_whole(self) -> bool:
        """Whether every planned trial has a result."""
        return not self.refused and all(trial_id in self._lines for trial_id in self._trials)

    @property
    def problem(self) -> str:
        """Why some results cannot be recorded, in a sentence; empty where all can."""
        damaged = f"{plural(self.damaged, 'damaged line')}: " if self.damaged else ""
        reasons = [*dict.fromkeys(self.refused.values())]
        if not (damaged or reasons):
            return ""
        line = f"python -m benchorch resume={shell_word(self._directory)}"
        again = f"to measure again what that held: {line}"
        return f"{damaged}{' '.join([*reasons, again])}"

    def is_closed(self, *, complete: bool) -> bool:
        """Whether the parent run was ended so, with just these results."""
        return self._closed == self._end(complete=complete)

    def mark_closed(self, parent_run_id: str, *, complete: bool) -> None:
        """Remember durably that the parent run has ended."""
        state = self._end(complete=complete)
        self._append(parent_run_id=parent_run_id, complete=complete, state=state)

    def _read_line(self, raw: bytes, start: int) -> None:
        try:
            entry = entry_of(self._checked.line(raw))
        except ValueError:
            self.damaged += 1
            return
        trial_id = entry.result.trial_id
        if trial_id not in self._trials:
            self.read_plan()
        if trial_id in self._trials:
            baseline_id = str(entry.result.baseline_id or "")
            self._lines[trial_id] = _NewestLine(start, _digest(raw), baseline_id)
            self._accept_again(trial_id)

    def _accept_again(self, trial_id: str) -> None:
        """Drop refusals that a new line may have put right: its trial's, those of its candidates.

        A line that was read before its series was replaced does not fit the new one.
        """
        for refused in list(self.refused):
            if trial_id in (refused, self._baseline_id(refused)):
                del self.refused[refused]

    def _entry(self, line: _NewestLine) -> JournalEntry:
        """A line's entry; SeriesError where another process has just replaced the file."""
        path = self._directory / run_directory.RESULTS
        try:
            with open_regular(path) as file:
                file.seek(line.start)
                raw = file.readline()[:-1]
        except OSError as error:
            raise run_directory.SeriesError(path, f"cannot be read: {error.strerror}") from error
        if _digest(raw) != line.digest:
            raise run_directory.SeriesError(path, "was replaced while it was recorded")
        return entry_of(chain.Line(number=0, raw=raw, content=chain.mapping_of(raw)))

    def _baseline_id(self, trial_id: str) -> str:
        return self._lines[trial_id].baseline_id or str(self._trials[trial_id].baseline_id or "")

    def _has_baseline(self, trial_id: str) -> bool:
        baseline_id = self._baseline_id(trial_id)
        return baseline_id in self._lines or baseline_id not in self._trials

    def _end(self, *, complete: bool) -> str:
        states = sorted(f"{trial_id} {self.state(trial_id)}" for trial_id in self._lines)
        return hashlib.sha256(json.dumps([complete, states]).encode()).hexdigest()[:16]

    def _append(self, **entry: Json) -> None:
        line = {**self._address, **entry}
        run_directory.append_line(self._directory / CURSOR, line)
        self._remember(line)

    def _remember(self, line: Mapping[str, Json]) -> None:
        if any(line.get(key) != value for key, value in self._address.items()):
            return
        state = str(line.get("state"))
        if "trial_id" in line:
            self._recorded[str(line["trial_id"])] = state
            self._figures[str(line["trial_id"])] = str(line.get("figures"))
            self._closed = None
        else:
            self._closed = state
            self.parent_run_id = str(line.get("parent_run_id"))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _version(path: Path) -> tuple[int, ...] | None:
    """What differs once the file is replaced; None where reading it will state the problem."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size

"""The one reader of a run's results: intact lines, damaged lines, and warnings about them.

Each line and each raw series has a digest (`journal.chain`). Reading never stops at a damaged line;
`salvage` sets it aside when the run goes on, and its trial runs again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from benchorch.domain.codec import Json, decode
from benchorch.domain.result import SCHEMA_VERSION, TrialResult
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, Problems
from benchorch.files import read_bytes, write_bytes
from benchorch.formatting import plural, shell_word
from benchorch.journal import chain, run_directory
from benchorch.progress import Say, counted, silent

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A sound line.

    Attributes:
        content: as it was stored, with what only programs read.
        result: without raw series, which `run_directory.with_series` adds.
    """

    content: Mapping[str, Json]
    result: TrialResult

    def whole(self, directory: Path) -> TrialResult:
        """The result with its raw series; SeriesError where they are lost or were edited."""
        return run_directory.with_series(directory, self.content, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A run's results, as far as they are sound.

    Attributes:
        entries: the last one of each trial.
        damaged: lines that are not, each with its problem.
        marks: sentences on what is unusual: no digests, lines that are missing, clocks set back.
    """

    directory: Path
    entries: Mapping[str, JournalEntry]
    damaged: Sequence[chain.Line]
    marks: Sequence[str]

    @property
    def path(self) -> Path:
        """The file of the results."""
        return self.directory / run_directory.RESULTS

    @property
    def problems(self) -> Sequence[str]:
        """A sentence for each of the first damaged lines, and one for those that follow."""
        found = [
            f"{self.path}: line {one.number} is damaged: {one.problem}."
            for one in self.damaged[:_MOST_TOLD]
        ]
        more = len(self.damaged) - _MOST_TOLD
        return [*found, f"{self.path}: {plural(more, 'line')} more, too."] if more > 0 else found


def read_journal(directory: Path) -> Journal:
    """The results of a run; an empty journal where there are none; ConfigError for no file."""
    entries: dict[str, JournalEntry] = {}
    damaged, marks, plain, before = [], [], 0, False
    for line in _lines(directory / run_directory.RESULTS):
        try:
            entry = entry_of(line)
        except ValueError as error:
            damaged.append(
                chain.Line(number=line.number, raw=line.raw, content={}, problem=str(error))
            )
            before = True
            continue
        if not line.follows and not before:
            marks.append(f"A line is missing before line {line.number} of {run_directory.RESULTS}.")
        before = False
        plain += not line.is_sealed
        marks += _clock_marks(entry.result)
        entries[entry.result.trial_id] = entry
    if plain:
        marks.append(
            f"{plural(plain, 'result')} of an earlier version: without digests, unchecked."
        )
    return Journal(directory=directory, entries=entries, damaged=damaged, marks=marks)


def entry_of(line: chain.Line) -> JournalEntry:
    """Content of a checked line; ValueError with its problem."""
    if line.problem:
        raise ValueError(line.problem)
    version = line.content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise ConfigError([_other_version(version)])
    try:
        result = decode(TrialResult, line.content)
    except chain.UNREADABLE as error:
        raise ValueError(f"it is not a result ({error})") from error
    if not run_directory.is_id(result.trial_id):
        raise ValueError(f"{result.trial_id[:40]!r} is not a trial's id")
    if list(result.stop_looks) != sorted(set(result.stop_looks)):
        raise ValueError("its stop_looks do not rise")
    return JournalEntry(content=line.content, result=result)


def demand_version(journal: Journal) -> None:
    """ConfigError for results of another schema than this version's."""
    for entry in journal.entries.values():
        if entry.result.schema_version != SCHEMA_VERSION:
            raise ConfigError([f"{journal.path}: {_other_version(entry.result.schema_version)}"])


def read_results(directory: Path, say: Say = silent) -> list[TrialResult]:
    """Each trial's last result, raw series included; ConfigError where something is damaged.

    Args:
        directory: the run's.
        say: receives progress where it takes longer than a moment, and what is unusual.
    """
    journal = read_journal(directory)
    demand_version(journal)
    for mark in journal.marks:
        say(mark)
    problems = Problems()
    problems.add(journal.problems)
    entries = counted(journal.entries.values(), "reading results", say)
    read = [problems.attempt(partial(entry.whole, directory)) for entry in entries]
    if problems.found:
        again = f"python -m benchorch resume={shell_word(directory)}"
        problems.add([f"To measure again what that held: {again}"])
    problems.stop()
    return [result for result in read if result is not None]


def salvage(directory: Path, plan: Plan, say: Say) -> Iterator[TrialResult]:
    """Every intact result with its raw series; sets damaged lines aside and reports them.

    A trial whose line or series is damaged, edited or lost has no result, so that it runs again.
    """
    journal = read_journal(directory)
    for sentence in (*journal.problems, *journal.marks):
        say(sentence)
    _set_aside(journal.path, journal.damaged, say)
    for trial in plan.trials:
        path = run_directory.rounds_path(directory, trial.trial_id)
        bad = [line for line in _lines(path) if line.problem or not run_directory.is_round(line)]
        _set_aside(path, bad, say)
    for entry in counted(journal.entries.values(), "reading results", say):
        run_directory.settle_series(directory, entry.content, entry.result.trial_id)
        try:
            yield entry.whole(directory)
        except run_directory.SeriesError as error:
            _refuse(error, unfinished=entry.result.unfinished, say=say)


def _refuse(error: run_directory.SeriesError, *, unfinished: bool, say: Say) -> None:
    """Keep a refused series under another name, unless its trial goes on and replaces it."""
    if unfinished:
        return
    say(f"{error} Its trial runs again.")
    if error.path.exists():
        error.path.replace(error.path.with_suffix(".refused.jsonl"))


def _set_aside(path: Path, damaged: Sequence[chain.Line], say: Say) -> None:
    if not damaged:
        return
    aside = path.with_suffix(".damaged.jsonl")
    before = read_bytes(aside) if aside.exists() else b""
    write_bytes(aside, before + b"".join(line.raw + b"\n" for line in damaged))
    bad = {line.number for line in damaged}
    kept = [line.raw + b"\n" for line in _lines(path) if line.number not in bad]
    write_bytes(path, b"".join(kept))
    say(f"{plural(len(bad), 'damaged line')} set aside in {aside}; they are measured again.")


def _lines(path: Path) -> Iterable[chain.Line]:
    try:
        return list(chain.checked(run_directory.whole_lines(path)))
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}."]) from error


def _clock_marks(result: TrialResult) -> Sequence[str]:
    """A sentence where the clock was set back while a trial ran."""
    try:
        backwards = datetime.fromisoformat(result.ended_at) < datetime.fromisoformat(
            result.started_at
        )
    except (ValueError, TypeError):
        return []
    text = (
        f"Trial {result.trial_id} ended at {result.ended_at}, before it began at "
        f"{result.started_at}: the clock was set back. Durations come from another clock and hold; "
        "the dates do not."
    )
    return [text] if backwards else []


def _other_version(version: Json) -> str:
    return (
        f"written by another version of benchorch (schema {version}; this one reads "
        f"{SCHEMA_VERSION}): read it with that version, or measure again."
    )

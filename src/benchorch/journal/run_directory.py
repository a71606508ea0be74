"""An invocation's directory: the plan, one line a trial, and a folder for each.

::

    plan.json              trials, skips and settings
    results.jsonl          one `TrialResult` a line as soon as it ends, without the raw series
    table.md               the printed table
    driver.json            the coordinator's status: its process and the trials it runs
    driver.log             the coordinator's output, where `benchorch submit` started it
    trials/<trial_id>/     config.yaml, observations.jsonl, environment.json, parity.json, log.txt,
                           profile/, critical_path/; rounds.jsonl while it is being measured

Each line of ``rounds.jsonl`` has one process with its raw series, and the trial's result so far
without processes; resuming goes on from there.

Lines are appended with one write and an fsync each, so a crash loses at most the process
in flight; a torn last line is ignored by readers and cut off before the next append.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import Observations, Paired, ProcessRecord, TransferBreakdown
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.files import write_json, write_text
from benchorch.progress import Say, counted, silent

PLAN = "plan.json"
RESULTS = "results.jsonl"
TABLE = "table.md"
OBSERVATIONS = "observations.jsonl"
ROUNDS = "rounds.jsonl"
_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}", re.ASCII)


def trial_directory(directory: Path, trial_id: str) -> Path:
    """The folder of one trial, made if need be; ConfigError for an id that is no plain name."""
    _check_id(trial_id)
    path = directory / "trials" / trial_id
    path.mkdir(parents=True, exist_ok=True)
    return path


def _check_id(name: str) -> None:
    """A plan from elsewhere may name any folder of this machine as its trial's."""
    if not _ID.fullmatch(name):
        raise ConfigError([f"{name[:80]!r} is no id of a plan or a trial: letters, digits, . _ -."])


def write_plan(directory: Path, plan: Plan) -> None:
    """Store the plan; replaces an older one atomically."""
    write_json(directory / PLAN, encode(plan))


def read_plan(directory: Path) -> Plan:
    """The plan of an invocation; ConfigError if the directory holds none."""
    path = directory / PLAN
    try:
        plan = decode(Plan, json.loads(path.read_text()))
    except FileNotFoundError as error:
        raise ConfigError([f"{directory} is not a run's directory: it has no {PLAN}."]) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError([f"{path} is not a readable plan: {error}"]) from error
    if not isinstance(plan, Plan):
        raise ConfigError([f"{path} is not a plan."])
    for name in (plan.plan_id, *(trial.trial_id for trial in plan.trials)):
        _check_id(name)
    return plan


def append_result(directory: Path, result: TrialResult, extra: Mapping[str, Json]) -> None:
    """Make one result durable: its raw series first, then its line.

    Args:
        directory: the invocation's own.
        result: what was observed.
        extra: further keys of the line for programs, such as metrics; ignored on reading.
    """
    if result.processes:
        folder = trial_directory(directory, result.trial_id)
        series = [json.dumps(encode(_series_of(process))) for process in result.processes]
        write_text(folder / OBSERVATIONS, "".join(f"{line}\n" for line in series))
    line = encode(_without_series(result))
    assert isinstance(line, Mapping)
    append_line(directory / RESULTS, {**line, **extra})
    if not result.unfinished:
        rounds_path(directory, result.trial_id).unlink(missing_ok=True)


def append_round(directory: Path, result: TrialResult) -> None:
    """Make the processes of a trial that goes on durable, each of them once."""
    path = rounds_path(directory, result.trial_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    so_far = replace(result, processes=())
    for process in result.processes[count_lines(path) :]:
        line = encode(_Round(result=so_far, process=process))
        assert isinstance(line, Mapping)
        append_line(path, line)


def read_rounds(directory: Path, trial_id: str) -> TrialResult | None:
    """What was measured of a trial that has no finished result; None where nothing was."""
    rounds = [decode(_Round, line) for line in read_lines(rounds_path(directory, trial_id))]
    if not rounds:
        return None
    return replace(rounds[-1].result, processes=tuple(one.process for one in rounds))


def rounds_path(directory: Path, trial_id: str) -> Path:
    """The file of the processes of a trial that goes on."""
    return directory / "trials" / trial_id / ROUNDS


def read_results(directory: Path, say: Say = silent) -> list[TrialResult]:
    """Every result, raw series included; of several for one trial the last one counts.

    Args:
        directory: the invocation's own.
        say: receives progress where it takes longer than a moment.
    """
    results = {str(line["trial_id"]): line for line in read_lines(directory / RESULTS)}
    lines = counted(results.values(), "reading results", say)
    return [result_of(directory, line) for line in lines]


def result_of(directory: Path, line: Mapping[str, Json]) -> TrialResult:
    """The result of one line of `RESULTS`, raw series included."""
    return _with_series(directory, decode(TrialResult, line))


def series_path(directory: Path, trial_id: str) -> Path:
    """The file of a trial's raw series, a line for each process."""
    return directory / "trials" / trial_id / OBSERVATIONS


def count_lines(path: Path) -> int:
    """Number of whole lines of a file that may end in a torn one, or may not exist."""
    return sum(1 for _ in _whole_lines(path))


def append_line(path: Path, value: Mapping[str, Json]) -> None:
    """Add one JSON line durably, after cutting off a torn one."""
    data = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        end = _end_of_last_line(descriptor)
        os.ftruncate(descriptor, end)
        _write_all(descriptor, data, end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """Each whole JSON line of a file that may end in a torn one, or may not exist."""
    return map(json.loads, _whole_lines(path))


def _whole_lines(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    with path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One process of a trial that goes on, and the trial's result so far without processes."""

    result: TrialResult
    process: ProcessRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """The long series of a process, which are not in its line of `RESULTS`."""

    observations: Observations
    paired: Paired | None = None
    split: TransferBreakdown | None = None


def _series_of(process: ProcessRecord) -> _Series:
    return _Series(observations=process.observations, paired=process.paired, split=process.split)


def _series_in(line: Mapping[str, Json]) -> _Series:
    """One process's; until schema 1 a line held its observations and nothing else."""
    return decode(_Series, line if "observations" in line else {"observations": line})


def _without_series(result: TrialResult) -> TrialResult:
    short = [
        replace(process, observations=_emptied(process.observations), paired=None, split=None)
        for process in result.processes
    ]
    return replace(result, processes=tuple(short))


def _emptied(observed: Observations) -> Observations:
    return Observations(
        durations_ns=(),
        started_ns=(),
        calls_per_block=observed.calls_per_block,
        items_per_call=observed.items_per_call,
    )


def _with_series(directory: Path, result: TrialResult) -> TrialResult:
    path = series_path(directory, result.trial_id)
    series = [_series_in(line) for line in read_lines(path)]
    if len(series) != len(result.processes):
        return result
    processes = tuple(
        replace(process, observations=own.observations, paired=own.paired, split=own.split)
        for process, own in zip(result.processes, series, strict=True)
    )
    return replace(result, processes=processes)


def _end_of_last_line(descriptor: int) -> int:
    """Offset after the last whole line, reading back no further than needed."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write everything or leave the file as it was, as on a full disk."""
    try:
        written = 0
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], offset + written)
    except OSError:
        os.ftruncate(descriptor, offset)
        raise

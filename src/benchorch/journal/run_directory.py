"""An invocation's directory: the plan, one line a trial, and a folder for each.

::

    plan.json              trials, skips and settings
    results.jsonl          one `TrialResult` a line as soon as it ends, without the raw series
    table.md               the printed table
    winner.json            the fastest trial with its figures, once all trials have ended
    cost.json              what launched machines cost, and what was expected
    report.html            the page, written anew while the run goes on
    driver.json            the coordinator's status: its process and the trials it runs
    driver.log             the coordinator's output, where `benchorch submit` started it
    gate_failed.txt        what the pytest plugin's gate said of it, where it is worse: no baseline
    results.damaged.jsonl  lines that were damaged, set aside when the run went on
    trials/<trial_id>/     config.yaml, observations.jsonl, environment.json, parity.json, log.txt,
                           profile/, critical_path/; rounds.jsonl while it is being measured

Each line of ``rounds.jsonl`` has one process with its raw series, and the trial's result so far
without processes; resuming goes on from there, until a result is final.

Lines are appended with one write and an fsync, results that ended together with one for all of
them, so a crash loses at most what was in flight; a torn last line is ignored by readers and cut
off before the next append. Lines of results and rounds carry digests (`journal.chain`), and a
result's line that of its raw series. A series that takes another's place leaves that one beside it
until its line is durable.
"""

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import Observations, Paired, ProcessRecord, TransferBreakdown
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.errors import ConfigError
from benchorch.files import open_regular, read_bytes, read_json, write_bytes, write_json
from benchorch.journal import chain

PLAN = "plan.json"
RESULTS = "results.jsonl"
TABLE = "table.md"
WINNER = "winner.json"
COST = "cost.json"
GATE_FAILED = "gate_failed.txt"
OBSERVATIONS = "observations.jsonl"
ROUNDS = "rounds.jsonl"
_MOST_BYTES, _MOST_OF_A_LINE = 2**33, 2**28
_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}", re.ASCII)


SERIES_DIGEST = "series_digest"


class SeriesError(ConfigError):
    """A raw series that is lost or is not what was measured.

    Attributes:
        path: its file.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__([f"{path} {problem}."])


def trial_directory(directory: Path, trial_id: str) -> Path:
    """The folder of one trial, made if need be; ConfigError for an id that is no plain name."""
    check_id(trial_id)
    path = directory / "trials" / trial_id
    path.mkdir(parents=True, exist_ok=True)
    return path


def is_id(name: str) -> bool:
    """Whether a plan or a trial can be called so: a plain name, which folders and objects get."""
    return bool(_ID.fullmatch(name))


def check_id(name: str) -> None:
    """A plan from elsewhere may name any folder of this machine as its trial's."""
    if not is_id(name):
        raise ConfigError([f"{name[:80]!r} is no id of a plan or a trial: letters, digits, . _ -."])


def write_plan(directory: Path, plan: Plan) -> None:
    """Store the plan; replaces an older one atomically."""
    write_json(directory / PLAN, plan_content(plan))


def plan_content(plan: Plan) -> dict[str, Json]:
    """A plan as it is stored; trials and skips share the nodes that they share in the plan."""
    settings = cast("dict[str, Json]", encode(replace(plan, trials=(), skips=())))
    return settings | {"trials": _shallow(plan.trials), "skips": _shallow(plan.skips)}


def _shallow(cells: Iterable[Trial | Skip]) -> list[Json]:
    """Cells as they are encoded, their nodes uncopied."""
    return [{each.name: getattr(one, each.name) for each in fields(one)} for one in cells]


def read_plan(directory: Path) -> Plan:
    """The plan of an invocation; ConfigError if the directory holds none."""
    path = directory / PLAN
    try:
        plan = decode(Plan, read_json(path))
    except FileNotFoundError as error:
        raise ConfigError([f"{directory} is not a run's directory: it has no {PLAN}."]) from error
    except (OSError, *chain.UNREADABLE) as error:
        raise ConfigError([f"{path} is not a readable plan: {error}"]) from error
    if not isinstance(plan, Plan):
        raise ConfigError([f"{path} is not a plan."])
    for name in (plan.plan_id, *(trial.trial_id for trial in plan.trials)):
        check_id(name)
    return plan


def append_result(directory: Path, result: TrialResult, extra: Mapping[str, Json]) -> None:
    """Make one result durable; `append_results` has the arguments."""
    append_results(directory, [(result, extra)])


def append_results(
    directory: Path, results: Iterable[tuple[TrialResult, Mapping[str, Json]]]
) -> None:
    """Make results durable: the raw series first, then all lines with a single fsync.

    Where one cannot be written, or `results` raises, those before it are durable all the same.

    Args:
        directory: the invocation's own.
        results: what was observed, each with further keys of its line for programs, such as
            metrics; ignored on reading.
    """
    lines: list[Mapping[str, Json]] = []
    final = []
    try:
        for result, extra in results:
            lines.append(_with_series_stored(directory, result, extra))
            final += [result.trial_id] if result.is_final else []
    finally:
        if lines:
            _append(directory / RESULTS, lines, sealed=True)
    for line in lines:
        _earlier(series_path(directory, str(line["trial_id"]))).unlink(missing_ok=True)
    for trial_id in final:
        rounds_path(directory, trial_id).unlink(missing_ok=True)


def _with_series_stored(
    directory: Path, result: TrialResult, extra: Mapping[str, Json]
) -> Mapping[str, Json]:
    """A result's line, once its raw series is durable."""
    own: dict[str, Json] = {}
    if result.processes:
        path = trial_directory(directory, result.trial_id) / OBSERVATIONS
        series = [json.dumps(encode(_series_of(process))) for process in result.processes]
        content = "".join(f"{line}\n" for line in series).encode()
        if path.exists():
            path.replace(_earlier(path))
        write_bytes(path, content)
        own = {SERIES_DIGEST: chain.digest_of_bytes(content)}
    line = encode(_without_series(result))
    assert isinstance(line, Mapping)
    return {**line, **extra, **own}


def append_round(directory: Path, result: TrialResult) -> None:
    """Make the processes of a trial that goes on durable, each of them once."""
    path = rounds_path(directory, result.trial_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    so_far = replace(result, processes=())
    fresh = result.processes[count_lines(path) :]
    lines = [encode(_ProcessLine(result=so_far, process=process)) for process in fresh]
    if lines:
        _append(path, cast("list[Mapping[str, Json]]", lines), sealed=True)


def read_rounds(directory: Path, trial_id: str) -> TrialResult | None:
    """Measurements of a trial without a finished result; None without any."""
    lines = chain.checked(whole_lines(rounds_path(directory, trial_id)))
    rounds = [one for one in map(_round_of, lines) if one is not None]
    if not rounds:
        return None
    return replace(rounds[-1].result, processes=tuple(one.process for one in rounds))


def rounds_path(directory: Path, trial_id: str) -> Path:
    """The file of the processes of a trial that goes on."""
    return directory / "trials" / trial_id / ROUNDS


def is_round(line: chain.Line) -> bool:
    """Whether a line of `ROUNDS` can be read."""
    return _round_of(line) is not None


def series_path(directory: Path, trial_id: str) -> Path:
    """The file of a trial's raw series, a line for each process."""
    return directory / "trials" / trial_id / OBSERVATIONS


def with_series(directory: Path, line: Mapping[str, Json], result: TrialResult) -> TrialResult:
    """A result of `RESULTS` with its raw series; SeriesError where they are lost or were edited.

    Args:
        directory: the run's.
        line: the result's own, which has the digest of its series.
        result: what that line says.
    """
    if not result.processes:
        return result
    path = series_path(directory, result.trial_id)
    series = _read_series(path, line.get(SERIES_DIGEST))
    if len(series) != len(result.processes):
        problem = f"is damaged: it holds {len(series)} of {len(result.processes)} raw series"
        raise SeriesError(path, problem)
    processes = tuple(
        replace(process, observations=own.observations, paired=own.paired, split=own.split)
        for process, own in zip(result.processes, series, strict=True)
    )
    for process in processes:
        for found in process.contradictions():
            raise SeriesError(path, f"is damaged: it has {found}")
    return replace(result, processes=processes)


def settle_series(directory: Path, line: Mapping[str, Json], trial_id: str) -> None:
    """Put the series of a trial's line back where a later one came without a line of its own."""
    path = series_path(directory, trial_id)
    earlier = _earlier(path)
    if not earlier.exists():
        return
    try:
        _content(path, line.get(SERIES_DIGEST))
    except SeriesError:
        if _earlier_content(path, line.get(SERIES_DIGEST)) is not None:
            earlier.replace(path)
    else:
        earlier.unlink()


def count_lines(path: Path) -> int:
    """Number of whole lines of a file that may end in a torn one, or may not exist."""
    return sum(1 for _ in whole_lines(path))


def append_line(path: Path, value: Mapping[str, Json]) -> None:
    """Add one JSON line durably, after cutting off a torn one."""
    _append(path, [value], sealed=False)


def read_lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """Each JSON object of a list that can do without some; damaged and torn lines are left out."""
    for line in whole_lines(path):
        with contextlib.suppress(ValueError):
            yield chain.mapping_of(line)


def whole_lines(path: Path) -> Iterator[bytes]:
    """Each line without its newline; none where there is no file; a torn last one is left out.

    Raises:
        OSError: it is no file, or has more bytes than a run's.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {_MOST_BYTES >> 30} GiB", str(path))
        goes_on = False  # a line that is too long is cut, and so is damaged
        while part := file.readline(_MOST_OF_A_LINE):
            ends = part.endswith(b"\n")
            if not goes_on and (ends or len(part) == _MOST_OF_A_LINE):
                yield part.removesuffix(b"\n")
            goes_on = not ends


def _append(path: Path, values: Sequence[Mapping[str, Json]], *, sealed: bool) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        end = _end_of_last_line(descriptor, os.lseek(descriptor, 0, os.SEEK_END))
        os.ftruncate(descriptor, end)
        if sealed:
            start = _end_of_last_line(descriptor, max(0, end - 1))
            before = os.pread(descriptor, max(0, end - 1 - start), start)
            lines = chain.seal_all(values, before)
        else:
            lines = [json.dumps(value, separators=(",", ":")).encode() for value in values]
        _write_all(descriptor, b"".join(line + b"\n" for line in lines), end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessLine:
    """One process of a running trial, and the trial's result so far without processes."""

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
    """Series of one process; before schema 1 a line held only its observations."""
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


def _round_of(line: chain.Line) -> _ProcessLine | None:
    with contextlib.suppress(*chain.UNREADABLE):
        found = None if line.problem else decode(_ProcessLine, line.content)
        return None if found is None or any(found.process.contradictions()) else found
    return None


def _read_series(path: Path, digest: Json) -> list[_Series]:
    """The series of each process; those of earlier versions have no digest."""
    try:
        content = _content(path, digest)
    except SeriesError:
        earlier = _earlier_content(path, digest)
        if earlier is None:
            raise
        content = earlier
    try:
        return [_series_in(chain.mapping_of(line)) for line in content.split(b"\n")[:-1]]
    except chain.UNREADABLE as error:
        raise SeriesError(path, f"is damaged ({error})") from error


def _earlier(path: Path) -> Path:
    """Where a series stays until the line of the one in its place is durable."""
    return path.with_name(f".{path.name}.earlier")


def _earlier_content(path: Path, digest: Json) -> bytes | None:
    """The bytes of the series before, if those are what a line names."""
    with contextlib.suppress(SeriesError):
        return _content(_earlier(path), digest)
    return None


def _content(path: Path, digest: Json) -> bytes:
    try:
        content = read_bytes(path)
    except OSError as error:
        problem = f"cannot be read ({error.strerror}): its raw series is lost"
        raise SeriesError(path, problem) from error
    if digest is None and _earlier(path).exists():  # only lines of earlier versions have none
        raise SeriesError(path, "is of a later result, which has no line")
    if digest is not None and chain.digest_of_bytes(content) != digest:
        problem = "was changed after it was measured: the digest of its raw series differs"
        raise SeriesError(path, problem)
    return content


def _end_of_last_line(descriptor: int, end: int) -> int:
    """Offset after the last whole line before `end`, reading back no further than needed."""
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write everything, or the lines that fit whole, as on a full disk."""
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], offset + written)
    except OSError:
        os.ftruncate(descriptor, offset + data.rfind(b"\n", 0, written) + 1)
        raise

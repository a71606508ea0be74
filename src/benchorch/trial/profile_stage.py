"""The processes of a trial's profile, and what is left where one of them fails.

Nothing here fails a trial: what is missing is a sentence in its record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar, cast

from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure
from benchorch.domain.trial import ConfigNode
from benchorch.host.declared_peaks import beside, declared_peaks
from benchorch.host.peaks import known_peaks
from benchorch.interfaces.profiler import Profiler
from benchorch.trace.operators.roofline import Peaks
from benchorch.trial import stages
from benchorch.trial.stages import BuiltTrial, ProfileRequest, Stage, StageFailed

FOLDER = "profile"
"""Of a trial's folder, what a profiler wrote; the analysis has one beside it."""

Request = TypeVar("Request")
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeaksRequest:
    """Measure what this machine can do at best."""

    device: str
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """Find the critical path of a profile's trace.

    Attributes:
        folder: the trial's own.
    """

    folder: Path
    profile: ProfileRecord
    peaks: Peaks | None


PEAKS = Stage(name="peaks", request=PeaksRequest, reply=Peaks)
# Its partial reply is a whole one: drawing pages may end the process.
EXPLAIN = Stage(name="explain", request=ExplainRequest, reply=BottleneckVerdict)


class RunStage(Protocol):
    """Runs one stage in a process."""

    def __call__(
        self,
        stage: Stage[Request, Reply],
        request: Request,
        under: tuple[str, ...] = (),
        exit_s: float = 5.0,
    ) -> Reply:
        """Its reply; raises StageFailed."""
        ...


def profiled(
    trial: BuiltTrial,
    profiler: Profiler,
    *,
    profiler_node: ConfigNode,
    device: str,
    isolated: bool,
    folder: Path,
    run: RunStage,
) -> ProfileRecord | None:
    """A profile from one process, explained by another; None where none is requested.

    Args:
        profiler_node: the profiler's own, for the process that makes it anew.
        isolated: whether stages have processes, which is where a profiler may be put around one.
        folder: the trial's own.
    """
    if not type(profiler).wanted:
        return None
    directory = folder / FOLDER
    under = profiler.under(directory)
    reason = profiler.unavailable(device)
    if reason is None and under and not isolated:
        reason = f"{under[0]} starts the process that it records: executor=process"
    if reason is not None:
        return ProfileRecord(unavailable=reason)
    request = ProfileRequest(trial=trial, profiler=profiler_node, directory=directory)
    try:
        record = run(stages.PROFILE, request, under=under, exit_s=type(profiler).exit_s)
    except StageFailed as failed:
        return ProfileRecord(unavailable=f"not profiled: {_sentence(failed.failure)}")
    peaks = _peaks(trial, device, run)
    try:
        bottleneck = run(EXPLAIN, ExplainRequest(folder=folder, profile=record, peaks=peaks))
    except StageFailed as failed:
        # A page that cannot be drawn does not cost what the trace shows.
        partial = failed.partial if isinstance(failed.partial, BottleneckVerdict) else None
        sentence = f"not analysed: {_sentence(failed.failure)}"
        return replace(record, bottleneck=partial, unavailable=sentence)
    return replace(record, bottleneck=bottleneck)


def _peaks(trial: BuiltTrial, device: str, run: RunStage) -> Peaks | None:
    """What this machine can do at best: measured once, else by its data sheet, else None."""
    hardware = cast(ConfigNode, trial.spec["hardware"])
    declared = declared_peaks(hardware, device, trial.threads)
    measured = known_peaks(device, trial.threads)
    try:
        request = PeaksRequest(device=device, threads=trial.threads)
        return beside(measured or run(PEAKS, request), declared)
    except StageFailed:
        return declared


def _sentence(failure: Failure) -> str:
    remedy = f" (try: {failure.remedy})" if failure.remedy else ""
    return f"{failure.kind}: {failure.message}{remedy}"

"""Which processes does a trial's profile need, and what is left where one of them fails?

Nothing here fails a trial: what could not be had is a sentence in its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure
from benchorch.domain.trial import ConfigNode
from benchorch.host.declared_peaks import beside, declared_peaks
from benchorch.host.peaks import known_peaks
from benchorch.interfaces.profiler import Profiler
from benchorch.trace.operators.roofline import Peaks
from benchorch.trial.repetitions import StageFailed

FOLDER = "profile"
"""Of a trial's folder, what a profiler wrote; the analysis has one beside it."""


class Ask(Protocol):
    """Has a process do one stage."""

    def __call__(
        self, stage: str, request: ConfigNode, under: tuple[str, ...] = (), exit_s: float = 5.0
    ) -> Json:
        """Its answer; raises StageFailed."""
        ...


def profiled(
    request: ConfigNode,
    profiler: Profiler,
    *,
    device: str,
    isolated: bool,
    folder: Path,
    ask: Ask,
) -> ProfileRecord | None:
    """A profile in one process, then what it says in another; None where none is wanted.

    Args:
        request: what the trial's measuring processes were given.
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
    asked = {**request, "profile_dir": str(directory)}
    try:
        found = ask("profile", asked, under=under, exit_s=type(profiler).exit_s)
    except StageFailed as failed:
        return ProfileRecord(unavailable=f"not profiled: {_sentence(failed.failure)}")
    return _explained(decode(ProfileRecord, found), asked, device, ask)


def _explained(record: ProfileRecord, asked: ConfigNode, device: str, ask: Ask) -> ProfileRecord:
    """With what the trace says; a page that cannot be drawn takes none of it away."""
    peaks = _peaks(asked, device, ask)
    try:
        told = ask("explain", {**asked, "profile": encode(record), "peaks": peaks})
    except StageFailed as failed:
        seen = failed.seen if isinstance(failed.seen, Mapping) else {}
        record = replace(record, unavailable=f"not analysed: {_sentence(failed.failure)}")
        told = seen
    found = cast(ConfigNode, told).get("bottleneck")
    return replace(record, bottleneck=decode(BottleneckVerdict, found) if found else None)


def _peaks(asked: ConfigNode, device: str, ask: Ask) -> Json:
    """What this machine can do at best: measured once, else by its data sheet, else None."""
    threads = cast(int, asked["threads"])
    hardware = cast(ConfigNode, cast(ConfigNode, asked.get("spec") or {}).get("hardware") or {})
    declared = declared_peaks(hardware, device, threads)
    measured = known_peaks(device, threads)
    try:
        measured = measured or decode(Peaks, ask("peaks", asked))
    except StageFailed:
        return encode(declared)
    return encode(beside(measured, declared))


def _sentence(failure: Failure) -> str:
    remedy = f" (try: {failure.remedy})" if failure.remedy else ""
    return f"{failure.kind}: {failure.message}{remedy}"

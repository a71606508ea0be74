"""The processes of a trial's profile, and what is left where one of them fails.

Nothing here fails a trial: what is missing is a sentence in its record.
"""

from dataclasses import replace
from pathlib import Path

from benchorch.config.components import make
from benchorch.domain.profile import VOID_DILATION_RATIO, BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure
from benchorch.domain.trial import ConfigNode
from benchorch.interfaces.profiler import Profiler
from benchorch.trial import stages
from benchorch.trial.stage_runner import StageRunner
from benchorch.trial.stages import BuiltTrial, ExplainRequest, ProfileRequest, StageFailed

FOLDER = "profile"
"""Folder of a trial with the profiler's files; the analysis has another beside it."""


def profiled(
    trial: BuiltTrial,
    node: ConfigNode,
    *,
    device: str,
    isolated: bool,
    folder: Path,
    runner: StageRunner,
    template: str = "",
) -> ProfileRecord | None:
    """A profile from one process, explained by another; None where none is requested.

    Args:
        node: the profiler's own, of which the process makes it anew.
        isolated: whether stages have processes, which is where a profiler may be put around one.
        folder: the trial's own.
        template: the package whose template the process is forked from where nothing is put around
            it; empty for none.
    """
    profiler = make(node, Profiler, "profiler")
    if not type(profiler).wanted:
        return None
    directory = folder / FOLDER
    under = profiler.under(directory)
    reason = profiler.unavailable(device)
    if reason is None and under and not isolated:
        reason = f"{under[0]} starts the process that it records: executor=process"
    if reason is not None:
        return ProfileRecord(unavailable=reason)
    request = ProfileRequest(trial=trial, profiler=node, directory=directory)
    template, exit_s = "" if under else template, type(profiler).exit_s
    try:
        record = runner.run(stages.PROFILE, request, under, exit_s, template=template)
        if (record.dilation_ratio or 0.0) > VOID_DILATION_RATIO:
            # Something else ran meanwhile: the machine may be quiet now.
            again = runner.run(stages.PROFILE, request, under, exit_s, template=template)
            record = again if not again.unavailable else record
    except StageFailed as failed:
        return ProfileRecord(unavailable=f"not profiled: {_sentence(failed.failure)}")
    try:
        bottleneck = runner.run(stages.EXPLAIN, ExplainRequest(folder=folder, profile=record))
    except StageFailed as failed:
        # A page that cannot be drawn does not cost what the trace shows.
        partial = failed.partial if isinstance(failed.partial, BottleneckVerdict) else None
        sentence = f"not analysed: {_sentence(failed.failure)}"
        return replace(record, bottleneck=partial, unavailable=sentence)
    return replace(record, bottleneck=bottleneck)


def _sentence(failure: Failure) -> str:
    remedy = f" (try: {failure.remedy})" if failure.remedy else ""
    return f"{failure.kind}: {failure.message}{remedy}"

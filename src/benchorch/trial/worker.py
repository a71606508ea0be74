"""Stage of a trial in a child process; the parent is `stage_runner`.

The only file that catches every exception: a failure is a result with a class and a reason.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchorch.config.trial_setup import open_trial
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import EnergyRecord, Failure
from benchorch.domain.verdict import Verdict
from benchorch.errors import ConfigError, StoreError, TrialError, causes, text_of
from benchorch.host.processes import child_channel
from benchorch.models import trust
from benchorch.trial import measuring_process, stages
from benchorch.trial.stages import Built, Found, MeasureReply, Reporter, Stage

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

Answer = Callable[[Any, Reporter], object]

# By whom else: ONNX Runtime's arena, cuBLAS and cuDNN, torch's mmap of a file.
_OUT_OF_MEMORY = (
    *("outofmemory", "out of memory", "can't allocate memory", "bad_alloc", "bad alloc"),
    *("failed to allocate memory", "alloc_failed", "cannot allocate memory (12)"),
)
_LOG = "the traceback in the trial's log shows where"


def _measure(request: stages.MeasureRequest, report: Reporter) -> MeasureReply:
    reply, batches = _measure_alone(request, report)
    if request.baseline is None:
        return reply
    report.send_partial(reply)  # running beside the baseline may end this process
    say = report.send_message
    paired = measuring_process.measure_paired(request, request.baseline, batches, say)
    return replace(reply, process=replace(reply.process, paired=paired))


def _measure_alone(
    request: stages.MeasureRequest, report: Reporter
) -> tuple[MeasureReply, Sequence[Mapping[str, NDArray[generic]]]]:
    """Measurements of the candidate alone, and its inputs; nothing of it stays loaded."""
    say = report.send_message
    setup = open_trial(request.trial.spec)
    paired = request.baseline is not None
    loaded = measuring_process.load(
        request.trial, setup, say, cpus=request.cpus, comes_again=paired
    )
    with closing(loaded.executable):
        verdict, again = _verdict(request, loaded)
        record = measuring_process.observe(loaded, say, split=request.split, count=request.count)
        if verdict is not None:
            verdict = again(verdict)
    return MeasureReply(process=record, verdict=verdict), loaded.batches


def _verdict(
    request: stages.MeasureRequest, loaded: measuring_process.LoadedTrial
) -> tuple[Verdict | None, Callable[[Verdict], Verdict]]:
    """The first process's outputs against the reference's, and what the verdict is after timing."""
    if not request.verify:
        return None, lambda verdict: verdict
    from benchorch.trial.check import check, rechecked

    return check(request.trial, loaded), rechecked(request.trial, loaded)


def _energy(request: stages.BuiltTrial, report: Reporter) -> EnergyRecord:
    return measuring_process.energy(request, report.send_message)


# What only these need is imported in them: every measuring process would pay for it.


def _build(request: stages.BuildStageRequest, report: Reporter) -> Built | Found:
    from benchorch.config.components import make
    from benchorch.interfaces.store import Store
    from benchorch.trial.build import BuildJob

    setup = open_trial(request.spec).first(request.build_steps)
    job = BuildJob.of(request, setup, make(request.session.store, Store, "store"))
    if request.only_find:
        return Found(built=job.find(finds_out=True))
    return job.build(report.send_message)


def _profile(request: stages.ProfileRequest, report: Reporter) -> ProfileRecord:
    from benchorch.trial.profiling_process import profile

    return profile(request, report.send_message)


def _explain(request: stages.ExplainRequest, report: Reporter) -> BottleneckVerdict:
    from benchorch.trial.explain import explain

    return explain(request, report)


_ANSWERS: Mapping[Stage[Any, Any], Answer] = {
    stages.BUILD: _build,
    stages.MEASURE: _measure,
    stages.ENERGY: _energy,
    stages.PROFILE: _profile,
    stages.EXPLAIN: _explain,
}
_STAGES = {stage.name: stage for stage in _ANSWERS}


def failure_of(stage: str, error: BaseException) -> Failure:
    """An exception as a result: its class, one sentence, the next thing to try."""
    import traceback

    kind, remedy = _kind_of(error)
    lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    detail = "".join(traceback.format_exception(error))
    return Failure(stage=stage, kind=kind, message=message, remedy=remedy, detail=detail)


def _kind_of(error: BaseException) -> tuple[str, str]:
    if any(map(_is_out_of_memory, causes(error))):
        return "oom", "a smaller workload.batch_size, or a larger limits.memory_gib"
    for cause in causes(error):
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full", "free some space, or another store.root"
        if isinstance(cause, ModuleNotFoundError):
            from benchorch.host.packages import module_remedy

            return "missing_package", module_remedy(cause.name) if cause.name else _LOG
    if isinstance(error, TrialError):
        return error.kind, error.remedy or _LOG
    if isinstance(error, ConfigError):
        return "config", ""
    if isinstance(error, StoreError):
        return "store", "python -m benchorch cache list"
    return f"raised:{type(error).__name__}", _LOG


def _is_out_of_memory(error: BaseException) -> bool:
    text = f"{type(error).__name__}: {text_of(error)}".lower()
    is_sign = any(sign in text for sign in _OUT_OF_MEMORY)
    is_errno = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return is_sign or is_errno or isinstance(error, MemoryError)


def attempt(stage: str, make_request: Callable[[], object], report: Reporter) -> object | Failure:
    """The reply to a request, or why there is none."""
    try:
        return _ANSWERS[_STAGES[stage]](make_request(), report)
    except Exception as error:  # every failure is reported as a result
        sys.__excepthook__(type(error), error, error.__traceback__)
        return failure_of(stage, error)


def main() -> None:
    """Entry of a child process: one stage, named by the first argument."""
    child_channel.die_with_parent()
    child_channel.prefer_to_die()
    child_channel.show_where_it_hangs()
    trust.obey()
    parent = child_channel.Channel()
    stage = sys.argv[1]
    found = attempt(stage, lambda: child_channel.read_request(_STAGES[stage].request), parent)
    if isinstance(found, Failure):
        parent.send_failure(found)
    else:
        parent.send_reply(found)
    # Everything is reported and on disk; unloading libraries would only cost time.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

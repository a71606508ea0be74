"""One trial on the node where it is measured: build once, then fresh processes until enough.

`run_trial` supervises and stays light; `answer` is what a child process does for one stage.
The only file that catches every exception: a failure is a result with a class and a reason.
"""

from __future__ import annotations

import errno
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch import supervise
from benchorch.chain import Chain, open_chain
from benchorch.components import make
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import BuildRecord, Failure, Outcome, TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import Node, Trial
from benchorch.domain.verdict import Verdict
from benchorch.environment import describe_host, git_revision, package_versions, physical_cores
from benchorch.errors import ConfigError, StoreError, TrialError
from benchorch.interfaces.executor import Emit
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.interfaces.store import Store
from benchorch.journal import trial_directory
from benchorch.stages.build import build, module_of
from benchorch.stages.measure import measure
from benchorch.stages.verify import verify
from benchorch.units import ns_to_s

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

# Distinct inputs rotate through the calls, so that neither caches nor branch history replay one.
INPUT_SETS = 8
LOG = "log.txt"
_GIB = 1024**3
_OUT_OF_MEMORY = ("outofmemory", "out of memory", "can't allocate memory", "bad_alloc", "bad alloc")


def run_trial(
    trial: Trial, *, session: Session, attempt: int, isolated: bool, emit: Emit
) -> TrialResult:
    """What became of a trial; never raises for the trial's own faults."""
    started_at = _now()
    progress = _Progress(trial, session, isolated, emit)
    try:
        progress.run()
    except _StageFailed as failed:
        progress.failure = failed.failure
    except OSError as error:
        progress.failure = failure_of(progress.stage, error)
    return TrialResult(
        trial_id=trial.trial_id,
        labels=trial.labels,
        outcome=_outcome(progress.failure),
        failure=progress.failure,
        build=progress.build,
        parity=progress.parity,
        processes=tuple(progress.processes),
        stop_reason=progress.stop_reason,
        environment=_environment(session, progress.packages),
        stages_s=progress.stages_s,
        attempt=attempt,
        baseline_id=trial.baseline_id,
        started_at=started_at,
        ended_at=_now(),
    )


class _StageFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Progress:
    """What is known of one trial so far; whatever happens, this much is kept."""

    def __init__(self, trial: Trial, session: Session, isolated: bool, emit: Emit) -> None:
        self.stage = "build"
        self.failure: Failure | None = None
        self.build: BuildRecord | None = None
        self.parity: Verdict | None = None
        self.processes: list[ProcessRecord] = []
        self.stop_reason = ""
        self.stages_s: dict[str, float] = {}
        self.packages: Mapping[str, str] = {}
        self._trial = trial
        self._session = session
        self._isolated = isolated
        self._emit = emit

    def run(self) -> None:
        chain = _open(self._trial)
        self.packages = package_versions(chain.requires)
        threads = chain.hardware.threads or physical_cores()
        mismatch = chain.hardware.mismatch()
        if mismatch:
            raise _StageFailed(Failure(stage="schedule", kind="wrong_node", message=mismatch))
        request: dict[str, Json] = {
            "trial_id": self._trial.trial_id,
            "name": _artifact_name(self._trial),
            "spec": self._trial.spec,
            "session": encode(self._session),
            "threads": threads,
        }
        built = cast(Node, self._run_stage("build", request, chain, threads))
        self.build = decode(BuildRecord, built["record"])
        self._measure({**request, "built": built}, chain, threads)

    def _measure(self, request: Node, chain: Chain, threads: int) -> None:
        while True:
            index = len(self.processes)
            self._say("measure", f"process {index + 1}")
            asked = {**request, "verify": index == 0}
            reply = cast(Node, self._run_stage("measure", asked, chain, threads))
            if reply["verdict"] is not None:
                self.parity = decode(Verdict, reply["verdict"])
            self.processes.append(decode(ProcessRecord, reply["process"]))
            medians = [steady_median_ns(process) for process in self.processes]
            enough = chain.stopping.enough_processes(medians, self.stages_s["measure"])
            if enough:
                self.stop_reason = enough
                return

    def _run_stage(self, stage: str, request: Node, chain: Chain, threads: int) -> Json:
        self.stage = stage
        if not self._isolated:
            return self._run_here(stage, request)
        folder = trial_directory(self._session.directory, self._trial.trial_id)
        limits = cast(Node, self._trial.spec["limits"])
        memory_gib = cast(float | None, limits.get("memory_gib"))
        answered = supervise.run_child(
            stage,
            request,
            log=folder / LOG,
            limits=supervise.Limits(
                timeout_s=cast(float, limits[f"{stage}_timeout_s"]),
                memory_bytes=None if memory_gib is None else round(memory_gib * _GIB),
            ),
            environment=_child_environment(self._session, threads),
            on_event=self._on_event,
        )
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + answered.elapsed_s
        if answered.failure:
            raise _StageFailed(replace(answered.failure, stage=stage))
        return _with_elapsed(answered.reply, answered.elapsed_s)

    def _run_here(self, stage: str, request: Node) -> Json:
        started_s = time.monotonic()
        try:
            return answer(stage, request, self._on_event)
        except Exception as error:
            raise _StageFailed(failure_of(stage, error)) from error
        finally:
            spent_s = time.monotonic() - started_s
            self.stages_s[stage] = self.stages_s.get(stage, 0.0) + spent_s

    def _on_event(self, event: Json) -> None:
        message = str(cast(Node, event).get("message", ""))
        if self.stage == "measure":
            message = f"process {len(self.processes) + 1}: {message}"
        self._say(self.stage, message)

    def _say(self, stage: str, message: str) -> None:
        self._emit(Event(trial_id=self._trial.trial_id, stage=stage, message=message))


def answer(stage: str, request: Node, say: Callable[[dict[str, Json]], None]) -> Json:
    """Do one stage's work in this process."""

    def tell(message: str) -> None:
        say({"message": message})

    chain = open_chain(cast(Node, request["spec"]))
    return _STAGES[stage](request, chain, tell)


def _answer_build(request: Node, chain: Chain, say: Callable[[str], None]) -> Json:
    session = decode(Session, request["session"])
    built = build(
        chain,
        name=cast(str, request["name"]),
        store=make(session.store, Store, "store"),
        session=session,
        inputs=_parity_inputs(request),
        threads=cast(int, request["threads"]),
        say=say,
    )
    return encode(built)


def _answer_measure(request: Node, chain: Chain, say: Callable[[str], None]) -> Json:
    built = cast(Node, request["built"])
    clock = chain.hardware.clock()
    say("loading")
    before_load = clock.now_ns()
    executable = chain.runtime.load(_load_request(request, chain, built))
    batches = [chain.example(chain.workload.seed + i).arrays for i in range(INPUT_SETS)]
    first = executable.bind(batches[0])
    clock.drain()
    loaded = clock.now_ns()
    say("first call")
    first()
    clock.drain()
    called = clock.now_ns()
    verdict = _verdict(request, chain, executable, batches) if request["verify"] else None
    say("measuring")
    measured = measure(
        [first, *(executable.bind(batch) for batch in batches[1:])],
        hardware=chain.hardware,
        scenario=chain.scenario,
        stopping=chain.stopping,
        items_per_call=chain.workload.symbols.get("batch_size", 1),
    )
    record = ProcessRecord(
        load_s=ns_to_s(loaded - before_load),
        first_call_s=ns_to_s(called - loaded),
        observations=measured.observations,
        steady_from=measured.steady_from,
        calibration=measured.calibration,
        peak_rss_bytes=supervise.own_peak_rss_bytes(),
        facts=executable.facts(),
    )
    executable.close()
    return {"process": encode(record), "verdict": encode(verdict)}


_STAGES: Mapping[str, Callable[[Node, Chain, Callable[[str], None]], Json]] = {
    "build": _answer_build,
    "measure": _answer_measure,
}


def _load_request(request: Node, chain: Chain, built: Node) -> LoadRequest:
    source = cast(str | None, built["source"])
    return LoadRequest(
        module=module_of(chain),
        source=None if source is None else Path(source),
        example=chain.example(chain.workload.seed),
        device=type(chain.hardware).device,
        threads=cast(int, request["threads"]),
        scratch_dir=Path(cast(str, built["scratch"])),
    )


def _verdict(
    request: Node,
    chain: Chain,
    executable: Executable,
    batches: Sequence[Mapping[str, NDArray[generic]]],
) -> Verdict:
    """The outputs of a few inputs against the reference's; outside the timed region."""
    import numpy as np

    directory = Path(cast(str, cast(Node, request["built"])["reference"]))
    outputs, references = [], []
    for index in range(_parity_inputs(request)):
        batch = batches[index] if index < len(batches) else None
        arrays = batch or chain.example(chain.workload.seed + index).arrays
        outputs.append(executable.outputs(executable.bind(arrays)()))
        with np.load(directory / f"{index}.npz", allow_pickle=False) as saved:
            references.append({name: saved[name] for name in saved.files})
    return verify(outputs, references, chain.tolerance_ratio)


def steady_median_ns(process: ProcessRecord) -> float:
    """Median time of one call over the steady blocks, or over all where there are none."""
    observed = process.observations
    steady = observed.durations_ns[process.steady_from or 0 :]
    return statistics.median(steady) / observed.calls_per_block


def failure_of(stage: str, error: BaseException) -> Failure:
    """An exception as a result: its class, one sentence, the next thing to try."""
    kind, remedy = _kind_of(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    detail = "".join(traceback.format_exception(error))
    return Failure(stage=stage, kind=kind, message=message, remedy=remedy, detail=detail)


def _kind_of(error: BaseException) -> tuple[str, str]:
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        return "oom", "a smaller workload.batch_size, or a larger limits.memory_gib"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full", "free some space, or another store.root"
        if isinstance(cause, ModuleNotFoundError):
            return "missing_package", f"pip install {cause.name}"
    if isinstance(error, TrialError):
        return error.kind, error.remedy
    if isinstance(error, ConfigError):
        return "config", ""
    if isinstance(error, StoreError):
        return "store", "python -m benchorch cache list"
    return f"raised:{type(error).__name__}", "the traceback in the trial's log shows where"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def _outcome(failure: Failure | None) -> Outcome:
    if failure is None:
        return Outcome.OK
    return Outcome.TIMEOUT if failure.kind == "timeout" else Outcome.FAILED


def _open(trial: Trial) -> Chain:
    try:
        return open_chain(trial.spec)
    except ConfigError as error:
        raise _StageFailed(failure_of("schedule", error)) from error


def _artifact_name(trial: Trial) -> str:
    names = ("model", "workload", "conversion")
    return " ".join(trial.labels[name] for name in names if trial.labels.get(name))


def _parity_inputs(request: Node) -> int:
    spec = cast(Node, request["spec"])
    return cast(int, cast(Node, spec["parity"])["inputs"])


def _with_elapsed(reply: Json, elapsed_s: float) -> Json:
    if isinstance(reply, Mapping) and isinstance(reply.get("process"), Mapping):
        process = cast(Node, reply["process"])
        return {**reply, "process": {**process, "elapsed_s": elapsed_s}}
    return reply


def _environment(session: Session, packages: Mapping[str, str]) -> dict[str, Json]:
    """The machine, the packages, and the commit of the user's own code."""
    found: dict[str, Json] = {**describe_host(), "packages": dict(packages)}
    commit = git_revision(Path(session.search_path[0])) if session.search_path else None
    return found if commit is None else {**found, "git_commit": commit}


def _child_environment(session: Session, threads: int) -> dict[str, str]:
    """One number of threads for every library, and no library that calls home."""
    paths = (*session.search_path, os.environ.get("PYTHONPATH", ""))
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        **dict.fromkeys(counts, str(threads)),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def main() -> None:
    """Entry of a child process: one stage, named by the first argument."""
    supervise.die_with_parent()
    supervise.prefer_to_die()
    supervise.show_where_it_hangs()
    stage = sys.argv[1]
    channel = supervise.Channel()
    try:
        reply = answer(stage, cast(Node, supervise.read_request()), channel.send_event)
    except Exception as error:  # every failure is told as a result
        traceback.print_exc()
        channel.send_failure(failure_of(stage, error))
    else:
        channel.send_reply(reply)


if __name__ == "__main__":
    main()

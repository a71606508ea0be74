"""One trial on the node where it is measured: build once, then fresh processes until enough.

It stays light, for it shares the machine with what it measures; the work is done by children
that run `worker`, or in this process where an executor asks for no isolation.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from benchorch import supervise
from benchorch.chain import Chain, open_chain
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import BuildRecord, Failure, Outcome, TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import Node, Trial
from benchorch.domain.verdict import Verdict
from benchorch.environment import describe_host, git_revision, package_versions, physical_cores
from benchorch.errors import ConfigError
from benchorch.interfaces.executor import Emit
from benchorch.journal import trial_directory

LOG = "log.txt"
_GIB = 1024**3


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
        progress.failure = _failure_here(progress.stage, error)
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
        from benchorch.worker import attempt

        started_s = time.monotonic()
        found = attempt(stage, request, self._on_event)
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + time.monotonic() - started_s
        if isinstance(found, Failure):
            raise _StageFailed(found)
        return found

    def _on_event(self, event: Json) -> None:
        message = str(cast(Node, event).get("message", ""))
        if self.stage == "measure":
            message = f"process {len(self.processes) + 1}: {message}"
        self._say(self.stage, message)

    def _say(self, stage: str, message: str) -> None:
        self._emit(Event(trial_id=self._trial.trial_id, stage=stage, message=message))


def steady_median_ns(process: ProcessRecord) -> float:
    """Median time of one call over the steady blocks, or over all where there are none."""
    observed = process.observations
    steady = observed.durations_ns[process.steady_from or 0 :]
    return statistics.median(steady) / observed.calls_per_block


def _outcome(failure: Failure | None) -> Outcome:
    if failure is None:
        return Outcome.OK
    return Outcome.TIMEOUT if failure.kind == "timeout" else Outcome.FAILED


def _open(trial: Trial) -> Chain:
    try:
        return open_chain(trial.spec)
    except ConfigError as error:
        raise _StageFailed(_failure_here("schedule", error)) from error


def _failure_here(stage: str, error: Exception) -> Failure:
    from benchorch.worker import failure_of

    return failure_of(stage, error)


def _artifact_name(trial: Trial) -> str:
    names = ("model", "workload", "conversion")
    return " ".join(trial.labels[name] for name in names if trial.labels.get(name))


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

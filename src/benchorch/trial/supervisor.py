"""One trial on the node where it is measured: build once, then fresh processes until enough.

It stays light, for it shares the machine with what it measures; the work is done by children
that run `worker`, or in this process where an executor asks for no isolation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from benchorch.config.components import make
from benchorch.config.trial_setup import TrialSetup, open_trial, parity_inputs
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.protocol import Protocol
from benchorch.domain.result import (
    BuildRecord,
    EnergyRecord,
    Failure,
    ModelCounts,
    Outcome,
    TrialResult,
)
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError, StoreError
from benchorch.host.environment import describe_host, git_revision, package_versions, physical_cores
from benchorch.host.noise_grade import grade
from benchorch.host.processes import run_child
from benchorch.interfaces.executor import Emit
from benchorch.interfaces.profiler import Profiler
from benchorch.interfaces.store import Store
from benchorch.journal.run_directory import trial_directory
from benchorch.trial.build import find
from benchorch.trial.profile_stage import profiled
from benchorch.trial.repetitions import Baseline, Repetitions, StageFailed

LOG = "log.txt"
_GIB = 1024**3


def run_trial(
    trial: Trial, *, session: Session, attempt: int, isolated: bool, emit: Emit
) -> TrialResult:
    """What became of a trial; never raises for the trial's own faults."""
    started_at = _now()
    progress = _Progress(trial, session, isolated, emit)
    try:
        with progress.store.in_use():
            progress.run()
    except StageFailed as failed:
        progress.failure = failed.failure
    except (OSError, StoreError) as error:
        progress.failure = _failure_here(progress.stage, error)
    return TrialResult(
        trial_id=trial.trial_id,
        labels=trial.labels,
        outcome=_outcome(progress.failure),
        failure=progress.failure,
        environment=_environment(session, progress.packages),
        stages_s=progress.stages_s,
        attempt=attempt,
        baseline_id=trial.baseline_id,
        started_at=started_at,
        ended_at=_now(),
        **progress.found(),
    )


class _Progress:
    """What is known of one trial so far; whatever happens, this much is kept."""

    def __init__(self, trial: Trial, session: Session, isolated: bool, emit: Emit) -> None:
        self.stage = "build"
        self.failure: Failure | None = None
        self.stages_s: dict[str, float] = {}
        self.packages: Mapping[str, str] = {}
        self.store = make(session.store, Store, "store")
        self._build: BuildRecord | None = None
        self._counts: ModelCounts | None = None
        self._energy: EnergyRecord | None = None
        self._profile: ProfileRecord | None = None
        self._processes: Repetitions | None = None
        self._pairing = ""
        self._stop_reason = ""
        self._stop_alpha = 0.05
        self._delta_ratio = Protocol().delta_ratio
        self._grade = ""
        self._seen: Json = None
        self._trial = trial
        self._session = session
        self._isolated = isolated
        self._emit = emit

    def found(self) -> dict[str, Any]:
        """What was observed, by the names of `TrialResult`."""
        processes = self._processes
        return {
            "build": self._build,
            "parity": processes.parity if processes else None,
            "processes": tuple(processes.records) if processes else (),
            "pairing": self._pairing or (processes.pairing if processes else ""),
            "stop_reason": self._stop_reason,
            "stop_alpha": self._stop_alpha,
            "delta_ratio": self._delta_ratio,
            "grade": self._grade,
            "counts": self._counts,
            "energy": self._energy,
            "profile": self._profile,
        }

    def run(self) -> None:
        """Build, measure until enough, and then whatever else was asked for."""
        n_steps = self._trial.build_steps
        chain = _open(self._trial).first(n_steps)
        self.packages = package_versions(chain.requires)
        self._delta_ratio = chain.protocol.delta_ratio
        mismatch = chain.hardware.mismatch()
        if mismatch:
            raise StageFailed(Failure(stage="schedule", kind="wrong_node", message=mismatch))
        request: dict[str, Json] = {
            "trial_id": self._trial.trial_id,
            "name": _artifact_name(self._trial),
            "spec": self._trial.spec,
            "session": encode(self._session),
            "threads": chain.hardware.threads or physical_cores(),
            "pin": self._isolated and chain.protocol.pin,
            "build_steps": n_steps,
        }
        built = self._built(request, chain)
        self._build = decode(BuildRecord, built["record"])
        self._counts = decode(ModelCounts, built["counts"]) if built.get("counts") else None
        if n_steps is not None:
            return
        request["built"] = built
        self._measure(request, chain)
        if chain.protocol.energy_windows:
            self._energy = self._energy_record(request)
        self._profile = self._profile_record(request, chain)

    def _energy_record(self, request: ConfigNode) -> EnergyRecord:
        """What the energy stage found; where it fails, what was measured before it stands."""
        try:
            return decode(EnergyRecord, self._run_stage("energy", request))
        except StageFailed as failed:
            return EnergyRecord(unavailable=f"{failed.failure.kind}: {failed.failure.message}")

    def _profile_record(self, request: ConfigNode, chain: TrialSetup) -> ProfileRecord | None:
        """What a profiler saw, after everything was measured; None where none was asked for."""
        node = self._session.profiler
        if not node:
            return None
        return profiled(
            request,
            make(node, Profiler, "profiler"),
            device=type(chain.hardware).device,
            isolated=self._isolated,
            folder=trial_directory(self._session.directory, self._trial.trial_id),
            ask=self._run_stage,
        )

    def _measure(self, request: ConfigNode, chain: TrialSetup) -> None:
        self._processes = Repetitions(
            chain,
            request,
            self._rival(request, cast(ConfigNode, request["built"])),
            tolerance_ratio=lambda: self._tolerance_ratio(chain.protocol),
            ask=lambda asked: self._run_stage("measure", asked),
            say=lambda message: self._say("measure", message),
        )
        self._stop_reason = self._processes.run(lambda: self.stages_s["measure"])
        count = len(self._processes.valid)
        self._stop_alpha = chain.stopping.alpha(self._stop_reason, count)

    def _tolerance_ratio(self, protocol: Protocol) -> float | None:
        """What may be asked of this node's canaries; looks at the node the first time."""
        asked_ratio = protocol.canary_tolerance_ratio
        if asked_ratio is None:
            return None
        seen = grade()
        self._grade = seen.letter
        return seen.tolerance_ratio(asked_ratio)

    def _rival(self, request: ConfigNode, built: ConfigNode) -> Baseline | None:
        """The baseline, built; None where there is none, or where it cannot be built."""
        conversion = self._trial.baseline_conversion
        if conversion is None or self._trial.baseline_id is None:
            return None
        spec = {**self._trial.spec, "conversion": conversion}
        try:
            chain = open_trial(spec)
        except ConfigError as error:
            self._pairing = f"none: the baseline cannot be opened here ({error.problems[0]})"
            return None
        if chain.leaves_files:
            asked = {**request, "spec": spec, "name": f"{request['name']} baseline"}
            try:
                built = self._built(asked, chain)
            except StageFailed as failed:
                self._pairing = f"none: the baseline was not built ({failed.failure.kind})"
                return None
        else:
            built = {**built, "source": None, "sources": {}, "states": {}}
        return Baseline(trial_id=self._trial.baseline_id, spec=spec, built=built)

    def _built(self, request: ConfigNode, chain: TrialSetup) -> ConfigNode:
        """What the build stage answers; no process is started where the store has it all."""
        started_s = time.monotonic()
        found = find(
            chain,
            name=cast(str, request["name"]),
            store=self.store,
            session=self._session,
            inputs=parity_inputs(self._trial.spec),
            threads=cast(int, request["threads"]),
        )
        self._spent("build", time.monotonic() - started_s)
        return cast(ConfigNode, encode(found) if found else self._run_stage("build", request))

    def _run_stage(
        self, stage: str, request: ConfigNode, under: tuple[str, ...] = (), exit_s: float = 5.0
    ) -> Json:
        self.stage, self._seen = stage, None
        if not self._isolated:
            return self._run_here(stage, request)
        folder = trial_directory(self._session.directory, self._trial.trial_id)
        answered = run_child.run_child(
            stage,
            request,
            log=folder / LOG,
            limits=_limits(self._trial.spec, stage, exit_s),
            environment=_child_environment(self._session, cast(int, request["threads"])),
            on_event=self._on_event,
            under=under,
        )
        self._spent(stage, answered.elapsed_s)
        if answered.failure:
            failure = replace(answered.failure, stage=stage)
            raise StageFailed(failure, _with_elapsed(self._seen, answered.elapsed_s))
        return _with_elapsed(self._merged(answered.reply), answered.elapsed_s)

    def _run_here(self, stage: str, request: ConfigNode) -> Json:
        from benchorch.trial.worker import attempt

        started_s = time.monotonic()
        found = attempt(stage, request, self._on_event)
        self._spent(stage, time.monotonic() - started_s)
        if isinstance(found, Failure):
            raise StageFailed(found, self._seen)
        return self._merged(found)

    def _spent(self, stage: str, seconds: float) -> None:
        self.stages_s[stage] = self.stages_s.get(stage, 0.0) + seconds

    def _merged(self, reply: Json) -> Json:
        """The reply, with what was told before it."""
        seen = self._seen
        return {**seen, **cast(ConfigNode, reply)} if isinstance(seen, Mapping) else reply

    def _on_event(self, event: Json) -> None:
        told = cast(ConfigNode, event)
        if "seen" in told:
            self._seen = told["seen"]
        else:
            self._say(self.stage, str(told.get("message", "")))

    def _say(self, stage: str, message: str) -> None:
        if stage == "measure" and self._processes is not None:
            message = f"process {len(self._processes.records) + 1} {message}".rstrip()
        self._emit(Event(trial_id=self._trial.trial_id, stage=stage, message=message))


def _limits(spec: ConfigNode, stage: str, exit_s: float) -> run_child.Limits:
    """What a stage's child may use; what comes after measuring may use as much."""
    limits = cast(ConfigNode, spec["limits"])
    memory_gib = cast("float | None", limits.get("memory_gib"))
    kind = "build" if stage == "build" else "measure"
    return run_child.Limits(
        timeout_s=cast(float, limits[f"{kind}_timeout_s"]),
        memory_bytes=None if memory_gib is None else round(memory_gib * _GIB),
        exit_s=exit_s,
    )


def _outcome(failure: Failure | None) -> Outcome:
    if failure is None:
        return Outcome.OK
    return Outcome.TIMEOUT if failure.kind == "timeout" else Outcome.FAILED


def _open(trial: Trial) -> TrialSetup:
    try:
        return open_trial(trial.spec)
    except ConfigError as error:
        raise StageFailed(_failure_here("schedule", error)) from error


def _failure_here(stage: str, error: Exception) -> Failure:
    from benchorch.trial.worker import failure_of

    return failure_of(stage, error)


def _artifact_name(trial: Trial) -> str:
    names = ("model", "workload", "conversion")
    return " ".join(trial.labels[name] for name in names if trial.labels.get(name))


def _with_elapsed(reply: Json, elapsed_s: float) -> Json:
    if isinstance(reply, Mapping) and isinstance(reply.get("process"), Mapping):
        process = cast(ConfigNode, reply["process"])
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

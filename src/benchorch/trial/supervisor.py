"""One trial on the node where it is measured: build once, then fresh processes until enough.

It stays light, for it shares the machine with what it measures: its children do the work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchorch.config.components import make
from benchorch.config.parity_setup import parity_setup
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json
from benchorch.domain.execution import Execution
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.protocol import Protocol
from benchorch.domain.result import EnergyRecord, Failure, Outcome, TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError, StoreError
from benchorch.host.environment import describe_host, git_revision, package_versions, physical_cores
from benchorch.host.noise_grade import grade
from benchorch.interfaces.executor import Emit
from benchorch.interfaces.profiler import Profiler
from benchorch.interfaces.store import Store
from benchorch.journal.run_directory import trial_directory
from benchorch.trial import stages
from benchorch.trial.build import find
from benchorch.trial.execution import execution_of
from benchorch.trial.profile_stage import profiled
from benchorch.trial.repetitions import Repetitions, Turns
from benchorch.trial.stage_runner import LOG, StageRunner
from benchorch.trial.stages import (
    Baseline,
    BuildStageRequest,
    Built,
    BuiltTrial,
    MeasureReply,
    MeasureRequest,
    StageFailed,
)

__all__ = ["LOG", "run_trial"]


def run_trial(
    trial: Trial,
    *,
    session: Session,
    attempt: int,
    isolated: bool,
    emit: Emit,
    turns: Turns | None = None,
) -> TrialResult:
    """The result of a trial; never raises for the trial's own faults.

    Args:
        turns: who decides when its next process runs; None for its own stopping rule.
    """
    run = _TrialRun(trial, session, isolated=isolated, emit=emit, turns=turns)
    failure = run.attempt()
    return replace(run.result(), attempt=attempt, failure=failure, outcome=_outcome(failure))


class _TrialRun:
    """One trial on its way; whatever happens, what it found so far is kept."""

    def __init__(
        self,
        trial: Trial,
        session: Session,
        *,
        isolated: bool,
        emit: Emit,
        turns: Turns | None,
    ) -> None:
        self._trial = trial
        self._session = session
        self._isolated = isolated
        self._emit = emit
        self._turns = turns
        self._stages = StageRunner(trial, session, isolated=isolated, on_message=self._say)
        self._store = make(session.store, Store, "store")
        self._started_at = _now()
        self._packages: Mapping[str, str] = {}
        self._built: Built | None = None
        self._repetitions: Repetitions | None = None
        self._pairing = ""
        self._stop_reason = ""
        self._stop_alpha = 0.05
        self._stop_looks: tuple[int, ...] = ()
        self._delta_ratio = Protocol().delta_ratio
        self._grade = ""
        self._energy: EnergyRecord | None = None
        self._profile: ProfileRecord | None = None
        self._execution: Execution | None = None

    def attempt(self) -> Failure | None:
        """Run all stages; why the trial has no result, or None."""
        try:
            with self._store.in_use():
                self._run()
        except StageFailed as failed:
            return failed.failure
        except (OSError, StoreError) as error:
            return _failure_here(self._stages.stage, error)
        return None

    def result(self) -> TrialResult:
        """What was observed so far."""
        repetitions = self._repetitions
        return TrialResult(
            trial_id=self._trial.trial_id,
            labels=self._trial.labels,
            outcome=Outcome.OK,
            build=self._built.record if self._built else None,
            parity=repetitions.parity if repetitions else None,
            processes=tuple(repetitions.records) if repetitions else (),
            stop_reason=self._stop_reason,
            environment=_environment(self._session, self._packages),
            stages_s=self._stages.stages_s,
            baseline_id=self._trial.baseline_id,
            started_at=self._started_at,
            ended_at=_now(),
            stop_alpha=self._stop_alpha,
            stop_looks=self._stop_looks,
            delta_ratio=self._delta_ratio,
            grade=self._grade,
            pairing=self._pairing or (repetitions.pairing if repetitions else ""),
            counts=self._built.counts if self._built else None,
            energy=self._energy,
            profile=self._profile,
            execution=self._execution,
        )

    def _run(self) -> None:
        """Build, measure until enough, and then whatever else was requested."""
        trial, n_steps = self._trial, self._trial.build_steps
        setup = _open(trial).first(n_steps)
        self._packages = package_versions(setup.requires)
        self._delta_ratio = setup.protocol.delta_ratio
        mismatch = setup.hardware.mismatch()
        if mismatch:
            raise StageFailed(Failure(stage="schedule", kind="wrong_node", message=mismatch))
        threads = self._stages.threads = setup.hardware.threads or physical_cores()
        name = _artifact_name(trial)
        self._built = self._build(setup, trial.spec, name)
        if n_steps is not None:
            return
        built = BuiltTrial(
            spec=trial.spec,
            built=self._built,
            threads=threads,
            pin=self._isolated and setup.protocol.pin,
        )
        self._repetitions = Repetitions(
            setup,
            built,
            self._baseline(built, name),
            candidates=trial.candidates,
            control=trial.control,
            tolerance_ratio=lambda: self._tolerance_ratio(setup.protocol),
            measure=self._measure,
            say=lambda message: self._say("measure", message),
            turns=self._turns,
        )
        self._stop_reason = self._repetitions.run(lambda: self._stages.stages_s["measure"])
        self._execution = execution_of(setup, self._repetitions.records[-1].facts)
        self._stop_alpha = setup.stopping.alpha(self._stop_reason)
        self._stop_looks = setup.stopping.planned_looks()
        if setup.protocol.energy_windows:
            self._energy = self._measure_energy(built)
        if self._session.profiler:
            self._profile = profiled(
                built,
                make(self._session.profiler, Profiler, "profiler"),
                profiler_node=self._session.profiler,
                device=type(setup.hardware).device,
                isolated=self._isolated,
                folder=trial_directory(self._session.directory, trial.trial_id),
                run=self._stages.run,
            )

    def _build(self, setup: TrialSetup, spec: ConfigNode, name: str) -> Built:
        """The trial's artifacts; no process is started where the store has all of them."""
        started_s = time.monotonic()
        threads = self._stages.threads
        found = find(
            setup,
            name=name,
            store=self._store,
            session=self._session,
            inputs=parity_setup(self._trial.spec).inputs,
            data=parity_setup(self._trial.spec).data,
            threads=threads,
        )
        self._stages.add_time("build", time.monotonic() - started_s)
        return found or self._stages.run(
            stages.BUILD,
            BuildStageRequest(
                spec=spec,
                name=name,
                session=self._session,
                threads=threads,
                build_steps=self._trial.build_steps,
            ),
        )

    def _baseline(self, candidate: BuiltTrial, name: str) -> Baseline | None:
        """The baseline, built; None where there is none, or where it cannot be built.

        A control's is itself.
        """
        if self._trial.control:
            return Baseline(trial_id=self._trial.trial_id, trial=candidate)
        conversion = self._trial.baseline_conversion
        if conversion is None or self._trial.baseline_id is None:
            return None
        spec = {**self._trial.spec, "conversion": conversion}
        try:
            setup = open_trial(spec)
        except ConfigError as error:
            self._pairing = f"none: the baseline cannot be opened here ({error.problems[0]})"
            return None
        built = replace(candidate.built, source=None, sources={}, states={})
        if setup.leaves_files:
            try:
                built = self._build(setup, spec, f"{name} baseline")
            except StageFailed as failed:
                self._pairing = f"none: the baseline was not built ({failed.failure.kind})"
                return None
        trial = replace(candidate, spec=spec, built=built)
        return Baseline(trial_id=self._trial.baseline_id, trial=trial)

    def _tolerance_ratio(self, protocol: Protocol) -> float | None:
        """The tolerance for this node's reference workload; grades the node the first time."""
        requested_ratio = protocol.canary_tolerance_ratio
        if requested_ratio is None:
            return None
        found = grade()
        self._grade = found.letter
        return found.tolerance_ratio(requested_ratio)

    def _measure(self, request: MeasureRequest) -> MeasureReply:
        """One process's reply with its wall time, which only its parent can measure."""
        try:
            return self._timed(self._stages.run(stages.MEASURE, request))
        except StageFailed as failed:
            if isinstance(failed.partial, MeasureReply):
                failed.partial = self._timed(failed.partial)
            raise

    def _timed(self, reply: MeasureReply) -> MeasureReply:
        return replace(reply, process=replace(reply.process, elapsed_s=self._stages.elapsed_s))

    def _measure_energy(self, built: BuiltTrial) -> EnergyRecord:
        """What the energy stage found; where it fails, what was measured before it stands."""
        try:
            return self._stages.run(stages.ENERGY, built)
        except StageFailed as failed:
            return EnergyRecord(unavailable=f"{failed.failure.kind}: {failed.failure.message}")

    def _say(self, stage: str, message: str) -> None:
        if stage == "measure" and self._repetitions is not None:
            message = f"process {len(self._repetitions.records) + 1} {message}".rstrip()
        self._emit(Event(trial_id=self._trial.trial_id, stage=stage, message=message))


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


def _environment(session: Session, packages: Mapping[str, str]) -> dict[str, Json]:
    """The machine, the packages, and the commit of the user's own code."""
    found: dict[str, Json] = {**describe_host(), "packages": dict(packages)}
    commit = git_revision(Path(session.search_path[0])) if session.search_path else None
    return found if commit is None else {**found, "git_commit": commit}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""Supervision of one trial on its node: one build, then fresh processes until enough.

It stays light, for it shares the machine with what it measures: its children do the work.
`rounds` takes several trials through these steps in turn.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from benchorch.config.components import make
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json
from benchorch.domain.execution import Execution
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.protocol import Protocol
from benchorch.domain.result import EnergyRecord, Failure, Outcome, TrialResult
from benchorch.domain.session import AGAIN, Event, Session
from benchorch.domain.spending import BUDGET_REACHED
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError, StoreError
from benchorch.files import digest_once
from benchorch.formatting import interval_text
from benchorch.host.environment import describe_host, git_revision, package_versions, physical_cores
from benchorch.host.noise_grade import Grade, grade
from benchorch.interfaces.executor import Emit
from benchorch.interfaces.store import Store
from benchorch.journal.run_directory import rounds_path, trial_directory
from benchorch.models.trust import own_files
from benchorch.trial import stages
from benchorch.trial.build import BuildJob
from benchorch.trial.execution import execution_of
from benchorch.trial.profile_stage import profiled
from benchorch.trial.repetitions import Repetitions
from benchorch.trial.stage_runner import LOG, StageRunner, out_of_budget
from benchorch.trial.stages import (
    Baseline,
    BuildStageRequest,
    Built,
    BuiltTrial,
    MeasureReply,
    MeasureRequest,
    StageFailed,
)
from benchorch.trial.templates import Templates, template_for

__all__ = ["LOG", "OutOfTime", "TimeBudget", "TrialRun", "run_trial"]


FIRST_PROCESS_S = 60.0
"""The first process of a baseline may take so long although the budget has ended."""

SPARE_S = 5.0
"""A build or a process that began in time may exceed the budget by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBudget:
    """Time after which no more processes are added.

    Attributes:
        ends_s: on the monotonic clock.
        sure: processes that each trial has although the budget has ended.
        is_strict: whether nothing begins later, and what lasts longer is ended.
    """

    ends_s: float
    sure: int
    is_strict: bool

    @property
    def is_over(self) -> bool:
        """Whether what adds to an answer does not begin any more."""
        return self.is_strict and time.monotonic() >= self.ends_s


class OutOfTime(Exception):
    """End of the budget during a process; earlier measurements stay."""


def run_trial(
    trial: Trial,
    *,
    session: Session,
    attempt: int,
    isolated: bool,
    emit: Emit,
    templates: Templates | None = None,
) -> TrialResult:
    """The result of a trial; never raises for the trial's own faults."""
    run = TrialRun(trial, session, isolated=isolated, emit=emit, templates=templates)
    with run.using_store():
        run.start()
        while run.needs_more():
            run.repeat()
        run.end(profile=True)
    return replace(run.result(), attempt=attempt)


class TrialRun:
    """Running trial, whose findings so far are always kept.

    No method raises for the trial's own faults: after one there is a `failure`, and no more is
    needed.

    Args:
        earlier: what an interrupted run measured of this trial, or None.
        budget: when no more processes are added, or None.
        templates: fork its processes where that is allowed, or None.

    Attributes:
        failure: why the trial has no result, or None.
        stop_reason: why no process is added; empty while it is being measured.
    """

    def __init__(
        self,
        trial: Trial,
        session: Session,
        *,
        isolated: bool,
        emit: Emit,
        earlier: TrialResult | None = None,
        budget: TimeBudget | None = None,
        templates: Templates | None = None,
    ) -> None:
        self.trial = trial
        self.failure: Failure | None = None
        self.stop_reason = ""
        self._session = session
        self._isolated = isolated
        self._emit = emit
        self._stages = StageRunner(
            trial, session, isolated=isolated, on_message=self._say, templates=templates
        )
        self._budget = budget
        self._store = make(session.store, Store, "store")
        self._earlier = earlier
        self._started_at = earlier.started_at if earlier else _now()
        self._packages: Mapping[str, str] = {}
        self._files: Mapping[str, str] = {}
        self._environment: Mapping[str, Json] = {}
        self._setup: TrialSetup | None = None
        self._built: Built | None = None
        self._repetitions: Repetitions | None = None
        self._pairing = ""
        self._repetition_s = 0.0
        self._stop_looks: tuple[int, ...] = ()
        self._delta_ratio = Protocol().delta_ratio
        self._grade = earlier.grade if earlier else ""
        self._energy: EnergyRecord | None = None
        self._profile: ProfileRecord | None = None
        self._execution: Execution | None = None
        if earlier:
            self._stages.stages_s.update(earlier.stages_s)

    @property
    def setup(self) -> TrialSetup:
        """Objects of the trial, once it has started."""
        assert self._setup is not None  # only asked for after `start`
        return self._setup

    @property
    def repetitions(self) -> Repetitions:
        """Processes of the trial, once it is built."""
        assert self._repetitions is not None  # only asked for after `start`
        return self._repetitions

    @property
    def parameter_bytes(self) -> int:
        """Size of the model's parameters; 0 before it is built."""
        return self._built.counts.parameter_bytes if self._built else 0

    @property
    def is_judged_in_table(self) -> bool:
        """Whether all trials of its table are decided together.

        A candidate may then be open again, and a baseline gets the processes beside the others.
        """
        return self.setup.stopping.table_terms(self.setup.protocol.delta_ratio) is not None

    @contextlib.contextmanager
    def using_store(self) -> Iterator[None]:
        """Context in which store entries of this process and its children are not evicted."""
        with contextlib.ExitStack() as stack:
            with self._failing():
                stack.enter_context(self._store.in_use())
            yield

    def start(self) -> None:
        """Build what is not built."""
        if self.failure is None:
            with self._failing():
                self._stages.deadline_s = self._deadline_s()
                self._start()

    def needs_more(self) -> bool:
        """Whether its own stopping rule needs a further process; notes the reason if not."""
        if self.failure is None and not self.stop_reason and self._repetitions is not None:
            self.stop_reason = self._repetitions.enough(self.measured_s) or ""
        return self.failure is None and not self.stop_reason and self._repetitions is not None

    def repeat(self, cpus: tuple[int, ...] = (), baseline: TrialRun | None = None) -> None:
        """Measure in one more process; OutOfTime where the budget ends it.

        Args:
            cpus: its processors; empty to choose.
            baseline: its baseline's own trial, if that is measured in the same rounds.
        """
        with self._failing():
            first = not self.repetitions.valid
            if not first:
                self._grade_machine()  # once its first figure is out
            self._stages.deadline_s = self._deadline_s(first=first)
            own = baseline._repetitions if baseline else None
            # Its first process is checked and starts afresh, and so comes from its own trial.
            before_s, was_paired = self.measured_s, self.repetitions.is_paired
            try:
                self.repetitions.add(cpus, own.with_control if own and own.valid else None)
            except StageFailed as failed:
                if first or failed.failure.kind != BUDGET_REACHED:
                    raise
                raise OutOfTime from failed
            is_alike = self.repetitions.is_paired == was_paired  # else no baseline's is beside it
            self._repetition_s = self.measured_s - before_s if is_alike else 0.0

    def end(self, *, profile: bool) -> None:
        """Do what comes after the last process, and what else was requested."""
        if self.failure is None and self._repetitions is not None:
            with self._failing():
                self._end(profile)

    @property
    def measured_s(self) -> float:
        """Seconds that its measuring processes took so far."""
        return self._stages.stages_s.get("measure", 0.0)

    def result(self, *, unfinished: bool = False) -> TrialResult:
        """Observations so far; those of an interrupted run where this one could add none."""
        repetitions = self._repetitions
        if self._earlier is not None and self.failure is not None and repetitions is None:
            return self._earlier_with_failure()
        return TrialResult(
            trial_id=self.trial.trial_id,
            labels=self.trial.labels,
            outcome=_outcome(self.failure),
            failure=self.failure,
            build=self._built.record if self._built else None,
            parity=repetitions.parity if repetitions else None,
            processes=tuple(repetitions.records) if repetitions else (),
            stop_reason=self.stop_reason,
            environment=self._environment_now(unfinished),
            stages_s=dict(self._stages.stages_s),
            baseline_id=self.trial.baseline_id,
            started_at=self._started_at,
            ended_at=_now(),
            stop_looks=self._stop_looks,
            delta_ratio=self._delta_ratio,
            grade=self._grade,
            pairing=self._pairing or (repetitions.pairing if repetitions else ""),
            counts=self._built.counts if self._built else None,
            energy=self._energy,
            profile=self._profile,
            execution=self._execution,
            unfinished=unfinished,
            all_count=repetitions is not None and repetitions.all_count,
        )

    def _earlier_with_failure(self) -> TrialResult:
        """What an interrupted run measured, and why this one did not get that far."""
        assert self._earlier is not None  # it is asked for where there is one
        return replace(
            self._earlier,
            outcome=_outcome(self.failure),
            failure=self.failure,
            stop_reason="",
            stages_s=dict(self._stages.stages_s),
            ended_at=_now(),
            unfinished=False,
        )

    def is_affordable(self) -> bool:
        """Whether the budget has time for a process as long as the last one.

        With one of the baseline back to back it is both; of those before a resume, and where the
        baseline has just failed, its own alone.
        """
        processes = self.repetitions.valid
        if self._budget is None or len(processes) < self._budget.sure:
            return True
        next_s = self._repetition_s or processes[-1].elapsed_s
        return time.monotonic() + next_s < self._budget.ends_s

    @property
    def processes_left(self) -> float:
        """How many more processes as long as those so far the budget has time for."""
        count = len(self.repetitions.valid)
        if self._budget is None or not count or not self.measured_s:
            return math.inf
        return max(0.0, self._budget.ends_s - time.monotonic()) / (self.measured_s / count)

    def _deadline_s(self, *, first: bool = False) -> float | None:
        """Latest end of what begins now; None for the limits of its stage.

        Without the first process of a baseline there would be no answer at all. Raises StageFailed
        where nothing of this trial may begin any more.
        """
        if self._budget is None or not self._budget.is_strict:
            return None
        latest_s, now_s = self._budget.ends_s + SPARE_S, time.monotonic()
        if first and self.trial.baseline_id is None:
            return max(latest_s, now_s + FIRST_PROCESS_S)
        if now_s >= self._budget.ends_s and not (self._repetitions and self._repetitions.valid):
            raise StageFailed(out_of_budget("schedule", "before this trial was measured"))
        return latest_s

    def _environment_now(self, unfinished: bool) -> Mapping[str, Json]:
        """Environment of the trial; read again for the finished result only: it takes a moment."""
        if not unfinished or not self._environment:
            self._environment = _environment(self._session, self._packages, self._files)
        return self._environment

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn a failure of the trial into its result."""
        try:
            yield
        except StageFailed as failed:
            self.failure = failed.failure
        except (OSError, StoreError) as error:
            self.failure = _failure_here(self._stages.stage, error)

    def _start(self) -> None:
        trial, n_steps = self.trial, self.trial.build_steps
        setup = self._setup = _open(trial).first(n_steps)
        self._packages = package_versions(setup.requires)
        self._files = {name: digest_once(at) for name, at in own_files([trial]).items()}
        self._delta_ratio = setup.protocol.delta_ratio
        self._stop_looks = setup.stopping.planned_looks()
        mismatch = setup.hardware.mismatch()
        if mismatch:
            raise StageFailed(Failure(stage="schedule", kind="wrong_node", message=mismatch))
        self._stages.schedules_s = setup.scenario.schedules_s
        threads = self._stages.threads = setup.hardware.threads or physical_cores()
        name = _artifact_name(trial)
        self._built = self._build(setup, trial.spec, name)
        if n_steps is not None:
            return
        earlier = self._earlier
        if earlier and earlier.build and not earlier.build.is_same(self._built.record):
            self._begin_again(earlier)
        self._repetitions = Repetitions(
            setup,
            self._built_trial(threads),
            self._baseline(self._built_trial(threads), name),
            candidates=trial.candidates,
            control=trial.is_control,
            tolerance_ratio=self._tolerance_ratio,
            measure=self._measure,
            say=lambda message: self._say("measure", message),
            earlier=self._earlier,
        )

    def _begin_again(self, earlier: TrialResult) -> None:
        """Leave out what was measured, and compared, of another build or another model."""
        self._earlier, self._started_at, self._grade = None, _now(), ""
        for stage, seconds in earlier.stages_s.items():
            self._stages.add_time(stage, -seconds)
        rounds_path(self._session.directory, self.trial.trial_id).unlink(missing_ok=True)
        message = "as its earlier processes ran another build or another model"
        self._emit(Event(trial_id=self.trial.trial_id, stage=AGAIN, message=message))

    def _built_trial(self, threads: int) -> BuiltTrial:
        assert self._built is not None  # it is built
        pin = self._isolated and self.setup.protocol.pin
        return BuiltTrial(spec=self.trial.spec, built=self._built, threads=threads, pin=pin)

    def _end(self, profile: bool) -> None:
        setup, built = self.setup, self._built_trial(self._stages.threads)
        self._grade_machine()
        self._execution = execution_of(setup, self.repetitions.valid[0].facts)
        if self._budget is not None and self._budget.is_over:
            left_out = "budget.minutes had ended"
            if setup.protocol.energy_windows:
                self._energy = EnergyRecord(unavailable=left_out)
            if profile and self._session.profiler:
                self._profile = ProfileRecord(unavailable=f"not profiled: {left_out}")
            return
        if setup.protocol.energy_windows:
            self._energy = self._measure_energy(built)
        if profile and self._session.profiler:
            self._profile = profiled(
                built,
                self._session.profiler,
                device=type(setup.hardware).device,
                isolated=self._isolated,
                folder=trial_directory(self._session.directory, self.trial.trial_id),
                runner=self._stages,
                template=template_for(setup, setup.runtime.requires),
            )

    def _build(self, setup: TrialSetup, spec: ConfigNode, name: str) -> Built:
        """The trial's artifacts; nothing is loaded where the store has all of them."""
        started_s = time.monotonic()
        request = BuildStageRequest(
            spec=spec,
            name=name,
            session=self._session,
            threads=self._stages.threads,
            build_steps=self.trial.build_steps,
        )
        found = BuildJob.of(request, setup, self._store).find()
        self._stages.add_time("build", time.monotonic() - started_s)
        template = template_for(setup, setup.requires)
        if not found and template and not self._stages.has_template(template):
            # What runs imports more than finding takes.
            found = self._stages.run(stages.FIND, replace(request, only_find=True)).built
        return found or self._stages.run(stages.BUILD, request, template=template)

    def _baseline(self, candidate: BuiltTrial, name: str) -> Baseline | None:
        """The baseline, built; None where there is none, or where it cannot be built.

        A control's is itself.
        """
        if self.trial.is_control:
            return Baseline(trial_id=self.trial.trial_id, trial=candidate)
        conversion = self.trial.baseline_conversion
        if conversion is None or self.trial.baseline_id is None:
            return None
        spec = {**self.trial.spec, "conversion": conversion}
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
                if failed.failure.kind != BUDGET_REACHED:  # then it is built when the trial goes on
                    self._pairing = f"none: the baseline was not built ({failed.failure.kind})"
                return None
        trial = replace(candidate, spec=spec, built=built)
        return Baseline(trial_id=self.trial.baseline_id, trial=trial)

    def _grade_machine(self) -> Grade | None:
        """The node's grade, noted and found out once; None without reference workloads."""
        if self.setup.protocol.canary_tolerance_ratio is None:
            return None
        found = grade()
        self._grade = found.letter
        return found

    def _tolerance_ratio(self) -> float | None:
        """The tolerance for this node's reference workload."""
        requested_ratio, found = self.setup.protocol.canary_tolerance_ratio, self._grade_machine()
        if requested_ratio is None or found is None:
            return None
        return found.tolerance_ratio(requested_ratio)

    def _measure(self, request: MeasureRequest) -> MeasureReply:
        """Reply of one process, whose failure may leave a part of it."""
        try:
            reply = self._noted(
                self._stages.run(stages.MEASURE, request, template=request.template)
            )
        except StageFailed as failed:
            if isinstance(failed.partial, MeasureReply):
                failed.partial = self._noted(failed.partial)
            raise
        if reply.verdict is not None:
            self._say("measure", _first_estimate(reply.process))
        return reply

    def _noted(self, reply: MeasureReply) -> MeasureReply:
        """The reply with the facts of its parent."""
        ran = self._stages
        known = replace(reply.process, elapsed_s=ran.elapsed_s, forked=ran.forked)
        return replace(reply, process=known)

    def _measure_energy(self, built: BuiltTrial) -> EnergyRecord:
        """Result of the energy stage; its failure does not affect earlier measurements."""
        try:
            return self._stages.run(stages.ENERGY, built)
        except StageFailed as failed:
            return EnergyRecord(unavailable=f"{failed.failure.kind}: {failed.failure.message}")

    def _say(self, stage: str, message: str) -> None:
        if stage == "measure" and self._repetitions is not None:
            message = f"process {len(self._repetitions.records) + 1} {message}".rstrip()
        self._emit(Event(trial_id=self.trial.trial_id, stage=stage, message=message))


def _first_estimate(record: ProcessRecord) -> str:
    """The first process's median, long before all processes have run.

    Its interval needs SciPy, whose import would take as long as all else of a small ONNX process.
    """
    from benchorch.results.metrics.single_process import provisional

    estimate = provisional(record)
    return f"p50 {interval_text(estimate)} ms so far" if estimate else "measured"


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


def _environment(
    session: Session, packages: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, Json]:
    """The machine, the packages, and the user's own code: its commit, SHA-256 of its files."""
    found: dict[str, Json] = {**describe_host(), "packages": dict(packages)}
    found |= {"files": dict(files)} if files else {}
    commit = git_revision(Path(session.search_path[0])) if session.search_path else None
    return found if commit is None else {**found, "git_commit": commit}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

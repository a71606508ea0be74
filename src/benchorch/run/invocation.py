"""One invocation from cells to a table: plan, run, journal, record, report."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from benchorch.config.composer import Composer
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import ConfigNode, Plan, Skip, Trial
from benchorch.errors import ConfigError, RecordError
from benchorch.files import write_json, write_text
from benchorch.interfaces.executor import Emit, Executor
from benchorch.journal import run_directory
from benchorch.journal.lock import StatusFile, acquire_lock
from benchorch.journal.registry import remember
from benchorch.results.pricing.sweep_cost import check_budget, prices_of
from benchorch.results.report.console import ConsoleReport
from benchorch.results.report.tables import whole
from benchorch.run.planner import new_plan_id, plan_jobs
from benchorch.run.sidecar import Sidecar, keeping, recording
from benchorch.trial.build_keys import NOTES

if TYPE_CHECKING:
    from benchorch.results.metrics.summary import SweepFindings

_NOT_THE_TRIALS_FAULT = frozenset(
    {"node_lost", "agent_failed", "no_node", "no_capacity", "wrong_node", "disk_full"}
)


@dataclass(slots=True)
class Invocation:
    """All batches of one command under one plan, one directory and one parent run.

    A sweeper such as Optuna hands over batch after batch; each extends the same plan.
    """

    composer: Composer
    directory: Path
    report: ConsoleReport
    plan_id: str = field(default_factory=new_plan_id)
    results: dict[str, TrialResult] = field(default_factory=dict)
    plan: Plan | None = None
    _recorder: Sidecar | None = None
    _keeper: Sidecar | None = None
    _specs: dict[str, ConfigNode] = field(default_factory=dict)
    _lock: IO[str] | None = None
    _findings: SweepFindings | None = None
    _diary: StatusFile = field(init=False)

    def __post_init__(self) -> None:
        self._diary = StatusFile(self.directory)

    def open(self) -> None:
        """Make the directory, or take up what an earlier invocation left in it."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = acquire_lock(self.directory)
        except OSError as error:
            raise ConfigError([f"{self.directory}: {error.strerror}."]) from error
        shutil.rmtree(self.directory / NOTES, ignore_errors=True)
        shutil.rmtree(self.directory / "rebuilt", ignore_errors=True)
        if (self.directory / run_directory.PLAN).exists():
            self.plan = run_directory.read_plan(self.directory)
            self.plan_id = self.plan.plan_id
            found = run_directory.read_results(self.directory, self.report.text)
            self.results = {
                r.trial_id: r for r in found if is_final(r.failure.kind if r.failure else None)
            }
        with contextlib.suppress(OSError):  # a convenience must not cost the run
            remember(self.plan_id, self.directory)

    def run(self, jobs: Sequence[Sequence[str]]) -> list[float]:
        """Plan and run a batch of jobs; each job's objective, infinite where it has none."""
        planned = plan_jobs(self.composer, jobs, self.plan_id)
        self.run_plan(planned.plan, planned.executor)
        metric = str(planned.plan.session["objective"])
        return [self._objective(ids, metric) for ids in planned.asked]

    def run_plan(self, plan: Plan, executor: Executor) -> None:
        """Run what has no final result yet."""
        self.plan = _merged(self.plan, plan)
        self._specs.update({trial.trial_id: trial.spec for trial in plan.trials})
        with self._on_disk("The plan"):
            run_directory.write_plan(self.directory, self.plan)
        self._forget_rehearsals(executor)
        self._diary.begin()
        todo = [t for t in plan.trials if t.trial_id not in self.results]
        check_budget(plan, todo)
        self.report.plan(plan, done=len(plan.trials) - len(todo))
        if self._recorder is None:
            self._recorder = recording(self.directory, plan.session)
        if self._keeper is None:
            self._keeper = keeping(self.directory, plan.session)
        if not todo:
            return
        work = _TrialWork(session=self._session(plan))
        with self.report.live(todo), _to_the_end(executor.run(todo, work, self._on_event)) as ran:
            for result in ran:
                self._accept(result)

    def _forget_rehearsals(self, executor: Executor) -> None:
        """Where real machines are at hand, results of played ones do not stand for theirs."""
        if not executor.is_simulated():
            real = {n: r for n, r in self.results.items() if not r.environment.get("rehearsed")}
            self.results = real

    def close(self, *, complete: bool) -> int:
        """Write and show the table, finish recording; the exit code."""
        if self.plan is None:
            return 0
        summaries = self.summaries()
        try:
            self.report.table(self.plan, self.results, summaries, self.directory)
            with self._on_disk("The table"):
                text = whole(self.plan, self.results, summaries)
                write_text(self.directory / run_directory.TABLE, text)
        finally:
            recorded = self._recorded(complete)
            self._diary.end(complete=complete)
            kept = self._kept(complete)
        self.report.closing(self.plan, self.directory, recorded=recorded, kept=kept)
        self._unlock()
        ran = [self.results.get(trial.trial_id) for trial in self.plan.trials]
        return 0 if ran and all(result is not None and _is_sound(result) for result in ran) else 1

    def interrupt(self) -> None:
        """End before the plan does: what there is is shown and kept, and how to go on is said."""
        self.close(complete=False)
        self.report.interrupted(self.directory)

    def cut_short(self) -> None:
        """The same for an executor that fails, which may have been before there was anything."""
        if self.results:
            self.interrupt()

    def _unlock(self) -> None:
        """A program that goes on may be done with this run."""
        if self._lock is not None:
            self._lock.close()

    def _recorded(self, complete: bool) -> bool:
        follower, waiting = self._recorder, self.report.recording
        return follower is None or follower.finish(complete=complete, waiting=waiting)

    def _kept(self, complete: bool) -> bool:
        follower, waiting = self._keeper, self.report.keeping
        return follower is None or follower.finish(complete=complete, waiting=waiting)

    def summaries(self) -> dict[str, Summary]:
        """What is derived from each result; the candidates of one baseline are read together."""
        return self._found().summaries(self.results, self.report.text)

    def _summary(self, result: TrialResult) -> Summary:
        return self._found().of(result, self.results.get(result.baseline_id or "")).alone()

    def _found(self) -> SweepFindings:
        """What was derived of each result when it came need not be derived again at the end."""
        from benchorch.results.metrics.summary import SweepFindings

        if self._findings is None:
            self._findings = SweepFindings()
        return self._findings

    def _objective(self, trial_ids: Sequence[str], metric: str) -> float:
        values = []
        for trial_id in trial_ids:
            result = self.results.get(trial_id)
            if result is None or not _is_sound(result):
                return math.inf
            estimate = self._summary(result).metrics.get(metric)
            values.append(math.inf if estimate is None else estimate.value)
        return min(values, default=math.inf)

    def _session(self, plan: Plan) -> Session:
        return Session(
            plan_id=self.plan_id,
            directory=self.directory.resolve(),
            store=cast(ConfigNode, plan.session["store"]),
            rebuild=str(plan.session["rebuild"]),
            search_path=(str(plan.session["cwd"]),),
            profiler=cast(ConfigNode, plan.session.get("profiler") or {}),  # older plans have none
            prices=plan.prices,
        )

    def _on_event(self, event: Event) -> None:
        self._diary.event(event)
        self.report.event(event)

    def _accept(self, result: TrialResult) -> None:
        result = self._priced(result)
        self.results[result.trial_id] = result
        summary = self._summary(result)
        with self._on_disk(f"The result of trial {result.trial_id}"):
            self._write(result, summary)
        self._diary.result(result.trial_id)
        self.report.result(result, summary)

    def _priced(self, result: TrialResult) -> TrialResult:
        """With the prices by which the whole sweep is judged."""
        assert self.plan is not None  # it is being run
        return replace(result, prices=prices_of(self.plan, self._specs[result.trial_id]))

    @contextlib.contextmanager
    def _on_disk(self, what: str) -> Iterator[None]:
        """Turn a full or read-only disk into a sentence with the command to go on."""
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"{what} could not be written to {self.directory}: {error.strerror}. Free some "
                f"space, then run the same command with resume={self.directory}."
            ) from error

    def _write(self, result: TrialResult, summary: Summary) -> None:
        from benchorch.results.report.load_curve import load_files
        from benchorch.run.expand import describe

        folder = run_directory.trial_directory(self.directory, result.trial_id)
        write_json(folder / "environment.json", encode(dict(result.environment)))
        write_json(folder / "parity.json", encode(result.parity))
        write_text(folder / "config.yaml", _as_yaml(self._specs[result.trial_id]))
        for name, text in load_files(result.valid, title=describe(result.labels)).items():
            write_text(folder / name, text)
        run_directory.append_result(self.directory, result, {"metrics": _plain_metrics(summary)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialWork:
    """The supervisor's function, imported only where a trial runs.

    Attributes:
        session: read by executors whose nodes may not see the same disk.
    """

    session: Session

    def __call__(self, trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        from benchorch.trial.supervisor import run_trial

        return run_trial(trial, session=self.session, attempt=attempt, isolated=isolated, emit=emit)


@contextlib.contextmanager
def _to_the_end(results: Iterator[TrialResult]) -> Iterator[Iterator[TrialResult]]:
    """Results whose executor ends here, however this is left.

    Left alone it would end when nothing refers to it any more: an exception that is kept does, and
    at the interpreter's exit what it needs to end its machines is gone.
    """
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


def is_final(failure: str | None) -> bool:
    """Whether running the trial again would be to doubt its result, not to get one.

    Args:
        failure: the kind of what went wrong, or None.
    """
    return failure not in _NOT_THE_TRIALS_FAULT


def _is_sound(result: TrialResult) -> bool:
    """Whether it ran and is still the same model."""
    wrong = result.parity is not None and not result.parity.passed
    return result.outcome is Outcome.OK and not wrong


def _merged(old: Plan | None, new: Plan) -> Plan:
    if old is None:
        return new
    known = {trial.trial_id for trial in old.trials}
    fresh = tuple(trial for trial in new.trials if trial.trial_id not in known)
    told = {_content(skip) for skip in old.skips}
    skips = old.skips + tuple(skip for skip in new.skips if _content(skip) not in told)
    return replace(
        old, trials=old.trials + fresh, skips=skips, session=new.session, notes=new.notes
    )


def _content(skip: Skip) -> Hashable:
    """Two skips are the same where this is."""
    return frozenset(skip.labels.items()), skip.reason, skip.remedy


def _plain_metrics(summary: Summary) -> Json:
    """Metrics as programs want them: a value under the metric's name, intervals beside it."""
    metrics: dict[str, Json] = {}
    for name, estimate in summary.metrics.items():
        metrics[name] = estimate.value
        if estimate.low is not None and estimate.high is not None:
            metrics[f"{name}/low"], metrics[f"{name}/high"] = estimate.low, estimate.high
    if summary.speedup:
        metrics["speedup_ratio/p50"] = summary.speedup.ratio.value
    return metrics


def _as_yaml(spec: Mapping[str, Json]) -> str:
    import yaml

    return str(yaml.safe_dump(json.loads(json.dumps(spec)), sort_keys=False))

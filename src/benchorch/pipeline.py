"""One invocation from cells to a table: plan, run, journal, record, report."""

from __future__ import annotations

import functools
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from benchorch import journal
from benchorch.background import Recording
from benchorch.config import Composer
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import Node, Plan, Trial
from benchorch.errors import RecordError
from benchorch.interfaces.executor import Executor
from benchorch.invocations import remember
from benchorch.planning import new_plan_id, plan_jobs
from benchorch.stages.report import Report


@dataclass(slots=True)
class Invocation:
    """All batches of one command under one plan, one directory and one parent run.

    A sweeper such as Optuna hands over batch after batch; each extends the same plan.
    """

    composer: Composer
    directory: Path
    report: Report
    plan_id: str = field(default_factory=new_plan_id)
    results: dict[str, TrialResult] = field(default_factory=dict)
    plan: Plan | None = None
    _recorder: Recording | None = None
    _specs: dict[str, Node] = field(default_factory=dict)

    def open(self) -> None:
        """Make the directory, or take up what an earlier invocation left in it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.directory / "identities", ignore_errors=True)
        shutil.rmtree(self.directory / "rebuilt", ignore_errors=True)
        if (self.directory / journal.PLAN).exists():
            self.plan = journal.read_plan(self.directory)
            self.plan_id = self.plan.plan_id
            self.results = {r.trial_id: r for r in journal.read_results(self.directory)}
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
        journal.write_plan(self.directory, self.plan)
        todo = [t for t in plan.trials if t.trial_id not in self.results]
        self.report.plan(plan, done=len(plan.trials) - len(todo))
        if self._recorder is None and todo:
            self._recorder = Recording.start(self.directory, plan.session)
        work = functools.partial(_run_trial, session=self._session(plan))
        results = executor.run(todo, work, self._on_event)
        with self.report.live(todo):
            for result in results:
                self._accept(result)

    def close(self, *, complete: bool) -> int:
        """Write and show the table, finish recording; the exit code."""
        if self.plan is None:
            return 0
        summaries = self.summaries()
        table = self.report.table(self.plan, self.results, summaries, self.directory)
        journal.write_text(self.directory / journal.TABLE, table)
        recorded = self._recorder.finish(complete=complete) if self._recorder else True
        self.report.closing(self.plan, self.directory, recorded=recorded)
        ran = [self.results.get(trial.trial_id) for trial in self.plan.trials]
        return 0 if all(result is not None and _is_sound(result) for result in ran) else 1

    def summaries(self) -> dict[str, Summary]:
        """What is derived from each result, compared with its baseline's."""
        return {trial_id: self._summary(result) for trial_id, result in self.results.items()}

    def _summary(self, result: TrialResult) -> Summary:
        from benchorch.stages.analyze import summarise

        return summarise(result, self.results.get(result.baseline_id or ""))

    def _objective(self, trial_ids: Sequence[str], metric: str) -> float:
        values = []
        for trial_id in trial_ids:
            result = self.results.get(trial_id)
            wrong = result is None or (result.parity is not None and not result.parity.passed)
            estimate = (
                None if wrong else self._summary(cast(TrialResult, result)).metrics.get(metric)
            )
            values.append(math.inf if estimate is None else estimate.value)
        return min(values, default=math.inf)

    def _session(self, plan: Plan) -> Session:
        return Session(
            plan_id=self.plan_id,
            directory=self.directory.resolve(),
            store=cast(Node, plan.session["store"]),
            rebuild=str(plan.session["rebuild"]),
            search_path=(str(Path.cwd()),),
        )

    def _on_event(self, event: Event) -> None:
        self.report.event(event)

    def _accept(self, result: TrialResult) -> None:
        self.results[result.trial_id] = result
        summary = self._summary(result)
        try:
            self._write(result, summary)
        except OSError as error:
            raise RecordError(
                f"The result of trial {result.trial_id} could not be written to "
                f"{self.directory}: {error.strerror}. Free some space, then run the same "
                f"command with resume={self.directory}."
            ) from error
        self.report.result(result, summary)

    def _write(self, result: TrialResult, summary: Summary) -> None:
        folder = journal.trial_directory(self.directory, result.trial_id)
        journal.write_json(folder / "environment.json", encode(dict(result.environment)))
        journal.write_json(folder / "parity.json", encode(result.parity))
        journal.write_text(folder / "config.yaml", _as_yaml(self._specs[result.trial_id]))
        journal.append_result(self.directory, result, {"metrics": _plain_metrics(summary)})


def _run_trial(trial: Trial, **keywords: object) -> TrialResult:
    """The supervisor's function, imported only where a trial runs."""
    from benchorch.supervisor import run_trial

    return run_trial(trial, **keywords)  # type: ignore[arg-type]  # Work's own keywords


def _is_sound(result: TrialResult) -> bool:
    """Whether it ran and is still the same model."""
    wrong = result.parity is not None and not result.parity.passed
    return result.outcome is Outcome.OK and not wrong


def _merged(old: Plan | None, new: Plan) -> Plan:
    if old is None:
        return new
    known = {trial.trial_id for trial in old.trials}
    fresh = tuple(trial for trial in new.trials if trial.trial_id not in known)
    skips = old.skips + tuple(skip for skip in new.skips if skip not in old.skips)
    return replace(old, trials=old.trials + fresh, skips=skips)


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

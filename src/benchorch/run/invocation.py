"""One invocation, from jobs to a table: plan, run, journal, record, report."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from benchorch.config.composer import Composer
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult, beside_baselines
from benchorch.domain.session import DECIDED, ROUND, Event, Session
from benchorch.domain.trial import ConfigNode, Plan, Trial
from benchorch.errors import ConfigError, Correction, Problem, RecordError
from benchorch.files import write_json, write_text
from benchorch.formatting import plural
from benchorch.host.packages import INSTALL
from benchorch.interfaces.executor import Emit, Executor
from benchorch.journal import run_directory
from benchorch.journal.lock import LOCK, StatusFile, acquire_lock
from benchorch.journal.reader import salvage
from benchorch.journal.registry import others_running, remember, remember_plan
from benchorch.models.trust import session_of
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.pricing.sweep_cost import (
    check_budget,
    expected,
    launched_kinds,
    machines,
    prices_of,
    spending_rules,
)
from benchorch.results.pricing.sweep_history import write_cost
from benchorch.results.report.console import ConsoleReport
from benchorch.results.report.tables import full_markdown
from benchorch.results.report.winner import winner_of
from benchorch.run.expand import ELSEWHERE, describe
from benchorch.run.expected_end import ExpectedEnd
from benchorch.run.live_page import LivePage
from benchorch.run.merged_plan import merged, with_labels_of
from benchorch.run.planner import Planned, new_plan_id, plan_jobs
from benchorch.run.selection import chosen, narrowed_to
from benchorch.run.sidecar import Sidecar, archiving, recording
from benchorch.trial.build_keys import NOTES

if TYPE_CHECKING:
    from benchorch.results.metrics.summary import SweepFindings

_BEFORE_A_PLAN = (".hydra", "multirun.yaml", LOCK)
"""What Hydra and `open` leave in a run's directory."""

_MOST_JUDGED = 300
"""Trials of one table that are judged together each time when one of them ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Which of a plan's trials run, and what ends and fails a run.

    Attributes:
        allow_skips: whether requested cells that cannot run leave the exit code at 0.
        exit_first: whether the first failure ends the run.
        only: patterns of the trials to run; all where there is none.
        again: whether trials that have a result run once more.
        failed: whether of those only the failed ones do.
    """

    allow_skips: bool = False
    exit_first: bool = False
    only: tuple[str, ...] = ()
    again: bool = False
    failed: bool = False


@dataclass(slots=True)
class Invocation:
    """All batches of one command under one plan, one directory and one parent run.

    A sweeper such as Optuna hands over batch after batch; each extends the same plan.

    Attributes:
        terms: which trials run, and what fails the command.
        results: of the trials that have ended, by their ids, as they are stored.
        unfinished: what was measured so far of those that have not.
    """

    composer: Composer
    directory: Path
    report: ConsoleReport
    terms: RunTerms = field(default_factory=RunTerms)
    plan_id: str = field(default_factory=new_plan_id)
    results: dict[str, TrialResult] = field(default_factory=dict)
    unfinished: dict[str, TrialResult] = field(default_factory=dict)
    plan: Plan | None = None
    _former: dict[str, TrialResult] = field(default_factory=dict)
    _again: set[str] | None = None
    _has_begun: bool = False
    _cut: bool = False
    _recorder: Sidecar | None = None
    _archiver: Sidecar | None = None
    _specs: dict[str, ConfigNode] = field(default_factory=dict)
    _tables: dict[str, dict[str, None]] = field(default_factory=dict)
    _lock: IO[str] | None = None
    _findings: SweepFindings | None = None
    _end: ExpectedEnd | None = None
    _ends_s: float | None = None
    _is_late: bool = False
    _expected_usd: list[float | None] = field(default_factory=list)
    _spent_before_usd: float | None = None
    _simulated: bool = False
    _status: StatusFile = field(init=False)
    _page: LivePage = field(default_factory=LivePage)

    def __post_init__(self) -> None:
        self._status = StatusFile(self.directory)

    def open(self) -> None:
        """Make the directory, or read what an earlier invocation left in it."""
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
            found = list(salvage(self.directory, self.plan, self.report.text))
            self.results = {r.trial_id: r for r in found if r.is_final}
            self._enter(found)
            if self.terms.again:
                self._forget_chosen(self.plan, found)
            self._former = {r.trial_id: r for r in found if r.trial_id not in self.results}

    def _forget_chosen(self, plan: Plan, found: Collection[TrialResult]) -> None:
        """Drop the results of the trials that are to run again; the journal keeps them.

        Rounds that are left of finished ones may be another machine's, and nothing continues them.
        """
        self._again = {trial.trial_id for trial in chosen(plan.trials, self.terms.only)}
        if self.terms.failed:
            read = beside_baselines({result.trial_id: result for result in found})
            self._again &= {name for name, result in read.items() if not _is_sound(result)}
        if not self._again:
            left = len(plan.trials) - len(self.results)
            rest = f" {plural(left, 'trial')} without a result: benchorch resume {self.plan_id}"
            self.report.text(
                f"No trial of it has failed, so nothing runs again.{rest if left else ''}"
            )
        self.results = {n: r for n, r in self.results.items() if n not in self._again}
        final = {result.trial_id for result in found if result.is_final}
        for trial_id in self._again & final:
            run_directory.rounds_path(self.directory, trial_id).unlink(missing_ok=True)

    @property
    def repeats_nothing(self) -> bool:
        """Whether trials were to run again, and none was chosen."""
        return self._again == set()

    def run(self, jobs: Sequence[Sequence[str]]) -> list[float]:
        """Plan and run a batch of jobs; each job's objective, infinite where it has none."""
        if self._cut or self._is_over():
            return [math.inf] * len(jobs)
        planned = narrowed_to(plan_jobs(self.composer, jobs, self.plan_id), self.terms.only)
        self._refuse_unreachable(planned, jobs)
        refuse_without_packages(planned.plan)
        self.run_plan(planned.plan, planned.executor)
        metric = str(planned.plan.session["objective"])
        return [self._objective(ids, metric) for ids in planned.requested]

    def _is_over(self) -> bool:
        """Whether the budget has ended before this batch, which is said once."""
        if self._ends_s is None or time.monotonic() < self._ends_s:
            return False
        if not self._is_late:
            self.report.text(
                "budget.minutes has ended: the batches left are not measured. Increase it."
            )
        self._is_late = True
        return True

    def _refuse_unreachable(self, planned: Planned, jobs: Sequence[Sequence[str]]) -> None:
        """NoMachine where hardware that cannot be reached leaves nothing, or not all, to run."""
        part = planned.executor.needs_all() and not self.terms.allow_skips
        if planned.unreachable and (part or not planned.plan.trials):
            from benchorch.run.ways_on import refusal

            raise refusal(plan_jobs(self.composer, jobs, self.plan_id, to_run=False))

    def run_plan(self, plan: Plan, executor: Executor) -> None:
        """Run what has no final result yet; a new plan that is too dear is refused unwritten."""
        is_new = self.plan is None
        if is_new:
            check_budget(plan, plan.trials)
        self.plan = merged(self.plan, plan)
        plan = with_labels_of(plan, self.plan)
        self._specs.update({trial.trial_id: trial.spec for trial in plan.trials})
        with self._on_disk("The plan"):
            run_directory.write_plan(self.directory, self.plan)
        with contextlib.suppress(OSError):  # the index is a convenience
            remember(self.plan_id, self.directory)
        with contextlib.suppress(OSError):  # without it `resume` asks who made the plan
            remember_plan(self.plan_id, self.directory)
        self._drop_simulated(executor)
        self._status.begin()
        if self._spent_before_usd is None:
            self._spent_before_usd = self._status.spent_usd
        todo = [t for t in plan.trials if self._is_due(t.trial_id)]
        if not is_new:
            check_budget(plan, todo, self._status.spent_usd)
        self._has_begun = True
        if not self._is_whole():
            with self._on_disk("The winner"):  # of the trials that the run had before
                (self.directory / run_directory.WINNER).unlink(missing_ok=True)
        self._expect_cost(plan, todo, simulated=executor.is_simulated())
        done = sum(trial.trial_id in self.results for trial in plan.trials)
        self.report.plan(plan, done=done, whole=self.plan)
        if self._recorder is None:
            self._recorder = recording(self.directory, plan)
        if self._archiver is None:
            self._archiver = archiving(self.directory, plan)
        if not todo:
            return
        for other in others_running(self.directory):
            self.report.text(
                f"{other} is going on, too: where both measure on this machine, they disturb each "
                "other. See benchorch status."
            )
        spending = spending_rules(plan, self._status.spent_usd)
        session = replace(session_of(plan, self.directory), spending=spending)
        if any(executor.measures_in_rounds(trial.hardware_kind) for trial in todo):
            session = self._in_time(session)  # no other trial ends with the budget
        work = _TrialWork(session=session)
        if all(executor.measures_in_rounds(trial.hardware_kind) for trial in todo):
            forecast = expected(plan, todo)
            todo.sort(key=lambda t: (t.baseline_id is not None, forecast[t.trial_id].build_s))
            self._end = ExpectedEnd.of(todo, forecast, work.session.budget_s)
            self._expect(self._end.left_s)
        groups = executor.run_grouped(todo, work, self._on_event)
        with self.report.live(todo), _closing(groups) as ran:
            for results in ran:
                self._accept(results)
                ended = (self._beside_baseline(each) for each in results if not each.unfinished)
                failed = not all(map(_is_sound, ended))
                if self.terms.exit_first and failed:
                    self.report.text("The first failure ends the run (--exitfirst).")
                    self._cut = True
                    break

    def _in_time(self, session: Session) -> Session:
        """The session with what earlier batches have left of its budget."""
        if session.budget_s is None:
            return session
        if self._ends_s is None:
            self._ends_s = time.monotonic() + session.budget_s
            return session
        return replace(session, budget_s=max(0.0, self._ends_s - time.monotonic()))

    def _is_due(self, trial_id: str) -> bool:
        """Whether a trial runs now; of a run that is repeated in part, the chosen ones do."""
        is_chosen = self._again is None or trial_id in self._again
        return is_chosen and trial_id not in self.results

    def _expect_cost(self, plan: Plan, todo: Sequence[Trial], *, simulated: bool) -> None:
        """Note what the machines that are launched for these trials are expected to cost."""
        self._simulated = self._simulated or simulated
        launched = launched_kinds(plan, todo)
        if launched:
            found = machines(plan, expected(plan, todo), launched)
            self._expected_usd.extend(one.usd for one in found)

    def _end_cost(self) -> None:
        """Keep and report what the launched machines have cost, beside what was expected."""
        spending = self._status.spending
        if spending is None:
            return
        known = [usd for usd in self._expected_usd if usd is not None]
        with contextlib.suppress(OSError):  # only later estimates read it
            cost = write_cost(
                self.directory,
                expected_usd=sum(known) if known else None,
                spent_usd=spending.usd - (self._spent_before_usd or 0.0),
                launch_s=spending.launch_s,
                simulated=self._simulated,
            )
            self.report.text(cost.text)

    def _expect(self, left_s: float) -> None:
        self.report.expect(left_s)
        self._status.expect(left_s)

    def _drop_simulated(self, executor: Executor) -> None:
        """Drop results of simulated nodes where the executor reaches real ones."""
        if executor.is_simulated():
            return
        for found in (self.results, self._former):
            for name in [n for n, r in found.items() if r.environment.get("rehearsed")]:
                del found[name]

    def close(self, *, complete: bool) -> int:
        """Write and show the table, finish recording; the exit code."""
        if self.plan is None:
            return 0
        has_all = all(trial.trial_id in self.results for trial in self.plan.trials)
        complete = complete and has_all
        try:
            self._restore_former()
            self._end_unfinished()
            run = RunResults(
                directory=self.directory,
                plan=self.plan,
                results=self.results,
                summaries=self.summaries(),
            )
            if self.results or complete:
                self.report.table(run)
            self._page.write(run)
            with self._on_disk("The table"):
                write_text(self.directory / run_directory.TABLE, full_markdown(run))
                self._end_cost()
                if self._is_whole():
                    write_json(self.directory / run_directory.WINNER, winner_of(run))
        finally:
            recorded, archived = self._end_run(complete=complete)
        if self.results or complete:
            self.report.closing(
                self.plan,
                self.directory,
                recorded=recorded,
                reason=self._recorder.reason if self._recorder else "",
                kept=archived,
                whole=self._is_whole(),
            )
        missing = not recorded and self.plan.recorder.get("required") is True
        return 0 if self._did_what_was_requested() and has_all and not missing else 1

    def _end_run(self, *, complete: bool) -> tuple[bool, bool]:
        """Note the end of the run; whether the tracker and the bucket have all of it."""
        recorded = _finished(
            self._recorder, complete, partial(self.report.waiting, "recording the results")
        )
        self._status.end(complete=complete)
        archived = _finished(
            self._archiver, complete, partial(self.report.waiting, "copying to the bucket")
        )
        if self._lock is not None:  # the process may live on after this run
            self._lock.close()
        return recorded, archived

    def _is_whole(self) -> bool:
        """Whether every trial of the plan has its final result."""
        assert self.plan is not None  # it has run
        found = [self.results.get(trial.trial_id) for trial in self.plan.trials]
        return all(result is not None and result.is_final for result in found)

    def _did_what_was_requested(self) -> bool:
        assert self.plan is not None  # it has run
        ran = [self.results.get(trial.trial_id) for trial in self.plan.trials]
        sound = all(result is not None and _is_sound(result) for result in ran)
        missing = sum(skip.requested for skip in self.plan.skips)
        if missing and not self.terms.allow_skips:
            self.report.text(
                f"{plural(missing, 'requested cell')} could not run, so the exit code is 1; "
                "--allow-skips leaves it at 0."
            )
        done = bool(ran) and sound and not self._is_late
        return done and (not missing or self.terms.allow_skips)

    def _restore_former(self) -> None:
        """Let earlier results stand that no new one replaces; a final one yields to no part."""
        final = {name for name, result in self._former.items() if result.is_final}
        self.unfinished = {n: r for n, r in self.unfinished.items() if n not in final}
        self.results = {**self._former, **self.results}

    def _end_unfinished(self) -> None:
        """Store what was measured of interrupted trials as their results for now."""
        self._store(list(self.unfinished.values()))
        self.unfinished = {}

    def discard(self) -> None:
        """Remove what was made for a run that was refused before it had a plan."""
        if self.plan is not None:
            return
        if self._lock is not None:
            self._lock.close()
        for name in _BEFORE_A_PLAN:
            path = self.directory / name
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        directory, here = self.directory.resolve(), Path.cwd()
        above = [path for path in directory.parents if here in path.parents]
        with contextlib.suppress(OSError):  # it holds something else, such as other runs
            for path in (directory, *above):
                path.rmdir()

    def interrupt(self) -> None:
        """End before the plan does: show and keep the results so far, and how to resume."""
        self.close(complete=False)
        if self.plan is None:
            self.discard()
        else:
            self.report.interrupted(self.directory, results=len(self.results))

    def cut_short(self) -> None:
        """Interrupt where an error ends the run; before the first result only its end is noted."""
        if self._has_begun and (self.results or self.unfinished or self._former):
            self.interrupt()
        elif self.plan is not None:
            self._end_run(complete=False)

    def abandon(self) -> None:
        """End where results cannot be stored: the recorder, the status and the lock do not stay."""
        with contextlib.suppress(RecordError):  # its other files have the same disk
            self.close(complete=False)

    def summaries(self) -> dict[str, Summary]:
        """What is derived from each result; candidates of one baseline are compared together."""
        return self._sweep_findings().summaries(self.results, self.report.text)

    def so_far(self) -> RunResults:
        """Every result, those of trials that go on included, and what is derived from each."""
        assert self.plan is not None  # it is being run
        results = {**self.results, **self.unfinished}
        return RunResults(
            directory=self.directory,
            plan=self.plan,
            results=results,
            summaries=self._sweep_findings().summaries(results),
            running=True,
        )

    def _summary(self, result: TrialResult, results: Mapping[str, TrialResult]) -> Summary:
        return self._sweep_findings().of(result, results.get(result.baseline_id or "")).alone()

    def _sweep_findings(self) -> SweepFindings:
        """What was derived from each result when it came, reused at the end."""
        from benchorch.results.metrics.summary import SweepFindings

        if self._findings is None:
            self._findings = SweepFindings()
        return self._findings

    def _objective(self, trial_ids: Sequence[str], metric: str) -> float:
        values = []
        for trial_id in trial_ids:
            result = self.results.get(trial_id)
            if result is None or not _is_sound(self._beside_baseline(result)):
                return math.inf
            estimate = self._summary(result, self.results).metrics.get(metric)
            values.append(math.inf if estimate is None else estimate.value)
        return min(values, default=math.inf)

    def _on_event(self, event: Event) -> None:
        if self._end is not None and event.stage == DECIDED:
            self._end.decided.add(event.trial_id)
        if event.stage != ROUND:  # which is no trial's own
            self._status.event(event)
        self.report.event(event)

    def _accept(self, results: Sequence[TrialResult]) -> None:
        """Keep results that came at the same time; nothing is reported before it is durable."""
        finished = []
        self._enter(results)
        for result in map(self._priced, results):
            if self._end is not None:
                self._end.note(result)
                self._expect(self._end.left_s)
            if result.unfinished:
                self._accept_round(result)
            else:
                finished.append(result)
        if finished:
            self._accept_finished(finished)

    def _beside_baseline(self, result: TrialResult) -> TrialResult:
        """The result, read beside what is known so far of its baseline's."""
        baseline_id = result.baseline_id or ""
        return result.beside(self.unfinished.get(baseline_id) or self.results.get(baseline_id))

    def _accept_finished(self, results: Sequence[TrialResult]) -> None:
        for result in results:
            self.unfinished.pop(result.trial_id, None)
        found = self._store(results)
        for result, _ in found:
            self._status.result(result.trial_id)
        self._renew_page()
        together = self._judged_together(results)
        for result, summary in found:
            shown = together.get(result.trial_id, summary)
            self.report.result(self._beside_baseline(result), shown)

    def _judged_together(self, results: Sequence[TrialResult]) -> Mapping[str, Summary]:
        """Summaries of the tables that these belong to, as in rounds and at the end, and show them.

        Not of huge ones: judged anew for each trial, they would take longer than the sweep.
        """
        found: dict[str, Summary] = {}
        for result in results:
            if result.trial_id in found or len(self._ids_of_table(result)) > _MOST_JUDGED:
                continue
            found.update(self._shown(self._table_of(result)))
        return found

    def _shown(self, table: Mapping[str, TrialResult]) -> Mapping[str, Summary]:
        """Summaries of a table's trials, once they are shown."""
        summaries = self._sweep_findings().summaries(table)
        self.report.figures(list(beside_baselines(table).values()), summaries)
        return summaries

    def _accept_round(self, result: TrialResult) -> None:
        """Keep what one more process measured of a trial that goes on."""
        self.unfinished[result.trial_id] = result
        with self._on_disk(f"What was measured of trial {result.trial_id}"):
            run_directory.append_round(self.directory, result)
        self._status.round(result.trial_id, processes=len(result.processes))
        self._renew_page()
        self._shown(self._table_of(result))

    def _renew_page(self) -> None:
        """Write the page anew, if that was long enough ago; nothing is measured meanwhile."""
        if self._page.is_due():
            self._page.write(self.so_far())

    def _table_of(self, result: TrialResult) -> dict[str, TrialResult]:
        """What was measured so far of the trials with the same baseline."""
        found = {
            trial_id: self.unfinished.get(trial_id) or self.results.get(trial_id)
            for trial_id in self._ids_of_table(result)
        }
        return {trial_id: one for trial_id, one in found.items() if one is not None}

    def _ids_of_table(self, result: TrialResult) -> Collection[str]:
        return self._tables[result.baseline_id or result.trial_id]

    def _enter(self, results: Sequence[TrialResult]) -> None:
        """Note which table each belongs to: to look through all results each time is slow."""
        for result in results:
            self._tables.setdefault(result.baseline_id or result.trial_id, {})[result.trial_id] = (
                None
            )

    def _priced(self, result: TrialResult) -> TrialResult:
        """The result with the prices of the whole sweep."""
        assert self.plan is not None  # it is being run
        return replace(result, prices=prices_of(self.plan, self._specs[result.trial_id]))

    @contextlib.contextmanager
    def _on_disk(self, what: str) -> Iterator[None]:
        """Report a full or read-only disk with the command that resumes."""
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"{what} could not be written to {self.directory}: {error.strerror}. Free some "
                f"space, then run the same command with resume={self.directory}."
            ) from error

    def _store(self, results: Sequence[TrialResult]) -> Sequence[tuple[TrialResult, Summary]]:
        """Make results durable, their lines with one write; only then are they the run's."""
        if not results:
            return []
        new = {result.trial_id: result for result in results}
        known = ChainMap(new, self.results)
        found = [(result, self._summary(result, known)) for result in results]
        more = f" and {plural(len(results) - 1, 'other')}" if len(results) > 1 else ""
        with self._on_disk(f"The result of trial {results[-1].trial_id}{more}"):
            run_directory.append_results(self.directory, map(self._with_files, found))
        self.results.update(new)
        return found

    def _with_files(
        self, found: tuple[TrialResult, Summary]
    ) -> tuple[TrialResult, Mapping[str, Json]]:
        """A result with the further keys of its line, once its other files are written."""
        from benchorch.results.report.load_curve import load_files

        result, summary = found
        folder = run_directory.trial_directory(self.directory, result.trial_id)
        write_json(folder / "environment.json", encode(dict(result.environment)))
        write_json(folder / "parity.json", encode(result.parity))
        write_text(folder / "config.yaml", _as_yaml(self._specs[result.trial_id]))
        for name, text in load_files(result.valid).items():
            write_text(folder / name, text)
        return result, {"metrics": plain_metrics(summary)}


def _finished(sidecar: Sidecar | None, complete: bool, waiting: Callable[[], None]) -> bool:
    return sidecar is None or sidecar.finish(complete=complete, waiting=waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialWork:
    """The supervisor's function, imported only where a trial runs.

    Attributes:
        session: executors whose nodes have other disks read it.
    """

    session: Session

    def __call__(self, trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        from benchorch.trial.supervisor import run_trial

        return run_trial(trial, session=self.session, attempt=attempt, isolated=isolated, emit=emit)

    def in_rounds(
        self, trials: Sequence[Trial], *, isolated: bool, emit: Emit
    ) -> Iterator[TrialResult]:
        from benchorch.trial.rounds import in_rounds

        return in_rounds(trials, session=self.session, isolated=isolated, emit=emit)


@contextlib.contextmanager
def _closing(
    results: Iterator[Sequence[TrialResult]],
) -> Iterator[Iterator[Sequence[TrialResult]]]:
    """Close the executor's generator however the loop ends.

    Otherwise it would end with its last reference, which an exception may hold until the
    interpreter's exit, when the executor can no longer end its machines.
    """
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


def _is_sound(result: TrialResult) -> bool:
    """Whether it ran and is still the same model."""
    return result.is_sound and not result.unfinished


def refuse_without_packages(plan: Plan) -> None:
    """ConfigError where no trial is left because packages or the hardware are not here."""
    first = next(iter(plan.skips), None)
    if first is None or plan.trials:
        return
    if all(skip.remedy.startswith(INSTALL) for skip in plan.skips):
        raise ConfigError([f"{describe(first.labels)}: {first.reason}"], next=first.remedy)
    if all(skip.remedy == ELSEWHERE for skip in plan.skips):
        problem = f"hardware={first.labels['hardware']}: {first.reason} {ELSEWHERE}."
        raise ConfigError([Problem(problem, Correction(settings=["hardware=local"]))])


def plain_metrics(summary: Summary) -> Mapping[str, Json]:
    """Metrics for programs: a value under the metric's name, intervals beside it."""
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

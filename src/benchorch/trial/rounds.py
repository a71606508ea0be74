"""Rounds of one process of each trial of a node, until all of them have enough.

A slow phase of the machine is spread over all trials in place of the one that it would hit, and the
first round gives every trial a first figure. It runs in the coordinator, which is idle while a
process measures.
"""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from benchorch.config.components import make
from benchorch.domain.result import FUTILE, RUN_BUDGET, TrialResult
from benchorch.domain.session import DECIDED, ROUND, Event, Session
from benchorch.domain.trial import Trial
from benchorch.host.environment import available_memory_bytes
from benchorch.interfaces.executor import Emit
from benchorch.interfaces.profiler import Profiler
from benchorch.journal import run_directory
from benchorch.journal.reader import read_journal
from benchorch.results.metrics.warnings import ENOUGH
from benchorch.trial.live_module import MOST_KEPT
from benchorch.trial.race import MOST, Race, is_disqualified
from benchorch.trial.supervisor import OutOfTime, TimeBudget, TrialRun
from benchorch.trial.templates import MOST_AHEAD, Templates

TRIAL_S = 60.0
"""The usual budget has so much for each trial ..."""

SPARE = 8
"""Models that memory must hold beside those of templates: a process's, and some to spare."""

SURE = 3
"""... and so many processes of each, whatever they take; with fewer there is no interval."""

_UNDECIDED = (RUN_BUDGET, FUTILE, MOST, "budget_exhausted")
_REACHED = {**dict.fromkeys(_UNDECIDED, "undecided"), **dict.fromkeys(ENOUGH, "decided")}


def in_rounds(
    trials: Sequence[Trial], *, session: Session, isolated: bool, emit: Emit
) -> Iterator[TrialResult]:
    """Each trial's result, unfinished after each of its processes and finished once.

    What an interrupted run measured of these trials is read from its journal and goes on.
    """
    budget = budget_of(session, len(trials))
    templates = Templates([trial.spec for trial in trials])
    runs = [
        TrialRun(
            trial,
            session,
            isolated=isolated,
            emit=emit,
            earlier=run_directory.read_rounds(session.directory, trial.trial_id),
            budget=budget,
            templates=templates,
        )
        for trial in trials
    ]
    race = Race(runs=tuple(runs), others=_others(trials, session))

    def renew(processes: int, rounds: int) -> None:
        templates.renew(processes, rounds, loads=_held(runs))

    rounds = _Rounds(runs=runs, race=race, to_profile=_to_profile(session), emit=emit, renew=renew)
    with contextlib.ExitStack() as held:
        held.callback(templates.renew)
        if runs:
            held.enter_context(runs[0].using_store())
        yield from rounds.results()


def _held(runs: Sequence[TrialRun]) -> int:
    """How many modules of each model a template holds: all that a process loads, one, or none."""
    sizes: dict[str, int] = {}
    for run in runs:
        model = str(run.trial.spec["model"])
        sizes[model] = max(run.parameter_bytes, sizes.get(model, 0))
    left_bytes = available_memory_bytes() - SPARE * max(sizes.values(), default=0)
    return next((n for n in (MOST_KEPT, 1) if MOST_AHEAD * n * sum(sizes.values()) < left_bytes), 0)


def budget_of(session: Session, trials: int) -> TimeBudget:
    """The budget of a session that begins to measure so many trials now."""
    seconds = TRIAL_S * trials if session.budget_s is None else session.budget_s
    return TimeBudget(
        ends_s=time.monotonic() + seconds,
        sure=SURE if session.budget_s is None else 1,
        is_strict=session.budget_s is not None,
    )


def _to_profile(session: Session) -> Sequence[str]:
    """The conversions to profile; none without a profiler."""
    wanted = session.profiler and type(make(session.profiler, Profiler, "profiler")).wanted
    return session.to_profile if wanted else ()


def _others(trials: Sequence[Trial], session: Session) -> Sequence[TrialResult]:
    """Finished results of the same tables, which these trials are judged with."""
    baselines = {trial.baseline_id for trial in trials} - {None}
    mine = {trial.trial_id for trial in trials}
    found: list[TrialResult] = []
    for name, entry in read_journal(session.directory).entries.items():
        if name not in mine and entry.result.baseline_id in baselines:
            with contextlib.suppress(run_directory.SeriesError):  # it runs again elsewhere
                found.append(entry.whole(session.directory))
    return found


@final
@dataclass(slots=True, kw_only=True)
class _Rounds:
    """Several trials on their way.

    Attributes:
        runs: those without a finished result, in the order of the plan.
        race: which of them need further processes.
        to_profile: the conversions to profile, as in `Session`.
        emit: receives the end of the first round, and of each trial's measurement.
        renew: called before each round but the first with the number of its processes and of the
            rounds that are certain to come, and with 0 after the last.
    """

    runs: list[TrialRun]
    race: Race
    to_profile: Sequence[str]
    emit: Emit
    renew: Callable[[int, int], None] = lambda processes, rounds: None
    _order: random.Random = field(default_factory=random.SystemRandom)

    def results(self) -> Iterator[TrialResult]:
        """The first round in the order of the trials, the others each in an order of its own."""
        yield from self._first_round()
        while chosen := self._undecided():
            self.renew(len(chosen), self.race.certain_rounds(chosen))
            self._order.shuffle(chosen)
            before = {run.trial.trial_id: _counts(run) for run in chosen}
            # Baselines last: their candidates may have brought what they need of this round.
            for run in sorted(chosen, key=_is_baseline):
                if not _is_baseline(run) or _is_left_out(run, before[run.trial.trial_id]):
                    yield from self._process(run)
            yield from self._ended(list(self.runs))
        yield from self._ends()  # profiles are forked from the last round's templates
        self.renew(0, 0)

    def _first_round(self) -> Iterator[TrialResult]:
        """Build and measure one after the other, so that no build disturbs a process.

        Reports the first two figures that compare, and all of them.
        """
        runs, measured, shown = list(self.runs), Counter[str](), False
        for run in runs:
            run.start()
            yield from self._process(run, first=True)
            yield from self._ended([run])
            measured[run.trial.baseline_id or run.trial.trial_id] += run.failure is None
            compares = not shown and max(measured.values()) > 1
            if compares or (run is runs[-1] and len(runs) > 1 and measured.total()):
                shown = True
                self.emit(Event(trial_id=run.trial.trial_id, stage=ROUND, message="1"))

    def _undecided(self) -> list[TrialRun]:
        """Trials that need a further process; reports those that no longer do."""
        before = {run.trial.trial_id for run in self.runs if run.stop_reason}
        chosen = self.race.needing(self.runs)
        for run in self.runs:
            if run.stop_reason and run.trial.trial_id not in before:
                self.emit(_end_of_measurement(run))
        return chosen

    def _process(self, run: TrialRun, *, first: bool = False) -> Iterator[TrialResult]:
        """One more process of a trial, and the result so far; a failure ends the trial."""
        if run.failure is None and not (first and run.repetitions.valid):
            baseline = self._baseline_of(run)
            _repeat(run, baseline)
            yield from _shared(run, baseline)
        if run.failure is not None:
            yield self._finished(run, profile=False)
        else:
            yield run.result(unfinished=True)

    def _ended(self, runs: Sequence[TrialRun]) -> Iterator[TrialResult]:
        """The finished results of those that nothing can open again, where none is profiled."""
        for run in runs if not self.to_profile else ():
            if run in self.runs and not run.is_judged_in_table and not run.needs_more():
                yield self._finished(run, profile=False)

    def _baseline_of(self, run: TrialRun) -> TrialRun | None:
        """The baseline's own trial, where it is measured in these rounds."""
        runs = (each for each in self.runs if each.trial.trial_id == run.trial.baseline_id)
        return next(runs, None)

    def _ends(self) -> Iterator[TrialResult]:
        """The finished results; those to profile last, so that nothing waits for a profile."""
        named = self.race.named(self.to_profile)
        for run in sorted(self.runs, key=lambda run: run.trial.trial_id in named):
            yield self._finished(run, profile=run.trial.trial_id in named)

    def _finished(self, run: TrialRun, *, profile: bool) -> TrialResult:
        run.end(profile=profile)
        self.runs.remove(run)
        return run.result()


def _end_of_measurement(run: TrialRun) -> Event:
    count = len(run.repetitions.valid)
    reached = _REACHED.get(run.stop_reason, "ended") if _is_compared(run) else "ended"
    why = ", and the rest of the budget would not decide it" if run.stop_reason == FUTILE else ""
    message = f"{reached} after {count} {'process' if count == 1 else 'processes'}{why}"
    return Event(trial_id=run.trial.trial_id, stage=DECIDED, message=message)


def _is_compared(run: TrialRun) -> bool:
    """Whether there is a verdict to decide; on a baseline and on another model there is none."""
    return not _is_baseline(run) and run.repetitions.is_paired and not is_disqualified(run)


def _is_baseline(run: TrialRun) -> bool:
    return run.trial.baseline_id is None


def _counts(run: TrialRun) -> tuple[int, int]:
    """How many processes and how many pairs a trial has."""
    return len(run.repetitions.valid), len(run.repetitions.log_ratios)


def _is_left_out(baseline: TrialRun, before: tuple[int, int]) -> bool:
    """Whether it needs a process of its own in a round: no candidate brought what it lacks."""
    processes, pairs = (new > old for new, old in zip(_counts(baseline), before, strict=True))
    has_more = pairs or (processes and not baseline.repetitions.lacks_control)
    return baseline.needs_more() and not has_more


def _shared(run: TrialRun, baseline: TrialRun | None) -> Iterator[TrialResult]:
    """Processes of the baseline beside this trial's are the baseline's own as well."""
    taken, run.repetitions.of_baseline = run.repetitions.of_baseline, []
    if taken and baseline is not None and baseline.repetitions.valid:
        for record in taken:
            baseline.repetitions.take(record)
        yield baseline.result(unfinished=True)


def _repeat(run: TrialRun, baseline: TrialRun | None) -> None:
    """Run one more process, unless the budget would end first."""
    if not run.is_affordable():
        run.stop_reason = RUN_BUDGET
        return
    try:
        run.repeat(baseline=baseline)
    except OutOfTime:
        run.stop_reason = RUN_BUDGET

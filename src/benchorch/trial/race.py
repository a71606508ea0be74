"""Which trials need a further process: those whose verdict, or whose rank, is still open."""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.result import FUTILE, RUN_BUDGET, TrialResult
from benchorch.results.metrics.speedup import answers, question
from benchorch.results.report.tables import primary_metric
from benchorch.stats.family import Candidate, Family, Standing, Terms, judged
from benchorch.stats.pairs import log_ratios
from benchorch.stats.ratio_test import INCONCLUSIVE
from benchorch.trial.supervisor import TrialRun

WINNER, BASELINE, ALL = "winner", "baseline", "all"

DECIDED, MOST = "decided", "max_processes"
"""Reasons to stop: nothing is open; no more processes are allowed."""

FUTILE_FACTOR = 4
"""So many times the processes that are left are predicted to be needed. A prediction of five pairs
is four times too high in 0.3 % of cases: with four degrees of freedom, chi-squared is above 16."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The trials of one node.

    Attributes:
        runs: all that are measured now.
        others: finished results of the same tables, of an earlier invocation.
    """

    runs: Sequence[TrialRun]
    others: Sequence[TrialResult] = ()

    def needing(self, alive: Sequence[TrialRun]) -> list[TrialRun]:
        """Trials that need a further process; the others receive the reason why not.

        What was decided may be open again: its rank, where another candidate fell back.
        """
        tables = self._tables()
        unsupported = frozenset(self._unsupported(tables))
        return [run for run in alive if self._needs_more(run, tables, unsupported)]

    def certain_rounds(self, chosen: Collection[TrialRun]) -> int:
        """Number of rounds in which at least one of these is certain to be measured; at least 1."""
        paired = [run for run in chosen if run.repetitions.is_paired]
        waits = ((_next_look(run) or 0) - len(run.repetitions.log_ratios) for run in paired)
        return max([1, *waits])

    def named(self, words: Collection[str]) -> frozenset[str]:
        """The ids of trials by their conversions, or as ``winner``, ``baseline`` and ``all``."""
        runs = [run for run in self.runs if run.failure is None]
        chosen = {
            run.trial.trial_id
            for run in runs
            if ALL in words
            or run.trial.labels.get("conversion") in words
            or (BASELINE in words and run.trial.baseline_id is None)
        }
        return frozenset(chosen | set(self._leaders() if WINNER in words else ()))

    def _needs_more(
        self, run: TrialRun, tables: Mapping[str, Family], unsupported: Collection[str]
    ) -> bool:
        if run.stop_reason in (RUN_BUDGET, FUTILE):
            return False
        table = tables.get(run.trial.baseline_id or "")
        is_judged = _terms(run) is not None and run.repetitions.is_paired
        if table is None or not is_judged or not run.repetitions.valid:
            return run.needs_more()
        run.stop_reason = _reason(run, table)
        if run.stop_reason == DECIDED and run.trial.trial_id in unsupported:
            run.stop_reason = "" if _next_look(run) else MOST
        if not run.stop_reason and _is_futile(run, table.of(run.trial.trial_id)):
            run.stop_reason = FUTILE
        return not run.stop_reason

    def _unsupported(self, tables: Mapping[str, Family]) -> Iterator[str]:
        """Trials whose verdict the report would withhold and further pairs may support.

        A process in which a side found no steady state counts with all the speeds it had.
        """
        for baseline_id in tables:
            questions = {
                run.trial.trial_id: case
                for run in self.runs
                if run.trial.baseline_id == baseline_id and run.failure is None
                if (case := question(run.result(unfinished=True), None))
            }
            for name, found in answers(questions, baseline_id).comparisons.items():
                if found.verdict == INCONCLUSIVE and found.pairs_needed:
                    yield name

    def _tables(self) -> dict[str, Family]:
        """Each table so far, by its baseline's id."""
        tables: dict[str, list[TrialRun]] = {}
        for run in self.runs:
            if run.failure is None and run.trial.baseline_id and run.repetitions.is_paired:
                tables.setdefault(run.trial.baseline_id, []).append(run)
        return {
            baseline_id: judged(
                [*_candidates(runs), *self._earlier(baseline_id)],
                replace(_terms(runs[0]) or Terms(), baseline=baseline_id),
                interim=True,
            )
            for baseline_id, runs in tables.items()
        }

    def _earlier(self, baseline_id: str) -> Iterator[Candidate]:
        for result in self.others:
            ratios = tuple(log_ratios(result.valid))
            if result.is_sound and ratios and result.baseline_id == baseline_id:
                yield Candidate(name=result.trial_id, log_ratios=ratios)

    def _leaders(self) -> Iterator[str]:
        """The best of each table by all its pairs; by their own figures where nothing was paired.

        Interim analyses leave out the pairs since the last one: all of them, before the first.
        """
        groups: dict[str, list[TrialRun]] = {}
        for run in self.runs:
            if run.failure is None and not is_disqualified(run):
                group = run.trial.baseline_id or run.trial.trial_id
                groups.setdefault(group, []).append(run)
        for baseline_id, runs in groups.items():
            paired = [run for run in runs if run.trial.baseline_id and run.repetitions.is_paired]
            gains = {
                one.name: statistics.fmean(one.log_ratios)
                for one in (*_candidates(paired), *self._earlier(baseline_id))
                if one.log_ratios
            }
            if gains:
                gains[baseline_id] = 0.0
                yield max(gains, key=lambda name: gains[name])
            else:
                yield min(runs, key=_cost).trial.trial_id


def _terms(run: TrialRun) -> Terms | None:
    return run.setup.stopping.table_terms(run.setup.protocol.delta_ratio)


def _candidates(runs: Sequence[TrialRun]) -> Iterator[Candidate]:
    """Candidates that could win; another model cannot."""
    for run in runs:
        if not is_disqualified(run):
            ratios = tuple(run.repetitions.log_ratios)
            yield Candidate(name=run.trial.trial_id, log_ratios=ratios)


def is_disqualified(run: TrialRun) -> bool:
    """Whether it is another model than its baseline."""
    parity = run.repetitions.parity
    return parity is not None and not parity.passed


def _reason(run: TrialRun, table: Family) -> str:
    """Why it needs no further process; empty where it does."""
    if is_disqualified(run):
        return DECIDED
    standing = table.of(run.trial.trial_id)
    most = (_terms(run) or Terms()).most
    if most is not None and len(run.repetitions.valid) >= most:
        return DECIDED if standing.decided else MOST
    return _reason_of(standing)


def _is_futile(run: TrialRun, standing: Standing) -> bool:
    """Whether far more pairs are predicted to be needed than there is time for."""
    if standing.low is None or standing.decided or math.isinf(run.processes_left):
        return False
    count = len(run.repetitions.log_ratios)
    # What is predicted counts from the pairs of the last look; None is more than can be measured.
    needed = math.inf if standing.more is None else standing.n + standing.more - count
    return needed > FUTILE_FACTOR * max(run.processes_left, 1.0)


def _next_look(run: TrialRun) -> int | None:
    """The count of pairs at which it would be judged next; None where no more are allowed."""
    return (_terms(run) or Terms()).next_look(len(run.repetitions.log_ratios))


def _reason_of(standing: Standing) -> str:
    if standing.next_look is not None:
        return ""
    return DECIDED if standing.decided else MOST


def _cost(run: TrialRun) -> tuple[float, float]:
    """The figure that the report ranks a trial by: a response or a rate, under load."""
    from benchorch.results.metrics.summary import metrics_of

    primary = primary_metric(metrics_of(run.result(unfinished=True), None))
    return primary.cost if primary else (math.inf, math.inf)

"""Repetitions of a trial: fresh processes, paired with the baseline's, until there are enough.

It runs in the parent, which shares the machine with what is measured, and imports little.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.measurement import Paired, ProcessRecord
from benchorch.domain.result import NO_PAIR_IN_TIME, Failure, TrialResult
from benchorch.domain.spending import BUDGET_REACHED
from benchorch.domain.verdict import Verdict
from benchorch.host.reference_workload import disturbance
from benchorch.stats.between_processes import primary_ns
from benchorch.stats.pairs import ADJACENT, ALTERNATED, design_of, interference_at_look, log_ratios
from benchorch.stats.sequential_testing import CONVERGED
from benchorch.trial.interleave import least_pair_s
from benchorch.trial.stages import (
    Baseline,
    BuiltTrial,
    MeasureReply,
    MeasureRequest,
    StageFailed,
)
from benchorch.trial.templates import template_for

NONE = "none"
_NO_BASELINE = "none: the baseline "
"""What the pairing of a trial begins with whose baseline was not built, or failed."""

CONTROL_PAIRS = 6
"""Minimum of pairs of a control: fewer cannot show a difference of one standard deviation ..."""
SLOW_CONTROL_PAIRS = 3
"""... but where a pair takes longer than `SLOW_PAIR_S`, the fewest that have an interval."""
SLOW_PAIR_S = 2.0


def best_design(setup: TrialSetup, baseline: Baseline | None, threads: int) -> str:
    """The design of the comparison with the least noise that these two allow."""
    requested = setup.protocol.pairing
    at_best = type(setup.scenario).pairing
    if baseline is None or NONE in (requested, at_best):
        return NONE
    runtimes = (setup.runtime, open_trial(baseline.trial.spec).runtime)
    device = type(setup.hardware).device
    together = all(runtime.cohabits(device, threads) for runtime in runtimes)
    # Slices of many calls warm the caches that cold ones must not find.
    possible = at_best == ALTERNATED and together and not setup.protocol.cold_caches
    return ALTERNATED if possible and requested != ADJACENT else ADJACENT


def next_side(firsts: Sequence[bool], order: random.Random) -> bool:
    """Whether the candidate comes first in the next pair.

    Drawn in blocks of two: of the pairs that count, both orders are equally many.

    Args:
        firsts: whether it came first in each pair so far.
    """
    ahead = 2 * sum(firsts) - len(firsts)
    return ahead < 0 if ahead else order.random() < 0.5


class Repetitions:
    """Fresh processes of one trial, one after the other.

    Args:
        setup, trial: the candidate's own.
        baseline: its baseline, or None where it is not paired.
        candidates: how many are compared with the same baseline.
        control: whether `baseline` is the trial itself: its pairs ask for no process beyond
            `CONTROL_PAIRS`, whatever they show.
        tolerance_ratio: how much slower than before the trial the reference workload may be
            around a process that counts, or None where none runs; called where processes may be
            rejected, since the answer may take a second.
        measure: runs one process; raises StageFailed.
        say: called with what happens next.
        earlier: what an interrupted run measured of the same trial, or None.

    Attributes:
        records: of each process so far, rejected ones included.
        parity: the verdict of the first one, or None before it.
        all_count: whether no process is rejected: none is to be repeated, or too many were slowed.
        pairing: how the trial is paired with its baseline, and why not better, for people.
        of_baseline: the baseline's own processes, back to back with the trial's, that count.
    """

    def __init__(
        self,
        setup: TrialSetup,
        trial: BuiltTrial,
        baseline: Baseline | None,
        *,
        candidates: int = 1,
        control: bool = False,
        tolerance_ratio: Callable[[], float | None],
        measure: Callable[[MeasureRequest], MeasureReply],
        say: Callable[[str], None],
        earlier: TrialResult | None = None,
    ) -> None:
        self.records: list[ProcessRecord] = list(earlier.processes) if earlier else []
        self.parity: Verdict | None = earlier.parity if earlier else None
        self.of_baseline: list[ProcessRecord] = []
        self._setup = setup
        self._trial = trial
        self._baseline = baseline
        self._candidates = candidates
        self._control = control
        self._tolerance_ratio = tolerance_ratio
        self._measure = measure
        self._say = say
        self._design = best_design(setup, baseline, trial.threads)
        self.pairing = "" if baseline is None else self._design
        # What is drawn is kept with each process; no two runs of a plan may draw the same.
        self._order = random.SystemRandom()
        if earlier and earlier.pairing.startswith(_NO_BASELINE) and baseline is not None:
            if design_of(self.records) == ADJACENT:  # it had fallen back
                self.pairing = self._design = ADJACENT
        elif earlier and earlier.pairing:
            self.pairing = earlier.pairing
            if baseline is not None:  # else no pair can come, but in a later run it may
                self._design = earlier.pairing.partition(":")[0]
        self.all_count = False
        if setup.protocol.repeats == 0 or (earlier is not None and earlier.all_count):
            self._count_all()  # each is on disk as it was judged when it was measured

    @property
    def is_paired(self) -> bool:
        """Whether processes are compared with the baseline's."""
        return self._design != NONE

    @property
    def valid(self) -> list[ProcessRecord]:
        """Processes that count."""
        return [record for record in self.records if not record.disturbance]

    def add(
        self,
        cpus: tuple[int, ...] = (),
        controlled: Callable[[MeasureRequest], MeasureRequest] | None = None,
    ) -> None:
        """Run one more process; raises StageFailed where it measures nothing of the candidate.

        Args:
            cpus: its processors, unless a process of the baseline before it had others; empty to
                choose.
            controlled: `with_control` of the baseline's own trial: a process of it beside this one
                may bring a pair of its control as well.
        """
        self._say("")
        self.records.append(self._judged(self._next(cpus, controlled)))
        if len(self.records) - len(self.valid) > self._setup.protocol.repeats:
            # A rule for all of them or for none: the machine is no longer as it was before.
            self._count_all()
        if self.log_ratios:
            self.pairing = self.pairing.removesuffix(f": {NO_PAIR_IN_TIME}")
        self._look_for_interference()

    def _count_all(self) -> None:
        self.all_count = True
        self.records = [replace(record, disturbance="") for record in self.records]

    def take(self, record: ProcessRecord) -> None:
        """Count a process of this trial that was measured back to back with another trial's."""
        self.records.append(record)
        if record.paired is not None:
            self._look_for_interference()

    def with_control(self, request: MeasureRequest) -> MeasureRequest:
        """The request of a process of this trial, with a pair of its control where one is lacking.

        What is measured first, the trial alone, stays as it is.
        """
        if not self.lacks_control or self._design != ALTERNATED or self._baseline is None:
            return request
        return replace(
            request,
            baseline=Baseline(trial_id=self._baseline.trial_id, trial=request.trial),
            candidate_first=self._candidate_first(),
            seed=self._order.getrandbits(32),
        )

    def _look_for_interference(self) -> None:
        if self._design == ALTERNATED and self._setup.protocol.pairing == "auto":
            side = interference_at_look(self.valid, self._setup.protocol.delta_ratio)
            if side:
                self._fall_back(f"interleaving changed the {side}'s own speed")

    def enough(self, elapsed_s: float) -> str | None:
        """Why the stopping rule adds no process, or None."""
        valid = self.valid
        reason = self._setup.stopping.enough_processes(
            [primary_ns(record) for record in valid],
            elapsed_s,
            self._log_ratios(valid),
            self._setup.protocol.delta_ratio,
            self._candidates,
        )
        return None if reason == CONVERGED and self.lacks_control else reason

    @property
    def lacks_control(self) -> bool:
        """Whether a control has too few pairs for a statement."""
        enough = SLOW_CONTROL_PAIRS if self._has_slow_control() else CONTROL_PAIRS
        return self._control and self.is_paired and len(self.log_ratios) < enough

    def _has_slow_control(self) -> bool:
        """Whether a pair of the control takes so long that few must do."""
        valid = self.valid if self._control else []
        return bool(valid) and least_pair_s(primary_ns(valid[0])) > SLOW_PAIR_S

    @property
    def log_ratios(self) -> Sequence[float]:
        """Log ratio of each pair of the current design so far."""
        return [] if self._design == NONE else self._of_design(self.valid)

    def _of_design(self, valid: Sequence[ProcessRecord]) -> list[float]:
        return log_ratios(
            [p for p in valid if p.paired is not None and p.paired.design == self._design]
        )

    def _log_ratios(self, valid: Sequence[ProcessRecord]) -> Sequence[float]:
        """Log ratios of the current design's pairs; before the first, a single one."""
        if self._design == NONE or self._control:
            return ()
        return self._of_design(valid) or (0.0,)

    def _next(
        self,
        cpus: tuple[int, ...],
        controlled: Callable[[MeasureRequest], MeasureRequest] | None,
    ) -> ProcessRecord:
        """The next process, back to back with one of the baseline's if that is the design."""
        candidate_first = self._candidate_first()
        if self._design != ADJACENT or self._baseline is None:
            return self._run_candidate(candidate_first, cpus=cpus)
        before = None if candidate_first else self._run_baseline(controlled)
        try:
            record = self._run_candidate(candidate_first, before, cpus)
        except StageFailed:
            if before is not None:
                self._share(before)
            raise
        other = self._run_baseline(controlled, record) if candidate_first else before
        if other is None:
            return record
        paired = Paired(
            baseline_id=self._baseline.trial_id,
            design=ADJACENT,
            ours=None,
            theirs=other.observations,
            theirs_from=other.steady_from or 0,
            candidate_first=candidate_first,
        )
        return replace(record, paired=paired, disturbance=self._share(other))

    def _share(self, other: ProcessRecord) -> str:
        """Keep a process of the baseline, unless it is rejected: returns why it is."""
        judged = self._judged(other)
        if not judged.disturbance:
            self.of_baseline.append(judged)
        return judged.disturbance

    def _candidate_first(self) -> bool:
        pairs = [p.paired for p in self.valid if p.paired and p.paired.design == self._design]
        return next_side([bool(pair.candidate_first) for pair in pairs], self._order)

    def _run_candidate(
        self,
        candidate_first: bool,
        beside: ProcessRecord | None = None,
        cpus: tuple[int, ...] = (),
    ) -> ProcessRecord:
        """A process of the trial itself, interleaved with the baseline if that is the design."""
        interleaved = (
            self._baseline is not None
            and self._design == ALTERNATED
            and (self.lacks_control or not self._has_slow_control())
        )
        request = MeasureRequest(
            trial=self._trial,
            verify=self.parity is None,
            split=not any(record.split for record in self.valid),
            count=not self.valid,
            baseline=self._baseline if interleaved else None,
            candidate_first=candidate_first,
            seed=self._order.getrandbits(32) if interleaved else 0,
            cpus=beside.conditions.cpus if beside else cpus,
            template=self._template_for(self._setup, beside_baseline=interleaved),
        )
        try:
            reply = self._measure(request)
        except StageFailed as failed:
            if not isinstance(failed.partial, MeasureReply):
                raise
            reply = failed.partial
            if not self._is_out_of_time(failed.failure):
                self._fall_back(f"the two did not run in one process ({failed.failure.kind})")
        self.parity = reply.verdict or self.parity
        return reply.process

    def _run_baseline(
        self,
        controlled: Callable[[MeasureRequest], MeasureRequest] | None,
        beside: ProcessRecord | None = None,
    ) -> ProcessRecord | None:
        """A process of the baseline; None where it fails: then there are no more of them."""
        assert self._baseline is not None  # the design is not chosen without one
        cpus = beside.conditions.cpus if beside else ()
        try:
            trial = self._baseline.trial
            template = self._template_for(open_trial(trial.spec))
            request = MeasureRequest(trial=trial, cpus=cpus, template=template)
            return self._measure(controlled(request) if controlled else request).process
        except StageFailed as failed:
            if isinstance(failed.partial, MeasureReply):  # only the pair of the control is missing
                return failed.partial.process
            if not self._is_out_of_time(failed.failure):
                self._design = NONE
                self.pairing = f"none: the baseline failed ({failed.failure.kind})"
            return None

    def _is_out_of_time(self, failure: Failure) -> bool:
        """Whether only the budget ended a pair: noted, and a resumed trial goes on as planned."""
        if failure.kind != BUDGET_REACHED:
            return False
        if self.pairing == self._design:  # else there is a reason already, perhaps the same
            self.pairing = f"{self._design}: {NO_PAIR_IN_TIME}"
        return True

    def _template_for(self, side: TrialSetup, *, beside_baseline: bool = False) -> str:
        """Template of the next process; in a race, after the first process of the trial.

        How a conversion starts and what memory it takes is read from that one. Both sides of a
        back-to-back pair begin alike, so that the ratio has no part in how they do.

        Args:
            beside_baseline: whether the process is interleaved with the baseline.
        """
        stopping = self._setup.stopping
        table = stopping.table_terms(self._setup.protocol.delta_ratio)
        if not stopping.forks_all and (table is None or not self.valid):
            return ""
        sides = [self._setup]
        if self._baseline is not None and self._design == ADJACENT:
            sides.append(open_trial(self._baseline.trial.spec))
        alike = all(template_for(each, each.runtime.requires) for each in sides)
        if not alike:
            return ""
        requires = side.runtime.requires
        if stopping.forks_all and beside_baseline and self._baseline is not None:
            # Nothing is read of its memory, so it need not be free of what the baseline imports.
            requires = (*requires, *open_trial(self._baseline.trial.spec).runtime.requires)
        return template_for(side, requires)

    def _fall_back(self, reason: str) -> None:
        """Use the next best design from here on, unless only one was requested."""
        self._design = ADJACENT if self._setup.protocol.pairing == "auto" else NONE
        self.pairing = f"{self._design}: {reason}"

    def _judged(self, record: ProcessRecord) -> ProcessRecord:
        """The record, marked as rejected where the reference workload was slow around it."""
        own = record.conditions
        # Or its baseline's process was rejected.
        if self.all_count or record.disturbance or own.canary_before_ns is None:
            return record
        tolerance = self._tolerance_ratio()
        if tolerance is None:
            return record
        looked = (one.conditions for one in (*self.records, record))
        first = next(one for one in looked if one.canary_before_ns)
        return replace(record, disturbance=disturbance(own, first, tolerance))

"""Two versions of the code in processes back to back, in an order drawn anew for every two pairs.

Both sides have the same trials. Each side builds a trial with its own code, in a store of its own,
and checks it; the first process of each is not counted. Then, in rounds over the trials, one
process of one side follows one of the other on the same processors, until an interim analysis is
clear, or time or pairs are used up.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchorch.config.components import make
from benchorch.domain.codec import Json, encode
from benchorch.domain.protocol import Protocol
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError, Correction, ExecutorError, Problem
from benchorch.formatting import cell_name, interval_text, plural, varying_labels
from benchorch.interfaces.scenario import Scenario
from benchorch.journal import run_directory
from benchorch.progress import Say
from benchorch.results.compare.duels import (
    LOOKS,
    DuelTerms,
    Meeting,
    ProcessTimes,
    judge,
    refused,
)
from benchorch.results.compare.gate import UNCLEAR, Gated
from benchorch.run.duel.contender import CodeVersion, Contender, started
from benchorch.run.duel.messages import EndedTrial, Origin, ProcessLevel
from benchorch.run.planner import new_plan_id
from benchorch.trial.repetitions import next_side

PAIRS = "pairs.jsonl"
_LEAST = 3  # pairs that are measured even where the time is used up before


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelExtent:
    """How long a duel may take.

    Attributes:
        seconds: for all trials together; a pair that has begun is finished.
        pairs: of each trial at most.
    """

    seconds: float
    pairs: int


@dataclass(slots=True, kw_only=True)
class Bout:
    """One trial of a duel so far.

    Attributes:
        cpus: the processors of its processes.
        trouble: why it cannot be judged; empty where it can.
        ended: whether it gets no more pairs.
    """

    trial: Trial
    name: str
    meetings: list[Meeting] = field(default_factory=list)
    cpus: tuple[int, ...] = ()
    trouble: str = ""
    ended: bool = False

    def judged(self, terms: DuelTerms) -> Gated:
        """Its state with what was measured so far."""
        if self.trouble or not self.meetings:
            return refused(self.name, self.trouble or "no pair was measured", terms)
        return judge(self.name, self.meetings, terms)


@dataclass(slots=True, kw_only=True)
class Duel:
    """What became of a duel.

    Attributes:
        origins: where the old and the new code came from.
        interrupted: whether somebody ended it.
    """

    terms: DuelTerms
    bouts: list[Bout]
    origins: tuple[Origin, Origin] | None = None
    interrupted: bool = False

    def cases(self) -> list[Gated]:
        """The verdict of each trial."""
        return [bout.judged(self.terms) for bout in self.bouts]


def prepared(plan: Plan, side: CodeVersion, store: Path) -> None:
    """Make the directory of a side's run, with a plan of its own."""
    side.directory.mkdir(parents=True)
    session = {**plan.session, "cwd": str(side.folder), "store": _own(plan.session, store)}
    own = replace(plan, plan_id=new_plan_id(), session=session, trials=alone(plan.trials))
    run_directory.write_plan(side.directory, own)


def alone(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Trials that are not paired with a baseline: their counterpart is the other version."""
    return tuple(
        replace(one, baseline_id=None, baseline_conversion=None, is_control=False) for one in trials
    )


def _own(session: ConfigNode, store: Path) -> ConfigNode:
    """The store's node with artifacts of its own: what one side built the other never gets."""
    return {**node_of(session, "store"), "root": str(store)}


def terms_of(plan: Plan, limit_ratio: float) -> DuelTerms:
    """The terms for all trials of a plan."""
    protocols = [node_of(trial.spec, "protocol") for trial in plan.trials]
    margins = [node.get("delta_ratio", Protocol().delta_ratio) for node in protocols]
    return DuelTerms(
        limit_ratio=limit_ratio,
        delta_ratio=min(float(margin) for margin in margins if isinstance(margin, int | float)),
        trials=len(plan.trials),
    )


def fight(
    plan: Plan,
    sides: tuple[CodeVersion, CodeVersion],
    *,
    terms: DuelTerms,
    extent: DuelExtent,
    modules: tuple[str, ...],
    check: Callable[[tuple[Origin, Origin]], None],
    say: Say,
) -> Duel:
    """Run all trials of a plan on both sides; ended by Ctrl-C it holds what there is.

    So it does where a side's program ends by itself.

    Raises ExecutorError where a side cannot begin.

    Args:
        sides: the old one and the new one, both `prepared`.
        modules: of the user, to tell where each side has them from.
        check: raises ConfigError where a side's code is not the side's own.
    """
    labels = varying_labels([trial.labels for trial in plan.trials])
    bouts = [Bout(trial=one, name=cell_name(one.labels, labels)) for one in plan.trials]
    found = Duel(terms=terms, bouts=bouts)
    with ExitStack() as running:
        try:
            old, new = (running.enter_context(started(side, modules)) for side in sides)
            found.origins = (old.origin, new.origin)
            check(found.origins)
            _PairRounds(bouts, old, new, terms=terms, extent=extent, say=say).run()
        except ExecutorError:
            if found.origins is None:
                raise
        except KeyboardInterrupt:
            found.interrupted = True
    return found


class _PairRounds:
    """One pair of each trial that needs more, round by round, in an order drawn anew."""

    def __init__(
        self,
        bouts: Sequence[Bout],
        old: Contender,
        new: Contender,
        *,
        terms: DuelTerms,
        extent: DuelExtent,
        say: Say,
    ) -> None:
        self._bouts = bouts
        self._old, self._new = old, new
        self._terms = terms
        self._extent = extent
        self._say = say
        self._order = random.SystemRandom()

    def run(self) -> None:
        """Measure pairs until that is enough; both sides have ended all trials then."""
        reason = "failed"
        try:
            for bout in self._bouts:
                self._build(bout)
            self._measure()
        except KeyboardInterrupt:
            self._say("ending with the process in flight; again to end at once")
            reason = "interrupted"
            raise
        except ExecutorError as error:
            for bout in (one for one in self._bouts if not one.ended):
                bout.trouble = bout.trouble or str(error)  # nobody knows whether it was correct
            raise
        finally:
            for bout in self._bouts:
                self._stop(bout, reason)

    def _build(self, bout: Bout) -> None:
        """Build a trial on both sides and run the process that does not count."""
        self._say(f"{bout.name}, building on both sides")
        both = (self._old, self._new)
        for contender in both:
            contender.go_on(bout.trial.trial_id)
        for contender, answer in [(contender, contender.answer()) for contender in both]:
            if isinstance(answer, EndedTrial):
                _fail(bout, contender, answer.trouble)
            else:
                bout.cpus = bout.cpus or answer.cpus
        if bout.trouble:
            self._stop(bout, "failed")

    def _measure(self) -> None:
        """Rounds until every trial has enough."""
        ends_s = time.monotonic() + self._extent.seconds
        while going := [bout for bout in self._bouts if not bout.ended]:
            for bout in self._order.sample(going, len(going)):
                self._pair(bout)
                reason = self._enough(bout, is_late=time.monotonic() >= ends_s)
                if reason:
                    self._stop(bout, reason)

    def _pair(self, bout: Bout) -> None:
        """One process of each side, back to back."""
        new_first = next_side([met.new_first for met in bout.meetings], self._order)
        order = (self._new, self._old) if new_first else (self._old, self._new)
        levels = {contender.side.name: self._level(bout, contender) for contender in order}
        if not bout.trouble:
            new, old = _level(levels["new"]), _level(levels["old"])
            bout.meetings.append(Meeting(new=new, old=old, new_first=new_first))
            self._keep(bout)

    def _level(self, bout: Bout, contender: Contender) -> ProcessLevel | None:
        """One more process of a side."""
        if bout.trouble:
            return None
        contender.go_on(bout.trial.trial_id, bout.cpus)
        answer = contender.answer()
        if isinstance(answer, ProcessLevel) and answer.median > 0:
            return answer
        trouble = answer.trouble if isinstance(answer, EndedTrial) else "a process observed nothing"
        _fail(bout, contender, trouble)
        return None

    def _enough(self, bout: Bout, *, is_late: bool) -> str:
        """The reason to stop; empty where there is none."""
        if bout.trouble:
            return "failed"
        pairs = len(bout.meetings)
        found = bout.judged(self._terms)
        judged = found.floor if found.floor and found.floor.is_evidence else found.judged
        if judged.ratio is not None:
            shown = interval_text(judged.ratio, "{:.3f}".format)
            self._say(f"{bout.name}, {plural(pairs, 'pair')}, {judged.metric} new / old {shown}")
        if pairs in LOOKS and found.state != UNCLEAR:
            return "converged"
        if pairs >= self._extent.pairs:
            return "max_pairs"
        return "budget" if pairs >= _LEAST and is_late else ""

    def _stop(self, bout: Bout, reason: str) -> None:
        """End a trial on both sides; what is wrong with its outputs is known only now."""
        bout.ended = True
        for contender in (self._old, self._new):
            try:
                ended = contender.stop(bout.trial.trial_id, reason)
            except ExecutorError as error:
                ended = EndedTrial(trial_id=bout.trial.trial_id, trouble=str(error))
            if ended.trouble and not bout.trouble:
                _fail(bout, contender, ended.trouble)

    def _keep(self, bout: Bout) -> None:
        line: dict[str, Json] = {"trial_id": bout.trial.trial_id, "name": bout.name}
        pair = encode(bout.meetings[-1])
        assert isinstance(pair, dict)
        run_directory.append_line(self._old.side.directory.parent / PAIRS, {**line, **pair})


def _fail(bout: Bout, contender: Contender, reason: str) -> None:
    bout.trouble = f"{contender.side.name}: {reason or 'it ended early'}"


def _level(found: ProcessLevel | None) -> ProcessTimes:
    assert found is not None  # without trouble there is one
    return ProcessTimes(median=found.median, floor=found.floor)


def refuse_remote(plan: Plan, *, is_remote: bool) -> None:
    """ConfigError where trials would run elsewhere, or there are none."""
    if is_remote:
        raise ConfigError(["A duel runs on this machine: leave out the executor and hardware."])
    if not plan.trials:
        reasons = [f"{skip.reason} {skip.remedy}".strip() for skip in plan.skips]
        raise ConfigError(reasons or ["There is no trial to run."])


def refuse_several_rates(plan: Plan) -> None:
    """ConfigError where each side would offer rates that follow from its own speed.

    A slower one is offered less, and its responses may then be the shorter ones.
    """
    for trial in plan.trials:
        if make(node_of(trial.spec, "scenario"), Scenario, "scenario").several_rates:
            name = trial.labels["scenario"]
            problem = (
                f"scenario: a duel compares times of queries, and {name} offers each side rates "
                "of its own. Name one for both: scenario=server scenario.rate_per_s=RATE; or "
                "measure each in a run, and compare the two runs."
            )
            raise ConfigError([Problem(problem, Correction(settings=("scenario=server",)))])

"""Two versions of the code in processes back to back, in an order drawn anew for every two pairs.

Both sides have the same trials. Each side builds a trial with its own code, in a store of its own,
and checks it; the first process of each is not counted. Then one process of one side follows one of
the other on the same processors, until an interim analysis is clear, or time or pairs are used up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchorch.domain.codec import Json, encode
from benchorch.domain.protocol import Protocol
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError, ExecutorError
from benchorch.formatting import cell_name, interval_text, plural, varying_labels
from benchorch.journal import run_directory
from benchorch.progress import Say
from benchorch.results.compare.duels import (
    LOOKS,
    Level,
    Meeting,
    Terms,
    judge,
    refused,
)
from benchorch.results.compare.gate import UNCLEAR, Gated
from benchorch.run.duel.contender import Contender, Side, started
from benchorch.run.duel.messages import Ended, Origin, ProcessLevel
from benchorch.run.planner import new_plan_id

PAIRS = "pairs.jsonl"
_LEAST = 3  # pairs that are measured even where the time is used up before


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
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
        trouble: why it cannot be judged; empty where it can.
    """

    trial: Trial
    name: str
    meetings: list[Meeting] = field(default_factory=list)
    trouble: str = ""

    def judged(self, terms: Terms) -> Gated:
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

    terms: Terms
    bouts: list[Bout]
    origins: tuple[Origin, Origin] | None = None
    interrupted: bool = False

    def cases(self) -> list[Gated]:
        """The verdict of each trial."""
        return [bout.judged(self.terms) for bout in self.bouts]


def prepared(plan: Plan, side: Side, store: Path) -> None:
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


def terms_of(plan: Plan, limit_ratio: float) -> Terms:
    """The terms for all trials of a plan."""
    protocols = [node_of(trial.spec, "protocol") for trial in plan.trials]
    margins = [node.get("delta_ratio", Protocol().delta_ratio) for node in protocols]
    return Terms(
        limit_ratio=limit_ratio,
        delta_ratio=min(float(margin) for margin in margins if isinstance(margin, int | float)),
        trials=len(plan.trials),
    )


def fight(
    plan: Plan,
    sides: tuple[Side, Side],
    *,
    terms: Terms,
    extent: Extent,
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
    began_s = time.monotonic()
    with ExitStack() as running:
        try:
            old, new = (running.enter_context(started(side, modules)) for side in sides)
            found.origins = (old.origin, new.origin)
            check(found.origins)
            for place, bout in enumerate(bouts):
                left_s = extent.seconds - (time.monotonic() - began_s)
                share = Extent(seconds=left_s / (len(bouts) - place), pairs=extent.pairs)
                _Match(bout, old, new, terms=terms, extent=share, say=say).run()
        except ExecutorError as error:
            if found.origins is None:
                raise
            for bout in bouts:
                bout.trouble = bout.trouble or ("" if bout.meetings else str(error))
        except KeyboardInterrupt:
            found.interrupted = True
    return found


class _Match:
    """One trial on both sides."""

    def __init__(
        self,
        bout: Bout,
        old: Contender,
        new: Contender,
        *,
        terms: Terms,
        extent: Extent,
        say: Say,
    ) -> None:
        self._bout = bout
        self._old, self._new = old, new
        self._terms = terms
        self._extent = extent
        self._say: Say = lambda text: say(f"{bout.name}, {text}")
        self._order = random.SystemRandom()
        self._cpus: tuple[int, ...] = ()

    def run(self) -> None:
        """Measure pairs until that is enough; both sides have ended the trial then."""
        began_s = time.monotonic()
        reason = "failed"
        try:
            for contender in (self._old, self._new):
                contender.begin(self._bout.trial.trial_id)
            if self._both_built():
                reason = self._pairs(began_s)
        except KeyboardInterrupt:
            self._say("ending with the process in flight; again to end at once")
            reason = "interrupted"
            raise
        finally:
            self._stop(reason)

    def _both_built(self) -> bool:
        """Whether both have built the trial and run the process that does not count."""
        self._say("building on both sides")
        first = [contender.answer() for contender in (self._old, self._new)]
        for contender, answer in zip((self._old, self._new), first, strict=True):
            if isinstance(answer, Ended):
                self._trouble(contender, answer.trouble)
            else:
                self._cpus = self._cpus or answer.cpus
        return not self._bout.trouble

    def _pairs(self, began_s: float) -> str:
        """Pairs until enough; the reason why that was."""
        meetings = self._bout.meetings
        while True:
            new_first = self._new_first()
            order = (self._new, self._old) if new_first else (self._old, self._new)
            levels = {contender.side.name: self._level(contender) for contender in order}
            if self._bout.trouble:
                return "failed"
            met = Meeting(new=_level(levels["new"]), old=_level(levels["old"]), new_first=new_first)
            meetings.append(met)
            self._keep(met)
            if reason := self._enough(time.monotonic() - began_s):
                return reason

    def _level(self, contender: Contender) -> ProcessLevel | None:
        """One more process of a side."""
        if self._bout.trouble:
            return None
        contender.go_on(self._cpus)
        answer = contender.answer()
        if isinstance(answer, ProcessLevel) and answer.median > 0:
            return answer
        trouble = answer.trouble if isinstance(answer, Ended) else "a process observed nothing"
        self._trouble(contender, trouble)
        return None

    def _enough(self, elapsed_s: float) -> str:
        """The reason to stop; empty where there is none."""
        pairs = len(self._bout.meetings)
        found = self._bout.judged(self._terms)
        judged = found.floor if found.floor and found.floor.is_evidence else found.judged
        if judged.ratio is not None:
            shown = interval_text(judged.ratio, "{:.3f}".format)
            self._say(f"{plural(pairs, 'pair')}, {judged.metric} new / old {shown}")
        if pairs in LOOKS and found.state != UNCLEAR:
            return "converged"
        if pairs >= self._extent.pairs:
            return "max_pairs"
        return "budget" if pairs >= _LEAST and elapsed_s >= self._extent.seconds else ""

    def _new_first(self) -> bool:
        """Drawn in blocks of two: after an even number of pairs both orders are equally many."""
        meetings = self._bout.meetings
        if len(meetings) % 2:
            return not meetings[-1].new_first
        return self._order.random() < 0.5

    def _trouble(self, contender: Contender, reason: str) -> None:
        self._bout.trouble = f"{contender.side.name}: {reason or 'it ended early'}"

    def _stop(self, reason: str) -> None:
        """End the trial on both sides; what is wrong with its outputs is known only now."""
        for contender in (self._old, self._new):
            try:
                ended = contender.stop(reason)
            except ExecutorError as error:
                ended = Ended(trouble=str(error))
            if ended.trouble and not self._bout.trouble:
                self._trouble(contender, ended.trouble)

    def _keep(self, met: Meeting) -> None:
        line: dict[str, Json] = {"trial_id": self._bout.trial.trial_id, "name": self._bout.name}
        pair = encode(met)
        assert isinstance(pair, dict)
        run_directory.append_line(self._old.side.directory.parent / PAIRS, {**line, **pair})


def _level(found: ProcessLevel | None) -> Level:
    assert found is not None  # without trouble there is one
    return Level(median=found.median, floor=found.floor)


def refuse_remote(plan: Plan, *, is_remote: bool) -> None:
    """ConfigError where trials would run elsewhere, or there are none."""
    if is_remote:
        raise ConfigError(["A duel runs on this machine: leave out the executor and hardware."])
    if not plan.trials:
        reasons = [f"{skip.reason} {skip.remedy}".strip() for skip in plan.skips]
        raise ConfigError(reasons or ["There is no trial to run."])

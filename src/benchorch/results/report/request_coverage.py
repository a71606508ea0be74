"""How much of what was requested a conclusion rests on, which is a part of it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.domain.estimate import Summary
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Skip, Trial
from benchorch.formatting import bounded, plural
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.metrics.load import is_unstable

_NAMED = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCoverage:
    """What became of the cells of one serving case.

    Attributes:
        requested: how many there are, a baseline that was added included.
        ranked: how many have a figure and are the same model.
        missing: the others, each with the reason.
        undecided: those whose comparison with the baseline has no verdict.
        is_partial: whether some have no final result, because the run was ended before its plan.
    """

    requested: int
    ranked: int
    missing: tuple[tuple[str, str], ...] = ()
    undecided: tuple[str, ...] = ()
    is_partial: bool = False

    def counted(self, compared: int) -> str:
        """``4``, or ``2 of 4`` where not all could be compared."""
        whole = compared == self.requested
        return str(self.requested) if whole else f"{compared} of {self.requested}"

    @property
    def remarks(self) -> str:
        """What limits the conclusion, as the end of its sentence; empty where nothing does."""
        lost = [f"{name} {why}" for name, why in self.missing]
        parts = [_listed(lost)] if lost else []
        if self.undecided:
            parts.append(f"undecided against the baseline: {_listed(self.undecided)}")
        if self.is_partial:
            parts.append("partial, because not every trial has ended")
        return "".join(f"; {part}" for part in parts)


def coverage(
    trials: Sequence[Trial],
    skips: Sequence[Skip],
    run: RunResults,
    ranked: Collection[str],
) -> RequestCoverage:
    """Of the trials of one serving case and the skips of what was requested for it.

    Args:
        ranked: ids of the trials that have a figure and are the same model.
    """
    everything = [*(trial.labels for trial in trials), *(skip.labels for skip in skips)]
    several = len({labels.get("hardware") for labels in everything}) > 1
    ran = [trial for trial in trials if trial.trial_id in ranked]
    missing = [
        (_name(trial.labels, several), _loss(run, trial.trial_id))
        for trial in trials
        if trial.trial_id not in ranked
    ]
    missing += [(_name(skip.labels, several), f"skipped ({_first(skip.reason)})") for skip in skips]
    return RequestCoverage(
        requested=len(everything),
        ranked=len(ran),
        missing=tuple(missing),
        undecided=tuple(_name(one.labels, several) for one in _undecided(ran, run.summaries)),
        is_partial=not all(_has_ended(run.results.get(trial.trial_id)) for trial in trials),
    )


def pending(run: RunResults) -> str:
    """How far a run is, in place of its conclusion; empty where every trial has ended."""
    trials = run.plan.trials
    ended = sum(_has_ended(run.results.get(trial.trial_id)) for trial in trials)
    if ended == len(trials):
        return ""
    count = f"{ended} of {plural(len(trials), 'trial')}"
    return f"Not finished: {count} have ended, so nothing is concluded yet."


def _loss(run: RunResults, trial_id: str) -> str:
    """Why a trial cannot be ranked."""
    result = run.results.get(trial_id)
    if result is None:
        return "not run"
    if result.outcome is not Outcome.OK:
        return f"failed ({result.failure.kind})" if result.failure else "failed"
    if result.disagrees:
        return "not the same model"
    overloaded = trial_id in run.unstable or is_unstable(result.valid)
    return "unstable" if overloaded else "not measured"


def _has_ended(result: TrialResult | None) -> bool:
    return result is not None and not result.unfinished


def _undecided(ran: Sequence[Trial], summaries: Mapping[str, Summary]) -> Iterator[Trial]:
    for trial in ran:
        speedup = summaries[trial.trial_id].speedup
        if speedup is not None and speedup.verdict == "inconclusive":
            yield trial


def _name(labels: Mapping[str, str], with_machine: bool) -> str:
    name = bounded(labels.get("conversion", ""))
    return f"{name} on {labels.get('hardware', '')}" if with_machine else name


def _first(reason: str) -> str:
    """The first sentence of a reason, without its full stop."""
    return reason.partition(". ")[0].rstrip(".")


def _listed(texts: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(texts) - _NAMED
    return ", ".join([*texts[:_NAMED], *([plural(more, "other")] if more > 0 else [])])

"""Overviews of large sweeps: counts of outcomes, and equal failures and skips once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchorch.domain.estimate import Summary
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.trial import Skip, Trial
from benchorch.domain.verdict import Kind
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.tables import fastest, named, serving_case

HEADERS = ("model", "hardware", "scenario", "trials", "best figure", "shown to beat its baseline")
_WINNERS_NAMED = 2
_OTHERS_NAMED = 3
_NAMES_SHOWN = 3

Answer = tuple[Trial | None, Mapping[str, Summary]]
"""The fastest trial of one serving case, or None, and the summaries of its run."""


def overview_rows(run: RunResults) -> list[tuple[str, ...]]:
    """A header, then a row for each model, hardware and scenario, in the plan's order.

    Latencies of different cases cannot be ranked, so a row has how often each conversion is best.
    """
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for trial in run.plan.trials:
        key = tuple(trial.labels.get(name, "") for name in HEADERS[:3])
        groups.setdefault(key, []).append(trial)
    rows = [
        (*key, _states(trials, run.results), *_winners(trials, run))
        for key, trials in groups.items()
    ]
    return [HEADERS, *rows]


def _states(trials: Sequence[Trial], results: Mapping[str, TrialResult]) -> str:
    """``475 ok, 5 failed``: the number of trials by outcome."""
    found = Counter(_state(results.get(trial.trial_id)) for trial in trials)
    return ", ".join(f"{found[state]} {state}" for state in _STATES if found[state])


_STATES = ("ok", "not the same model", "not deterministic", "failed", "not run")


def _state(result: TrialResult | None) -> str:
    if result is None:
        return "not run"
    if result.outcome is not Outcome.OK:
        return "failed"
    if result.parity is None or result.parity.passed:
        return "ok"
    random = result.parity.kind is Kind.NOT_DETERMINISTIC
    return "not deterministic" if random else "not the same model"


def _winners(trials: Sequence[Trial], run: RunResults) -> tuple[str, str]:
    """How often each conversion has the best figure, and in how many cases that is proven."""
    cases: dict[str, list[Trial]] = {}
    for trial in trials:
        cases.setdefault(serving_case(trial), []).append(trial)
    best = [fastest(case, run) for case in cases.values()]
    known = [trial for trial in best if trial is not None]
    named = Counter(trial.labels["conversion"] for trial in known).most_common()
    texts = [f"{name} in {times}" for name, times in named[:_WINNERS_NAMED]]
    rest = sum(times for _, times in named[_WINNERS_NAMED:])
    texts += [f"others in {rest}"] if rest else []
    shown = sum(_is_shown(trial, run.summaries) for trial in known)
    count = len(cases)
    return f"{', '.join(texts) or 'none'} of {count}", f"{shown} of {count}"


def overall(answers: Sequence[Answer]) -> str:
    """One sentence over many cases: the most frequent winners, and how often that is proven."""
    known = [(trial, summaries) for trial, summaries in answers if trial is not None]
    winners = Counter(named(trial) for trial, _ in known)
    shown = Counter(named(trial) for trial, summaries in known if _is_shown(trial, summaries))
    count = len(answers)
    if not winners:
        return f"None of {count} cases has an answer: no result could be ranked."
    (best, times), *others = winners.most_common()
    sentence = f"{best} has the best figure in {times} of {count} cases"
    if shown[best]:
        sentence = f"{sentence}, and is shown to beat its baseline in {shown[best]}"
    rest = [f"{name} in {many}" for name, many in others[:_OTHERS_NAMED]]
    if len(others) > _OTHERS_NAMED:
        rest.append(f"{len(others) - _OTHERS_NAMED} others in the rest")
    unanswered = count - len(known)
    if unanswered:
        rest.append(f"{unanswered} without an answer")
    return "; ".join(filter(None, (sentence, ", ".join(rest)))) + "."


def _is_shown(trial: Trial, summaries: Mapping[str, Summary]) -> bool:
    """Whether it is proven faster than its baseline."""
    speedup = summaries[trial.trial_id].speedup
    return speedup is not None and speedup.verdict == "faster"


class Alike(NamedTuple):
    """Trials with the same failure.

    Attributes:
        trial_ids: the first one stands for all.
    """

    failure: Failure
    trial_ids: list[str]


def alike_failures(results: Iterable[TrialResult]) -> list[Alike]:
    """Failures of the same class, stage and message together, the most frequent first."""
    found: dict[tuple[str, ...], Alike] = {}
    for result in results:
        failure = result.failure
        if failure is not None:
            key = (failure.stage, failure.kind, failure.message, failure.remedy)
            found.setdefault(key, Alike(failure, [])).trial_ids.append(result.trial_id)
    return sorted(found.values(), key=lambda one: -len(one.trial_ids))


def alike_skips(skips: Sequence[Skip]) -> list[tuple[Skip, int]]:
    """A skip of each reason and remedy, and how many there are, the most frequent first."""
    found: dict[tuple[str, str], list[Skip]] = {}
    for skip in skips:
        found.setdefault((skip.reason, skip.remedy), []).append(skip)
    counted = [(alike[0], len(alike)) for alike in found.values()]
    return sorted(counted, key=lambda one: -one[1])


def some_of(names: Sequence[str]) -> str:
    """``a, b, c and 9,997 more``."""
    more = len(names) - _NAMES_SHOWN
    if more <= 1:  # a name is no longer than saying that there is one
        return ", ".join(names)
    return f"{', '.join(names[:_NAMES_SHOWN])} and {more:,} more"

"""What do these runs say, in one sentence?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.comparing.stored import StoredRun
from benchorch.domain.trial import Trial
from benchorch.tables import conclusions, plural
from benchorch.trace.artifacts.markup import element, escaped, shortened

_MOST_SHOWN = 200
_MOST_OPEN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is said first.

    Attributes:
        sentence: of everything.
        each: of each thing to be served, in the order of the runs; empty where that is the
            sentence itself.
    """

    sentence: str
    each: tuple[str, ...]


def conclusions_of(runs: Sequence[StoredRun]) -> Said:
    """The only conclusion, or who is fastest how often and then all of them."""
    found = [
        (run, one)
        for run in runs
        for one in conclusions(run.plan(), run.results(), run.summaries())
    ]
    if len(found) == 1:
        return Said(sentence=found[0][1].sentence, each=())
    several = len(runs) > 1
    each = [f"{run.plan_id}: {one.sentence}" if several else one.sentence for run, one in found]
    winners = Counter(_way(one.fastest) for _, one in found if one.fastest is not None)
    shown = Counter(
        _way(one.fastest) for run, one in found if one.fastest and _is_shown(run, one.fastest)
    )
    return Said(sentence=_overall(winners, shown, len(found)), each=tuple(each))


def opening(said: Said, runs: Sequence[StoredRun]) -> str:
    """The head of the page."""
    shown = [element("li", {}, escaped(shortened(one, 400))) for one in said.each[:_MOST_SHOWN]]
    if len(said.each) > _MOST_SHOWN:
        shown.append(element("li", {}, f"and {len(said.each) - _MOST_SHOWN} more"))
    trials = sum(len(run.trials) for run in runs)
    plans = shortened(", ".join(run.plan_id for run in runs), 400)
    words = f"{plural(len(runs), 'run')} with {plural(trials, 'trial')}: {plans}"
    return element(
        "header",
        {},
        element("h1", {}, escaped(shortened(said.sentence, 400))),
        _listed(shown, len(said.each)),
        element("p", {"class": "lead small"}, escaped(words)),
    )


def _listed(shown: Sequence[str], count: int) -> str:
    """Folded where there are so many that the table would be out of sight."""
    if not shown:
        return ""
    listed = element("ul", {}, *shown)
    if count <= _MOST_OPEN:
        return listed
    return element("details", {}, element("summary", {}, f"Case by case: {count}"), listed)


def _way(trial: Trial) -> str:
    return f"{trial.labels['conversion']} on {trial.labels['hardware']}"


def _is_shown(run: StoredRun, trial: Trial) -> bool:
    """Whether it was shown to be faster than its baseline."""
    speedup = run.summaries()[trial.trial_id].speedup
    return speedup is not None and speedup.verdict == "faster"


def _overall(winners: Counter[str], shown: Counter[str], count: int) -> str:
    if not winners:
        return f"None of {count} cases has an answer: no result could be ranked."
    (best, times), *others = winners.most_common()
    said = f"{best} has the best figure in {times} of {count} cases"
    if shown[best]:
        said = f"{said}, and is shown to beat its baseline in {shown[best]}"
    rest = [f"{name} in {many}" for name, many in others[:3]]
    if len(others) > 3:
        rest.append(f"{len(others) - 3} others in the rest")
    unanswered = count - sum(winners.values())
    if unanswered:
        rest.append(f"{unanswered} without an answer")
    return "; ".join(filter(None, (said, ", ".join(rest)))) + "."

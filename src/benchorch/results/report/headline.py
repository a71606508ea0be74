"""What do these runs say, in one sentence?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.formatting import plural
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.overview import Answer, overall
from benchorch.results.report.tables import Conclusion, conclusions
from benchorch.trace.report.markup import element, escaped, shortened

_MOST_SHOWN = 200
_MOST_OPEN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryText:
    """What is said first.

    Attributes:
        sentence: of everything.
        each: of each thing to be served, in the order of the runs; empty where that is the
            sentence itself.
    """

    sentence: str
    each: tuple[str, ...]


def conclusions_of(runs: Sequence[StoredRun]) -> SummaryText:
    """The only conclusion, or who is fastest how often and then all of them."""
    found: list[tuple[StoredRun, Conclusion]] = []
    answers: list[Answer] = []
    for run in runs:
        summaries = run.summaries()
        said = conclusions(run.plan(), run.results(), summaries)
        found += [(run, one) for one in said]
        answers += [(one.fastest, summaries) for one in said]
    if len(found) == 1:
        return SummaryText(sentence=found[0][1].sentence, each=())
    several = len(runs) > 1
    each = [f"{run.plan_id}: {one.sentence}" if several else one.sentence for run, one in found]
    return SummaryText(sentence=overall(answers), each=tuple(each))


def opening(said: SummaryText, runs: Sequence[StoredRun]) -> str:
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

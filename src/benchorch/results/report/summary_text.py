"""The conclusion over several runs, in one sentence and case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.overview import Answer, overall
from benchorch.results.report.tables import Conclusion, conclusions


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryText:
    """The head of a report.

    Attributes:
        sentence: over everything.
        each: one for each serving case, in the order of the runs; empty where there is one case.
    """

    sentence: str
    each: tuple[str, ...]


def summary_text(runs: Sequence[StoredRun]) -> SummaryText:
    """The only conclusion; or the conversion that is fastest most often, and all conclusions."""
    found: list[tuple[StoredRun, Conclusion]] = []
    answers: list[Answer] = []
    for run in runs:
        summaries = run.summaries()
        own = conclusions(run.plan(), run.results(), summaries)
        found += [(run, one) for one in own]
        answers += [(one.fastest, summaries) for one in own]
    if len(found) == 1:
        return SummaryText(sentence=found[0][1].sentence, each=())
    several = len(runs) > 1
    each = [f"{run.plan_id}: {one.sentence}" if several else one.sentence for run, one in found]
    return SummaryText(sentence=overall(answers), each=tuple(each))

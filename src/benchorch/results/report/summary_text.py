"""The conclusion over several runs, in one sentence and case by case."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.overview import Answer, overall
from benchorch.results.report.request_coverage import pending
from benchorch.results.report.tables import conclusions


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
    """The only conclusion; or the conversion that is fastest most often, and all conclusions.

    Nothing is concluded from a run that goes on; of one that was interrupted, the conclusion of
    the terminal, which is marked as partial.
    """
    each: list[str] = []
    answers: list[Answer] = []
    for run in (stored.run_results() for stored in runs):
        waits_for = pending(run) if run.running else ""
        own = [] if waits_for else conclusions(run)
        answers += [(one.fastest, run.summaries) for one in own]
        prefix = f"{run.plan.plan_id}: " if len(runs) > 1 else ""
        each += [f"{prefix}{text}" for text in [one.sentence for one in own] or [waits_for]]
    if len(each) == 1:
        return SummaryText(sentence=each[0], each=())
    if not answers:
        return SummaryText(
            sentence="No run here is finished, so nothing is concluded.", each=(*each,)
        )
    return SummaryText(sentence=overall(answers), each=tuple(each))

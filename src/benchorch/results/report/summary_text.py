"""The conclusion over several runs, in one sentence and case by case."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchorch.formatting import plural
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.overview import Answer, overall
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

    Nothing is concluded from a run whose plan has not ended.
    """
    each: list[str] = []
    answers: list[Answer] = []
    for run in runs:
        summaries = run.summaries()
        own = conclusions(run.plan(), run.results(), summaries) if is_finished(run) else []
        answers += [(one.fastest, summaries) for one in own]
        prefix = f"{run.plan_id}: " if len(runs) > 1 else ""
        each += [f"{prefix}{text}" for text in [one.sentence for one in own] or [_pending(run)]]
    if len(each) == 1:
        return SummaryText(sentence=each[0], each=())
    if not answers:
        return SummaryText(
            sentence="No run here is finished, so nothing is concluded.", each=(*each,)
        )
    return SummaryText(sentence=overall(answers), each=tuple(each))


def is_finished(run: StoredRun) -> bool:
    """Whether every trial of its plan has ended, whatever its outcome."""
    return _ended(run) == len(run.trials)


def _ended(run: StoredRun) -> int:
    return sum(one.result is not None and not one.result.unfinished for one in run.trials)


def _pending(run: StoredRun) -> str:
    ended = f"{_ended(run)} of {plural(len(run.trials), 'trial')}"
    return f"Not finished: {ended} have ended, so nothing is concluded yet."

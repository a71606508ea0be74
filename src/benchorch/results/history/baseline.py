"""The baseline of a run by its history: the sessions before it on the same machine."""

from collections.abc import Collection, Sequence

from benchorch.errors import NoBaseline
from benchorch.results.compare.matching import match
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.history.collect import started_at
from benchorch.results.history.series import machine_of, series_of


def sessions_before(
    candidate: StoredRun, runs: Sequence[StoredRun], *, last: int, across: Collection[str] = ()
) -> list[StoredRun]:
    """The last sessions before a run that are on today's level, the newest first.

    Sessions before a shift, or before what is measured was defined anew, in any trial's history
    are left out: they would tell of other code.

    Args:
        runs: in order of time.
        last: how many sessions to look at.
        across: with ``host``, machines of one kind are one.
    """
    own = _machines(candidate, across)
    before = [
        run
        for run in runs
        if started_at(run) < started_at(candidate)
        and (not own or own & _machines(run, across))
        and match(run.trials, candidate.trials, across)[0]
    ]
    window = [run for run in before if run.plan_id != candidate.plan_id][-last:]
    if not window:
        problem = (
            f"None of {len(runs)} runs is from before the candidate, of its trials and on its "
            f"machine ({'; '.join(sorted(own))}). Machines of one kind are one with --across host."
        )
        raise NoBaseline([problem])
    order = {run.plan_id: place for place, run in enumerate(window)}
    begins = [
        order[one.points[one.levels[-1].first].plan_id]
        for one in series_of(window, across=across)
        if one.levels
    ]
    return window[max(begins, default=0) :][::-1]


def _machines(run: StoredRun, across: Collection[str]) -> set[str]:
    """Machines of the trials that started on one; empty where every trial was lost."""
    started = (one for one in run.trials if one.result is not None and one.result.started_at)
    return {machine_of(one, across) for one in started}

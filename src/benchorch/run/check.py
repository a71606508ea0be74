"""Check of a stored run: what of it holds, recomputed from its raw series.

As MLPerf's compliance checkers do, it asks of a run only what its directory can show: that nothing
was changed after it was measured, and that every figure follows from what was measured. A digest is
no signature: who can write the directory could have computed all of it anew.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.domain.codec import Json, encode
from benchorch.domain.result import Outcome, TrialResult, beside_baselines
from benchorch.domain.trial import Plan, node_of
from benchorch.files import as_bytes, read_bytes, read_json
from benchorch.journal import run_directory
from benchorch.journal.reader import Journal, read_journal
from benchorch.progress import Say, counted, silent
from benchorch.results.compare.load_run import refuse_running
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.metrics.without_figures import WITHOUT_FIGURES, reason
from benchorch.run.invocation import plain_metrics

HOLDS, FAILS, UNCHECKED = "holds", "does not hold", "not checked"
_IMPOSSIBLE = (OSError, *WITHOUT_FIGURES)

_SAME = 1e-9
"""Figures are the same up to this share: sums may be taken in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinding:
    """One of the questions that are asked of a run.

    Attributes:
        name: what is asked about.
        verdict: `HOLDS`, `FAILS` or `UNCHECKED`.
        problems: what does not hold, or why it was not checked, a sentence each.
    """

    name: str
    verdict: str
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckedRun:
    directory: Path
    plan: Plan
    journal: Journal
    results: Mapping[str, TrialResult]
    lost: Sequence[str] = field(default_factory=list)


def check(directory: Path, say: Say = silent) -> list[RunFinding]:
    """Every finding about a run that has ended; ConfigError where there is no run to check."""
    plan = run_directory.read_plan(directory)
    refuse_running(directory, plan)
    journal = read_journal(directory)
    results: dict[str, TrialResult] = {}
    lost = []
    for trial_id, entry in counted(journal.entries.items(), "reading results", say):
        try:
            results[trial_id] = entry.whole(directory)
        except run_directory.SeriesError as error:
            lost.append(str(error))
    run = _CheckedRun(directory=directory, plan=plan, journal=journal, results=results, lost=lost)
    return [_of(name, work, run) for name, work in _QUESTIONS.items()]


def _of(name: str, work: Callable[[_CheckedRun], Iterator[str]], run: _CheckedRun) -> RunFinding:
    try:
        problems = list(work(run))
    except _IMPOSSIBLE as error:
        problems = [f"cannot be worked out from what is stored ({reason(error)})."]
    if problems:
        return RunFinding(name=name, verdict=FAILS, problems=problems)
    unchecked = _unchecked(name, run)
    return RunFinding(name=name, verdict=UNCHECKED if unchecked else HOLDS, problems=unchecked)


def _unchecked(name: str, run: _CheckedRun) -> list[str]:
    plain = sum(
        run_directory.SERIES_DIGEST not in e.content
        for e in [entry for entry in run.journal.entries.values() if entry.result.processes]
    )
    if name in ("lines", "raw series") and plain:
        return [f"{plain} of {len(run.journal.entries)} results have no digests."]
    table = run.directory / run_directory.TABLE
    return ["there is no table.md."] if name == "table" and not table.exists() else []


def _lines(run: _CheckedRun) -> Iterator[str]:
    yield from run.journal.problems
    yield from (mark for mark in run.journal.marks if mark.startswith("A line is missing"))


def _series(run: _CheckedRun) -> Iterator[str]:
    yield from run.lost


def _whole(run: _CheckedRun) -> Iterator[str]:
    for trial in run.plan.trials:
        entry = run.journal.entries.get(trial.trial_id)
        if entry is None:
            yield f"trial {trial.trial_id} has no result."
        elif entry.result.unfinished:
            yield f"trial {trial.trial_id} was interrupted while it was measured."
    planned = {trial.trial_id for trial in run.plan.trials}
    for trial_id in run.journal.entries:
        if trial_id not in planned:
            yield f"trial {trial_id} has a result and is not in the plan."


def _figures(run: _CheckedRun) -> Iterator[str]:
    """Stored metrics that do not follow from the raw series, with or without the baseline.

    A trial's line is written when it ends, which may be before its baseline does.
    """
    from benchorch.results.metrics.summary import finding

    for trial_id, result in run.results.items():
        stored = node_of(run.journal.entries[trial_id].content, "metrics")
        baseline = run.results.get(result.baseline_id or "")
        found = [plain_metrics(finding(result, one).alone()) for one in (baseline, None)]
        for name, value in stored.items():
            again = [figures[name] for figures in found if name in figures]
            if not any(same_figure(value, one) for one in again):
                given = again[0] if again else "none"
                yield f"trial {trial_id}: {name} is stored as {value}, its series give {given}."


def _table(run: _CheckedRun) -> Iterator[str]:
    from benchorch.results.metrics.summary import summarise_all
    from benchorch.results.report.tables import full_markdown

    path = run.directory / run_directory.TABLE
    if not path.exists():
        return
    results = RunResults(
        directory=run.directory,
        plan=run.plan,
        results=run.results,
        summaries=summarise_all(run.results),
    )
    again = full_markdown(results)
    if read_bytes(path) != as_bytes(again):
        yield f"{path} is not the table that the raw series give; report prints that one."


def _environment(run: _CheckedRun) -> Iterator[str]:
    for trial_id, result in run.results.items():
        folder = run.directory / "trials" / trial_id
        yield from _differs(folder / "environment.json", encode(dict(result.environment)))
        yield from _differs(folder / "parity.json", encode(result.parity))
        baseline = run.results.get(result.baseline_id or "")
        hosts = [one.environment.get("host") for one in (result, baseline) if one is not None]
        if len({host for host in hosts if host}) > 1:
            yield f"trial {trial_id} ran on {hosts[0]}, its baseline on {hosts[1]}."


def _differs(path: Path, stored: Json) -> Iterator[str]:
    if path.exists() and read_json(path) != json.loads(json.dumps(stored)):
        yield f"{path} is not what the journal has."


def _parity(run: _CheckedRun) -> Iterator[str]:
    for trial_id, result in beside_baselines(run.results).items():
        if result.outcome is not Outcome.OK or result.baseline_id is None:
            continue
        if result.parity is None:
            yield f"trial {trial_id}: its outputs were not compared with the baseline's."
        elif not result.parity.passed:
            yield f"trial {trial_id}: {result.parity.explanation or 'its outputs differ.'}"


def _protocol(run: _CheckedRun) -> Iterator[str]:
    specs = {trial.trial_id: trial.spec for trial in run.plan.trials}
    for trial_id, result in run.results.items():
        if result.outcome is Outcome.OK and not result.valid:
            yield f"trial {trial_id} is ok, and no process of it counts."
        planned = node_of(specs.get(trial_id, {}), "protocol").get("delta_ratio")
        if planned is not None and planned != result.delta_ratio:
            yield f"trial {trial_id}: planned with delta_ratio {planned}, has {result.delta_ratio}."


def _clock(run: _CheckedRun) -> Iterator[str]:
    yield from (mark for mark in run.journal.marks if "clock was set back" in mark)


_QUESTIONS: Mapping[str, Callable[[_CheckedRun], Iterator[str]]] = {
    "lines": _lines,
    "raw series": _series,
    "results": _whole,
    "figures": _figures,
    "table": _table,
    "environment": _environment,
    "parity": _parity,
    "protocol": _protocol,
    "clock": _clock,
}


def same_figure(stored: Json, again: Json) -> bool:
    """Whether two figures are the same up to the order in which sums were taken."""
    if isinstance(stored, int | float) and isinstance(again, int | float):
        equal = math.isclose(stored, again, rel_tol=_SAME)
        return equal or (math.isnan(stored) and math.isnan(again))
    return stored == again

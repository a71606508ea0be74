"""Loading of a run by a reference, with everything derived anew from its raw series.

A reference is a run's directory, the id of its plan or of its MLflow run, its ``results.jsonl``, or
a file of ``benchorch report --json``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.estimate import METRICS
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import expanded
from benchorch.journal import reader, run_directory
from benchorch.journal.lock import is_running
from benchorch.journal.registry import find_invocation
from benchorch.progress import Say, counted, silent
from benchorch.results.compare import export
from benchorch.results.compare.stored_run import ProcessValues, RunResults, StoredRun, StoredTrial
from benchorch.results.metrics.without_figures import WITHOUT_FIGURES, reason

DEVICE_SETTINGS = (
    *("sm_max_mhz", "sm_application_mhz", "power_cap_w", "persistence", "ecc", "mig"),
    *("pcie_width", "driver", "name"),
)
"""Settings of an accelerator that stay the same while it is measured on."""

# One number for the whole trial, whichever of its processes reported it.
_OF_THE_TRIAL = "/total"


def load(reference: str, say: Say = silent) -> StoredRun:
    """The run of a reference; ConfigError where there is none to compare.

    Args:
        reference: the run.
        say: receives progress, where it takes longer than a moment.
    """
    found = locate(reference)
    if found.is_file():
        return export.read(found)
    return stored(derive(found, reference, say), reference, say)


def locate(reference: str) -> Path:
    """The exported file or the run's directory of a reference; ConfigError for neither."""
    path = expanded(reference)
    if path.name == run_directory.RESULTS:
        reference, path = str(path.parent), path.parent
    if path.is_file():
        return path
    if path.is_dir() and (path / run_directory.PLAN).exists():
        return find_invocation(reference)
    try:
        return find_invocation(reference)
    except ConfigError as error:
        problem = (
            f"{reference!r} is neither a run's directory, nor the id of a plan or of an MLflow "
            "parent run that ran on this machine, nor a file that `report --json` wrote. "
            "A run prints its directory and its plan when it ends."
        )
        unknown = Problem(problem, Correction(run=reference))
        raise ConfigError([unknown], next="benchorch status") from error


_LABELS = {"model", "conversion", "hardware", "workload", "axes"}


def is_run(reference: str) -> bool:
    """Whether a reference names a run or an exported file, readable or not."""
    try:
        locate(reference)
    except ConfigError:
        return False
    return True


def derive(
    directory: Path, reference: str, say: Say = silent, *, running: bool = False
) -> RunResults:
    """Results and summaries from a directory's raw series; ConfigError where some are missing.

    Args:
        running: whether a run that goes on, or was killed, is read as far as it is.
    """
    from benchorch.results.metrics.summary import summarise_all

    plan = run_directory.read_plan(directory)
    _refuse_unlabelled(plan, directory)
    if not running:
        refuse_running(directory, plan)
    results = {one.trial_id: one for one in reader.read_results(directory, say)}
    if running:
        results = {**_unfinished(directory, plan), **results}
    goes_on = running and is_running(directory)
    if not results and plan.trials and not goes_on:
        text = f"{reference}: no trial of this run has a result. Resume it."
        raise ConfigError([text], next=f"benchorch resume {shlex.quote(str(directory))}")
    if not plan.trials and not running:
        text = f"{reference}: every cell of this run was skipped."
        raise ConfigError([text], next=f"benchorch report {shlex.quote(str(directory))}")
    try:
        summaries = summarise_all(results, say)
    except WITHOUT_FIGURES as error:
        text = (
            f"{reference}: no figures follow from what is stored ({reason(error)}). If check finds "
            "its lines and raw series sound, this is a mistake of benchorch: report it."
        )
        raise ConfigError([text], next=f"benchorch check {shlex.quote(str(directory))}") from error
    return RunResults(
        directory=directory,
        plan=plan,
        results=results,
        summaries=summaries,
        running=goes_on,
    )


def stored(
    derived: RunResults, reference: str, say: Say = silent, *, each_process: bool = True
) -> StoredRun:
    """The same without raw series.

    Args:
        derived: the run.
        reference: the run, as the user named it.
        say: receives progress, where it takes longer than a moment.
        each_process: whether the values of each process are needed, as for comparing two runs;
            they cost more than all the rest.
    """
    trials = counted(derived.plan.trials, "looking at each process", say)
    return StoredRun(
        reference=reference,
        plan_id=derived.plan.plan_id,
        name=derived.plan.name,
        trials=tuple(_stored(derived, trial, each_process) for trial in trials),
        skips=derived.plan.skips,
        running=derived.running,
    )


def _refuse_unlabelled(plan: Plan, directory: Path) -> None:
    """ConfigError for a damaged plan whose trials lack what every table shows."""
    for trial in plan.trials:
        missing = _LABELS - trial.labels.keys()
        if missing:
            where = f"{directory / run_directory.PLAN}: trial {trial.trial_id}"
            raise ConfigError([f"{where} has no label {', '.join(sorted(missing))}."])


def refuse_running(directory: Path, plan: Plan) -> None:
    """ConfigError where another process is still adding to this run."""
    if not is_running(directory):
        return
    done = len(reader.read_journal(directory).entries)
    problem = (
        f"{directory} is still going on: {done} of {len(plan.trials)} trials have a result. "
        "Try again when it has ended."
    )
    raise ConfigError([problem], next=f"benchorch status {plan.plan_id} --watch")


def _unfinished(directory: Path, plan: Plan) -> Mapping[str, TrialResult]:
    """Measurements so far of unfinished trials."""
    found = (run_directory.read_rounds(directory, trial.trial_id) for trial in plan.trials)
    return {one.trial_id: replace(one, unfinished=True) for one in found if one is not None}


def _stored(derived: RunResults, trial: Trial, each_process: bool) -> StoredTrial:
    result = derived.results.get(trial.trial_id)
    if result is None:
        return StoredTrial(plan_id=derived.plan.plan_id, trial=trial)
    failure = result.failure and replace(result.failure, detail="")
    return StoredTrial(
        plan_id=derived.plan.plan_id,
        trial=trial,
        result=replace(result, processes=(), failure=failure),
        summary=derived.summaries[trial.trial_id],
        evidence=evidence_of(result, each_process=each_process),
    )


def evidence_of(result: TrialResult, *, each_process: bool = True) -> ProcessValues:
    """Values of the processes that count, one each.

    Args:
        result: of the trial.
        each_process: whether each one's own value of every metric is needed.
    """
    from benchorch.results.metrics.load import is_unstable
    from benchorch.stats.pairs import design_of, pairs
    from benchorch.stats.position_effect import position_effect

    counted = result.valid
    conditions = [process.conditions for process in counted]
    items = [process.observations.items_per_call for process in counted]
    return ProcessValues(
        values=_values(result) if each_process else {},
        pairs_ns=tuple(tuple(pair) for pair in pairs(counted)),
        design=design_of(counted),
        canaries_ns=_around((c.canary_before_ns, c.canary_after_ns) for c in conditions),
        memory_ns=_around((c.memory_before_ns, c.memory_after_ns) for c in conditions),
        facts=counted[0].facts if counted else {},
        device=_settings(counted[0].conditions.device) if counted else {},
        unsteady_ratio=_unsteady_ratio(counted),
        position=position_effect(counted),
        unstable=is_unstable(counted),
        items_per_call=sum(items) / len(items) if items else None,
    )


def _unsteady_ratio(processes: Sequence[ProcessRecord]) -> float | None:
    from benchorch.results.metrics.load import is_steady

    unsteady = sum(not is_steady(process) for process in processes)
    return unsteady / len(processes) if processes else None


def _settings(state: Mapping[str, Json]) -> Mapping[str, Json]:
    return {name: state[name] for name in DEVICE_SETTINGS if name in state}


def _values(result: TrialResult) -> Mapping[str, tuple[float, ...]]:
    """Each process's own value of each metric: what the metric would be, had it been alone."""
    from benchorch.results.metrics.summary import metrics_of

    alone = [
        metrics_of(replace(result, processes=(one,), energy=None, baseline_id=None), None)
        for one in result.valid
    ]
    names = [name for name in METRICS if not name.endswith(_OF_THE_TRIAL)]
    return {
        name: tuple(metrics[name].value for metrics in alone)
        for name in names
        if alone and all(name in metrics for metrics in alone)
    }


def _around(looks: Iterable[Sequence[float | None]]) -> tuple[tuple[float, ...], ...]:
    """Times of a reference workload around each process that has any."""
    known = (tuple(time for time in times if time is not None) for times in looks)
    return tuple(filter(None, known))

"""The trial of a run that is exported: a named one, or the one with the best figure."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.formatting import first_few
from benchorch.progress import Say
from benchorch.results.compare.load_run import derive, locate
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.plan_text import names_of
from benchorch.results.report.tables import conclusions
from benchorch.run.selection import named, split_trial

_MOST_LISTED = 20


class Chosen(NamedTuple):
    """A sound trial of a run."""

    run: RunResults
    trial: Trial
    result: TrialResult


def choose(reference: str, say: Say) -> Chosen:
    """The trial of ``RUN`` or ``RUN:TRIAL``; ConfigError where it is no model to serve.

    Args:
        reference: the trial by its id, the beginning of it, or its name in the table.
        say: receives progress, where it takes longer than a moment.
    """
    name, label = split_trial(reference)
    directory = locate(name)
    if directory.is_file():
        raise ConfigError([f"{name} is an exported file of figures; export needs the run itself."])
    run = derive(directory.resolve(), name, say)
    trial = named(run.plan.trials, label) if label else _fastest(run, name)
    result = run.results.get(trial.trial_id)
    problem = _problem(result)
    if result is None or problem:
        raise ConfigError([f"{trial.labels['conversion']} cannot be exported: {problem}"])
    return Chosen(run, trial, result)


def _fastest(run: RunResults, name: str) -> Trial:
    cases = conclusions(run)
    found = [one.fastest for one in cases if one.fastest is not None]
    if len(found) == 1:
        return found[0]
    if not found and not any(map(_is_sound, run.results.values())):
        problem = "No trial of this run can be exported: each failed, or is another model."
        raise ConfigError([problem], next=shlex.join(["benchorch", "rerun", name, "--failed"]))
    why = "several winners, one for each model and workload" if found else "no trial to rank"
    problem = f"This run has {why}. Name one: benchorch export {name}:TRIAL. Trials: {_listed(run)}"
    raise ConfigError([problem])


def _listed(run: RunResults) -> str:
    names = names_of(run.plan.trials)
    return first_few([names[trial.trial_id] for trial in run.plan.trials], _MOST_LISTED)


def _is_sound(result: TrialResult) -> bool:
    return not _problem(result)


def _problem(result: TrialResult | None) -> str:
    """Why nobody should serve it; empty where nothing speaks against it."""
    if result is None or result.unfinished:
        return "it has no result."
    if result.outcome is not Outcome.OK or not result.valid:
        return f"it failed ({result.failure.kind})." if result.failure else "it was not measured."
    if result.parity is None:
        return "its outputs were not compared with the original model's."
    if not result.parity.passed:
        return f"it is not the same model: {result.parity.explanation}"
    return ""

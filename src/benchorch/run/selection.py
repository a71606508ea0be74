"""Trials by their names: ``--only onnx*``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from benchorch.config.components import misspelt, nearest
from benchorch.domain.node_memo import NodeMemo
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.formatting import cell_name, varying_labels
from benchorch.results.compare.load_run import is_run
from benchorch.results.report.plan_text import names_of
from benchorch.run.expand import comparable
from benchorch.run.planner import Planned


def narrowed(plan: Plan, patterns: Sequence[str]) -> Plan:
    """The plan of the chosen trials and skips, and of the trials' baselines, skipped or not."""
    if not patterns:
        return plan
    kept = {trial.trial_id for trial in chosen(plan.trials, patterns, plan.skips)}
    kept |= {str(trial.baseline_id) for trial in plan.trials if trial.trial_id in kept}
    trials = tuple(t for t in plan.trials if t.trial_id in kept)
    called, missing = _called(plan.trials, plan.skips), _missing_baselines(trials, plan)
    return replace(
        plan,
        trials=trials,
        skips=tuple(
            skip
            for skip, names in zip(plan.skips, called, strict=True)
            if skip in missing or any(_fits(pattern, names) for pattern in patterns)
        ),
    )


def _missing_baselines(trials: Sequence[Trial], plan: Plan) -> Sequence[Skip]:
    """The skips in place of baselines that these trials have not."""
    memo, name = NodeMemo(), plan.session.get("baseline")
    skips = [one for one in plan.skips if one.spec and one.labels["conversion"] == name]
    baselines = {one.baseline_id for one in plan.trials}
    without = [t for t in trials if t.baseline_id is None and t.trial_id not in baselines]
    alone = {comparable(one, memo) for one in without if skips}
    return [one for one in skips if comparable(one, memo) in alone]


def narrowed_to(planned: Planned, patterns: Sequence[str]) -> Planned:
    """The same of what was planned."""
    return replace(planned, plan=narrowed(planned.plan, patterns))


def split_trial(reference: str) -> tuple[str, str]:
    """The run and the trial of ``RUN:TRIAL``; no trial where all of it names a run.

    Both may have colons: the run is the longest part that names one, else what is before the last.
    """
    if ":" not in reference or Path(reference).exists():
        return reference, ""
    parts = reference.split(":")
    splits = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]
    name, trial = next((one for one in reversed(splits) if one[0] and is_run(one[0])), splits[-1])
    return (name, trial) if name else (reference, "")


def named(trials: Sequence[Trial], word: str) -> Trial:
    """The one trial of a name or a conversion, or whose id begins so; ConfigError for no one."""
    names = names_of(trials)
    by_name = [trial for trial in trials if names[trial.trial_id] == word]
    of_conversion = [trial for trial in trials if trial.labels["conversion"] == word]
    found = by_name or of_conversion or [t for t in trials if t.trial_id.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{t.trial_id} ({names[t.trial_id]})" for t in found)
        raise ConfigError([f"{word} is the name or the beginning of several trials: {several}."])
    known = [f"{trial_id} ({name})" for trial_id, name in names.items()]
    listed = f" Trials: {', '.join(known)}."
    problem = misspelt(f"There is no trial {word!r}.", word, [*names, *names.values()], listed)
    usual = Correction(typed=word, meant=next(iter(names), ""))
    raise ConfigError([Problem(problem, problem.correction or usual)])


def chosen(
    trials: Sequence[Trial], patterns: Sequence[str], skips: Sequence[Skip] = ()
) -> list[Trial]:
    """Trials whose conversion, name or id fits a pattern; ConfigError for one that fits none.

    Args:
        patterns: ``*`` stands for any text; without a pattern all trials are chosen.
        skips: cells that a pattern may fit instead.
    """
    names = names_of(trials)
    calls = {t.trial_id: (t.labels["conversion"], names[t.trial_id], t.trial_id) for t in trials}
    skipped = _called(trials, skips)
    problems = []
    for pattern in patterns:
        if not any(_fits(pattern, called) for called in (*calls.values(), *skipped)):
            known = list(dict.fromkeys([*names.values(), *(name for _, name in skipped)]))
            text = f"--only {pattern}: fits no trial. Trials: {', '.join(known) or 'none'}."
            meant = nearest(pattern, known) or next(iter(known), "")
            correction = Correction(typed=pattern, meant=meant) if meant else None
            problems.append(Problem(text, correction))
    if problems:
        raise ConfigError(problems)
    return [
        trial
        for trial in trials
        if not patterns or any(_fits(pattern, calls[trial.trial_id]) for pattern in patterns)
    ]


def _called(trials: Sequence[Trial], skips: Sequence[Skip]) -> list[tuple[str, str]]:
    """Each skip's conversion, and its name among all cells."""
    skipped = [skip.labels for skip in skips]
    varying = varying_labels([*(trial.labels for trial in trials), *skipped])
    return [(labels["conversion"], cell_name(labels, varying)) for labels in skipped]


def _fits(pattern: str, called: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in called)

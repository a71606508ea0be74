"""Settings that a stored run is resumed with: ``benchorch resume RUN budget.minutes=10``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from benchorch.config.components import TARGET, make, misspelt
from benchorch.config.composer import Composer
from benchorch.config.overrides import (
    EACH,
    MATRIX,
    key_of,
    parse_override,
    refuse_twice,
    without_postponed,
)
from benchorch.domain.trial import ConfigNode, Plan, node_of, value_at, with_value
from benchorch.errors import Correction, Problem, Problems
from benchorch.interfaces.executor import Executor
from benchorch.run.foreign_recipe import chosen_places
from benchorch.run.planner import NODES, SESSION_KEYS, lacking, session_problems, stored_session

CHANGEABLE = (
    *("budget", "executor", "recorder", "store", "profiler"),
    *("profile", "rebuild", "keep_at", "objective"),
)
"""Keys on which neither the ids of trials nor their baselines, names and prices depend."""

_MODEL = "model"


def names_trials(overrides: Sequence[str]) -> bool:
    """Whether overrides name a model, whose trials a plan is extended by.

    A conversion alone does not: it would be one of the default model.
    """
    return any(
        key_of(word) == _MODEL or (_node_of(word) == MATRIX and _MODEL in word)
        for word in overrides
    )


def with_settings(plan: Plan, composer: Composer, overrides: Sequence[str]) -> Plan:
    """The plan with other settings for the trials that are left; ConfigError with every problem."""
    if not overrides:
        return plan
    refuse_twice(overrides)
    problems = Problems()
    each = chain(*without_postponed(overrides))
    problems.add(one for word in each for one in _refusals(word, composer.groups))
    problems.stop()
    stored = {"recorder" if key == "tracking" else key: node for key, node in plan.session.items()}
    words = [*_options_of(stored, composer, overrides), *overrides]
    composed = composer.session(words)
    session: ConfigNode = {**{key: composed.get(key) for key in SESSION_KEYS}, **stored}
    for path in (path for word in overrides for path in _paths(word, composer.groups)):
        session = with_value(session, path, value_at(composed, path))
    changed = {_node_of(word) for word in overrides}
    choices = {key_of(word): word.partition("=")[2] for word in words if "." not in key_of(word)}
    problems.add(session_problems(session, ()))
    problems.add(chosen_places({key: session[key] for key in changed}, choices))
    executor = problems.attempt(lambda: make(node_of(session, "executor"), Executor, "executor"))
    problems.add(lacking(session, executor))
    if executor is not None and "executor" in changed:
        kinds = dict.fromkeys(trial.hardware_kind for trial in plan.trials)
        problems.add(f"executor: {why}" for kind in kinds if (why := executor.unreachable(kind)))
    problems.stop()
    kept = {"tracking" if key == "recorder" else key for key in changed}
    new = {key: node for key, node in stored_session(session).items() if key in kept}
    return replace(plan, session={**plan.session, **new})


def _refusals(word: str, groups: Collection[str]) -> Iterator[Problem]:
    """Why a run is not resumed with an override."""
    node = _node_of(word)
    if node not in CHANGEABLE:
        problem = (
            f"{key_of(word)}: resume runs the trials of the plan as they are, and changes only "
            f"{', '.join(CHANGEABLE)}. For other trials start a new run, or extend this one by a "
            "whole line, with its model or recipe."
        )
        is_known = node in (*SESSION_KEYS, *NODES, MATRIX, EACH, *groups)
        yield (
            Problem(problem, Correction(typed=word))
            if is_known
            else misspelt(problem, node, CHANGEABLE)
        )
    elif word.startswith("~") or parse_override(word).is_sweep_override():
        yield Problem(f"{word}: expected one value for the whole run.", Correction(typed=word))


def _options_of(session: ConfigNode, composer: Composer, overrides: Sequence[str]) -> Iterator[str]:
    """The options behind stored nodes of which keys are overridden, with which they compose."""
    chosen = {key_of(word) for word in overrides}
    for group in dict.fromkeys(map(_node_of, overrides)):
        if group in chosen or group not in composer.groups:
            continue
        target = node_of(session, group).get(TARGET)
        same = (
            name
            for name in composer.options(group)
            if composer.option(group, name).get(TARGET) == target
        )
        yield from (f"{group}={name}" for name in list(same)[:1])


def _paths(word: str, groups: Collection[str]) -> Iterator[tuple[str, ...]]:
    """The places that an override gives values: one, or one for each key of a mapping."""
    path = tuple(key_of(word).split("."))
    value = parse_override(word).value()
    if isinstance(value, Mapping) and path[0] not in groups:
        yield from ((*path, str(key)) for key in value)
    else:
        yield path


def _node_of(word: str) -> str:
    return key_of(word).partition(".")[0]

"""Build of everything that a plan needs, without a measurement."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.codec import Json
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.trial import ConfigNode, Trial, node_of
from benchorch.executors.side_by_side import side_by_side
from benchorch.interfaces.executor import Emit
from benchorch.models.trust import session_of
from benchorch.run.expand import describe
from benchorch.run.planner import new_plan_id, plan_jobs
from benchorch.trial.supervisor import run_trial
from benchorch.trial.templates import Templates


def build_only(
    directories: Sequence[Path],
    overrides: Sequence[str],
    folder: Path,
    say: Callable[[str], None],
    jobs: int = 1,
) -> list[ConfigNode]:
    """A row for each trial of the plan: its cell, whether it was built, seconds, bytes.

    Args:
        directories: of configurations.
        overrides: the run's.
        folder: where logs go.
        say: called with what begins.
        jobs: how many models are built at a time. What times kernels while it builds is built by
            itself, after the others.
    """
    composer = Composer(config_loader(directories))
    plan_id = new_plan_id()
    plan = plan_jobs(composer, composer.jobs(overrides), plan_id).plan
    session = replace(session_of(plan, folder / plan_id), profiler={})

    def emit(event: Event) -> None:
        if event.stage == "build_only":
            say(event.message)

    found: dict[str, TrialResult] = {}
    for alone in (False, True):
        trials = [trial for trial in plan.trials if _times_kernels(trial) is alone]
        waiting = deque(_by_model(trials))
        streams = min(1 if alone else jobs, len(waiting))
        starts = [partial(_built, waiting, trials, session)] * streams
        for result in side_by_side(*starts, emit=emit):
            found[result.trial_id] = result
    rows = [_row(trial, found[trial.trial_id]) for trial in plan.trials]
    skipped = [{"cell": describe(skip.labels), "skipped": skip.reason} for skip in plan.skips]
    return [*rows, *cast("list[ConfigNode]", skipped)]


def _times_kernels(trial: Trial) -> bool:
    """Whether a build chooses by times, which other builds would disturb."""
    steps = cast("Mapping[str, ConfigNode]", node_of(node_of(trial.spec, "conversion"), "steps"))
    return any(step.get("max_autotune") for step in steps.values())


def _by_model(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials of one model together, which share what is built first."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        key = f"{trial.spec['model']} {trial.spec['workload']}"
        groups.setdefault(key, []).append(trial)
    return list(groups.values())


def _built(
    waiting: deque[list[Trial]], trials: Sequence[Trial], session: Session, emit: Emit
) -> Iterator[TrialResult]:
    """Results of models that nobody else builds, until none is left."""
    templates = Templates([trial.spec for trial in trials])
    with ExitStack() as held:
        held.callback(templates.renew)
        while waiting:
            try:
                group = waiting.popleft()
            except IndexError:  # another has taken it meanwhile
                return
            for trial in group:
                yield _build(trial, session, emit, templates)


def _build(trial: Trial, session: Session, emit: Emit, templates: Templates) -> TrialResult:
    message = f"building {describe(trial.labels)}"
    emit(Event(trial_id=trial.trial_id, stage="build_only", message=message))
    all_steps = len(node_of(node_of(trial.spec, "conversion"), "steps"))
    return run_trial(
        replace(trial, build_steps=all_steps),
        session=session,
        attempt=1,
        isolated=True,
        emit=emit,
        templates=templates,
    )


def _row(trial: Trial, built: TrialResult) -> ConfigNode:
    row: dict[str, Json] = {"cell": describe(trial.labels)}
    if built.failure is not None:
        return {**row, "failed": built.failure.message, "remedy": built.failure.remedy}
    assert built.build is not None  # a build without a failure has this
    return {
        **row,
        "cache": built.build.cache,
        "build_s": built.build.build_s,
        "artifact_bytes": built.build.artifact_bytes,
    }

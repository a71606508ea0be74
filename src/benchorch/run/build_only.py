"""Build of everything that a plan needs, without a measurement."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.codec import Json
from benchorch.domain.session import Session
from benchorch.domain.trial import ConfigNode, Trial, node_of
from benchorch.models.trust import session_of
from benchorch.run.expand import describe
from benchorch.run.planner import new_plan_id, plan_jobs
from benchorch.trial.supervisor import run_trial


def build_only(
    directories: Sequence[Path], overrides: Sequence[str], folder: Path, say: Callable[[str], None]
) -> list[ConfigNode]:
    """A row for each trial of the plan: its cell, whether it was built, seconds, bytes."""
    composer = Composer(config_loader(directories))
    plan_id = new_plan_id()
    plan = plan_jobs(composer, composer.jobs(overrides), plan_id).plan
    session = replace(session_of(plan, folder / plan_id), profiler={})
    rows: list[ConfigNode] = []
    for trial in plan.trials:
        say(f"building {describe(trial.labels)}")
        rows.append(_build(trial, session))
    skipped = [{"cell": describe(skip.labels), "skipped": skip.reason} for skip in plan.skips]
    return [*rows, *cast("list[ConfigNode]", skipped)]


def _build(trial: Trial, session: Session) -> ConfigNode:
    all_steps = len(node_of(node_of(trial.spec, "conversion"), "steps"))
    built = run_trial(
        replace(trial, build_steps=all_steps),
        session=session,
        attempt=1,
        isolated=True,
        emit=lambda _: None,
    )
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

"""Plan, and build what the plan needs; nothing is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchorch.config import Composer, config_loader
from benchorch.domain.codec import Json
from benchorch.domain.session import Session
from benchorch.domain.trial import Node, Trial
from benchorch.overrides import lift_lists
from benchorch.planning import new_plan_id, plan_jobs
from benchorch.stages.plan import describe
from benchorch.supervisor import run_trial


def build_only(
    directories: Sequence[Path], overrides: Sequence[str], folder: Path, say: Callable[[str], None]
) -> list[Node]:
    """For each trial of the plan: its cell, whether it was built or found, seconds, bytes."""
    composer = Composer(config_loader(directories))
    plan_id = new_plan_id()
    plan = plan_jobs(composer, [lift_lists(overrides, composer.groups)], plan_id).plan
    session = Session(
        plan_id=plan_id,
        directory=folder / plan_id,
        store=cast(Node, plan.session["store"]),
        rebuild=str(plan.session["rebuild"]),
        search_path=(str(plan.session["cwd"]),),
        profiler={},
    )
    rows: list[Node] = []
    for trial in plan.trials:
        say(f"building {describe(trial.labels)}")
        rows.append(_build(trial, session))
    skipped = [{"cell": describe(skip.labels), "skipped": skip.reason} for skip in plan.skips]
    return [*rows, *cast("list[Node]", skipped)]


def _build(trial: Trial, session: Session) -> Node:
    everything = len(cast(Node, cast(Node, trial.spec["conversion"])["steps"] or {}))
    built = run_trial(
        replace(trial, build_steps=everything),
        session=session,
        attempt=1,
        isolated=True,
        emit=lambda _: None,
    )
    row: dict[str, Json] = {"cell": describe(trial.labels)}
    if built.failure is not None:
        return {**row, "failed": built.failure.message, "remedy": built.failure.remedy}
    assert built.build is not None  # what did not fail was built
    return {
        **row,
        "cache": built.build.cache,
        "build_s": built.build.build_s,
        "artifact_bytes": built.build.artifact_bytes,
    }

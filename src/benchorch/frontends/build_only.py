"""Plan, and build what the plan needs; nothing is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from benchorch.chain import open_chain
from benchorch.config import Composer, config_loader
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.result import BuildRecord
from benchorch.domain.session import Session
from benchorch.domain.trial import Node, Trial
from benchorch.environment import physical_cores
from benchorch.overrides import lift_lists
from benchorch.planning import new_plan_id, plan_jobs
from benchorch.stages.plan import describe
from benchorch.supervise import Limits, run_child


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
    chain = open_chain(trial.spec)
    limits = cast(Node, trial.spec["limits"])
    child = run_child(
        "build",
        {
            "trial_id": trial.trial_id,
            "name": f"{trial.labels['model']} {trial.labels['conversion']}",
            "spec": cast(Json, trial.spec),
            "session": encode(session),
            "threads": chain.hardware.threads or physical_cores(),
            "pin": False,
        },
        log=session.directory / f"{trial.trial_id}.txt",
        limits=Limits(timeout_s=float(cast(float, limits["build_timeout_s"])), memory_bytes=None),
        environment={},
        on_event=lambda _: None,
    )
    row: dict[str, Json] = {"cell": describe(trial.labels)}
    if child.failure is not None:
        return {**row, "failed": child.failure.message, "remedy": child.failure.remedy}
    record = decode(BuildRecord, cast(Node, child.reply)["record"])
    return {
        **row,
        "cache": record.cache,
        "build_s": record.build_s,
        "artifact_bytes": record.artifact_bytes,
    }

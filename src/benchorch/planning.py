"""From words to a plan: compose, check everything, spend and start nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from benchorch.components import make
from benchorch.config import Cell, Composer
from benchorch.domain.trial import Node, Plan
from benchorch.errors import ConfigError
from benchorch.interfaces.executor import Executor
from benchorch.interfaces.store import Store
from benchorch.stages.plan import plan as make_plan

SESSION_KEYS = ("executor", "store", "tracking", "rebuild", "baseline", "objective", "name")
REBUILD = ("if_needed", "always", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, the executor it was checked against, and which trial each cell became.

    Attributes:
        asked: for each job its cells' trial ids, "" where a cell became a skip.
    """

    plan: Plan
    executor: Executor
    asked: tuple[tuple[str, ...], ...]


def plan_jobs(composer: Composer, jobs: Sequence[Sequence[str]], plan_id: str) -> Planned:
    """Compose and check everything; ConfigError with every problem. Spends and starts nothing."""
    cells: list[list[Cell]] = []
    problems: dict[str, None] = {}
    for job in jobs:
        try:
            cells.append(composer.cells([job]))
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
    config = composer.session(jobs[0]) if not problems else {}
    if problems:
        raise ConfigError(list(problems))
    session = {key: config.get(key) for key in SESSION_KEYS}
    problems.update(dict.fromkeys(_session_problems(session, composer)))
    try:
        executor = make(cast(Node, session["executor"]), Executor, "executor")
        flat = [cell for job_cells in cells for cell in job_cells]
        plan, asked = make_plan(
            flat,
            executor=executor,
            plan_id=plan_id,
            name=str(session["name"]),
            session=session,
            baseline=_baseline(session, composer),
        )
    except ConfigError as error:
        problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ConfigError(list(problems))
    by_cell = iter(asked)
    grouped = tuple(tuple(next(by_cell) for _ in job_cells) for job_cells in cells)
    return Planned(plan=plan, executor=executor, asked=grouped)


def _baseline(session: Node, composer: Composer) -> tuple[str, Node] | None:
    name = session.get("baseline")
    return None if name is None else (str(name), composer.option("conversion", str(name)))


def _session_problems(session: Node, composer: Composer) -> list[str]:
    problems = []
    if session["rebuild"] not in REBUILD:
        allowed = ", ".join(REBUILD)
        problems.append(f"rebuild: expected one of {allowed}, got {session['rebuild']!r}.")
    try:
        store = make(cast(Node, session["store"]), Store, "store")
        problems.extend(store.problems())
    except ConfigError as error:
        problems.extend(error.problems)
    return problems


def new_plan_id() -> str:
    """A name for an invocation, sorted by time: ``20261120-101500-1f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"

"""Settings that all trials of one invocation share, and their progress events."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.price import PriceSnapshot
from benchorch.domain.spending import Spending, SpendingRules
from benchorch.domain.trial import ConfigNode, Plan, node_of
from benchorch.errors import ConfigError

ROUND, DECIDED, AGAIN = "round", "decided", "measured again"
"""Stages of events: all trials have had a process more; no process is added to a trial; what an
interrupted run measured of a trial is left out."""

SPENDING = "spending"
"""Stage of events that have `Event.spending`, and no trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Output locations of an invocation and its strictness towards failed trials.

    Attributes:
        plan_id: of the plan being run.
        directory: the invocation's own: results, logs and artifacts of each trial.
        store: the store's node, made anew in every process that needs it.
        rebuild: ``if_needed``, ``always`` or ``never``.
        search_path: directories from which the user's own factories are imported.
        profiler: the profiler's node; empty where nothing is profiled.
        prices: by which machines are judged; None where nothing is paid for.
        budget_s: seconds after which no process is added; None for the usual limit.
        trusted: references to code that may be imported from there, and paths of scripts.
        spending: of machines that are launched for the trials.
        archive_url: ``s3://bucket/prefix`` where the run's directory is archived; None: nowhere.
        to_profile: conversions to profile once all is decided; ``winner``, ``baseline`` and
            ``all`` stand for those.
    """

    plan_id: str
    directory: Path
    store: ConfigNode
    rebuild: str
    search_path: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    profiler: ConfigNode = field(default_factory=dict)
    prices: PriceSnapshot | None = None
    budget_s: float | None = None
    spending: SpendingRules = field(default_factory=SpendingRules)
    archive_url: str | None = None
    to_profile: tuple[str, ...] = ("winner", "baseline")

    @classmethod
    def of(cls, plan: Plan, directory: Path) -> Session:
        """The session of a plan; ConfigError where the plan lacks what it needs."""
        missing = [name for name in ("cwd", "rebuild") if name not in plan.session]
        if missing:
            raise ConfigError(
                [f"{directory}/plan.json is damaged: it has no session.{missing[0]}."]
            )
        archive = plan.session.get("keep_at")  # older plans have none
        return cls(
            plan_id=plan.plan_id,
            directory=directory.resolve(),
            store=node_of(plan.session, "store"),
            rebuild=str(plan.session["rebuild"]),
            search_path=(str(plan.session["cwd"]),),
            profiler=node_of(plan.session, "profiler"),
            prices=plan.prices,
            budget_s=_minutes_s(node_of(plan.session, "budget").get("minutes")),
            archive_url=str(archive) if archive else None,
            to_profile=profile_words(plan),
        )


def _minutes_s(minutes: Json) -> float | None:
    return 60.0 * minutes if isinstance(minutes, int | float) else None


def profile_words(plan: Plan) -> tuple[str, ...]:
    """Profiled trials of a plan: names of conversions, ``winner``, ``baseline`` or ``all``."""
    value = plan.session.get("profile", ["winner", "baseline"])  # older plans have none
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress event for the person who waits.

    Attributes:
        trial_id: whose it is.
        stage: build, verify, measure, profile, explain, retry, `ROUND`, `DECIDED`, `AGAIN` or
            `SPENDING`.
        message: one short phrase, e.g. ``process 3 of 5``.
        spending: of the sweep's machines; None in other stages than `SPENDING`.
    """

    trial_id: str
    stage: str
    message: str = ""
    spending: Spending | None = None

    @classmethod
    def of_spending(cls, spending: Spending) -> Event:
        """Event with the cost of the sweep's machines so far."""
        return cls(trial_id="", stage=SPENDING, message=spending.text, spending=spending)

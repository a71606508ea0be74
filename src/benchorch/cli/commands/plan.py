"""``benchorch plan``: what would run, what would be skipped and why; nothing is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from benchorch.cli.arguments import Request, parse
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError

if TYPE_CHECKING:
    from benchorch.results.pricing.sweep_cost import Expected
    from benchorch.run.planner import Planned

HELP = """usage: python -m benchorch plan [--json] [-m] [RECIPE.yaml] [key=value ...]

Shows the trials that the same words without `plan` would run, and every cell that would be
skipped with the reason. Nothing is started.

  --json    an object with `trials` and `skips`, for programs
  -m        cross comma-separated values"""


def run(arguments: Sequence[str]) -> Reply:
    """Lines for people or, with ``--json``, the whole plan for programs."""
    from benchorch.results.pricing.sweep_cost import expected

    if {"-h", "--help"} & set(arguments):
        return Reply(text=HELP, data=HELP)
    request = parse([word for word in arguments if word != "--json"])
    foreign = request.foreign_flags + ([f"resume={request.resume}"] if request.resume else [])
    if foreign:
        raise ConfigError([f"plan does not take {' '.join(foreign)}; see plan --help."])
    plan = planned(request).plan
    told = expected(plan)
    if "--json" in arguments:
        return Reply(text="", data=_data(plan, told))
    return Reply(text=_text(plan, told), data=None)


def planned(request: Request) -> Planned:
    """What a request would run; ConfigError with every problem."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.overrides import lift_lists, sweep_jobs
    from benchorch.run.planner import new_plan_id, plan_jobs

    loader = config_loader(request.directories)
    composer = Composer(loader, request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    jobs = sweep_jobs(overrides, loader) if request.multirun else [overrides]
    return plan_jobs(composer, jobs, new_plan_id())


def foresee(words: Sequence[str]) -> None:
    """ConfigError for words that no run would take; starts nothing."""
    request = parse(words)
    foreign = request.foreign_flags
    if foreign:
        raise ConfigError([f"submit does not take {' '.join(foreign)}; see submit --help."])
    if request.resume is None:
        planned(request)


def _text(plan: Plan, told: Mapping[str, Expected]) -> str:
    from benchorch.results.pricing.sweep_cost import summary_lines
    from benchorch.results.report.tables import plan_text

    return "\n".join([plan_text(plan), *summary_lines(plan, told)])


def _data(plan: Plan, told: Mapping[str, Expected]) -> Json:
    from benchorch.domain.codec import encode
    from benchorch.results.pricing.sweep_cost import total_usd

    content = cast(dict[str, object], encode(plan))
    for trial in cast(list[dict[str, object]], content["trials"]):
        foreseen = told[str(trial["trial_id"])]
        trial |= {"expected_s": foreseen.seconds, "cost_usd": foreseen.usd}
    return cast(Json, {**content, "cost_usd": total_usd(told)})

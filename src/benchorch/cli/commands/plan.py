"""``benchorch plan``: the trials of a run, and skips with their reasons; starts nothing."""

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

Shows the trials that the same arguments without `plan` would run, and every cell that would be
skipped with the reason. Starts nothing.

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
    forecast = expected(plan)
    if "--json" in arguments:
        return Reply(text="", data=_data(plan, forecast))
    return Reply(text=_text(plan, forecast), data=None)


def planned(request: Request) -> Planned:
    """The plan of a request; ConfigError with every problem."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.planner import new_plan_id, plan_jobs

    composer = Composer(config_loader(request.directories), request.config_name)
    jobs = composer.jobs(request.overrides, sweep=request.multirun)
    return plan_jobs(composer, jobs, new_plan_id())


def check(words: Sequence[str]) -> None:
    """Plan what a run would run, starting nothing; ConfigError with every problem."""
    request = parse(words)
    foreign = request.foreign_flags
    if foreign:
        raise ConfigError([f"submit does not take {' '.join(foreign)}; see submit --help."])
    if request.resume is None:
        planned(request)


def _text(plan: Plan, forecast: Mapping[str, Expected]) -> str:
    from benchorch.results.pricing.sweep_cost import summary_lines
    from benchorch.results.report.tables import plan_text

    return "\n".join([plan_text(plan), *summary_lines(plan, forecast)])


def _data(plan: Plan, forecast: Mapping[str, Expected]) -> Json:
    from benchorch.domain.codec import encode
    from benchorch.results.pricing.sweep_cost import total_usd

    content = cast(dict[str, object], encode(plan))
    for trial in cast(list[dict[str, object]], content["trials"]):
        one = forecast[str(trial["trial_id"])]
        trial |= {"expected_s": one.seconds, "cost_usd": one.usd}
    return cast(Json, {**content, "cost_usd": total_usd(forecast)})

"""``benchorch plan``: the trials of a run, and skips with their reasons; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from benchorch.cli.arguments import Request, parse
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError

if TYPE_CHECKING:
    from benchorch.interfaces.stack import Readiness
    from benchorch.run.planner import Planned

HELP = """usage: python -m benchorch plan [--json] [--cheapest] [-m] [RECIPE.yaml] [key=value ...]

Shows the trials that the same arguments without `plan` would run, with minutes and dollars for each
kind of machine, and every cell that would be skipped with the reason. Hardware that nothing here
reaches is priced too. Starts nothing.

  --json      an object with `trials`, `skips`, `machines` and `how`, for programs
  --cheapest  the kinds of machines in the order of their dollars
  -m          cross comma-separated values"""

CHEAPEST = "--cheapest"


def run(arguments: Sequence[str]) -> Reply:
    """Lines for people or, with ``--json``, the whole plan for programs."""
    from benchorch.run.ways_on import priced, ways_on

    if {"-h", "--help"} & set(arguments):
        return Reply(text=HELP, data=HELP)
    request = parse([word for word in arguments if word not in ("--json", CHEAPEST)])
    foreign = request.foreign_flags + ([f"resume={request.resume}"] if request.resume else [])
    if foreign:
        raise ConfigError([f"plan does not take {' '.join(foreign)}; see plan --help."])
    found = planned(request)
    if "--json" in arguments:
        return Reply(text="", data=_data(found))
    lines = [*priced(found, cheapest_first=CHEAPEST in arguments)]
    lines += [_readiness_line(one) for one in found.preflight()]
    ways = list(ways_on(found))
    return Reply(text="\n".join([*lines, *(["", *ways] if ways else [])]), data=None)


def _readiness_line(one: Readiness) -> str:
    state = one.state if one.state == "ok" else f"{one.state}:"
    remedy = f" -> {one.remedy}" if one.remedy else ""
    return f"preflight  {state} {one.subject}  {one.observed}{remedy}"


def planned(request: Request, *, to_run: bool = False) -> Planned:
    """The plan of a request; ConfigError with every problem.

    Args:
        to_run: as of `plan_jobs`.
    """
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.planner import new_plan_id, plan_jobs

    composer = Composer(config_loader(request.directories), request.config_name)
    jobs = composer.jobs(request.overrides, sweep=request.multirun)
    return plan_jobs(composer, jobs, new_plan_id(), to_run=to_run)


def check(words: Sequence[str]) -> None:
    """Plan what a run would run, starting nothing; ConfigError with every problem."""
    request = parse(words)
    foreign = request.foreign_flags
    if foreign:
        raise ConfigError([f"submit does not take {' '.join(foreign)}; see submit --help."])
    if request.resume is None:
        planned(request, to_run=True)


def _data(found: Planned) -> Json:
    from benchorch.domain.codec import encode
    from benchorch.results.pricing.sweep_cost import expected, machines, total_usd

    forecast = expected(found.plan)
    content = cast(dict[str, object], encode(found.plan))
    kinds = {trial.trial_id: trial.hardware_kind for trial in found.plan.trials}
    for trial in cast(list[dict[str, object]], content["trials"]):
        one = forecast[str(trial["trial_id"])]
        trial |= {
            "expected_s": one.seconds,
            "minutes": one.seconds / 60,
            "cost_usd": one.usd,
            "how": found.executor.way(kinds[str(trial["trial_id"])]),
        }
    whole = machines(found.plan, forecast, found.launched)
    return cast(
        Json,
        {
            **content,
            "how": found.way(),
            "machines": [
                {"kind": one.kind, "minutes": one.seconds / 60, "cost_usd": one.usd}
                for one in whole
            ],
            "cost_usd": total_usd(found.plan, forecast, found.launched),
            "preflight": [one._asdict() for one in found.preflight()],
        },
    )

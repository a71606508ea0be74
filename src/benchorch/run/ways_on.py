"""What can be done about hardware that nothing here reaches, the least effort first."""

from collections.abc import Iterator, Mapping

from benchorch.config.components import make
from benchorch.domain.trial import Trial, node_of
from benchorch.errors import ConfigError, NoMachine
from benchorch.interfaces.hardware import Hardware
from benchorch.results.pricing.sweep_cost import DEFAULT_REGION, expected, summary_lines
from benchorch.results.report.tables import plan_text
from benchorch.run.planner import Planned


def refusal(planned: Planned) -> NoMachine:
    """Why a plan cannot run, with its price and what can be done.

    Args:
        planned: with trials for the hardware that is not reached.
    """
    problems = [f"hardware={kind}: {why}" for kind, why in planned.unreachable.items()]
    ways = "\n".join(["Nothing was run, and nothing is recorded.", *ways_on(planned)])
    return NoMachine(problems, plan="\n".join(priced(planned)), ways=ways)


def priced(planned: Planned, *, cheapest_first: bool = False) -> Iterator[str]:
    """The plan's trials, with minutes and dollars of each kind of machine."""
    yield plan_text(planned.plan)
    forecast = expected(planned.plan)
    yield from summary_lines(
        planned.plan, forecast, planned.launched, cheapest_first=cheapest_first
    )


def ways_on(planned: Planned) -> Iterator[str]:
    """The ways to reach hardware that trials need and nothing reaches; else nothing."""
    wanted = {trial.hardware_kind for trial in planned.plan.trials}
    unreachable = {k: why for k, why in planned.unreachable.items() if k in wanted}
    if not unreachable:
        return
    by_reason: dict[str, list[str]] = {}
    for kind, reason in unreachable.items():
        by_reason.setdefault(reason, []).append(kind)
    for reason, kinds in by_reason.items():
        yield f"{', '.join(kinds)}: {reason}"
    yield ""
    yield "What you can do, the least effort first:"
    here = sorted(wanted - set(unreachable))
    if here:
        yield "  --allow-skips"
        yield f"      runs the rest: {', '.join(here)}"
    fleet = ",".join(f'"{kind}"=1' for kind in unreachable)
    region = node_of(planned.plan.session, "pricing").get("region")
    there = f" --var region={region}" * (region != DEFAULT_REGION)
    yield f"  make provision ARGS='--var fleet={{{fleet}}}{there}'"
    yield "      makes a stack in your AWS account (docs/cloud/aws.md); then run the same line"
    yield "  executor=fleet_local"
    yield f"      {_rehearsal(planned)}"
    yield "  executor.address=HOST:6379"
    yield "      runs on a Ray cluster of yours that has this hardware (docs/cloud/ray.md)"


def _rehearsal(planned: Planned) -> str:
    """What a simulated fleet can do of it here."""
    found = _obstacles(planned)
    obstacles = {kind: reason for kind, reason in found.items() if reason}
    text = "rehearses the sweep on this machine, without AWS; its numbers are this machine's"
    if not obstacles:
        return text
    start = f"{text}, but not" if len(obstacles) < len(found) else "cannot rehearse"
    listed = "; ".join(
        f"{kind}: {reason.removeprefix(f'{kind} is ').rstrip('.')}"
        for kind, reason in obstacles.items()
    )
    return f"{start} {listed}"


def _obstacles(planned: Planned) -> Mapping[str, str | None]:
    """Why this machine cannot simulate each kind that is not reached, or None."""
    trials = {trial.hardware_kind: trial for trial in planned.plan.trials}
    return {k: _obstacle(trials[k]) for k in planned.unreachable if k in trials}


def _obstacle(trial: Trial) -> str | None:
    try:
        return make(trial.hardware, Hardware, "hardware").cannot_simulate()
    except ConfigError as error:
        return error.problems[0]

"""What can be done about hardware that nothing here reaches: a stack, a rehearsal, a cluster."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from benchorch.config.components import make
from benchorch.domain.codec import Json
from benchorch.domain.spending import HEAD_KIND
from benchorch.domain.trial import ConfigNode, Trial, node_of
from benchorch.errors import ConfigError, NoMachine
from benchorch.interfaces.hardware import Hardware
from benchorch.journal.run_directory import plan_content
from benchorch.results.pricing.cost_lines import summary_lines, summary_notes
from benchorch.results.pricing.sweep_cost import (
    DEFAULT_REGION,
    HEAD,
    expected,
    machines,
    results_s,
    total_usd,
)
from benchorch.results.report.plan_text import plan_text
from benchorch.run.planner import Planned

CHECKOUT = Path(__file__).resolve().parents[3]
"""Of benchorch, if this is one: only there can `make provision` find the stack's files."""


_SUMS = (
    "cost_usd of a trial is that of its own minutes; the plan's is that of its machines, from "
    "launch to end, with the head, and of priced trials elsewhere."
)


class WayOn(NamedTuple):
    """What to type or to add to the line, and what it does."""

    command: str
    effect: str


def refusal(planned: Planned) -> NoMachine:
    """Why a plan cannot run, with its price and what can be done.

    Args:
        planned: with trials for the hardware that is not reached.
    """
    problems = [f"hardware={kind}: {why}" for kind, why in planned.unreachable.items()]
    ways = "\n".join(["Nothing was run, and nothing is recorded.", *ways_on(planned)])
    return NoMachine(problems, plan="\n".join(priced(planned)), ways=ways, data=plan_data(planned))


def priced(planned: Planned) -> Iterator[str]:
    """The plan's trials, with minutes and dollars of each kind of machine."""
    yield plan_text(planned.plan)
    yield from summary_lines(planned.plan, expected(planned.plan), planned.launched)


def plan_data(planned: Planned) -> Json:
    """The same for programs, with preflight and, where hardware is not reached, the ways on."""
    plan, launched = planned.plan, planned.launched
    forecast = expected(plan)
    whole = machines(plan, forecast, launched)
    content = plan_content(plan)
    stored = cast("list[ConfigNode]", content["trials"])
    ways = {kind: planned.executor.way(kind) for kind in planned.kinds}
    trials = [
        {
            **each,
            "expected_s": forecast[trial.trial_id].seconds,
            "minutes": forecast[trial.trial_id].seconds / 60,
            "cost_usd": forecast[trial.trial_id].usd,
            "how": ways[trial.hardware_kind],
        }
        for trial, each in zip(plan.trials, stored, strict=True)
    ]
    is_priced = all(one.usd is not None for one in whole)
    return cast(
        Json,
        {
            **content,
            "notes": [*plan.notes, *summary_notes(plan, launched), *([_SUMS] if whole else [])],
            "trials": trials,
            "how": planned.way(),
            "minutes": results_s(plan, forecast, launched) / 60,
            "machines": [
                {
                    "kind": one.kind,
                    "instance_type": HEAD if one.kind == HEAD_KIND else one.kind,
                    "minutes": one.seconds / 60,
                    "cost_usd": one.usd,
                }
                for one in whole
            ],
            "cost_usd": total_usd(plan, forecast, launched) if is_priced else None,
            "preflight": [one._asdict() for one in planned.preflight()],
            "unreachable": dict(_unreachable(planned)),
            "ways": [one._asdict() for one in _ways(planned)],
        },
    )


def ways_on(planned: Planned) -> Iterator[str]:
    """The ways to reach hardware that trials need and nothing reaches; else nothing."""
    by_reason: dict[str, list[str]] = {}
    for kind, reason in _unreachable(planned).items():
        by_reason.setdefault(reason, []).append(kind)
    if not by_reason:
        return
    for reason, kinds in by_reason.items():
        yield f"{', '.join(kinds)}: {reason}"
    yield ""
    yield "What you can do:"
    for command, effect in _ways(planned):
        yield f"  {command}"
        yield f"      {effect}"
    obstacles = {kind: reason for kind, reason in _obstacles(planned).items() if reason}
    if obstacles:
        yield ""
        yield "executor=fleet_local, which rehearses a sweep, cannot simulate on this machine:"
        for kind, reason in obstacles.items():
            yield f"  {kind}: {reason.removeprefix(f'{kind} is ')}"


def _unreachable(planned: Planned) -> Mapping[str, str]:
    """Why the hardware of trials is not reached, by its kind."""
    wanted = planned.kinds
    return {kind: why for kind, why in planned.unreachable.items() if kind in wanted}


def _ways(planned: Planned) -> Iterator[WayOn]:
    """What measures the rest here, a stack, a rehearsal, a cluster; none where all is reached."""
    from benchorch.hardware.aws_prices import has_credentials

    unreachable = _unreachable(planned)
    if not unreachable:
        return
    here = sorted(set(planned.kinds) - set(unreachable))
    if here:
        yield WayOn("--allow-skips", f"runs the rest: {', '.join(here)}")
    if not has_credentials():
        yield WayOn(
            "aws configure",
            "or aws sso login, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: credentials of your "
            "AWS account, which the next step needs; a stack that it has is then found by the line",
        )
    fleet = ",".join(f'"{kind}"=1' for kind in unreachable)
    region = node_of(planned.plan.session, "pricing").get("region")
    there = f" --var region={region}" * (region != DEFAULT_REGION)
    where, place = _checkout()
    yield WayOn(
        f"make {where}provision ARGS='--var fleet={{{fleet}}}{there}'",
        f"makes a stack in your AWS account{place}, with Terraform (docs/cloud/aws.md); then run "
        "the same line",
    )
    simulated = [kind for kind, obstacle in _obstacles(planned).items() if not obstacle]
    if simulated:
        yield WayOn(
            "executor=fleet_local",
            f"rehearses the sweep over {', '.join(simulated)} on this machine, without AWS; its "
            "numbers are this machine's",
        )
    yield WayOn(
        "executor.address=HOST:6379",
        "runs on a Ray cluster of yours that has this hardware (docs/cloud/ray.md)",
    )


def _checkout() -> tuple[str, str]:
    """Option of make for the checkout, and what to say of one where this is an installation."""
    if not (CHECKOUT / "infra" / "terraform").is_dir():
        return "", ", in a checkout of benchorch"
    return "" if Path.cwd() == CHECKOUT else f"-C {CHECKOUT} ", ""


def _obstacles(planned: Planned) -> Mapping[str, str | None]:
    """Why this machine cannot simulate each kind that is not reached, or None."""
    trials = {trial.hardware_kind: trial for trial in planned.plan.trials}
    return {k: _obstacle(trials[k]) for k in planned.unreachable if k in trials}


def _obstacle(trial: Trial) -> str | None:
    try:
        return make(trial.hardware, Hardware, "hardware").cannot_simulate()
    except ConfigError as error:
        return error.problems[0]

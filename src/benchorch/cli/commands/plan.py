"""``benchorch plan``: the trials of a run, and skips with their reasons; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchorch.cli.arguments import Request, is_recipe, parse
from benchorch.cli.command import Words, command, words_argument
from benchorch.cli.recipes import placed_mistakes
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, Correction, Problem, Problems
from benchorch.formatting import plural, shell_word

if TYPE_CHECKING:
    from benchorch.interfaces.stack import Readiness
    from benchorch.run.planner import Planned


@command(
    "plan",
    cls=Words,
    help="""Show what a run with these arguments would do: its trials, minutes and dollars for each
    kind of machine, and what would be skipped and why. Nothing is started. Hardware that this
    machine cannot reach is priced, too.
    """,
)
@words_argument()
@click.option(
    "--cheapest",
    is_flag=True,
    help="""sort kinds of machines by
    the cost of the sweep on them; a report shows the cost of serving (USD per 1M), once
    measured""",
)
@click.option(
    "--check", "only_check", is_flag=True, help="only check that these recipes can be planned"
)
def run(terminal: Terminal, words: Sequence[str], cheapest: bool, only_check: bool) -> Reply:
    """Lines for people or, with ``--json``, the whole plan for programs."""
    from benchorch.results.pricing.sweep_cost import cheapest_first
    from benchorch.run.ways_on import plan_data, priced, ways_on

    if only_check:
        return _checked(words)
    request = parse(words, "plan")
    foreign = request.foreign_flags + ([f"resume={request.resume}"] if request.resume else [])
    if foreign:
        raise ConfigError([f"plan does not take {' '.join(foreign)}; see plan --help."])
    found = planned(request)
    if cheapest:
        found = replace(found, plan=cheapest_first(found.plan, found.launched))
    if terminal.wants_json:
        return Reply(text="", data=plan_data(found))
    lines = [*priced(found)]
    if terminal.quiet:
        shown = "\n".join(lines).split("\n")
        return Reply(
            text="\n".join(one for one in shown if not one.startswith("note  ")), data=None
        )
    lines += [_readiness_line(one) for one in found.preflight()]
    ways = list(ways_on(found))
    return Reply(text="\n".join([*lines, *(["", *ways] if ways else [])]), data=None)


def _checked(words: Sequence[str]) -> Reply:
    """Each recipe planned by itself; ConfigError with the problems of all."""
    problems = Problems()
    recipes = list(filter(is_recipe, words))
    others = [word for word in words if word not in recipes]
    if not recipes:
        problem = Problem("--check: names no recipe to check.", Correction(typed="--check"))
        raise ConfigError([problem])
    for recipe in recipes:
        problems.attempt(partial(_planned, [recipe, *others]))
    problems.stop()
    return Reply(
        text=f"{plural(len(recipes), 'recipe')} can be planned.", data={"recipes": recipes}
    )


def _planned(words: Sequence[str]) -> Planned:
    return planned(parse(words, "plan"))


def _readiness_line(one: Readiness) -> str:
    state = one.state if one.state == "ok" else f"{one.state}:"
    remedy = f" -> {one.remedy}" if one.remedy else ""
    return f"preflight  {state} {one.subject}  {one.observed}{remedy}"


def planned(request: Request, *, to_run: bool = False) -> Planned:
    """The plan of a request; ConfigError with every problem.

    Args:
        to_run: as of `plan_jobs`.
    """
    from benchorch.cli.foreign_code import refuse_foreign_code
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.planner import new_plan_id, plan_jobs
    from benchorch.run.selection import narrowed_to

    with placed_mistakes(request):
        composer = Composer(config_loader(request.directories), request.config_name)
        if request.directories:
            refuse_foreign_code(composer, request.overrides)
        jobs = composer.jobs(request.overrides, sweep=request.multirun)
        return narrowed_to(plan_jobs(composer, jobs, new_plan_id(), to_run=to_run), request.only)


def check(words: Sequence[str]) -> None:
    """Plan what a run would run, starting nothing; ConfigError with every problem."""
    request = parse(words, "submit")
    foreign = request.foreign_flags
    if foreign:
        raise ConfigError([f"submit does not take {' '.join(foreign)}; see submit --help."])
    if request.resume is None:
        from benchorch.run.invocation import refuse_without_packages

        refuse_without_packages(planned(request, to_run=True).plan)
    else:
        _check_settings(request, request.resume)


def _check_settings(request: Request, resume: str) -> None:
    """ConfigError where a stored run cannot be resumed with other settings.

    Trials that it is extended by are checked with those it has, by the run itself.
    """
    from benchorch.config.composer import Composer, config_loader
    from benchorch.journal.registry import find_invocation
    from benchorch.journal.run_directory import read_plan
    from benchorch.run.foreign_plan import refuse_foreign
    from benchorch.run.resumed_settings import with_settings

    composer = Composer(config_loader(request.directories), request.config_name)
    overrides = composer.lifted(request.overrides)
    if request.extends(overrides):
        return
    directory = find_invocation(resume)
    plan = read_plan(directory)
    refuse_foreign(plan, directory, f"benchorch submit resume {shell_word(directory)}")
    planned_in = Path(str(plan.session.get("cwd", ".")))  # where relative paths start
    with chdir(planned_in if planned_in.is_dir() else Path()):
        with_settings(plan, composer, overrides)

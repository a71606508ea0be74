"""``benchorch gate``: fails where the candidate is worse than its baseline by more than a limit.

Exit codes: 0, no regression; 1, a regression, or with --strict one that is not ruled out; 2, wrong
arguments; 3, not comparable: another machine or definition, a trial that fails, disagrees or is
missing; 4, cannot tell: a regression is neither shown nor ruled out.

With --against REV it measures both versions itself, interleaved: the same as `benchorch duel`.
"""

import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import click

from benchorch.cli.command import Command, command, completed
from benchorch.cli.commands import gate_report
from benchorch.cli.commands.comparison_arguments import (
    ACROSS,
    METRIC,
    REFERENCE,
    SELECTOR,
    SESSION,
    ComparedSide,
    factors,
    metric_names,
    open_sessions,
    open_side,
    share,
)
from benchorch.cli.terminal import Terminal
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, Correction, NoBaseline, Problem
from benchorch.formatting import plural
from benchorch.journal import certificates, run_directory
from benchorch.journal.registry import latest_invocations, newest_plans
from benchorch.progress import Say
from benchorch.results.compare.gate import gate
from benchorch.results.compare.load_run import is_run
from benchorch.results.compare.metric_kinds import higher_is_better
from benchorch.results.compare.pairing import is_same
from benchorch.results.history.baseline import sessions_before
from benchorch.results.history.collect import collect, is_folder_of_runs, unreadable

_SESSIONS = 10
_NEWEST = 100
_RUNS = completed("run_names")
DUEL = frozenset({"--against", "--env"})
"""What makes a gate a duel."""


class _GateOrDuel(Command):
    """A gate; with ``--against`` or ``--env`` a duel, which has options of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        """The parsed words of either."""
        if any(word.partition("=")[0] in DUEL for word in args):
            from benchorch.cli.commands import duel

            return duel.run.make_context(info_name, args, parent=parent, **extra)
        _refuse_bare_runs(args)
        return super().make_context(info_name, args, parent=parent, **extra)


@command(
    "gate",
    cls=_GateOrDuel,
    help=f"""Fail if a run is worse than its baseline by more than a limit.

    RUN is {REFERENCE}. A folder of runs, such as a site of benchorch history, is a baseline,
    too: the newest session before the candidate on its machine, and those before it show how much
    sessions differ. --output FILE.md writes a summary for reviewers. With --against REV or
    --env A B it measures both versions itself, interleaved: the same as benchorch duel.
    A first session, which has no baseline yet, ends with 2; with --allow-first it passes.

    \b
    Exit codes: 0  no regression    1  a regression, or with --strict undecided
                2  wrong arguments  3  not comparable: another machine, or a trial
                4  undecided           is redefined, fails, disagrees or missing
    """,
    writes_output=True,
    former={"--markdown": "--output"},
)
@click.option(
    "--baseline",
    required=True,
    metavar="RUN",
    shell_complete=_RUNS,
    help="the earlier run, or a folder of runs",
)
@click.option(
    "--candidate",
    metavar="RUN",
    shell_complete=_RUNS,
    help="the run that is judged; by default the newest",
)
@click.option("--max-regression", required=True, type=share, metavar="SHARE", help="e.g. 2%")
@METRIC
@ACROSS
@SESSION
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=_SESSIONS,
    show_default=True,
    metavar="N",
    help="how many earlier sessions of a folder to use",
)
@click.option("--strict", is_flag=True, help="unclear evidence fails, too")
@click.option("--allow-first", is_flag=True, help="a folder without an earlier session passes")
def run(
    terminal: Terminal,
    baseline: str,
    candidate: str | None,
    max_regression: float,
    last: int,
    strict: bool,
    allow_first: bool,
    **options: Sequence[str],
) -> Reply:
    """The verdict over all trials, as text, Markdown and JSON."""
    names = metric_names(options["metric"])
    _refuse_directionless(names)
    old = None if is_folder_of_runs(baseline) else _named(baseline, allow_first, terminal.say)
    new = open_side(candidate or _newest_but(old), terminal.say)
    earlier: list[ComparedSide] = []
    if old is None:
        try:
            old, *earlier = _history(baseline, new, last, options["across"], terminal.say)
        except NoBaseline as error:
            if lost := unreadable(baseline, terminal.say):
                raise ConfigError(lost) from error
            first = gate_report.FirstSession(
                baseline, new.run.reference, max_regression, error.problems
            )
            return _first_session(terminal, first, allow_first)
    across = factors(options["across"], old, new)
    earlier += open_sessions(options["session"], (old, new, *earlier), across, terminal.say)
    found = gate(
        old.trials,
        new.trials,
        limit_ratio=max_regression,
        metrics=names,
        across=across,
        sessions=[side.trials for side in earlier],
    )
    if any(map(is_same, found.matches)):
        raise ConfigError([_itself(new.run.plan_id)])
    certificate = certificates.kept_of(one.environment for one in new.trials)
    report = gate_report.GateReport(found, old.run.reference, new.run.reference, certificate)
    code = gate_report.exit_code(found.state, strict)
    text, markdown = gate_report.text(report), gate_report.markdown(report)
    return _reply(terminal, text, markdown, gate_report.data(report, code), code)


def _refuse_bare_runs(words: Sequence[str]) -> None:
    """ConfigError for runs that are named as `compare` takes them, with the line that was meant."""
    runs = list(takewhile(lambda word: not word.startswith("-"), words))
    if not runs:
        return
    before, candidate = runs[:2] if len(runs) > 1 else ("last~1", runs[0])
    meant = ["gate", "--baseline", before, "--candidate", candidate, *words[len(runs) :]]
    if not any(word.startswith("--max-regression") for word in words):
        meant += ["--max-regression", "2%"]
    raise ConfigError(
        [f"gate: {' '.join(runs)}: runs are named by --baseline RUN and --candidate RUN."],
        next=shlex.join(["benchorch", *meant]),
    )


def _named(baseline: str, allow_first: bool, say: Say) -> ComparedSide:
    """The run that is the baseline; a name that leads nowhere is never a first session."""
    if allow_first and not is_run(baseline.partition(SELECTOR)[0]):
        folder = shlex.quote(baseline)
        raise ConfigError(
            [
                f"--baseline {baseline!r} is neither a run nor a folder. --allow-first lets a "
                "folder pass that holds no session yet: make it if the name is right."
            ],
            next=f"mkdir -p {folder}",
        )
    return open_side(baseline, say)


def _first_session(terminal: Terminal, first: gate_report.FirstSession, allowed: bool) -> Reply:
    """The reply where there is no earlier session; NoBaseline unless that is allowed."""
    if not allowed:
        raise NoBaseline(first.problems, next=first.allowed_command)
    return _reply(terminal, first.text(), first.markdown(), first.data(), 0)


def _reply(terminal: Terminal, text: str, markdown: str, data: Json, code: int) -> Reply:
    """The reply; the summary for reviewers, where one is asked for, is written."""
    gate_report.write_summary(terminal, markdown, data)
    return Reply(text=text, data=data, exit_code=code)


def _history(
    folder: str, candidate: ComparedSide, last: int, across: Sequence[str], say: Say
) -> list[ComparedSide]:
    """The newest session of a folder before the candidate, and those of its level before it."""
    pooled = factors(across, candidate, candidate)
    try:
        runs = collect([folder], say)
    except ConfigError as error:
        raise NoBaseline(error.problems) from error
    found = sessions_before(candidate.run, runs, last=last, across=pooled)
    say(f"baseline: {found[0].reference}, and {plural(len(found) - 1, 'session')} before it")
    return [ComparedSide(run=one, conversion="", trials=one.trials) for one in found]


def _itself(plan_id: str) -> Problem:
    """That a run is its own baseline, with the run next to it that can stand in for it."""
    known = newest_plans(_NEWEST)
    at = known.index(plan_id) if plan_id in known else -1
    before, after = known[at + 1 : at + 2], known[max(at - 1, 0) : max(at, 0)]
    return Problem(
        f"The candidate is the baseline itself, run {plan_id}, and would always pass: measure the "
        "candidate in a run of its own, or name another baseline.",
        Correction(allowed=before or after) if before or after else None,
        key="--baseline" if before else "--candidate" if after else "",
    )


def _refuse_directionless(names: Sequence[str]) -> None:
    problems = [
        f"--metric {name}: neither more nor less of it is better, so it cannot become worse."
        for name in names
        if higher_is_better(name) is None
    ]
    if problems:
        raise ConfigError(problems)


def _newest_but(baseline: ComparedSide | None) -> str:
    """The newest run on this machine; ConfigError where that is the baseline, or there is none."""
    for directory in latest_invocations(1):
        newest = run_directory.read_plan(directory).plan_id
        if baseline is None or newest != baseline.run.plan_id:
            return str(directory)
    problem = (
        "There is no run on this machine that is newer than the baseline: measure the candidate, "
        "or name it with --candidate RUN."
    )
    raise ConfigError([problem])

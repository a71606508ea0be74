"""``benchorch gate``: fails where the candidate is worse than its baseline by more than a limit.

Exit codes: 0, no regression; 1, a regression, or with --strict one that is not ruled out; 2, wrong
arguments; 3, not comparable: another machine or definition, a trial that fails, disagrees or is
missing; 4, cannot tell: a regression is neither shown nor ruled out.

With --against REV it measures both versions itself, interleaved: the same as `benchorch duel`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchorch.cli.commands import gate_report
from benchorch.cli.commands.comparison_arguments import (
    REFERENCE,
    SESSION,
    Side,
    factors,
    metric_names,
    open_side,
    share,
)
from benchorch.domain.certificate import Certificate
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.journal import certificates, run_directory
from benchorch.journal.registry import newest_invocations
from benchorch.progress import Say, silent
from benchorch.results.compare.gate import gate
from benchorch.results.compare.metric_kinds import higher_is_better

_REMEMBERED = 100
DUEL = frozenset({"--against", "--env"})
"""What makes a gate a duel."""


def run(arguments: Sequence[str], say: Say = silent) -> Reply:
    """The verdict over all trials, as text, Markdown and JSON.

    Args:
        arguments: those after ``gate``.
        say: receives progress, where it takes longer than a moment.
    """
    if any(word.partition("=")[0] in DUEL for word in arguments):
        from benchorch.cli.commands import duel

        return duel.run(arguments, say)
    options = _parser().parse_args(list(arguments))
    names = metric_names(options.metric)
    _refuse_directionless(names)
    baseline = open_side(options.baseline, say)
    candidate = open_side(options.candidate or _newest_but(baseline), say)
    found = gate(
        baseline.trials,
        candidate.trials,
        limit_ratio=options.max_regression,
        metrics=names,
        across=factors(options.across, baseline, candidate),
        sessions=[open_side(name, say).trials for name in options.session],
    )
    report = gate_report.GateReport(
        found, baseline.run.reference, candidate.run.reference, _certificate(candidate)
    )
    if options.markdown is not None:
        gate_report.write_markdown(options.markdown, gate_report.markdown(report))
    code = gate_report.exit_code(found.state, options.strict)
    return Reply(text=gate_report.text(report), data=gate_report.data(report, code), exit_code=code)


def _certificate(side: Side) -> Certificate | None:
    """The calibration of this machine, if it is the one that a side was measured on."""
    known = certificates.kept()
    places = [one.result.environment for one in side.trials if one.result is not None]
    if known and any(known.is_of(place.get("host"), place.get("cpu_model")) for place in places):
        return known
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchorch gate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--baseline", required=True, metavar="RUN", help=REFERENCE)
    parser.add_argument("--candidate", metavar="RUN", help="likewise; the newest run by default")
    parser.add_argument(
        "--max-regression", required=True, type=share, metavar="SHARE", help="e.g. 2%%"
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        help="in place of the primary metric; repeatable",
    )
    parser.add_argument(
        "--across", action="append", default=[], metavar="FACTOR", help="what may differ"
    )
    parser.add_argument("--session", action="append", default=[], metavar="RUN", help=SESSION)
    parser.add_argument("--strict", action="store_true", help="unclear evidence fails, too")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="a summary for reviewers")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _refuse_directionless(names: Sequence[str]) -> None:
    problems = [
        f"--metric {name}: neither more nor less of it is better, so it cannot become worse."
        for name in names
        if higher_is_better(name) is None
    ]
    if problems:
        raise ConfigError(problems)


def _newest_but(baseline: Side) -> str:
    """The newest run on this machine; ConfigError where that is the baseline, or there is none."""
    for directory in newest_invocations(_REMEMBERED):
        if (directory / run_directory.PLAN).exists():
            if run_directory.read_plan(directory).plan_id != baseline.run.plan_id:
                return str(directory)
            break
    problem = (
        "There is no run on this machine that is newer than the baseline: measure the candidate, "
        "or name it with --candidate RUN."
    )
    raise ConfigError([problem])

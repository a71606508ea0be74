"""``benchorch gate``: is the candidate shown to be worse than its baseline by more than allowed?

Exit codes: 0, no; 1, yes, or with --strict not shown that it is not; 2, wrong request; 3, something
could not be compared: another machine or definition, a trial that fails, disagrees or is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchorch.cli.commands import gate_report
from benchorch.cli.commands.comparison_arguments import (
    REFERENCE,
    Side,
    factors,
    metric_names,
    open_side,
    share,
)
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.files import write_text
from benchorch.journal import run_directory
from benchorch.journal.registry import newest_invocations
from benchorch.progress import Say, silent
from benchorch.results.compare.gate import gate
from benchorch.results.compare.metric_kinds import higher_is_better

_EXIT_CODES = {"pass": 0, "unclear": 0, "regression": 1, "refused": 3}
_REMEMBERED = 100


def run(arguments: Sequence[str], say: Say = silent) -> Reply:
    """The verdict over all trials, as text, Markdown and JSON.

    Args:
        arguments: the words after ``gate``.
        say: told how far it is, where it takes longer than a moment.
    """
    wanted = _parser().parse_args(list(arguments))
    names = metric_names(wanted.metric)
    _refuse_directionless(names)
    baseline = open_side(wanted.baseline, say)
    candidate = open_side(wanted.candidate or _newest_but(baseline), say)
    found = gate(
        baseline.trials,
        candidate.trials,
        limit_ratio=wanted.max_regression,
        metrics=names,
        across=factors(wanted.across, baseline, candidate),
    )
    words = gate_report.Words(found, baseline.run.reference, candidate.run.reference)
    if wanted.markdown is not None:
        _write(wanted.markdown, gate_report.markdown(words))
    failed = wanted.strict and found.state == "unclear"
    code = 1 if failed else _EXIT_CODES[found.state]
    return Reply(text=gate_report.text(words), data=gate_report.data(words, code), exit_code=code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchorch gate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--baseline", required=True, metavar="RUN", help=REFERENCE)
    parser.add_argument("--candidate", metavar="RUN", help="likewise; the newest run by default")
    parser.add_argument(
        "--max-regression", required=True, type=share, metavar="SHARE", help="e.g. 2%%"
    )
    parser.add_argument(
        "--metric", action="append", default=[], help="instead of the headline; may be repeated"
    )
    parser.add_argument(
        "--across", action="append", default=[], metavar="FACTOR", help="what may differ"
    )
    parser.add_argument("--strict", action="store_true", help="unclear evidence fails as well")
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


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise ConfigError([f"--markdown: {path} cannot be written: {error.strerror}."]) from error

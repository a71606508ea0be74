"""``benchorch doctor``: whether this machine is fit to measure on, and benchorch accurate here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchorch.cli.commands.comparison_arguments import minutes
from benchorch.cli.commands.doctor.calibrate import MINUTES, calibrated
from benchorch.cli.commands.doctor.examination import FULL, QUICK, Say, examine
from benchorch.cli.commands.doctor.report import as_json, as_text
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError


def run(arguments: Sequence[str], say: Say) -> Reply:
    """Examine this machine; the exit code is 0 whatever is found.

    Args:
        say: receives each step as it begins.
    """
    options = _parser().parse_args(list(arguments))
    if options.minutes is not None and not options.calibrate:
        raise ConfigError(["--minutes goes with --calibrate; see doctor --help."])
    if options.calibrate:
        return calibrated(say, MINUTES if options.minutes is None else options.minutes)
    quick = options.quick
    examined = examine(say, QUICK if quick else FULL)
    return Reply(text=as_text(examined), data=as_json(examined))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchorch doctor",
        description="Check whether this machine is fit to measure on, and what would improve it.",
        epilog="--json prints for programs. Exit code 0: examined; 2: a wrong request.",
        allow_abbrev=False,
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: wider intervals")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="in place of all else: which differences are found here, and how often",
    )
    parser.add_argument(
        "--minutes", type=minutes, metavar="M", help=f"of calibrating ({MINUTES:g})"
    )
    return parser

"""``benchorch doctor``: whether this machine is fit to measure on, and benchorch accurate here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchorch.cli.commands.doctor.examination import FULL, QUICK, Say, examine
from benchorch.cli.commands.doctor.report import as_json, as_text
from benchorch.domain.reply import Reply


def run(arguments: Sequence[str], say: Say) -> Reply:
    """Examine this machine; the exit code is 0 whatever is found.

    Args:
        say: receives each step as it begins.
    """
    quick = _parser().parse_args(list(arguments)).quick
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
    return parser

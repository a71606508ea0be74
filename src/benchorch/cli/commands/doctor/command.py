"""``benchorch doctor``: is this machine fit to measure on, and can benchorch be trusted here?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchorch.cli.commands.doctor.examination import FULL, QUICK, Say, examine
from benchorch.cli.commands.doctor.report import as_json, as_text
from benchorch.domain.reply import Reply


def run(arguments: Sequence[str], say: Say) -> Reply:
    """Examine this machine; the answer's code is 0 whatever is found.

    Args:
        say: is told what is being done, as it is begun.
    """
    quick = _parser().parse_args(list(arguments)).quick
    examined = examine(say, QUICK if quick else FULL)
    return Reply(text=as_text(examined), data=as_json(examined))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchorch doctor",
        description="Is this machine fit to measure on, and what would make it fitter?",
        epilog="--json answers for programs. Exit code 0: it could judge; 2: a wrong request.",
        allow_abbrev=False,
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: wider intervals")
    return parser

"""``benchorch doctor``: whether this machine is fit to measure on, and benchorch accurate here."""

import click

from benchorch.cli.command import command
from benchorch.cli.commands.comparison_arguments import minutes
from benchorch.cli.commands.doctor.calibrate import MINUTES, calibrated
from benchorch.cli.commands.doctor.examination import FULL, QUICK, examine
from benchorch.cli.commands.doctor.report import as_json, as_text
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError


@command(
    "doctor",
    help="""Check whether this machine is fit to measure on, and what would improve it.

    Exit code 0: examined, whatever is found; 2: a wrong request.
    """,
)
@click.option("--quick", is_flag=True, help="fewer repetitions: wider intervals")
@click.option(
    "--calibrate", is_flag=True, help="only find out which differences can be detected here"
)
@click.option(
    "--minutes", type=minutes, metavar="M", help=f"calibrate for so many minutes ({MINUTES:g})"
)
def run(terminal: Terminal, quick: bool, calibrate: bool, minutes: float | None) -> Reply:
    """What was found of this machine and of benchorch's accuracy on it."""
    if minutes is not None and not calibrate:
        raise ConfigError(["--minutes goes with --calibrate; see doctor --help."])
    if calibrate:
        return calibrated(terminal.say, MINUTES if minutes is None else minutes)
    examined = examine(terminal.say, QUICK if quick else FULL)
    return Reply(text=as_text(examined), data=as_json(examined), is_coloured=True)

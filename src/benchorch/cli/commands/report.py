"""``benchorch report RUN [RUN ...]``: tables, conclusions and warnings, recomputed."""

from collections.abc import Sequence

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.comparison_arguments import REFERENCE
from benchorch.cli.stored_report import report
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply


@command(
    "report",
    help=f"""Tables, conclusions and warnings of runs, recomputed.

    RUN is {REFERENCE}. --output FILE writes by its suffix: .html one page with plots, .csv a row a
    trial, .md the tables, .json (or with --json) what compare and gate read.
    """,
    writes_output=True,
)
@run_argument("runs", "RUN [RUN ...]", nargs=-1)
@click.option(
    "--reprice",
    is_flag=True,
    help="cost by the bundled list of prices, not by the prices of the sweep (.html and .csv)",
)
def run(terminal: Terminal, runs: Sequence[str], reprice: bool) -> Reply:
    """The tables for people or, with ``--json``, the runs without raw series for programs."""
    return report(runs, terminal, reprice=reprice)

"""``benchorch keep RUN`` and ``fetch [PLAN]``: archive a run in a bucket, and download it."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.sweep_status import read_sweep
from benchorch.cli.terminal import Terminal
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, StoreError
from benchorch.formatting import plural, shell_word
from benchorch.interfaces.executor import ARCHIVE_VARIABLE
from benchorch.journal.registry import find_invocation, is_own, remember
from benchorch.models import trust
from benchorch.run.archive import Archived, again, archive_run, archived_runs, download_run
from benchorch.run.record import end_on_stdin
from benchorch.run.sidecar import ignore_interrupts
from benchorch.stores.objects import Objects, bucket_at

_AT = click.option("--at", metavar="URL", help=f"s3://bucket/prefix; else {ARCHIVE_VARIABLE}")


@command("keep", help="Copy a run's directory to a bucket.")
@run_argument()
@_AT
@click.option("--follow", is_flag=True, help="continue until the run has ended")
def run_keep(terminal: Terminal, run: str, at: str | None, follow: bool) -> Reply:
    """The number of copied files, and the command that copies the rest."""
    if follow:
        ignore_interrupts()
    directory = find_invocation(run, "keep")
    place = _place(at)
    archived = archive_run(directory, place, end_on_stdin if follow else None)
    reply = _archived(directory, place, archived)
    return replace(reply, text=archived.reason) if follow else reply


@command("fetch", help="Download a run from a bucket; without PLAN, list its runs.")
@click.argument("plan", metavar="[PLAN]", required=False)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@_AT
def run_fetch(
    terminal: Terminal, plan: str | None, directory: Path | None, at: str | None
) -> Reply:
    """The run's directory and the next commands; without a plan, the archived runs."""
    place = _place(at)
    try:
        if plan is None:
            return _listed(place, archived_runs(place))
        directory = directory or Path("runs") / plan
        files = download_run(place, plan, directory)
    except StoreError as error:
        return Reply(text=str(error), data={"reason": str(error)}, exit_code=1)
    remember(plan, directory)
    sweep = read_sweep(directory)
    of = len(sweep.plan.trials)
    is_trusted = is_own(sweep.plan.plan_id, directory)
    trusted = "" if is_trusted else f" {trust.FLAG} {shell_word(directory)}"
    text = (
        f"{directory}: {sweep.done} of {of} trials have a result ({files} files)\n"
        f"  table    python -m benchorch report {plan}\n"
        f"  MLflow   python -m benchorch record {shell_word(directory)}{trusted}\n"
        f"  resume   python -m benchorch resume {plan}{trusted}"
    )
    data: Json = {"directory": str(directory), "files": files, "results": sweep.done, "trials": of}
    return Reply(text=text, data=data)


def _place(url: str | None) -> Objects:
    """The named bucket; ConfigError without one."""
    named = url or os.environ.get(ARCHIVE_VARIABLE)
    if not named:
        raise ConfigError(
            [f"No bucket is named: use --at s3://bucket/prefix or set {ARCHIVE_VARIABLE}."]
        )
    try:
        return bucket_at(named)
    except StoreError as error:
        raise ConfigError([str(error)]) from error


def _archived(directory: Path, place: Objects, archived: Archived) -> Reply:
    files = plural(archived.files, "file")
    data: Json = {"at": place.address, "files": archived.files, "reason": archived.reason}
    if archived.reason:
        later = again(directory, place)
        text = f"{files} copied, not all: {archived.reason}\nNothing is lost; later: {later}"
        return Reply(text=text, data=data, exit_code=1)
    return Reply(text=f"{files} copied to {place.address}; nothing is missing.", data=data)


def _listed(place: Objects, runs: Sequence[str]) -> Reply:
    text = "\n".join(runs) if runs else f"{place.address} has no run."
    return Reply(text=text, data={"at": place.address, "runs": list(runs)})

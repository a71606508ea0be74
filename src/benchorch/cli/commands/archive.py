"""``benchorch keep RUN`` and ``fetch [PLAN]``: archive a run in a bucket, and download it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from benchorch.cli.commands.sweep_status import read_sweep
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, StoreError
from benchorch.formatting import plural
from benchorch.journal.registry import find_invocation, remember
from benchorch.run.archive import (
    PLACE_VARIABLE,
    Archived,
    again,
    archive_run,
    archived_runs,
    download_run,
)
from benchorch.run.record import end_on_stdin
from benchorch.run.sidecar import ignore_interrupts
from benchorch.stores.objects import Objects
from benchorch.stores.s3 import bucket_at


def run_keep(arguments: Sequence[str]) -> Reply:
    """The number of copied files, and the command that copies the rest."""
    parser = argparse.ArgumentParser(
        prog="benchorch keep", description="Copy a run's directory to a bucket."
    )
    parser.add_argument("run", metavar="RUN", help="its directory, or the id of its plan")
    _add_place(parser)
    parser.add_argument("--follow", action="store_true", help="stay until the run has ended")
    options = parser.parse_args(list(arguments))
    if options.follow:
        ignore_interrupts()
    directory = find_invocation(options.run, "keep")
    place = _place(options.at)
    archived = archive_run(directory, place, end_on_stdin if options.follow else None)
    reply = _archived(directory, place, archived)
    return (
        Reply(text=archived.reason, data=reply.data, exit_code=reply.exit_code)
        if options.follow
        else reply
    )


def run_fetch(arguments: Sequence[str]) -> Reply:
    """The run's directory and the next commands; without a plan, the archived runs."""
    parser = argparse.ArgumentParser(
        prog="benchorch fetch", description="Download a run from a bucket; without PLAN, list them."
    )
    parser.add_argument("plan_id", metavar="PLAN", nargs="?", help="the id of its plan")
    parser.add_argument("directory", metavar="DIR", nargs="?", type=Path, help="default: runs/PLAN")
    _add_place(parser)
    options = parser.parse_args(list(arguments))
    place = _place(options.at)
    try:
        if options.plan_id is None:
            return _listed(place, archived_runs(place))
        directory = options.directory or Path("runs") / options.plan_id
        files = download_run(place, options.plan_id, directory)
    except StoreError as error:
        return Reply(text=str(error), data={"reason": str(error)}, exit_code=1)
    remember(options.plan_id, directory)
    sweep = read_sweep(directory)
    of = len(sweep.plan.trials)
    text = (
        f"{directory}: {sweep.done} of {of} trials have a result ({files} files)\n"
        f"  table    python -m benchorch report {options.plan_id}\n"
        f"  MLflow   python -m benchorch record {directory}\n"
        f"  resume   python -m benchorch resume {options.plan_id}"
    )
    data: Json = {"directory": str(directory), "files": files, "results": sweep.done, "trials": of}
    return Reply(text=text, data=data)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", metavar="URL", help=f"s3://bucket/prefix; else {PLACE_VARIABLE}")
    parser.add_argument("--json", action="store_true", help="for programs")


def _place(url: str | None) -> Objects:
    """The named bucket; ConfigError without one."""
    named = url or os.environ.get(PLACE_VARIABLE)
    if not named:
        raise ConfigError(
            [f"No bucket is named: use --at s3://bucket/prefix or set {PLACE_VARIABLE}."]
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

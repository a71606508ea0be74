"""``benchorch record DIR``: record a run's results in MLflow, now or as they come."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchorch.config import components
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, RecordError
from benchorch.formatting import plural
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.journal.chain import mapping_of
from benchorch.recorders.mlflow_links import TRACKING
from benchorch.run.record import Replayed, command, replay
from benchorch.run.sidecar import ignore_interrupts

MLFLOW = "benchorch.recorders.mlflow.Mlflow"
_SQLITE = "sqlite:///"


def run(arguments: Sequence[str]) -> Reply:
    """The number of recorded trials, and the command that records the rest."""
    options = _parser().parse_args(list(arguments))
    directory = Path(options.directory)
    if options.follow:
        ignore_interrupts()
    try:
        recorder = recorder_of(directory, run_directory.read_plan(directory), options.uri)
        replayed = replay(directory, recorder, follow=options.follow)
    except ConfigError as error:
        return Reply(text=str(error), data={"problems": list(error.problems)}, exit_code=2)
    except RecordError as error:
        return Reply(text=str(error), data={"reason": str(error)}, exit_code=1)
    reply = _reply(directory, recorder, replayed)
    # The coordinator prints where results are, and why they are not.
    return replace(reply, text=replayed.reason) if options.follow else reply


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchorch record", description=__doc__)
    parser.add_argument("directory", metavar="DIR", help="a run's directory")
    parser.add_argument("--uri", help="another tracker than the one the run was made for")
    parser.add_argument("--follow", action="store_true", help="stay until the run has ended")
    return parser


def recorder_of(directory: Path, plan: Plan, uri: str | None) -> Recorder:
    """The run's own recorder, or an MLflow one at another address."""
    node = plan.recorder
    if uri is not None:
        own = node if node.get(components.TARGET) == MLFLOW else {components.TARGET: MLFLOW}
        node = {**own, "uri": uri}
    elif str(node.get("uri", "")).startswith(_SQLITE):
        node = {**node, "uri": _noted_uri(directory) or node["uri"]}
    return components.make(node, Recorder, "recorder")


def _noted_uri(directory: Path) -> str | None:
    """The absolute path of the SQLite file in which the run was recorded."""
    path = directory / TRACKING
    uri = ""
    with contextlib.suppress(OSError, ValueError):
        uri = str(mapping_of(path.read_bytes()).get("uri"))
    return uri if uri.startswith(_SQLITE) else None


def _reply(directory: Path, recorder: Recorder, replayed: Replayed) -> Reply:
    address = dict(recorder.address)
    data: Json = {
        **address,
        "recorded": replayed.recorded,
        "remaining": replayed.remaining,
        "reason": replayed.reason,
        "parent_run_id": replayed.parent_run_id,
    }
    if not address:
        text = f"This run has no tracker: name one with --uri, e.g. --uri {_SQLITE}mlflow.db"
        return Reply(text=text, data=data, exit_code=0)
    recorded = plural(replayed.recorded, "trial")
    if not replayed.reason:
        text = f"{recorded} recorded at {address['uri']}; nothing is missing."
        return Reply(text=text, data=data)
    text = (
        f"{recorded} recorded, {plural(replayed.remaining, 'trial')} not: {replayed.reason}\n"
        f"Nothing is lost; once the tracker is back: {command(directory)}"
    )
    return Reply(text=text, data=data, exit_code=1)

"""``benchorch record DIR``: record a run's results in MLflow, now or as they come."""

import contextlib
from dataclasses import replace
from pathlib import Path

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.terminal import Terminal
from benchorch.config import components
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, Correction, Problem, RecordError
from benchorch.files import read_bytes
from benchorch.formatting import plural, shell_word
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.journal.chain import mapping_of
from benchorch.journal.registry import find_invocation
from benchorch.recorders.mlflow_links import TRACKING
from benchorch.run.foreign_plan import refuse_foreign
from benchorch.run.record import Replayed, replay
from benchorch.run.record import command as again
from benchorch.run.sidecar import ignore_interrupts

MLFLOW = "benchorch.recorders.mlflow.Mlflow"
_SQLITE = "sqlite:///"


@command("record", help="Record a run's results in MLflow, now or as they come.")
@run_argument("directory")
@click.option("--uri", help="another MLflow than the one that the run names")
@click.option("--follow", is_flag=True, help="continue until the run has ended")
def run(terminal: Terminal, directory: str, uri: str | None, follow: bool) -> Reply:
    """The number of recorded trials, and the command that records the rest."""
    place = find_invocation(directory, "record")
    if follow:
        ignore_interrupts()
    try:
        recorder = _chosen(place, uri, f"benchorch record {shell_word(directory)}")
        replayed = replay(place, recorder, follow=follow)
    except ConfigError as error:
        raise ConfigError([problem.within(f"{place}: ") for problem in error.problems]) from error
    except RecordError as error:
        return Reply(text=str(error), data={"reason": str(error)}, exit_code=1)
    if not (follow or recorder.address):
        named = Correction(added=["--uri", f"{_SQLITE}mlflow.db"])
        raise ConfigError([Problem("This run has no tracker: name one with --uri.", named)])
    reply = _reply(place, recorder, replayed)
    # The coordinator prints where results are, and why they are not.
    return replace(reply, text=replayed.reason) if follow else reply


def _chosen(directory: Path, uri: str | None, typed: str) -> Recorder:
    """The recorder; ConfigError where a stranger's plan would choose it."""
    plan = run_directory.read_plan(directory)
    if uri is None and set(plan.recorder) - {components.TARGET}:
        refuse_foreign(plan, directory, typed)
    return recorder_of(directory, plan, uri)


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
        uri = str(mapping_of(read_bytes(path)).get("uri"))
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
    recorded = plural(replayed.recorded, "trial")
    if not replayed.reason:
        text = f"{recorded} recorded at {address.get('uri')}; nothing is missing."
        return Reply(text=text, data=data)
    text = (
        f"{recorded} recorded, {plural(replayed.remaining, 'trial')} not: {replayed.reason}\n"
        f"Nothing is lost; once the tracker is back: {again(directory)}"
    )
    return Reply(text=text, data=data, exit_code=1)

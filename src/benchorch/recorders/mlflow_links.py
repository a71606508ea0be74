"""Addresses in MLflow's user interface of what was recorded of a run."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from benchorch.domain.codec import Json
from benchorch.files import read_bytes
from benchorch.journal.chain import mapping_of
from benchorch.journal.record_cursor import CURSOR
from benchorch.journal.run_directory import read_lines
from benchorch.recorders.mlflow_view import VIEW

HOST, FIRST_PORT = "127.0.0.1", 5000
"""Address at which ``benchorch ui`` serves a local tracker."""
TRACKING = "tracking.json"

# Without it MLflow 3 opens its view of language model applications, which shows nothing here.
_WORKFLOW = "?workflowType=machine_learning"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowLinks:
    """Links of one run.

    Attributes:
        parent: of the whole run; empty where it was not recorded.
        table: of the experiment's trials with their figures, the newest first.
        trials: of each recorded trial, by its id.
        served: whether a server is at that address anyway, without ``benchorch ui``.
    """

    parent: str = ""
    table: str = ""
    trials: Mapping[str, str] = field(default_factory=dict)
    served: bool = False


def mlflow_links(directory: Path) -> MlflowLinks:
    """The links of the run in a directory, as far as it was recorded."""
    tracking: Mapping[str, Json] = {}
    with contextlib.suppress(OSError, ValueError):
        tracking = mapping_of(read_bytes(directory / TRACKING))
    parent, experiment = tracking.get("parent_run_id"), tracking.get("experiment_id")
    if not parent or not experiment:
        return MlflowLinks()
    uri = str(tracking.get("uri"))
    served = uri.startswith(("http://", "https://"))
    runs = f"{uri.rstrip('/') if served else f'http://{HOST}:{FIRST_PORT}'}/#/experiments"
    runs = f"{runs}/{experiment}/runs"
    trials = {
        str(line["trial_id"]): f"{runs}/{line['run_id']}{_WORKFLOW}"
        for line in read_lines(directory / CURSOR)
        if line.get("uri") == uri and line.get("trial_id") and line.get("run_id")
    }
    return MlflowLinks(
        parent=f"{runs}/{parent}{_WORKFLOW}",
        table=f"{runs}{_WORKFLOW}&viewStateShareKey={VIEW}",
        trials=trials,
        served=served,
    )

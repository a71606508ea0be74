"""Results as MLflow runs: a parent for the plan, a child for each trial.

A trial costs three tracking requests: create (with every tag), one batch (metrics and params) and
update (status and end); one that is recorded before the whole table is known costs a read and one
more batch.
Artifacts come on top; observations are one file, never points of a metric.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final
from urllib.parse import quote

from benchorch.domain.codec import encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError, RecordError, causes
from benchorch.files import read_text
from benchorch.host.environment_variable import environment_variable
from benchorch.host.packages import absence
from benchorch.interfaces.recorder import Recorder
from benchorch.journal import run_directory
from benchorch.journal.chain import UNREADABLE
from benchorch.recorders import attachments, location, run_fields
from benchorch.recorders.mlflow_view import SAVED_VIEW, VIEW_TAG
from benchorch.recorders.run_fields import NOTE, RunFields

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

SKIPS = "skips.json"

_SOURCE = {"mlflow.source.name": "benchorch"}
_PARENT = "mlflow.parentRunId"
_MAX_NOTE_LENGTH = 5000
_MAX_REASON_LENGTH = 400
_RUNS_PER_PAGE, _MOST_PAGES = 500, 2000
_UPLOADS_AT_ONCE = 4
_MOST_BYTES = 2**28
_WRITTEN = ("experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics")
_REDIRECTED = (
    "it redirects, and credentials go to no address but the one named: name the final one in "
    "recorder.uri"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run's id and where its artifacts go."""

    run_id: str
    artifact_uri: str


@dataclass(slots=True, kw_only=True)
class _Session:
    """An open parent run.

    Attributes:
        children: each trial's run, if one is known.
        unconfirmed: trials whose run may exist although no response confirmed it.
        duplicates: whether a trial may have got two runs that way.
    """

    client: MlflowClient
    experiment_id: str
    plan: Plan
    parent: _Run
    children: dict[str, _Run] = field(default_factory=dict)
    unconfirmed: set[str] = field(default_factory=set)
    duplicates: bool = False


@dataclass(slots=True)
class _State:
    session: _Session | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mlflow(Recorder):
    """Any MLflow tracker.

    Attributes:
        uri: e.g. ``sqlite:///mlflow.db``, relative to the directory at construction, or
            ``http://host:5000``. Its user and password are used and never shown; where it has
            none, those of ``BENCHORCH_TRACKING_URI`` are used if that is the same tracker.
        experiment: made if need be.
        timeout_s: for one response as a whole; nothing is retried, because the journal can wait.
        required: whether a run fails, with exit code 1, that could not be recorded in full.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str = "benchorch"
    timeout_s: int = 8
    required: bool = False
    _state: _State = field(init=False, compare=False, default_factory=_State)

    def __post_init__(self) -> None:
        problem = location.problem(self.uri)
        if problem is not None:
            raise ConfigError([problem])
        if not self.experiment:
            raise ValueError("experiment: is empty; it must name an MLflow experiment")
        if self.timeout_s < 1:
            raise ValueError(f"timeout_s: got {self.timeout_s}, it must be at least 1")
        uri = location.anchored(location.whole(self.uri), Path.cwd())
        object.__setattr__(self, "uri", uri)

    def __repr__(self) -> str:
        return f"Mlflow({', '.join(f'{k}={v!r}' for k, v in self.address.items())})"

    @property
    def address(self) -> Mapping[str, str]:
        """The URI without secrets, and the experiment."""
        return {"uri": location.without_secrets(self.uri), "experiment": self.experiment}

    @property
    def ids(self) -> Mapping[str, str]:
        """The id of the experiment, once it is open."""
        session = self._state.session
        return {} if session is None else {"experiment_id": session.experiment_id}

    def open(self, plan: Plan, directory: Path) -> str:
        """The parent run's id; existing children are found, duplicates deleted."""
        with _mlflow(self):
            client = _connect(self.uri)
            experiment_id = _experiment(client, self)
            found = _first(_search(client, experiment_id, _role(plan, "plan")))
            parent = found or _new_parent(client, experiment_id, plan, self.uri)
            session = _Session(client=client, experiment_id=experiment_id, plan=plan, parent=parent)
            if found is not None:
                session.children.update(_unique_children(session))
                client.update_run(parent.run_id, status="RUNNING")
            self._state.session = session
            return parent.run_id

    def record(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """The child run's id; its status is set last, so a run that has ended is complete."""
        session = self._session()
        with _mlflow(self):
            fields = run_fields.of_trial(session.plan.plan_id, trial, result, summary)
            known = _known_child(session, trial)
            run = known or _new_child(session, trial, fields)
            at_ms = (fields.end_ms or 0) if known is None else _now_ms()
            with _facts_file(fields) as facts:
                files = [*attachments.below(directory), (facts, "")]
                with _uploading(run, self.uri, files):
                    _log(self, run, fields, again=known is not None, at_ms=at_ms)
            session.client.set_terminated(run.run_id, fields.status, fields.end_ms)
            return run.run_id

    def amend(self, trial: Trial, result: TrialResult, summary: Summary, directory: Path) -> str:
        """The child run's id, once its metrics and tags are those of the whole table."""
        session = self._session()
        with _mlflow(self):
            run = _known_child(session, trial)
            if run is not None:
                fields = run_fields.of_trial(session.plan.plan_id, trial, result, summary)
                with _facts_file(fields) as facts, _uploading(run, self.uri, [(facts, "")]):
                    _log(self, run, fields, again=True, at_ms=_now_ms())
                return run.run_id
        return self.record(trial, result, summary, directory)  # somebody deleted the run

    def close(self, plan: Plan, directory: Path, *, complete: bool) -> None:
        """The parent's artifacts, its table as a note, and its end."""
        session = self._session()
        session.plan = plan
        with _mlflow(self):
            if session.duplicates:
                session.children.update(_unique_children(session))
            _upload_skips(session.parent, plan, self.uri)
            _upload(session.parent, self.uri, attachments.directly_in(directory))
            _end_parent(self, directory, complete=complete)

    def register(self, run_id: str, folder: Path, name: str) -> str:
        """Upload a folder to a trial's run as ``export``, and register it as a model's version.

        Returns:
            The version's number.
        """
        from mlflow.exceptions import MlflowException

        with _mlflow(self):
            client = _connect(self.uri)
            run = _run(client.get_run(run_id))
            files = attachments.below(folder)
            _upload(run, self.uri, ((path, str(Path("export", at))) for path, at in files))
            try:
                client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            source = f"{run.artifact_uri.rstrip('/')}/export"
            return str(client.create_model_version(name, source, run_id).version)

    def fetch(self, into: Path) -> list[Path]:
        """The experiment's runs as directories, as far as deriving their figures needs them.

        Runs without a plan among their artifacts, which did not end, are left out.
        """
        with _mlflow(self, "could not be read"):
            client = _connect(self.uri)
            experiment = client.get_experiment_by_name(self.experiment)
            if experiment is None:
                known = ", ".join(one.name for one in client.search_experiments(max_results=20))
                problem = f"{self.address['uri']} has no experiment {self.experiment!r}"
                raise RecordError(f"{problem}. It has: {known}.")
            found = _search(client, experiment.experiment_id, "tags.role = 'plan'")
            places = [_fetched(client, run, into, self.uri) for run in found]
            return [place for place in places if place is not None]

    def _session(self) -> _Session:
        if self._state.session is None:
            raise RecordError(f"{self!r} is not open: its parent run was never made")
        return self._state.session


def create_store(uri: str) -> None:
    """Make a SQLite tracker's tables if they are missing, or wait while another process does."""
    with _mlflow(Mlflow(uri=uri)):
        _connect(uri)


@contextmanager
def _mlflow(recorder: Mlflow, failed: str = "did not record it") -> Iterator[None]:
    """MLflow's settings during requests; its errors become one RecordError."""
    from benchorch.host.paced_http import paced  # with ssl, which a plan does without

    with _environment(recorder.timeout_s):
        try:
            from google.protobuf.json_format import Error as NotItsJson  # type: ignore[import-untyped]
            from mlflow.exceptions import MlflowException
            from sqlalchemy.exc import SQLAlchemyError
        except ModuleNotFoundError as error:
            absent = absence(error)
            raise RecordError(f"{absent} {absent.next}" if absent else str(error)) from error
        try:
            with paced(_MOST_BYTES):
                yield
        except (
            *(MlflowException, SQLAlchemyError, NotItsJson, OSError, ImportError),
            *UNREADABLE,
        ) as error:
            reason = location.scrubbed(_reason(error), recorder.uri)
            raise RecordError(f"{recorder.address['uri']} {failed}: {reason}") from None


def _reason(error: BaseException) -> str:
    """Reason on one line: the operating system's error if there is one, else MLflow's."""
    *_, innermost = causes(error, implied=True)
    if isinstance(innermost, OSError):
        return innermost.strerror or str(innermost) or type(innermost).__name__
    text = " ".join(str(error).split())[:_MAX_REASON_LENGTH]
    return _REDIRECTED if re.search(r"error code 30[12378]\b", text) else text


@contextmanager
def _environment(timeout_s: int) -> Iterator[None]:
    """Quiet, no retries, telemetry or other hosts; a user's own MLflow code keeps its settings."""
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
        "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",  # it would send a token to wherever they lead
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(timeout_s),
    }
    with ExitStack() as held:
        for name, value in settings.items():
            held.enter_context(environment_variable(name, value))
        yield


def _connect(uri: str) -> MlflowClient:
    """A client; a lock lets only one process make the tables of a new SQLite file."""
    from mlflow import MlflowClient
    from mlflow.store.db import utils

    retries = utils.MAX_RETRY_COUNT
    utils.MAX_RETRY_COUNT = 1  # else an unreachable database blocks for minutes
    try:
        with location.one_at_a_time(uri):
            _refuse_programs(location.database_file(uri))
            return MlflowClient(tracking_uri=uri)
    finally:
        utils.MAX_RETRY_COUNT = retries


def _refuse_programs(database: Path | None) -> None:
    """RecordError for a SQLite file with triggers or views on what is recorded: some never end.

    MLflow's own triggers are on other tables, and none of its tables is a view. A file that is no
    database is left to MLflow, which says so.
    """
    import sqlite3

    if database is None or not database.exists():
        return
    from mlflow.store.tracking.dbmodels.models import Base

    found = "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    tables = {"trigger": _WRITTEN, "view": ("alembic_version", *Base.metadata.tables)}
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(database)) as connection:
        for kind, name, table in connection.execute(found):
            if str(table).lower() in tables[kind]:
                place = f" on {table}" if kind == "trigger" else ""
                raise RecordError(
                    f"{database} has the {kind} {name!r}{place}, which MLflow did not make: take "
                    "another file with recorder.uri=sqlite:///mine.db"
                )


def _experiment(client: MlflowClient, recorder: Mlflow) -> str:
    """The id of the experiment, which has our view of its runs; created if need be.

    Artifacts of a new one are beside a SQLite file.
    """
    from mlflow.exceptions import MlflowException

    name, database = recorder.experiment, location.database_file(recorder.uri)
    found = client.get_experiment_by_name(name)
    if found is None:
        root = None
        if database is not None:
            folder = location.artifacts_of(database).absolute()
            root = (folder / quote(name, safe=" ")).as_uri()
        try:
            return str(client.create_experiment(name, root, {VIEW_TAG: SAVED_VIEW}))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            return _experiment(client, recorder)
    if found.lifecycle_stage == "deleted":
        raise RecordError(
            f"the experiment {name!r} is deleted: restore it, or choose another with "
            "recorder.experiment=NAME"
        )
    _check_place(found.artifact_location or "", recorder.uri)
    if found.tags.get(VIEW_TAG) != SAVED_VIEW:
        client.set_experiment_tag(found.experiment_id, VIEW_TAG, SAVED_VIEW)
    return str(found.experiment_id)


def _role(plan: Plan, role: str) -> str:
    """The filter that finds this plan's runs of one role."""
    return f"tags.plan_id = '{plan.plan_id}' and tags.role = '{role}'"


def _search(client: MlflowClient, experiment_id: str, condition: str) -> Iterator[Run]:
    """Matching runs, oldest first; RecordError where the server has the same page again."""
    token: str | None = None
    known = set[str]()
    while True:
        page = client.search_runs(
            [experiment_id],
            condition,
            max_results=_RUNS_PER_PAGE,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return
        if token in known or len(known) == _MOST_PAGES:
            raise RecordError("its list of runs has no end")
        known.add(token)


def _fetched(client: MlflowClient, parent: Run, into: Path, uri: str) -> Path | None:
    """A run's directory with its plan, its results and their series; None without a plan."""
    plan_id = str(parent.data.tags.get("plan_id", ""))
    run_directory.check_id(plan_id)
    place = into / plan_id
    if not _download(_run(parent), uri, (run_directory.PLAN, run_directory.RESULTS), place):
        return None
    own = f"tags.plan_id = '{plan_id}' and tags.role = 'trial'"
    for child in _search(client, parent.info.experiment_id, own):
        folder = run_directory.trial_directory(place, str(child.data.tags.get("trial_id", "")))
        _download(_run(child), uri, (run_directory.OBSERVATIONS,), folder)
    return place


def _download(run: _Run, uri: str, names: Collection[str], into: Path) -> bool:
    """Whether a run has all these artifacts, which are then in a folder."""
    repository = _artifacts(run, uri)
    if not {*names} <= {file.path for file in repository.list_artifacts()}:
        return False
    into.mkdir(parents=True, exist_ok=True)
    for name in names:
        repository.download_artifacts(name, str(into))
    return True


def _artifacts(run: _Run, uri: str) -> ArtifactRepository:
    """A run's artifacts; RecordError where they are at an address that only the tracker names."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    _check_place(run.artifact_uri, uri)
    return get_artifact_repository(run.artifact_uri, tracking_uri=uri)


def _check_place(place: str, uri: str) -> None:
    if location.is_chosen_address(place, uri):
        raise RecordError(
            f"{location.without_secrets(uri)} has artifacts at {location.strike_out(place)}, and "
            "credentials go to no address that only a tracker names: name that server in "
            "recorder.uri, or take another experiment with recorder.experiment=NAME"
        )


def _first(runs: Iterable[Run]) -> _Run | None:
    return next(map(_run, runs), None)


def _run(run: Run) -> _Run:
    return _Run(run_id=run.info.run_id, artifact_uri=run.info.artifact_uri)


def _unique_children(session: _Session) -> dict[str, _Run]:
    """One run per trial; duplicates from requests whose response was lost are deleted."""
    only: dict[str, _Run] = {}
    found = _search(session.client, session.experiment_id, _role(session.plan, "trial"))
    # All before the first is deleted, which would shift the pages; ten thousand are much in whole.
    for trial_id, run in [(one.data.tags["trial_id"], _run(one)) for one in found]:
        kept = session.children.get(trial_id) or only.get(trial_id) or run
        if kept.run_id != run.run_id:
            session.client.delete_run(run.run_id)
        only[trial_id] = kept
    return only


def _new_parent(client: MlflowClient, experiment_id: str, plan: Plan, uri: str) -> _Run:
    """The plan's run, with its skips as an artifact."""
    tags = {**run_fields.of_plan(plan), **_SOURCE}
    parent = _run(client.create_run(experiment_id, tags=tags, run_name=plan.name))
    _upload_skips(parent, plan, uri)
    return parent


def _upload_skips(run: _Run, plan: Plan, uri: str) -> None:
    if plan.skips:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / SKIPS
            path.write_text(
                json.dumps([encode(skip.without_spec()) for skip in plan.skips], indent=2),
                encoding="utf-8",
            )
            _upload(run, uri, [(path, "")])


def _end_parent(recorder: Mlflow, directory: Path, *, complete: bool) -> None:
    """The parent's last tags, the winner's figures, and its status."""
    from mlflow.entities import Metric, RunTag

    session = recorder._session()
    tags = dict(run_fields.of_plan(session.plan))
    table = directory / run_directory.TABLE
    if table.exists():
        tags[NOTE] = read_text(table)[:_MAX_NOTE_LENGTH]
    winner_tags, metrics = run_fields.of_winner(directory)
    tags.update(winner_tags)
    now_ms = _now_ms()
    run_id = session.parent.run_id
    outdated = {*run_fields.WINNER_TAGS} - tags.keys()
    _remove_outdated(recorder, session.parent, outdated, metrics, now_ms)
    session.client.log_batch(
        run_id,
        metrics=[Metric(k, value, now_ms, 0) for k, value in _named(recorder, metrics).items()],
        tags=[RunTag(key, text) for key, text in tags.items()],
    )
    session.client.set_terminated(run_id, "FINISHED" if complete else "KILLED")


def _now_ms() -> int:
    return int(datetime.now(tz=UTC).timestamp() * 1000)


def _known_child(session: _Session, trial: Trial) -> _Run | None:
    """The trial's run if it exists; searches only after a response was lost."""
    if trial.trial_id in session.unconfirmed:
        condition = f"{_role(session.plan, 'trial')} and tags.trial_id = '{trial.trial_id}'"
        found = _first(_search(session.client, session.experiment_id, condition))
        if found is not None:
            session.children[trial.trial_id] = found
        session.duplicates = session.duplicates or found is None
        session.unconfirmed.discard(trial.trial_id)
    return session.children.get(trial.trial_id)


def _new_child(session: _Session, trial: Trial, fields: RunFields) -> _Run:
    session.unconfirmed.add(trial.trial_id)
    run = session.client.create_run(
        session.experiment_id,
        start_time=fields.start_ms,
        tags={**fields.tags, **_SOURCE, _PARENT: session.parent.run_id},
        run_name=fields.name,
    )
    session.unconfirmed.discard(trial.trial_id)
    session.children[trial.trial_id] = _run(run)
    return _run(run)


@contextmanager
def _facts_file(fields: RunFields) -> Iterator[Path]:
    """The artifact that holds everything known besides params and metrics."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / run_fields.FACTS
        path.write_text(json.dumps(dict(fields.facts), indent=2), encoding="utf-8")
        yield path


def _log(recorder: Mlflow, run: _Run, fields: RunFields, *, again: bool, at_ms: int) -> None:
    """Log one batch; of two values of a metric, MLflow shows that of the later moment.

    A new run has its tags already; one that is logged again gets them, and loses outdated ones.

    Interval bounds get no slash of their own in MLflow's retired file store, which keeps metrics as
    files: ``latency_ms/p50`` cannot be a file and a folder.
    """
    from mlflow.entities import Metric, Param, RunTag

    if again:
        outdated = {*run_fields.SHOWN_TAGS, NOTE} - fields.tags.keys()
        _remove_outdated(recorder, run, outdated, fields.metrics, at_ms)
    metrics = _named(recorder, fields.metrics)
    recorder._session().client.log_batch(
        run.run_id,
        metrics=[Metric(name, value, at_ms, 0) for name, value in metrics.items()],
        params=[Param(key, text) for key, text in fields.params.items()],
        tags=[RunTag(key, text) for key, text in fields.tags.items()] if again else [],
    )


def _remove_outdated(
    recorder: Mlflow, run: _Run, tags: Collection[str], metrics: Mapping[str, float], at_ms: int
) -> None:
    """Remove these tags; metrics of ours that are not among these stay, and become NaN."""
    from mlflow.entities import Metric

    client = recorder._session().client
    before = client.get_run(run.run_id).data
    for key in before.tags.keys() & tags:
        client.delete_tag(run.run_id, key)
    gone = before.metrics.keys() - _named(recorder, metrics).keys()
    outdated = [
        Metric(name, math.nan, at_ms, 0)
        for name in gone
        if run_fields.is_own_metric(name) and not math.isnan(before.metrics[name])
    ]
    if outdated:
        client.log_batch(run.run_id, metrics=outdated)


def _named(recorder: Mlflow, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics by the names that they have in the tracker."""
    flat = recorder.uri.startswith("file:")
    return {_flat(key) if flat else key: value for key, value in metrics.items()}


def _flat(metric: str) -> str:
    stem, _, end = metric.rpartition("/")
    return f"{stem}_{end}" if end in ("low", "high") else metric


def _upload(run: _Run, uri: str, files: Iterable[tuple[Path, str]]) -> None:
    """Upload artifacts and wait for the end."""
    with _uploading(run, uri, files):
        pass


@contextmanager
def _uploading(run: _Run, uri: str, files: Iterable[tuple[Path, str]]) -> Iterator[None]:
    """Upload artifacts, several at once, during the block; returns when both are done.

    They go straight to the run's artifact URI: a client would request the run each time.
    """
    from concurrent.futures import ThreadPoolExecutor

    repository = _artifacts(run, uri)

    def send(path: Path, folder: str) -> None:
        with attachments.without_secrets(path, uri) as clean:
            repository.log_artifact(str(clean), folder or None)

    with ThreadPoolExecutor(max_workers=_UPLOADS_AT_ONCE) as pool:
        sent = [pool.submit(send, path, folder) for path, folder in files]
        yield
        for upload in sent:
            upload.result()

"""Agents, which work through assignments on one measuring slot of a node."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

from benchorch.domain.result import TrialResult, UploadedFile
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import StoreError
from benchorch.executors.scheduling.file_transfer import (
    FolderContent,
    ShippedFiles,
    large_files,
    read_folder,
)
from benchorch.executors.scheduling.spot_interruption import SpotInterruptionWatcher
from benchorch.host.environment import PART
from benchorch.host.pinning import confine, part_of_cpus
from benchorch.interfaces.attempt_files import AttemptFiles
from benchorch.interfaces.executor import TrialRunner

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetup:
    """Settings of all agents of a sweep.

    Attributes:
        node: returns the id of the node where it is called; empty if unknown.
        gpus: returns the numbers of the GPUs that its process was given.
        shipped: files for nodes that do not share the run's directory, if any.
        uploads: where large files go instead of with the result; None if nowhere.
        metadata: URL of the service that announces spot interruptions; None for no requests.
    """

    node: Callable[[], str] = str
    gpus: Callable[[], Sequence[int]] = tuple
    shipped: ShippedFiles | None = None
    uploads: AttemptFiles | None = None
    metadata: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpdate:
    """Events since the last update, and the notice of a spot interruption, if any."""

    events: tuple[Event, ...] = ()
    notice: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The outcome of

    Attributes:
        busy_s: how long it took.
        files: the trial's folder; None if the coordinator shares it.
    """

    result: TrialResult
    events: tuple[Event, ...]
    busy_s: float
    files: FolderContent | None = None


@final
class Agent:
    """Works through assignments on one slot and collects events until the next update.

    Args:
        work: runs a trial.
        setup: of all agents.
        slots: of its node; where each has its GPUs, each keeps to its part of the node.
    """

    def __init__(self, work: TrialRunner, setup: AgentSetup, slots: int = 1) -> None:
        _restore_thread_setting()
        _keep_to_part(setup.gpus(), slots)
        self._work = work
        self._setup = setup
        self._events: deque[Event] = deque(maxlen=1000)
        self._interruption = None
        if setup.metadata is not None:
            self._interruption = SpotInterruptionWatcher(setup.metadata)
            self._interruption.start()
        shipped = setup.shipped
        self._must_send_files = shipped is not None and not shipped.is_visible()
        if shipped is not None:
            if self._must_send_files:
                shipped.write()
            directory = shipped.working_directory
            if directory is not None and directory.is_dir():
                os.chdir(directory)  # relative paths start where the coordinator's do

    def node_id(self) -> str:
        """The id of its node; the first call to every agent."""
        return self._setup.node()

    def run(self, trial: Trial, attempt: int) -> AgentReport:
        """A trial's result, the events since the last update, and the seconds it took."""
        _restore_priority()
        begun_s = time.monotonic()
        result = self._work(trial, attempt=attempt, isolated=True, emit=self._events.append)
        uploads, files = self._files(trial)
        return AgentReport(
            result=replace(result, uploads=uploads),
            events=self.update().events,
            busy_s=time.monotonic() - begun_s,
            files=files,
        )

    def update(self) -> AgentUpdate:
        """Events since the last update; may be called while a trial runs."""
        events = tuple(self._events.popleft() for _ in range(len(self._events)))
        return AgentUpdate(
            events=events, notice=self._interruption.notice if self._interruption else ""
        )

    def exit(self) -> None:
        """End this process and what it runs, when the head that could kill it is gone."""
        os._exit(0)

    def _files(self, trial: Trial) -> tuple[tuple[UploadedFile, ...], FolderContent | None]:
        """Uploaded files of the trial's folder, and the rest of its content."""
        if not self._must_send_files or self._setup.shipped is None:
            return (), None
        folder = self._setup.shipped.directory / "trials" / trial.trial_id
        uploads: tuple[UploadedFile, ...] = ()
        if self._setup.uploads is not None:
            try:
                uploads = self._setup.uploads.add(folder, large_files(folder), trial.trial_id)
            except (StoreError, OSError) as error:
                logger.warning("upload=failed reason=%r", str(error))  # they go with the result
        content = read_folder(folder, without={upload.name for upload in uploads})
        if content.left_out:
            logger.warning("files=left_out names=%r", content.left_out)
        return uploads, content


def _keep_to_part(gpus: Sequence[int], slots: int) -> None:
    """Confine this process and its children to the cores and the memory beside its GPUs."""
    if slots < 2 or not gpus:
        return
    os.environ[PART] = f"{min(gpus) // len(gpus) + 1}/{slots}"
    if not confine(part_of_cpus(min(gpus) // len(gpus), slots)):
        logger.warning("cores=shared slots=%d", slots)


def _restore_thread_setting() -> None:
    """Give children the node's thread setting: Ray's OMP_NUM_THREADS=1 would slow them."""
    import psutil

    name = "OMP_NUM_THREADS"
    node = psutil.Process(os.getppid()).environ()
    os.environ.pop(name, None)
    if name in node:
        os.environ[name] = node[name]


def _restore_priority() -> None:
    """Undo Ray's niceness for this thread and its children, where the node allows it."""
    niceness = os.getpriority(os.PRIO_PROCESS, os.getppid())
    if os.getpriority(os.PRIO_PROCESS, 0) == niceness:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    except PermissionError:
        logger.warning("niceness=15 remedy='start the node with RAY_worker_niceness=0'")

"""What works through leases on one slot of a node, whatever carries it there."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.file_transfer import Luggage, Packed, pack
from benchorch.executors.scheduling.spot_interruption import SpotInterruptionWatcher
from benchorch.interfaces.executor import TrialRunner

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """What every agent of a sweep is given.

    Attributes:
        node: tells the id of the node where it is called; empty where nobody knows.
        luggage: for nodes that do not see the run's directory; None where there is none.
        metadata: the service that tells spot machines of their end; None asks nobody.
    """

    node: Callable[[], str] = str
    luggage: Luggage | None = None
    metadata: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What trials have said since the last time, and whether the machine was called back."""

    events: tuple[Event, ...] = ()
    notice: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What came of a lease.

    Attributes:
        busy_s: the seconds it took.
        files: the trial's folder; None where the driver sees it anyway.
    """

    result: TrialResult
    events: tuple[Event, ...]
    busy_s: float
    files: Packed | None = None


@final
class Agent:
    """Works through leases on one slot and keeps what was said until it is asked for."""

    def __init__(self, work: TrialRunner, outfit: Outfit) -> None:
        _as_if_not_under_ray()
        self._work = work
        self._outfit = outfit
        self._said: deque[Event] = deque(maxlen=1000)
        self._notices = (
            None if outfit.metadata is None else SpotInterruptionWatcher(outfit.metadata)
        )
        if self._notices is not None:
            self._notices.start()
        self._away = outfit.luggage is not None and not outfit.luggage.is_seen()
        if outfit.luggage is not None:
            _unpack_there(outfit.luggage, self._away)

    def where(self) -> str:
        """The id of its node: the first thing an agent is asked."""
        return self._outfit.node()

    def run(self, trial: Trial, attempt: int) -> AgentReport:
        """A trial's result, what was said and not yet asked for, and the seconds it took."""
        _restore_priority()
        begun_s = time.monotonic()
        result = self._work(trial, attempt=attempt, isolated=True, emit=self._said.append)
        return AgentReport(
            result=result,
            events=self.news().events,
            busy_s=time.monotonic() - begun_s,
            files=self._files(trial),
        )

    def news(self) -> News:
        """What was said since the last time; answers while a trial runs."""
        events = tuple(self._said.popleft() for _ in range(len(self._said)))
        return News(events=events, notice=self._notices.told() if self._notices else "")

    def leave(self) -> None:
        """End at once, and with it what runs: asked where nobody is left who could kill it."""
        os._exit(0)

    def _files(self, trial: Trial) -> Packed | None:
        if not self._away or self._outfit.luggage is None:
            return None
        packed = pack(self._outfit.luggage.directory / "trials" / trial.trial_id)
        if packed.left_out:
            logger.warning("files=left_behind names=%r", packed.left_out)
        return packed


def _unpack_there(luggage: Luggage, away: bool) -> None:
    """Relative paths begin where the driver's do, on this machine too."""
    if away:
        luggage.lay_out()
    if luggage.working_directory is not None and luggage.working_directory.is_dir():
        os.chdir(luggage.working_directory)


def _as_if_not_under_ray() -> None:
    """Give children the thread setting of the node: Ray's OMP_NUM_THREADS=1 would slow them."""
    import psutil

    name = "OMP_NUM_THREADS"
    node = psutil.Process(os.getppid()).environ()
    os.environ.pop(name, None)
    if name in node:
        os.environ[name] = node[name]


def _restore_priority() -> None:
    """Undo Ray's niceness for this thread and its children, where the node allows it."""
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    if os.getpriority(os.PRIO_PROCESS, 0) == wanted:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    except PermissionError:
        logger.warning("niceness=15 remedy='start the node with RAY_worker_niceness=0'")

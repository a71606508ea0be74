"""Executors: where trials run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ExecutorError
from benchorch.interfaces.stack import Readiness

Emit = Callable[[Event], None]
T = TypeVar("T")
R = TypeVar("R")

ARCHIVE_VARIABLE = "BENCHORCH_RESULTS_URL"
"""Holds the default bucket of runs; a head's environment has it."""


class Way(StrEnum):
    """How trials of some hardware come to a machine."""

    LOCAL = "local"
    STACK = "stack"
    RAY = "ray"
    NONE = "none"


class TrialRunner(Protocol):
    """Runs trials on the node where it is called; never raises for a trial's own failure."""

    def __call__(self, trial: Trial, *, attempt: int, isolated: bool, emit: Emit) -> TrialResult:
        """The trial's result; ``isolated`` runs each stage in a fresh child process."""
        ...

    def in_rounds(
        self, trials: Sequence[Trial], *, isolated: bool, emit: Emit
    ) -> Iterator[TrialResult]:
        """The results of several trials, measured in rounds of one process each.

        Each trial's result so far comes after each of its processes, marked as unfinished, and its
        finished one once.
        """
        ...


class Executor(ABC):
    """Runs trials on nodes of their hardware, one at a time on each."""

    @abstractmethod
    def unreachable(self, hardware_kind: str) -> str | None:
        """Why trials of this hardware cannot run through this executor, or None.

        Called while planning: it neither connects nor starts anything.
        """

    def way(self, hardware_kind: str) -> Way:
        """How trials of this hardware come to a machine; called while planning."""
        if self.unreachable(hardware_kind) is not None:
            return Way.NONE
        return Way.RAY if self.is_remote() else Way.LOCAL

    def problems(self) -> Sequence[str]:
        """Why nothing can run through this executor now, a sentence each; a plan needs none."""
        return ()

    def needs_all(self) -> bool:
        """Whether hardware that cannot be reached stops the run; else its trials are skips."""
        return False

    def launches(self, hardware_kind: str) -> bool:
        """Whether machines of this hardware are launched for a run and terminated after it."""
        del hardware_kind
        return False

    def launches_head(self) -> bool:
        """Whether the machine that launches the others has to be launched first.

        Called while planning.
        """
        return False

    def packages(self, hardware_kind: str) -> Mapping[str, str] | None:
        """Versions of the distributions on nodes of this hardware; None for those of this machine.

        Called while planning, as `unreachable` is.
        """
        return None

    def preflight(self, hardware_kinds: Sequence[str]) -> Sequence[Readiness]:
        """Readiness of machines of these kinds, where it can be checked; costs nothing.

        Called for a plan that is shown, and before anything starts.
        """
        del hardware_kinds
        return ()

    def archive_url(self) -> str | None:
        """Archive of runs of launched machines, ``s3://bucket/prefix``; None without one.

        Called while planning.
        """
        return None

    def region(self) -> str | None:
        """The AWS region of the machines that it launches; None where there is none.

        Called while planning.
        """
        return None

    def is_simulated(self) -> bool:
        """Whether nodes are simulated on this machine, so that they lack what it lacks."""
        return False

    def is_remote(self) -> bool:
        """Whether trials may run on machines with their own disks."""
        return False

    def measures_in_rounds(self, hardware_kind: str) -> bool:
        """Whether trials of this hardware are measured in rounds, not one after the other."""
        del hardware_kind
        return False

    @abstractmethod
    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result as soon as it is available, in any order; exactly one per trial.

        Unfinished results of trials that are measured in rounds may come before it.

        Closing the iterator early ends everything it started.
        """

    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Iterator[Sequence[TrialResult]]:
        """As `run`; results that are there at once come as one group, to be stored together.

        Groups of one where an executor does not say more.
        """
        results = self.run(trials, work, emit)
        try:
            for result in results:
                yield (result,)
        finally:
            if isinstance(results, Generator):
                results.close()

    def spread(
        self, work: Callable[[T], R], items: Sequence[T]
    ) -> Iterator[tuple[int, R | ExecutorError]] | None:
        """The result for each item by its number, as they end, on whichever nodes are free.

        An item whose node was lost gets an error. None where everything runs on this machine.
        Closing the iterator early ends everything it started.
        """
        del work, items
        return None

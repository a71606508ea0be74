"""What a duel and the program of one of its sides say to each other: one JSON line each."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 2
"""Of this exchange; both sides must have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a side is started with.

    Attributes:
        directory: of its run, which holds its plan.
        modules: names of the user's modules, to tell where they come from.
    """

    version: int = VERSION
    directory: str
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a side does next with a trial: run one more process of it, or end it.

    Attributes:
        trial_id: of the trial, which is built before its first process.
        cpus: the processors of the next process; empty to choose.
        stop: why the trial ends; empty where it goes on.
    """

    trial_id: str
    cpus: tuple[int, ...] = ()
    stop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a side reports; one of these fields at a time.

    Attributes:
        ready: where it runs, and where its code comes from.
        process: what a process showed; the side then waits.
        ended: the trial is over.
    """

    ready: Origin | None = None
    process: ProcessLevel | None = None
    ended: EndedTrial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a side's code comes from.

    Attributes:
        modules: the file of each of the user's modules that were asked for and found.
    """

    version: int
    benchorch: str
    benchorch_file: str
    python: str
    executable: str
    commit: str
    modules: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLevel:
    """One process's median and floor in nanoseconds, and where it ran."""

    median: float
    floor: float | None
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """The end of a trial.

    Attributes:
        trial_id: of the trial.
        trouble: why its numbers cannot be compared; empty where they can.
    """

    trial_id: str
    trouble: str = ""

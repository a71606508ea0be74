"""Rows and verdict of a trace analysis: what tables, pictures and pages are made of."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """Row of a table; times are those of one period, in ns."""

    name: str  # as people know it
    count: float  # events in a period
    total_ns: int  # their own time, wherever it lies
    on_path_ns: int  # of it, on the critical path
    # by how much the period shortens if it takes no time, by replay; None where that was not
    # replayed
    gain_ns: int | None = None
    op: str = ""  # and shapes: the type of an operator and its most frequent operands, where known
    shapes: str = ""
    events: tuple[int, ...] = ()  # indices of a few of its events, the longest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Bottleneck of the program."""

    # the cause that most of the path is spent on; ``inconclusive`` where the cause of most of it is
    # unknown, ``void`` where the profile is not like the program
    limit: str
    sentence: str  # the same for a person, with its numbers
    advice: str  # what to try next; empty where nothing would help
    record: tuple[str, ...]  # what to record next, a sentence each
    shares: Mapping[str, float]  # of the path by cause, the largest first; they sum to 1
    # share of the period saved if all time of a cause were gone, by replay
    gains: Mapping[str, float]
    # length, cause: of the path, how well the length and the cause of its pieces are known:
    # ``recorded``, ``inferred``, ``unknown``
    length: Mapping[str, float]
    cause: Mapping[str, float]
    largest: str = ""  # and largest_gain_ratio: the one entity with the largest gain
    largest_gain_ratio: float = 0.0

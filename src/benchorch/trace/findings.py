"""Findings of a trace analysis: the values that tables, pictures and verdicts are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.trace.breakdown import DeviceShare
from benchorch.trace.operators.branches import Branch
from benchorch.trace.steps import Steps


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings of one analysis; times are integer nanoseconds."""

    steps: Steps  # what was analysed
    makespan_ns: int  # and path_ns: of the interval whose path is shown
    path_ns: int
    period_ns: int  # and periods_ns: the median steady period, and those of each step
    periods_ns: tuple[int, ...]
    verdict: Verdict  # what limits it
    classes: Mapping[str, int]  # path time by class; sums to the makespan
    # rows by the table's name, the most time on the path first
    tables: Mapping[str, tuple[EntityRow, ...]]
    devices: tuple[DeviceShare, ...] = ()  # how each device spent each step
    # share of the model's nodes that the trace was joined to; None without one
    matched_ratio: float | None = None
    branches: tuple[Branch, ...] = ()  # ways between forks and joins of the model's graph
    # profiled over unprofiled latency; None where it was not measured
    dilation_ratio: float | None = None
    # what had to be mended, each with how often
    repairs: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # sentences that belong on every page made of this
    facts: Mapping[str, float] = field(default_factory=dict)  # fitted numbers of the graph

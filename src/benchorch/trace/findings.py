"""Findings of a trace analysis: the values that tables, pictures and verdicts are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.trace.breakdown import DeviceShare
from benchorch.trace.operators.branches import Branch
from benchorch.trace.steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """Row of a table: an operator, module, kernel, Python function or graph node.

    Times are those of one period, in ns.

    Attributes:
        name: as people know it.
        count: events in a period.
        total_ns: their own time, wherever it lies.
        on_path_ns: of it, on the critical path.
        gain_ns: by how much the period shortens if it takes no time, by replay; None where that
            was not replayed.
        op, shapes: the type of an operator and its most frequent operands, where known.
        events: indices of a few of its events, the longest first.
    """

    name: str
    count: float
    total_ns: int
    on_path_ns: int
    gain_ns: int | None = None
    op: str = ""
    shapes: str = ""
    events: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Bottleneck of the program.

    Attributes:
        limit: the cause that most of the path is spent on; ``inconclusive`` where the cause of
            most of it is unknown, ``void`` where the profile is not like the program.
        sentence: the same for a person, with its numbers.
        advice: what to try next; empty where nothing would help.
        record: what to record next, a sentence each.
        shares: of the path by cause, the largest first; they sum to 1.
        gains: share of the period saved if all time of a cause were gone, by replay.
        length, cause: of the path, how well the length and the cause of its pieces are known:
            ``recorded``, ``inferred``, ``unknown``.
        largest, largest_gain_ratio: the one entity with the largest gain.
    """

    limit: str
    sentence: str
    advice: str
    record: tuple[str, ...]
    shares: Mapping[str, float]
    gains: Mapping[str, float]
    length: Mapping[str, float]
    cause: Mapping[str, float]
    largest: str = ""
    largest_gain_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings of one analysis; times are integer nanoseconds.

    Attributes:
        steps: what was analysed.
        makespan_ns, path_ns: of the interval whose path is shown.
        period_ns, periods_ns: the median steady period, and those of each step.
        verdict: what limits it.
        classes: path time by class; sums to the makespan.
        tables: rows by the table's name, the most time on the path first.
        devices: how each device spent each step.
        matched_ratio: share of the model's nodes that the trace was joined to; None without one.
        branches: ways between forks and joins of the model's graph.
        dilation_ratio: profiled over unprofiled latency; None where it was not measured.
        repairs: what had to be mended, each with how often.
        warnings: sentences that belong on every page made of this.
        facts: fitted numbers of the graph.
    """

    steps: Steps
    makespan_ns: int
    path_ns: int
    period_ns: int
    periods_ns: tuple[int, ...]
    verdict: Verdict
    classes: Mapping[str, int]
    tables: Mapping[str, tuple[EntityRow, ...]]
    devices: tuple[DeviceShare, ...] = ()
    matched_ratio: float | None = None
    branches: tuple[Branch, ...] = ()
    dilation_ratio: float | None = None
    repairs: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

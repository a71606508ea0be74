"""Difference of two makespans, split by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchorch.trace.analysed import Analysed
from benchorch.trace.comparison.path_breakdown import PathSums, path_sums
from benchorch.trace.operators.operator_kinds import FUSED, REGION
from benchorch.units import format_seconds, ns_to_s

CAUSES: Mapping[str, str] = {
    "precision": "the same operators on operands of another dtype, and casts between them",
    "fusion": "operators that only one has, where a compiler fused others",
    "other operators": "operators that only one has",
    "other kernels": "the same operators computed by other kernels",
    "same kernels": "the same kernels at another speed",
    "graph breaks": "Python between compiled regions",
    "framework": "calling operators, and Python around them",
    "launch": "launching, synchronising and waiting for space in a queue",
    "transfer": "copies and collectives",
    "data": "waiting for data",
    "unexplained": "waiting without a recorded cause",
}
"""Causes of a difference, with their descriptions."""

_CASTS = ("cast", "_to_copy", "to", "copy_")  # see `operator_kind`


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One kind of operator, or one kind of cost, on the two paths.

    Attributes:
        name: of the operator's kind, or of the cost.
        cause: one of `CAUSES`.
        first_ns, second_ns: its time on each path.
        first_dtype, second_dtype: of its operands, empty where unknown.
    """

    name: str
    cause: str
    first_ns: int
    second_ns: int
    first_dtype: str = ""
    second_dtype: str = ""

    @property
    def difference_ns(self) -> int:
        """By how much the second path has more of it."""
        return self.second_ns - self.first_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class MakespanDifference:
    """Why the second run's makespan is not the first's; whole nanoseconds.

    Attributes:
        first_ns, second_ns: the makespans.
        causes: of the difference second less first, by cause; they sum to it.
        changes: the same by operator, the greatest first; they sum to it too.
        next_first, next_second: the entity with the largest gain that is left in each, with the
            share of its makespan that this would save at most; None where there is none.
    """

    first_ns: int
    second_ns: int
    causes: Mapping[str, int]
    changes: tuple[Change, ...]
    next_first: tuple[str, float] | None
    next_second: tuple[str, float] | None

    @property
    def sentence(self) -> str:
        """The same for a person."""
        shorter, longer = sorted((self.first_ns, self.second_ns))
        if shorter == longer:
            return f"Both take {_time(longer)}."
        order = ("first", "second") if self.second_ns < self.first_ns else ("second", "first")
        sign = 1 if self.second_ns > self.first_ns else -1
        parts = sorted(self.causes.items(), key=lambda item: -sign * item[1])
        told = [f"{_time(sign * time_ns)} {CAUSES[cause]}" for cause, time_ns in parts[:3]]
        return (
            f"The {order[0]} takes {_time(longer)}, the {order[1]} {_time(shorter)}. Of the "
            f"{_time(longer - shorter)} between them: {'; '.join(told)}."
        )


def difference(first: Analysed, second: Analysed) -> MakespanDifference:
    """The difference of two makespans, by cause.

    Each path consists of segments that sum to its makespan. They are summed by kind of cost and,
    where they are work, by kind of operator; so the differences of the sums add up to that of
    the makespans, whatever the two programs are.
    """
    one, other = path_sums(first), path_sums(second)
    changes = [
        Change(
            name=name,
            cause=name,
            first_ns=one.costs.get(name, 0),
            second_ns=other.costs.get(name, 0),
        )
        for name in dict.fromkeys((*one.costs, *other.costs))
    ]
    changes += [_work(name, one, other) for name in dict.fromkeys((*one.work, *other.work))]
    changes.sort(key=lambda change: (-abs(change.difference_ns), change.name))
    causes = dict.fromkeys(CAUSES, 0)
    for change in changes:
        causes[change.cause] += change.difference_ns
    return MakespanDifference(
        first_ns=first.dag.makespan_ns,
        second_ns=second.dag.makespan_ns,
        causes={cause: time_ns for cause, time_ns in causes.items() if time_ns},
        changes=tuple(changes),
        next_first=_next(first),
        next_second=_next(second),
    )


def _work(name: str, one: PathSums, other: PathSums) -> Change:
    """The change of one kind of operator."""
    before, after = one.work.get(name), other.work.get(name)
    return Change(
        name=name,
        cause=_cause(name, one, other),
        first_ns=before.time_ns if before else 0,
        second_ns=after.time_ns if after else 0,
        first_dtype=before.dtype if before else "",
        second_dtype=after.dtype if after else "",
    )


def _cause(name: str, one: PathSums, other: PathSums) -> str:
    """Why the two paths spend different times on a kind of operator."""
    before, after = one.work.get(name), other.work.get(name)
    if name in (FUSED, REGION):
        return "fusion" if name == FUSED else "framework"
    if before is None or after is None:
        if name in _CASTS and one.dtype != other.dtype:
            return "precision"
        return "fusion" if FUSED in one.work or FUSED in other.work else "other operators"
    if before.dtype and after.dtype and before.dtype != after.dtype:
        return "precision"
    return "same kernels" if before.kernels & after.kernels else "other kernels"


def _next(analysed: Analysed) -> tuple[str, float] | None:
    """The entity with the largest gain, and the share of the makespan that it is at most."""
    diagnosis = analysed.findings.diagnosis
    return (diagnosis.largest, diagnosis.largest_gain_ratio) if diagnosis.largest else None


def _time(time_ns: int) -> str:
    """For people, with its sign."""
    return f"{'-' if time_ns < 0 else ''}{format_seconds(ns_to_s(abs(time_ns)))}"

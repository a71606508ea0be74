"""Difference of two periods, split by cause."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchorch.trace.analysis import Analysis
from benchorch.trace.attribution.entities import op_type
from benchorch.trace.attribution.owners import owners
from benchorch.trace.causes import CAUSES, Cause
from benchorch.trace.dag import NOBODY
from benchorch.trace.events import DEVICE_WORK, NOTHING
from benchorch.trace.operators.operator_kinds import FUSED, operator_kind
from benchorch.trace.operators.shapes import recorded
from benchorch.units import format_ns

CAUSES_OF_DIFFERENCE: Mapping[str, str] = {
    "work": "other work: operators on other shapes, more or fewer of them",
    "precision": "the same operators on operands of another dtype",
    "fusion": "operators that a compiler fused in one of them",
    "other kernels": "the same operators on the same shapes by other kernels",
    "same kernels": "the same kernels on the same shapes at another speed",
    "overhead": "calling operators, launching, and Python",
    "waiting": "waiting: for data, input and output, locks, other ranks, or what is not recorded",
    "unknown": "time without a known cause",
}
"""Causes of a difference, with their descriptions."""

_WORK = (Cause.DEVICE_COMPUTE, Cause.DEVICE_MEMORY, Cause.COMMUNICATION)
_OVERHEAD = (Cause.FRAMEWORK, Cause.PYTHON, Cause.PROFILER)
_CASTS = ("cast", "copy_")  # see `operator_kind`
_MOST_READ = 100_000
_WITHOUT_SHAPES = (
    " Without record_shapes=True in both traces, other work cannot be told from other speed."
)

Key = tuple[str, str]  # kind of an operator, and its shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkChange:
    """Work of one kind and shape, or cost of one kind, on both paths; per period."""

    name: str
    cause: str
    first_ns: int
    second_ns: int
    shapes: str = ""

    @property
    def difference_ns(self) -> int:
        """Increase from the first to the second."""
        return self.second_ns - self.first_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodDifference:
    """Why the second run's period is not the first's; whole nanoseconds."""

    first_ns: int  # and second_ns: the mean periods of the intervals shown
    second_ns: int
    causes: Mapping[str, int]  # of the difference second less first, by cause; they sum to it
    changes: tuple[WorkChange, ...]  # the same by operator, the greatest first
    shapes: bool  # whether both traces have the operators' shapes

    @property
    def sentence(self) -> str:
        """The same for a person."""
        shorter, longer = sorted((self.first_ns, self.second_ns))
        if shorter == longer:
            return f"Both take {format_ns(longer)}."
        order = ("first", "second") if self.second_ns < self.first_ns else ("second", "first")
        sign = 1 if self.second_ns > self.first_ns else -1
        parts = sorted(self.causes.items(), key=lambda item: -sign * item[1])
        told = [
            f"{format_ns(sign * ns)} {CAUSES_OF_DIFFERENCE[cause]}" for cause, ns in parts[:3] if ns
        ]
        return (
            f"The {order[0]} takes {format_ns(longer)}, the {order[1]} {format_ns(shorter)}. Of "
            f"the {format_ns(longer - shorter)} between them: {'; '.join(told)}."
            f"{'' if self.shapes else _WITHOUT_SHAPES}"
        )


@dataclass(slots=True, kw_only=True)
class _PathTime:
    """Time of one key on a path, and what did the work."""

    ns: float = 0.0
    kernels: set[str] = field(default_factory=set)
    dtypes: Counter[str] = field(default_factory=Counter)


def difference(first: Analysis, second: Analysis) -> PeriodDifference:
    """The difference of two periods, by cause; causes sum to it, whatever the two programs are."""
    (costs, work), (other_costs, other_work) = _parts(first), _parts(second)
    changes = [
        WorkChange(
            name=name,
            cause=name if name in CAUSES_OF_DIFFERENCE else "waiting",
            first_ns=round(costs.get(name, 0.0)),
            second_ns=round(other_costs.get(name, 0.0)),
        )
        for name in dict.fromkeys((*costs, *other_costs))
    ]
    fused = any(kind == FUSED for kind, _ in (*work, *other_work))
    changes += [
        _change(key, work, other_work, fused) for key in dict.fromkeys((*work, *other_work))
    ]
    changes = [change for change in changes if change.first_ns or change.second_ns]
    changes.sort(key=lambda change: (-abs(change.difference_ns), change.name))
    causes: Counter[str] = Counter()
    for change in changes:
        causes[change.cause] += change.difference_ns
    first_ns, second_ns = _period_ns(first), _period_ns(second)
    causes["unknown"] += second_ns - first_ns - sum(causes.values())  # of rounding
    return PeriodDifference(
        first_ns=first_ns,
        second_ns=second_ns,
        causes={name: ns for name, ns in causes.most_common() if ns},
        changes=tuple(changes),
        shapes=all(any(shapes for _, shapes in one) for one in (work, other_work)),
    )


def _change(
    key: Key, work: Mapping[Key, _PathTime], other: Mapping[Key, _PathTime], fused: bool
) -> WorkChange:
    """Change of one kind of work on some shapes, with its reason."""
    one, two = work.get(key), other.get(key)
    kind, shapes = key
    if one is not None and two is not None:
        if one.dtypes.most_common(1)[0][0] != two.dtypes.most_common(1)[0][0]:
            cause = "precision"
        else:
            cause = "same kernels" if one.kernels & two.kernels else "other kernels"
    elif kind in _CASTS:
        cause = "precision"
    else:
        elsewhere = {name for name, _ in (other if two is None else work)}
        cause = "fusion" if fused and (kind == FUSED or kind not in elsewhere) else "work"
    return WorkChange(
        name=kind,
        cause=cause,
        first_ns=round(one.ns) if one else 0,
        second_ns=round(two.ns) if two else 0,
        shapes=shapes,
    )


def _period_ns(analysis: Analysis) -> int:
    return round(analysis.path.length_ns / analysis.steps.shown_count)


def _parts(analysis: Analysis) -> tuple[dict[str, float], dict[Key, _PathTime]]:
    """The path of a period: costs by name, and work by kind and shapes."""
    path, events, count = analysis.path, analysis.events, analysis.steps.shown_count
    cause = analysis.reasons.cause
    costs: dict[str, float] = {}
    for code, ns in enumerate(np.bincount(cause, path.duration_ns, len(CAUSES)).tolist()):
        one = CAUSES[code]
        if ns and one not in _WORK:
            name = "overhead" if one in _OVERHEAD else one.value
            costs[name] = costs.get(name, 0.0) + ns / count
    working = np.isin(cause, [CAUSES.index(one) for one in _WORK])
    owner = path.owner[working].astype(np.int64)
    operator = owners(events).operator[owner]
    operator = np.where(owner == NOBODY, NOTHING, np.where(operator == NOTHING, owner, operator))
    distinct = np.unique(operator[operator >= 0])[:_MOST_READ]
    details = events.details(distinct.tolist())
    work: dict[Key, _PathTime] = defaultdict(_PathTime)
    took_ns = path.duration_ns[working].tolist()
    for event, caller, took in zip(owner.tolist(), operator.tolist(), took_ns, strict=True):
        arguments = details.get(caller, {})
        call = recorded(arguments)
        op = op_type(events.names[events.name[caller]], arguments) if caller >= 0 else ""
        entry = work[operator_kind(op) if op else "gaps of a device", call.shapes if call else ""]
        entry.ns += took / count
        entry.dtypes[call.dtype if call else ""] += took
        on_device = event >= 0 and events.category[event] in DEVICE_WORK
        entry.kernels.add(events.names[events.name[event]] if on_device else op)
    return costs, dict(work)

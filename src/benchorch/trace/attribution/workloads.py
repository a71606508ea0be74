"""Work of a window's operators, in operations and bytes, and its place under the roofline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.owners import Owners, inherited
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events
from benchorch.trace.operators.flops import RULES, ArithmeticWork, work
from benchorch.trace.operators.roofline import Peaks, RooflinePosition, roofline_position
from benchorch.trace.operators.shapes import recorded

MOST_READ = 50_000
"""Events whose arguments are read: about 100 MB of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWork:
    """One operator's call.

    Attributes:
        op: its type.
        shapes, dtype: of its inputs.
        work: None where no rule is known.
        duration_ns: its device work, or its own call with all that is in it where it has none.
        position: under the roofline; None without peaks or work.
    """

    op: str
    shapes: str
    dtype: str
    work: ArithmeticWork | None
    duration_ns: int
    position: RooflinePosition | None = None


def events_with_rules(
    events: Events, owned: Owners, in_window: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The events whose arguments determine their work, in order.

    They are the outermost operators of the window for which a rule is known: what such an
    operator calls on its way is part of its work. Of a window with more than `MOST_READ` of them
    those names are left out that cost the least.
    """
    marked = _outermost(owned, _marked(events))
    wanted = np.flatnonzero((marked >= 0) & in_window[: len(events)])
    if len(wanted) <= MOST_READ:
        return wanted
    codes, took_ns = events.name[wanted], events.duration_ns[wanted]
    costliest = np.argsort(-np.bincount(codes, weights=took_ns), kind="stable")
    told = np.cumsum(np.bincount(codes)[costliest]) <= MOST_READ
    return wanted[np.isin(codes, costliest[told])]


def workloads(
    events: Events,
    owned: Owners,
    arguments: Mapping[int, Mapping[str, object]],
    peaks: Peaks | None,
) -> Mapping[int, OperatorWork]:
    """The work of each event whose arguments determine it."""
    device_ns = _device_ns(events, owned)
    found: dict[int, OperatorWork] = {}
    for event, said in arguments.items():
        took_ns = int(device_ns[event]) or int(events.duration_ns[event])
        made = _workload(events.names[events.name[event]], said, took_ns, peaks)
        if made is not None:
            found[event] = made
    return found


def op_type(name: str, arguments: Mapping[str, object]) -> str:
    """An event's operator: nodes of ONNX Runtime list it apart from their names."""
    return str(arguments.get("op_name") or name)


def _marked(events: Events) -> NDArray[np.int64]:
    """Nodes, and operators with a rule, by their index, (n,); NOTHING for all else."""
    ruled = np.array([_ruled(name) for name in events.names] or [False], dtype=np.bool_)
    operators = (events.category == Category.OPERATOR) & ruled[events.name]
    chosen = operators | (events.category == Category.NODE)
    return np.where(chosen, np.arange(len(events)), NOTHING)


def _ruled(name: str) -> bool:
    return name.rpartition("::")[2] in RULES


def _workload(
    name: str, arguments: Mapping[str, object], took_ns: int, peaks: Peaks | None
) -> OperatorWork | None:
    call = recorded(arguments)
    if call is None:
        return None
    op = op_type(name, arguments)
    needed = work(op, call)
    return OperatorWork(
        op=op,
        shapes=call.shapes,
        dtype=call.dtype,
        work=needed,
        duration_ns=took_ns,
        position=roofline_position(needed, took_ns, peaks) if needed and peaks else None,
    )


def _device_ns(events: Events, owned: Owners) -> NDArray[np.int64]:
    """Of every event the device work that it launched, itself or in what it calls, (n,)."""
    device = np.flatnonzero(np.isin(events.category, DEVICE_WORK))
    cause = inherited(owned.parent, _outermost(owned, _marked(events)))[device]
    known = cause >= 0
    sums = np.bincount(
        cause[known], weights=events.duration_ns[device[known]], minlength=len(events)
    )
    return sums.astype(np.int64)


def _outermost(owned: Owners, marked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Only those marks that are not inside of another."""
    above = np.where(owned.parent >= 0, inherited(owned.parent, marked)[owned.parent], NOTHING)
    return np.where(above == NOTHING, marked, NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """The sum of several calls.

    Attributes:
        ops, shapes, dtype: the most frequent of each.
        flops, bytes: summed; None where no rule is known for any.
        efficiency_ratio: roofline time over observed time; None without peaks.
        bound: the side that most of the observed time is bound by.
    """

    op: str = ""
    shapes: str = ""
    dtype: str = ""
    flops: float | None = None
    bytes: float | None = None
    efficiency_ratio: float | None = None
    bound: str = ""


def summed(calls: Iterable[OperatorWork]) -> Summed:
    """Of some calls; empty of none."""
    listed = list(calls)
    works = [call.work for call in listed if call.work]
    stood = [(call.duration_ns, call.position) for call in listed if call.position]
    bounds: Counter[str] = Counter()
    for took_ns, one in stood:
        bounds[one.bound] += took_ns
    observed_ns = sum(took_ns for took_ns, _ in stood)
    least_ns = sum(one.least_ns for _, one in stood)
    return Summed(
        op=_most(call.op for call in listed),
        shapes=_most(call.shapes for call in listed),
        dtype=_most(call.dtype for call in listed),
        flops=sum(one.flops for one in works) if works else None,
        bytes=sum(one.bytes for one in works) if works else None,
        efficiency_ratio=least_ns / observed_ns if observed_ns else None,
        bound=bounds.most_common(1)[0][0] if bounds else "",
    )


def _most(values: Iterable[str]) -> str:
    """The most frequent, and how many others there are."""
    counted = Counter(value for value in values if value)
    if not counted:
        return ""
    others = f" (and {len(counted) - 1} more)" if len(counted) > 1 else ""
    return f"{counted.most_common(1)[0][0]}{others}"

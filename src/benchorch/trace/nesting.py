"""Nesting of events per lane: which one happens inside which other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.arrays import Int32s, Int64s
from benchorch.trace.events import NOTHING, Category, Events
from benchorch.trace.lookup import first_after

_OUTSIDE_FIRST = (
    Category.SESSION,
    Category.ANNOTATION,
    Category.PYTHON,
    Category.OPERATOR,
    Category.NODE,
)
NESTING_RANK = np.full(len(Category), len(_OUTSIDE_FIRST))
"""Rank by category: of equal events, the one of the lower rank is outside."""
NESTING_RANK[list(_OUTSIDE_FIRST)] = np.arange(len(_OUTSIDE_FIRST))

_MOST_ROUNDS = 8


class Spans(NamedTuple):
    """Intervals on lanes; columns of shape ``(n,)``, lanes >= 0, ends >= starts."""

    lane: Int32s
    start_ns: Int64s
    end_ns: Int64s


def spans_of(events: Events, these: NDArray[np.integer]) -> Spans:
    """The intervals of some events."""
    start_ns = events.start_ns[these]
    return Spans(events.lane[these], start_ns, start_ns + events.duration_ns[these])


class Nesting(NamedTuple):
    """The trees of a trace; arrays have shape ``(n,)``, in the order of the spans."""

    parent: Int32s  # index of the innermost span around this one, NOTHING at the top
    depth: Int32s  # how many spans are around it
    end_ns: Int64s  # when it ends, or its parent does if that is earlier
    clipped: int  # how many ends were moved so
    # in order of lane and start, the place of the first later span that is not inside each
    after: Int64s


def nest(spans: Spans | Events) -> Nesting:
    """The nesting of spans per lane: what a stack gives when they are pushed in order of start.

    Of two that start together the longer one is outside, of equal ones the outer kind of event.
    A span is not inside of one that ends when it starts. What outlives its parent is clipped: a
    thread does one thing at a time. Where spans overlap too badly for arrays, a stack is used.
    """
    ties = () if isinstance(spans, Spans) else (spans.name, NESTING_RANK[spans.category])
    order = outside_first(spans.lane, spans.start_ns, spans.end_ns, ties)
    lane, start_ns, end_ns = spans.lane[order], spans.start_ns[order], spans.end_ns[order]
    clipped_ns = end_ns
    for _ in range(_MOST_ROUNDS):
        after = first_after(lane, start_ns, clipped_ns)
        parent, depth = _forest(after)
        last_ns = clipped_ns
        inside = (parent >= 0) & (last_ns[parent] > start_ns)
        clipped_ns = np.where(inside, np.minimum(last_ns, last_ns[parent]), last_ns)
        if np.array_equal(last_ns, clipped_ns):
            break
    else:
        after = first_after(lane, start_ns, clipped_ns)
    # If each span starts inside its parent and ends with it or as it did itself, spans nest, the
    # parents are the innermost ones, and the ends follow one from another as on a stack.
    inside = parent >= 0
    holds = clipped_ns[parent] > start_ns
    expected_ns = np.where(inside, np.minimum(end_ns, clipped_ns[parent]), end_ns)
    if not ((~inside | holds).all() and np.array_equal(expected_ns, clipped_ns)):
        clipped_ns = _clipped_by_stack(lane, start_ns, end_ns)
        after = first_after(lane, start_ns, clipped_ns)
        parent, depth = _forest(after)
    n = len(order)
    result = Nesting(
        parent=np.empty(n, dtype=np.int32),
        depth=np.empty(n, dtype=np.int32),
        end_ns=np.empty(n, dtype=np.int64),
        clipped=int((clipped_ns != end_ns).sum()),
        after=after,
    )
    result.parent[order] = np.where(parent >= 0, order[parent] if n else parent, NOTHING)
    result.depth[order] = depth
    result.end_ns[order] = clipped_ns
    return result


def outside_first(
    lane: Int32s, start_ns: Int64s, end_ns: Int64s, ties: Sequence[NDArray[np.integer]] = ()
) -> NDArray[np.intp]:
    """Order by lane, start and decreasing end; then by further keys in reverse."""
    order = by_start(lane, start_ns)
    one, other = order[:-1], order[1:]
    same = (lane[one] == lane[other]) & (start_ns[one] == start_ns[other])
    together = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    some = order[together]  # few: sorting all by all keys costs several times as much
    keys = (*ties, -end_ns, start_ns, lane)
    order[together] = some[np.lexsort([key[some] for key in keys])]
    return order


def by_start(lane: Int32s, start_ns: Int64s) -> NDArray[np.intp]:
    """Order by lane and start, then by index; files are nearly in that order."""
    order = np.argsort(start_ns, kind="stable")
    narrow = np.uint16 if lane.max(initial=0) < 2**16 else np.int64  # sorts much faster
    return order[np.argsort(lane[order].astype(narrow), kind="stable")]


def _forest(after: Int64s) -> tuple[NDArray[np.intp], Int64s]:
    """Parent and depth of sorted spans, of which each holds all up to `after` it."""
    n = len(after)
    opened = np.ones(n + 1, dtype=np.int64)
    opened[0] = 0
    depth = np.cumsum(opened - np.bincount(after, minlength=n + 1))[:n]
    narrow = np.int16 if depth.max(initial=0) < 2**15 else np.int64  # sorts much faster
    by_depth = np.argsort(depth.astype(narrow), kind="stable")
    keys = depth[by_depth] * n + by_depth
    outer = by_depth[np.searchsorted(keys, keys - n) - 1]  # of what is sorted: that is much faster
    parent = np.empty(n, dtype=np.intp)
    parent[by_depth] = np.where(keys >= n, outer, NOTHING)
    return parent, depth


def _clipped_by_stack(lane: Int32s, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    ends = end_ns.tolist()
    stack: list[int] = []
    last = NOTHING
    for at, (here, start) in enumerate(zip(lane.tolist(), start_ns.tolist(), strict=True)):
        if here != last:
            stack, last = [], here
        while stack and stack[-1] <= start:
            stack.pop()
        ends[at] = min(ends[at], stack[-1]) if stack else ends[at]
        stack.append(ends[at])
    return np.array(ends, dtype=np.int64)


def inherited(parent: Int64s | Int32s, value: Int64s) -> Int64s:
    """Each event's own value or else its nearest ancestor's that has one, (n,).

    The number of rounds, which double the distance, ends searches in circles.
    """
    found = value.astype(np.int64)
    if not (value != NOTHING).any():
        return found
    above = parent.copy()
    (searching,) = np.nonzero((found == NOTHING) & (parent != NOTHING))
    for _ in range(max(1, len(parent).bit_length())):
        up = above[searching]
        found[searching], above[searching] = there, further = found[up], above[up]
        searching = searching[(there == NOTHING) & (further != NOTHING)]
        if not len(searching):
            break
    return found

"""What did a thread wait for when it says that it waits, in a range called ``wait:<what>``?

For what another thread had just done when the wait ended: for the end of a burst, else of an
outermost range or operator, else of any. Something that ended shortly before is preferred to
something that ended earlier in the wait. What ended before the wait began was not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchorch.trace.builder.classes import waiting
from benchorch.trace.builder.edges import edges, found
from benchorch.trace.builder.searches import moments
from benchorch.trace.dag import CLASSES, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING

if TYPE_CHECKING:
    from numpy import int8, int64
    from numpy.typing import NDArray

    from benchorch.trace.builder.bursts import Bursts
    from benchorch.trace.builder.chains import Chains
    from benchorch.trace.builder.edges import Found
    from benchorch.trace.builder.scope import Scope
    from benchorch.trace.builder.thresholds import Thresholds

_TIERS = (Tier.RECORDED, Tier.RECORDED, Tier.INFERRED)


def waits(
    scope: Scope,
    chains: Chains,
    time_ns: NDArray[int64],
    label: NDArray[int8],
    burst: Bursts,
    thresholds: Thresholds,
) -> Found:
    """From what was waited for to the wait's end.

    Waiting for data that no thread of the trace loads is loading it: another process does.
    """
    import numpy as np

    stretch = np.flatnonzero(burst.wait)
    if not len(stretch):
        return found()
    head = chains.head[stretch]
    range_ = chains.owner[stretch]
    tail, level = _targets(scope, time_ns, range_, burst, thresholds)
    known = tail != NOTHING
    loading = label[range_] == CLASSES.index(Class.DATA_LOADING)
    return found(
        edges(
            tail[known],
            head[known],
            kind=EdgeKind.WAIT,
            tier=np.array(_TIERS, dtype=np.int8)[level[known]],
            label=Class.SYNC_EXIT,
            owner=range_[known],
        ),
        waits=head[known | ~loading],
    )


def _targets(
    scope: Scope,
    time_ns: NDArray[int64],
    range_: NDArray[int64],
    burst: Bursts,
    thresholds: Thresholds,
) -> tuple[NDArray[int64], NDArray[int64]]:
    """The point that each range waited for, or NOTHING, and by which rule it was found."""
    import numpy as np

    lane, end_ns = scope.lane[range_], scope.end_ns[range_]
    candidates = _candidates(scope, burst)
    tail = np.full(len(range_), NOTHING, dtype=np.int64)
    level = np.zeros(len(range_), dtype=np.int64)
    soon_ns = np.maximum(scope.start_ns[range_], end_ns - thresholds.wake_ns - 1)
    for after_ns in (soon_ns, scope.start_ns[range_]):
        for rule, points in enumerate(candidates):
            known = moments(points, scope.lane[points >> 1], time_ns[points])
            at = known.last_elsewhere(lane, end_ns)
            if not len(points):
                continue
            better = (tail == NOTHING) & (at >= 0) & (known.time_ns[at] > after_ns)
            tail, level = np.where(better, known.point[at], tail), np.where(better, rule, level)
    return tail, level


def _candidates(scope: Scope, burst: Bursts) -> tuple[NDArray[int64], ...]:
    """Ends of bursts, of outermost events, of all events; never of waits."""
    import numpy as np

    working = np.ones(scope.hosts, dtype=np.bool_)
    working[waiting(scope)] = False
    event = np.flatnonzero(working)
    outermost = event[scope.depth[event] == 0]
    return burst.end, 2 * outermost + 1, 2 * event + 1

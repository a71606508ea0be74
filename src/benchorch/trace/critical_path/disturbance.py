"""Work of threads without what disturbed it: other programs, and recording the trace.

A thread that is preempted stands still in the middle of whatever it does, and no event of a trace
records it. But steps repeat: what takes longer in some of them was interrupted there. What a
profiler does for each row, before it begins and after it ends, is no event either.
"""

import re

import numpy as np

from benchorch.trace.arrays import Bools, Int64s
from benchorch.trace.dag import CLASSES, HOST, NOBODY, Class, Dag, EdgeKind
from benchorch.trace.events import Category, Events, among
from benchorch.trace.steps import Steps

EVEN_RATIO = 0.05  # of the median: up to it, the middle half of the periods is not disturbed
QUANTILE = 0.25  # of durations of the same work in the steps: it counts as undisturbed
LEAST_STEPS, REPEATED_RATIO = 4, 0.5  # steps, and share of them, with work that is compared
OWN_RATIO, OWN_TIMES = 0.5, 5.0
"""An event's name with such a share of all excess, and so much more than its share of the work, is
slow by itself in some steps: other programs interrupt work in proportion to its length."""

PROCESSOR = (*HOST, Class.CPU_COMM, Class.NATIVE, Class.DATA_LOADING, Class.INPUT_OUTPUT)
"""Classes of time for which a thread needs the processor, as a rule."""

_NUMBER = re.compile(r"\d+")
_RECORDED = (Category.OPERATOR, Category.PYTHON, Category.ANNOTATION)
FASTEST, MANY, MOST_NS = 0.05, 300, 250
"""Of neighbouring points, if there are so many, the fastest show what recording them takes: the
program does next to nothing in between. What takes longer than that does not show it."""
MOST_TIMES = 3.0  # recording may take so much longer than that where caches and memory are busy


def undisturbed(events: Events, dag: Dag, steps: Steps) -> tuple[Int64s, float]:
    """Weights, (E,), without what other programs disturbed; and the share of work that was spread.

    The k-th segment of a step between points of the same names on a thread takes its lower quantile
    over the steps; the rest is spread over the thread's work in proportion, as a scheduler does.
    Where the steps are even, weights are those observed.
    """
    weight_ns = dag.weight_ns
    low_ns, middle_ns, high_ns = np.quantile(steps.periods_ns, (0.25, 0.5, 0.75))
    if len(steps) < LEAST_STEPS or high_ns - low_ns <= EVEN_RATIO * middle_ns:
        return weight_ns, 0.0
    edges, place = _repeated(events, dag, steps)
    took_ns = weight_ns[edges]
    order = np.lexsort((took_ns, place))
    _, first, count = np.unique(place[order], return_index=True, return_counts=True)
    low_ns = took_ns[order][first + ((count - 1) * QUANTILE).astype(np.int64)]
    often = count >= max(LEAST_STEPS, REPEATED_RATIO * len(steps))
    repeated = np.flatnonzero(often[place])
    usual_ns = took_ns.copy()
    usual_ns[repeated] = np.minimum(took_ns, low_ns[place])[repeated]
    slow = repeated[_slow_alone(events, dag, edges[repeated], usual_ns[repeated])]
    usual_ns[slow] = took_ns[slow]
    lane = dag.lane[dag.head[edges]]
    all_ns, left_ns = np.bincount(lane, took_ns), np.bincount(lane, usual_ns)
    longer = np.divide(all_ns, left_ns, out=np.ones(len(all_ns)), where=left_ns > 0)
    spread_ns = weight_ns.copy()
    spread_ns[edges] = np.rint(usual_ns * longer[lane])
    return spread_ns, 1.0 - float(left_ns.sum() / max(all_ns.sum(), 1.0))


def _repeated(events: Events, dag: Dag, steps: Steps) -> tuple[Int64s, Int64s]:
    """Edges of threads' own work in the steps, and the number of each one's place in a step."""
    own = np.array([one in PROCESSOR for one in CLASSES])[dag.label] & (dag.weight_ns > 0)
    edges = np.flatnonzero(own & (dag.kind == EdgeKind.CHAIN))
    at_ns = dag.time_ns[dag.head[edges]]
    step = np.searchsorted(steps.begin_ns, at_ns) - 1  # a point ends what is before it
    inside = (step >= steps.first) & (step < steps.end) & (at_ns <= steps.done_ns[step])
    edges, step = edges[inside], step[inside]
    stems: dict[str, int] = {}
    stem = [stems.setdefault(_NUMBER.sub("", name), len(stems)) for name in events.names]
    names = np.array([*stem, len(stems)], dtype=np.int64)  # the last one is that of no event
    events_name = np.append(events.name, len(stem))
    key = dag.lane[dag.head[edges]].astype(np.int64)
    for point in (dag.tail[edges], dag.head[edges]):
        key = 2 * (key * len(names) + names[events_name[dag.event[point]]]) + dag.is_end[point]
        key = np.unique(key, return_inverse=True)[1]
    order = np.lexsort((edges, step, key))
    begins = (np.diff(key[order], prepend=-1) != 0) | (np.diff(step[order], prepend=-1) != 0)
    number = np.arange(len(order))
    nth = number - np.maximum.accumulate(np.where(begins, number, 0))
    place = np.unique(key[order] * (nth.max(initial=0) + 1) + nth, return_inverse=True)[1]
    return edges[order], place


def _slow_alone(events: Events, dag: Dag, edges: Int64s, usual_ns: Int64s) -> Bools:
    """Work of events that alone have most of the excess: they differ from step to step."""
    owner = dag.owner[edges]
    name = np.where(owner == NOBODY, len(events.names), events.name[owner])
    usual = np.bincount(name, usual_ns)
    excess = np.bincount(name, dag.weight_ns[edges] - usual_ns)
    share = excess / max(excess.sum(), 1.0)
    slow: Bools = (share > OWN_RATIO) & (share > OWN_TIMES * usual / max(usual.sum(), 1.0))
    return slow[name]


def recording_ns(events: Events, dag: Dag) -> Int64s:
    """What recording its points took of each weight, (E,) in ns.

    Only the times between two rows' starts, or ends, or an end and a start have a part: a row's
    clock stops first and starts last.
    """
    recorded = np.append(among(events.category, _RECORDED), False)
    host = (dag.kind == EdgeKind.CHAIN) & recorded[dag.event[dag.tail]]
    host &= recorded[dag.event[dag.head]]
    before, after = dag.is_end[dag.tail], dag.is_end[dag.head]
    cost_ns = np.zeros(dag.edges, dtype=np.int64)
    for kind in (~before & ~after, before & after, before & ~after):
        edges = np.flatnonzero(host & kind)
        fastest_ns = np.quantile(dag.weight_ns[edges], FASTEST) if len(edges) >= MANY else MOST_NS
        if fastest_ns < MOST_NS:
            cost_ns[edges] = np.minimum(dag.weight_ns[edges], fastest_ns)
    return cost_ns

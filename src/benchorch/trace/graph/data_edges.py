"""Edges between nodes of ONNX Runtime: the data they read, and the pool of threads they run on."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchorch.trace.arrays import Int64s, mask, scattered
from benchorch.trace.dag import NOBODY, Class, EdgeKind, Tier
from benchorch.trace.events import NOTHING, Category
from benchorch.trace.graph.edge_list import Edges, Found, edges, joined
from benchorch.trace.graph.scope import Scope
from benchorch.trace.graph.thread_timelines import ThreadTimelines
from benchorch.trace.operators.graph import OperatorGraph

_RUN = re.compile(r"^model_run$")


def data_edges(scope: Scope, timelines: ThreadTimelines, graph: OperatorGraph | None) -> Found:
    """Data dependencies of nodes in ONNX Runtime's runs, and those of its pool's threads.

    A node comes after those whose outputs it reads, a thread of the pool after the start of the
    run and before its end. One that stood still until another's node ended waited for it.
    """
    node = scope.indices(Category.NODE)
    if not len(node):
        return Found()
    parts = [_pool(scope, node)]
    if graph is not None:
        runs_ns = np.sort(scope.start_ns[scope.named(_RUN, Category.SESSION)])
        run = np.searchsorted(runs_ns, scope.start_ns[node], side="right")
        parts.append(_data(scope, node, run, graph))
    return _with_dispatch(scope, timelines, joined(parts))


def _data(scope: Scope, node: Int64s, run: Int64s, graph: OperatorGraph) -> Edges:
    """From every producer to its consumers, run by run."""
    names = scope.events.names
    present = {names[at] for at in np.unique(scope.name[node]).tolist()}
    place = {one.name: at for at, one in enumerate(graph.nodes)}
    known = np.array([place.get(name, NOTHING) for name in names], dtype=np.int64)
    at = known[scope.name[node]]
    width, runs = len(graph.nodes), int(run.max()) + 1
    ran = scattered(runs * width, (run * width + at)[at != NOTHING], node[at != NOTHING])
    pairs = [(place[one], place[other]) for one, other in _reads(graph, present)]
    if not pairs:
        return joined([])
    ends = np.array(pairs, dtype=np.int64)
    shift = np.repeat(np.arange(runs) * width, len(pairs))
    producer = ran[np.tile(ends[:, 0], runs) + shift]
    consumer = ran[np.tile(ends[:, 1], runs) + shift]
    both = (producer != NOTHING) & (consumer != NOTHING)
    return edges(2 * producer[both] + 1, 2 * consumer[both], EdgeKind.DATA, Class.CPU_FRAMEWORK)


def _reads(graph: OperatorGraph, present: set[str]) -> Iterator[tuple[str, str]]:
    """Producers and consumers that ran; what did not run hands on what it reads itself."""
    through: dict[str, frozenset[str]] = {}
    for node in graph.nodes:
        reads = frozenset().union(*(through.get(name, frozenset()) for name in node.inputs))
        through[node.name] = frozenset([node.name]) if node.name in present else reads
        if node.name in present:
            yield from ((producer, node.name) for producer in sorted(reads))


def _pool(scope: Scope, node: Int64s) -> Edges:
    """From the executor's start to each other thread's first node, from its last to the end."""
    session = scope.indices(Category.SESSION)
    session = session[np.argsort(scope.start_ns[session], kind="stable")]
    if not len(session):
        return joined([])
    at = np.searchsorted(scope.start_ns[session], scope.start_ns[node], side="right") - 1
    event = np.where(at >= 0, session[at], NOBODY)
    short = (event != NOBODY) & (scope.end_ns[event] < scope.end_ns[node])
    while short.any():
        event = np.where(short, scope.parent[event], event)
        short = (event != NOBODY) & (scope.end_ns[event] < scope.end_ns[node])
    other = (event != NOBODY) & (scope.lane[event] != scope.lane[node])
    node, event = node[other], event[other]
    key = event * np.int64(len(scope.events.lanes)) + scope.lane[node]
    order = np.lexsort((scope.end_ns[node], scope.start_ns[node], key))
    node, event, key = node[order], event[order], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1) != 0)
    last = np.append(first[1:], len(key))[: len(first)] - 1
    known = Class.CPU_FRAMEWORK, Tier.SEMANTIC
    forks = edges(2 * event[first], 2 * node[first], EdgeKind.FORK, *known)
    return joined([forks, edges(2 * node[last] + 1, 2 * event[last] + 1, EdgeKind.JOIN, *known)])


def _with_dispatch(scope: Scope, timelines: ThreadTimelines, several: Edges) -> Found:
    """The same, with what the executor took after the last of what a point waited for."""
    time_ns = timelines.time_ns
    segment = scattered(len(time_ns), timelines.head, np.arange(len(timelines.head)))
    at, head = segment[several.head], several.head
    lane = scope.lane[head >> 1]
    owner = timelines.owner[at]
    idle = (owner == NOBODY) & (lane != scope.main_lane)
    idle |= (owner != NOBODY) & (scope.category[owner] == Category.SESSION)
    cross = (at != NOTHING) & (scope.lane[several.tail >> 1] != lane)
    during = time_ns[several.tail] > timelines.start_ns[at]
    waiting = mask(len(time_ns), head[cross & idle & during])
    points = np.flatnonzero(waiting)
    ready_ns = np.full(len(time_ns), np.iinfo(np.int64).min)
    ready_ns[points] = timelines.start_ns[segment[points]]
    np.maximum.at(ready_ns, head, time_ns[several.tail])
    waiting[head[at == NOTHING]] = True
    weight_ns = np.where(waiting[head], time_ns[head] - ready_ns[head], 0)
    floor_ns = np.maximum(time_ns[points] - ready_ns[points], 0)
    changed = replace(several, weight_ns=np.maximum(weight_ns, 0))
    return Found(changed, waits=points, floor_ns=floor_ns)

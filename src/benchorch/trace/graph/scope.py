"""Events of one window of a trace: cut to it and ordered by lane, the columns of a graph."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s, mask, scattered
from benchorch.trace.dag import Window
from benchorch.trace.events import NOTHING, Category, Events, among
from benchorch.trace.lookup import last_elsewhere, latest_so_far, launches
from benchorch.trace.nesting import NESTING_RANK, Nesting, Spans, by_start, nest, outside_first


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Times that decide whether an unrecorded dependency may be inferred.

    All times scale with the trace's clock: where every stamp is multiplied, so must these be.
    """

    idle_ns: int = 100_000  # a lane is idle in a gap longer than this
    wake_ns: int = 300_000  # what ended a gap ended at most this long before it
    # ... and if anything did, so much before it, for a thread takes time to wake up.
    woken_ns: int = 8_000
    # a kernel that starts so much later than is explained waited for something
    stalled_ns: int = 20_000
    queue: int = 60  # work that a stream holds at the least before a launch blocks


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Columns of the events of one window: first of host threads, then device work, then records.

    Host events come by lane, start and depth, device work by lane, start and end; records of
    synchronisation and of the profiler have no place on a lane. Times are cut to the window.
    """

    events: Events
    window: Window  # what is analysed
    event: Int64s  # (n,) indices into `events`
    hosts: int  # and works: how many host events and how much device work there are
    works: int
    # start_ns, end_ns, lane, name, category, graph_node: (n,) as in `Events`
    start_ns: Int64s
    end_ns: Int64s
    lane: Int32s
    name: Int32s
    category: Int8s
    graph_node: Int64s
    spelled: Bools  # (categories, names) whether an event of the one has the other
    launch: Int64s  # (n,) of device work the scope's index of the host call that started it
    carried: Bools  # (n,) of device work whether it was launched before the window
    overhead: Int64s  # indices of the profiler's intervals that fall into a thread's time
    parent: Int32s  # and depth: (hosts,) how host events lie inside each other, as in `Nesting`
    depth: Int32s
    after: Int32s  # (hosts,) the next host event that is not inside each
    main_lane: int  # the thread whose gaps are Python at work, -1 where there is no thread
    thresholds: Thresholds  # what inference needs
    facts: Mapping[str, float] = field(default_factory=dict)  # and repairs: for the graph's own
    repairs: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.event)

    @property
    def host(self) -> slice:
        """The events of host threads."""
        return slice(0, self.hosts)

    @property
    def device(self) -> slice:
        """The work of devices."""
        return slice(self.hosts, self.hosts + self.works)

    @property
    def device_work(self) -> Int64s:
        """The work of devices as indices."""
        return np.arange(self.hosts, self.hosts + self.works, dtype=np.int64)

    def on_lane(self, lane: int) -> Int64s:
        """The work of one stream, by start."""
        return self.hosts + np.flatnonzero(self.lane[self.device] == lane)

    def indices(self, *categories: Category) -> Int64s:
        """Those of some categories, in the scope's order."""
        return np.flatnonzero(among(self.category, categories))

    def named(
        self, pattern: re.Pattern[str], *categories: Category, functions: bool = False
    ) -> Int64s:
        """Those of some categories in whose names a pattern is found; names are searched once.

        Of Python's frames in all of ``file(line): function``, or in `functions` alone.
        """
        names = np.flatnonzero(self.spelled[list(categories)].any(axis=0))
        texts = [self.events.names[at] for at in names.tolist()]
        begins = [text.rfind("): ") + 1 if functions else 0 for text in texts]
        found = (pattern.search(*one) is not None for one in zip(texts, begins, strict=True))
        fits = names[np.fromiter(found, dtype=np.bool_, count=len(names))]
        if not len(fits):
            return np.zeros(0, dtype=np.int64)
        chosen = mask(self.spelled.shape[1], fits)[self.name]
        return np.flatnonzero(chosen & among(self.category, categories))

    def matches(self, pattern: re.Pattern[str], these: Int64s, *categories: Category) -> Bools:
        """Whether a pattern is found in the name of each of some, of these categories."""
        return mask(len(self), self.named(pattern, *categories))[these]

    def last_elsewhere(
        self, points: Int64s, lane: Int32s, until_ns: Int64s, after_ns: Int64s
    ) -> Int64s:
        """For each lane the last of some points on another one between two times, or NOTHING."""
        event = points >> 1
        time_ns = np.where(points & 1, self.end_ns[event], self.start_ns[event])
        columns = points, self.lane[event], time_ns
        return last_elsewhere(self.events.programs, columns, lane, until_ns, after_ns)


def with_overhead(scope: Scope) -> Scope:
    """The scope with the profiler's intervals on the threads of the same number, cut to those."""
    these = scope.indices(Category.OVERHEAD)
    if not len(these) or not scope.hosts:
        return scope
    lane = _threads(scope)[scope.lane[these]]
    order = np.lexsort((scope.start_ns[these], lane))
    these, lane = these[order], lane[order].astype(np.int32)
    first_ns = np.full(len(scope.events.lanes), np.iinfo(np.int64).max)
    last_ns = np.full(len(scope.events.lanes), np.iinfo(np.int64).min)
    np.minimum.at(first_ns, scope.lane[scope.host], scope.start_ns[scope.host])
    np.maximum.at(last_ns, scope.lane[scope.host], scope.end_ns[scope.host])
    start_ns = np.maximum(scope.start_ns[these], first_ns[lane])
    end_ns = np.minimum(scope.end_ns[these], last_ns[lane])
    before = latest_so_far(lane, end_ns, strictly=True)
    start_ns = np.where(before != NOTHING, np.maximum(start_ns, end_ns[before]), start_ns)
    kept = (lane != NOTHING) & (start_ns < end_ns)
    these = these[kept]
    lanes, starts, ends = scope.lane.copy(), scope.start_ns.copy(), scope.end_ns.copy()
    lanes[these], starts[these], ends[these] = lane[kept], start_ns[kept], end_ns[kept]
    return replace(scope, lane=lanes, start_ns=starts, end_ns=ends, overhead=these)


def _threads(scope: Scope) -> Int64s:
    """For every lane the lane that takes part and has the same thread, or NOTHING."""
    taking_part = np.flatnonzero(np.bincount(scope.lane[scope.host])).tolist()
    by_thread = {scope.events.lanes[at].thread: at for at in reversed(taking_part)}
    found = [by_thread.get(lane.thread, NOTHING) for lane in scope.events.lanes]
    threads = np.array(found, dtype=np.int64)
    threads[taking_part] = taking_part
    return threads


_HOST = (
    Category.OPERATOR,
    Category.ANNOTATION,
    Category.PYTHON,
    Category.RUNTIME,
    Category.NODE,
    Category.SESSION,
    Category.OTHER,
)
_COLUMNS = ("name", "category", "graph_node")
_MOST_CUTS = 4
_REMOVED_RATIO = 0.999
"""Of launches that seem to come after what they started, those that a corrected clock mends."""
_MANY_RATIO = 0.001  # so few launches may seem late before the device's clock is doubted
_STEP = re.compile(r"ProfilerStep#|benchorch:call|model_run$")
_WAITS = re.compile(r"wait:")
_WORK = (Category.OPERATOR, Category.ANNOTATION, Category.NODE, Category.SESSION)
_RUNS = (*_WORK, Category.PYTHON)


def scope_of(events: Events, window: Window | None, thresholds: Thresholds) -> Scope:
    """The events of a window, or of the whole trace, without threads that do no work.

    Host events where they run inside it; device work where its launch does, or if still to do.
    """
    streams = np.array([lane.on_device for lane in events.lanes], dtype=np.bool_)
    device = np.flatnonzero(events.works & streams[events.lane])
    launch = launches(events)[device]
    idle = _daemons(events, streams, launch[launch != NOTHING])
    host = np.flatnonzero(among(events.category, _HOST) & ~(idle | streams)[events.lane])
    shift_ns = _shift_ns(events, device, launch)
    window, last_ns = _bounds(events, window, np.concatenate([host, device]))
    host = host[_inside(events, host, window, last_ns)]
    others = (Category.SYNC, Category.RECORD, Category.OVERHEAD)
    records = np.flatnonzero(among(events.category, others))
    records = records[_inside(events, records, window, last_ns)]
    taken, carried = _still_to_do(events, device, launch, window, last_ns)
    device, launch, carried = device[taken], launch[taken], carried[taken]
    host, tree = _ranges_cut(events, host, window, last_ns)
    device_order = by_start(events.lane[device], events.start_ns[device])
    order = np.concatenate([host, device[device_order], records])
    hosts, works = len(host), len(device)

    place = scattered(len(events) + 1, order, np.arange(len(order)))  # its last one is NOTHING's
    launched_by = scattered(len(order), place[device], place[launch])
    launched_before = mask(len(order), place[device[carried]])

    lane = events.lane[order]
    latest_ns = np.full(len(order), last_ns, dtype=np.int64)
    latest_ns[hosts : hosts + works] = np.iinfo(np.int64).max
    start_ns, end_ns = (
        np.clip(column[order] + shift_ns[lane], window.start_ns, latest_ns)
        for column in (events.start_ns, events.end_ns)
    )
    end_ns[:hosts] = tree.end_ns  # clocks of threads are not put forward
    taking_part = mask(len(events.lanes), lane[:hosts])
    columns = {column: getattr(events, column)[order] for column in _COLUMNS}
    spelled = np.zeros((len(Category), len(events.names)), dtype=np.bool_)
    spelled[columns["category"], columns["name"]] = True
    scope = Scope(
        events=events,
        window=window,
        event=order,
        hosts=hosts,
        works=works,
        start_ns=start_ns,
        end_ns=end_ns,
        lane=lane,
        **columns,
        spelled=spelled,
        launch=launched_by,
        carried=launched_before,
        overhead=np.zeros(0, dtype=np.int64),
        parent=tree.parent,
        depth=tree.depth,
        after=tree.after.astype(np.int32),
        main_lane=_main_lane(events, taking_part, window.lane),
        thresholds=thresholds,
        facts={"daemon_lanes": float(idle.sum()), "clock_skew_ns": float(shift_ns.max(initial=0))},
        repairs={"clipped_children": tree.clipped} if tree.clipped else {},
    )
    return with_overhead(scope)


def _ranges_cut(
    events: Events, host: Int64s, window: Window, last_ns: int
) -> tuple[Int64s, Nesting]:
    """Host events in order, and their nesting, without ranges that begin in a call and outlive it.

    A person may close ranges in any order: one that ends inside of a call or a step is cut where
    that begins.
    """
    start_ns = np.maximum(events.start_ns[host], window.start_ns)
    end_ns = np.minimum(events.end_ns[host], last_ns)
    # Of equal events the outer kind comes first, then the lower name, whatever the file's order.
    ties = events.name[host], NESTING_RANK[events.category[host]]
    order = outside_first(events.lane[host], start_ns, end_ns, ties)
    host, start_ns, end_ns = host[order], start_ns[order], end_ns[order]
    free = (events.category[host] == Category.ANNOTATION) & ~np.isin(host, window.marks)
    calls = among(events.category[host], (Category.OPERATOR, Category.NODE, Category.RUNTIME))
    cuts = _MOST_CUTS
    while True:
        tree = nest(Spans(lane=events.lane[host], start_ns=start_ns, end_ns=end_ns))
        parent = tree.parent
        over = (parent != NOTHING) & (end_ns > end_ns[parent])
        if not cuts or not (over & (free | free[parent])).any():
            return host, tree
        cuts -= 1
        end_ns = end_ns.copy()
        inner = over & free & ~free[parent]
        end_ns[inner] = end_ns[parent[inner]]
        outer = over & ~inner & free[parent]
        np.minimum.at(end_ns, parent[outer], start_ns[outer])
        kept = ~(inner & calls[parent])
        order = np.flatnonzero(kept)  # what begins together is again the longer first
        order = order[outside_first(events.lane[host[order]], start_ns[order], end_ns[order])]
        host, start_ns, end_ns = host[order], start_ns[order], end_ns[order]
        free, calls = free[order], calls[order]


def _shift_ns(events: Events, device: Int64s, launch: Int32s) -> Int64s:
    """By how much the clock of each lane is to be put forward."""
    number = events.devices
    shift = np.zeros(len(number), dtype=np.int64)
    known = launch != NOTHING
    work = device[known]
    late = events.start_ns[work] - events.start_ns[launch[known]]
    on = number[events.lane[work]]
    for one in np.unique(on):
        early = -late[(on == one) & (late < 0)]
        if len(early) > _MANY_RATIO * (on == one).sum():
            shift[number == one] = np.quantile(early, _REMOVED_RATIO, method="higher")
    return shift


def _bounds(events: Events, window: Window | None, taking_part: Int64s) -> tuple[Window, int]:
    if window is None:
        start_ns, end_ns = events.start_ns[taking_part], events.end_ns[taking_part]
        window = Window(
            start_ns=int(start_ns.min()) if len(start_ns) else 0,
            end_ns=int(end_ns.max()) if len(end_ns) else 0,
        )
    return window, window.end_ns if window.host_end_ns is None else window.host_end_ns


def _inside(events: Events, these: Int64s, window: Window, last_ns: int) -> Bools:
    """Which run inside the range: not those around all of it, but those that take no time."""
    start_ns, end_ns = events.start_ns[these], events.end_ns[these]
    begins = (start_ns < last_ns) | (start_ns == end_ns) & (start_ns == last_ns)
    ends = (end_ns > window.start_ns) | (start_ns >= window.start_ns)
    around = (start_ns < window.start_ns) & (end_ns > last_ns)
    inside: Bools = begins & ends & ~around
    return inside


def _still_to_do(
    events: Events, device: Int64s, launch: Int32s, window: Window, last_ns: int
) -> tuple[Bools, Bools]:
    """Which device work belongs to the window, and which was launched before it."""
    known = launch != NOTHING
    launched_ns = np.where(known, events.start_ns[launch] if len(events) else 0, window.start_ns)
    start_ns, end_ns = events.start_ns[device], events.end_ns[device]
    early = launched_ns < window.start_ns
    running = (end_ns > window.start_ns) & (start_ns < window.end_ns)
    ours = known & ~early & (launched_ns <= last_ns)
    carried = early | ~known & (start_ns < window.start_ns)
    return ours | running & (early | ~known), carried


def _daemons(events: Events, streams: Bools, launching: Int64s) -> Bools:
    """Of every lane whether it is a thread without operators, frames or launches."""
    working = mask(len(events.lanes), events.lane[among(events.category, _RUNS)])
    working[events.lane[launching]] = True
    hosts = mask(len(events.lanes), events.lane[among(events.category, _HOST)])
    hosts &= ~streams
    return hosts & ~working if (working & hosts).any() else np.zeros_like(hosts)


def _main_lane(events: Events, hosts: Bools, marking: int) -> int:
    """The thread that marks its steps or runs Python, else works or launches most; or -1."""
    if not hosts.any():
        return -1
    if marking != NOTHING and hosts[marking]:
        return marking
    ranges = among(events.category, (Category.ANNOTATION, Category.SESSION))
    launch = launches(events)
    for these in (
        ranges & events.called(_STEP.match),
        events.category == Category.PYTHON,
        among(events.category, _WORK) & ~(ranges & events.called(_WAITS.match)),
        mask(len(events), launch[launch != NOTHING]),
        among(events.category, _HOST),
    ):
        counts = np.bincount(events.lane[these], minlength=len(events.lanes)) * hosts
        if counts.any():
            return int(counts.argmax())
    return int(hosts.argmax())

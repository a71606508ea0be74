"""Events of one window of a trace: the columns that a graph is built from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Int8s, Int32s, Int64s
from benchorch.trace.dag import Window
from benchorch.trace.events import Category, Events, among


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Times and ratios that decide whether an unrecorded dependency may be inferred.

    All times scale with the trace's clock: where every stamp is multiplied, so must these be.
    """

    idle_ns: int = 100_000  # a lane is idle in a gap longer than this ...
    idle_gaps_ratio: float = 20.0  # ... and than so many times the lane's median gap.
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

    Host events come by lane, start and depth, so parents before children; device work by lane,
    start and end; records are those of synchronisation and of the profiler, which have no place
    on a lane. Times are cut to the window.
    """

    events: Events
    window: Window  # what is analysed
    event: Int64s  # (n,) indices into `events`
    hosts: int  # and works: how many host events and how much device work there are
    works: int
    # start_ns, end_ns, lane, name, category, correlation, stream, awaited, sequence, forward_lane,
    # graph_node: (n,) as in `Events`
    start_ns: Int64s
    end_ns: Int64s
    lane: Int32s
    name: Int32s
    category: Int8s
    correlation: Int64s
    stream: Int32s
    awaited: Int64s
    sequence: Int64s
    forward_lane: Int32s
    graph_node: Int64s
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

    def indices(self, *categories: Category) -> Int64s:
        """Those of some categories, in the scope's order."""
        return np.flatnonzero(among(self.category, categories))

    def named(self, pattern: re.Pattern[str], *categories: Category) -> Int64s:
        """Those of some categories in whose names a pattern is found."""
        these = self.indices(*categories)
        return these[self.matches(pattern, these)]

    def matches(self, pattern: re.Pattern[str], these: Int64s) -> Bools:
        """Whether a pattern is found in the name of each; every name is searched once."""
        name = self.name[these]
        flags = np.zeros(len(self.events.names), dtype=np.bool_)
        for at in np.flatnonzero(np.bincount(name, minlength=1)).tolist():
            flags[at] = pattern.search(self.events.names[at]) is not None
        return flags[name]

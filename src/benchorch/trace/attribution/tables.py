"""Rows of a table: the time of each entity in a period, and the gain without it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from benchorch.trace.arrays import Int64s
from benchorch.trace.attribution.entities import Entities, OwnerTimes, op_type
from benchorch.trace.critical_path.periods import Periods
from benchorch.trace.events import NOTHING, Events
from benchorch.trace.operators.shapes import recorded

UNATTRIBUTED = "unattributed"  # the row of time that belongs to none of a table's entities
REPLAYED = 8  # rows of a table whose gain is replayed: those with the most time on the path
REPLAYED_EDGES = 3_000_000  # edges that the replays of one table may visit together
NAMED_EVENTS = 3  # events that a row names, the longest first


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """Row of a table; times are those of one period, in ns."""

    name: str  # as people know it
    count: float  # events in a period
    total_ns: int  # their own time, wherever it lies
    on_path_ns: int  # of it, on the critical path
    # by how much the period shortens if it takes no time, by replay; None where that was not
    # replayed
    gain_ns: int | None = None
    op: str = ""  # and shapes: the type of an operator and its most frequent operands, where known
    shapes: str = ""
    events: tuple[int, ...] = ()  # indices of a few of its events, the longest first


@final
class Ledger:
    """Data shared by all tables of one analysis."""

    def __init__(self, periods: Periods, times: OwnerTimes) -> None:
        self.periods, self.times = periods, times
        begin_ns, end_ns = periods.interval_ns
        # Steps differ: so many steady periods take as long as those shown, and rows sum to one.
        self.lasted = (end_ns - begin_ns) / max(periods.steps.period_ns, 1) or 1.0

    def table(self, entities: Entities, replayed: int = REPLAYED) -> tuple[EntityRow, ...]:
        """One row per entity, by decreasing time on the path; the gain of so many is replayed."""
        if not entities.names:
            return ()
        total, on_path = (
            self._columns(entities, one) for one in (self.times.total_ns, self.times.on_path_ns)
        )
        occurrences, times_ns = entities.occurrences(self.times)
        order = sorted(
            (row for row in range(len(entities.names)) if total[row] or on_path[row]),
            key=lambda row: (-on_path[row], -total[row], entities.names[row]),
        )
        most = min(replayed, REPLAYED_EDGES // max(self.periods.dag.edges, 1) + 1)
        gaining = [row for row in order[:most] if on_path[row]]
        of_row: dict[int, list[Int64s]] = {}
        part = entities.part[occurrences]
        by_part = occurrences[np.argsort(part, kind="stable")]
        ends = np.cumsum(np.bincount(part, minlength=len(entities.shares)))
        for shares, events in zip(entities.shares, np.split(by_part, ends[:-1]), strict=True):
            for row in shares:
                of_row.setdefault(row, []).append(events)
        found = []
        for row in order:
            events = np.sort(np.concatenate(of_row.get(row, [by_part[:0]])))
            longest = events[np.argsort(-times_ns[events], kind="stable")[:NAMED_EVENTS]]
            found.append(
                EntityRow(
                    name=entities.names[row],
                    count=len(events) / self.periods.steps.shown_count,
                    total_ns=round(total[row] / self.lasted),
                    on_path_ns=round(on_path[row] / self.lasted),
                    gain_ns=self._gain_ns(entities, row) if row in gaining else None,
                    events=tuple(longest.tolist()),
                )
            )
        rest = EntityRow(
            name=UNATTRIBUTED,
            count=0,
            total_ns=round(total[-1] / self.lasted),
            on_path_ns=round(on_path[-1] / self.lasted),
        )
        return (*found, rest) if found else ()

    def _columns(self, entities: Entities, time_ns: Int64s) -> list[float]:
        """Times of rows, parts divided among them; the last entry is the time of none."""
        part = np.append(entities.part, NOTHING) + 1
        none, *by_part = np.bincount(part, weights=time_ns).tolist()
        sums = [0.0] * len(entities.names) + [none]
        for total, shares in zip(by_part, entities.shares, strict=False):
            for row, share in shares.items():
                sums[row] += total * share
        return sums

    def _gain_ns(self, entities: Entities, row: int) -> int:
        """Reduction of the period if a row takes no time."""
        dag = self.periods.dag
        shares = np.array([*(share.get(row, 0.0) for share in entities.shares), 0.0])
        part = np.append(entities.part, NOTHING)[dag.owner]
        weight_ns = np.rint(dag.weight_ns * (1.0 - shares[part])).astype(np.int64)
        return self.periods.steps.period_ns - round(self.periods.replayed(weight_ns))


def with_shapes(events: Events, rows: Sequence[EntityRow]) -> tuple[EntityRow, ...]:
    """Rows with the types and shapes of their longest events, read from the file."""
    chosen = sorted({event for row in rows for event in row.events})
    details = events.details(chosen) if chosen else {}
    found = []
    for row in rows:
        calls = [(op_type("", details[event]), recorded(details[event])) for event in row.events]
        shapes = Counter(call.shapes for _, call in calls if call and call.shapes)
        op = next((op for op, _ in calls if op), "")
        common = shapes.most_common(1)[0][0] if shapes else ""
        found.append(replace(row, op=op, shapes=common))
    return tuple(found)

"""The rows of a table: what each entity cost, and what would be gained without it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.columns import Columns, columns
from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import Cut, Gains, part_of
from benchorch.trace.attribution.measured import OwnerTimes
from benchorch.trace.attribution.workloads import OperatorWork, summed
from benchorch.trace.distinct import ascending
from benchorch.trace.events import NOTHING
from benchorch.trace.findings import EntityRow
from benchorch.trace.operators.repeated_layers import outlier

Saved = tuple[int, int]
"""Of the makespan: were something free, and were it twice as fast."""

UNATTRIBUTED = "unattributed"
"""The row of what belongs to none of a table's entities."""

NAMED_EVENTS = 5
"""How many of its events a row names, the longest first."""

REPLAYED_CHAINS = 3_000_000
"""Chains that the replays of one table may visit together: about a second."""

EDGES_PER_CHAIN = 16
"""Edges that are summed up in the time in which one chain is visited."""

LEAST_REPLAYED = 10
"""Rows that are replayed however large the graph is."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What all tables of one window share.

    Attributes:
        measured: time by event.
        gains: counterfactuals on the graph.
        workloads: by event, what it had to compute.
        busy_ns: union of device work; 0 without a device.
    """

    measured: OwnerTimes
    gains: Gains
    workloads: Mapping[int, OperatorWork]
    busy_ns: int = 0

    def table(self, entities: Entities) -> tuple[EntityRow, ...]:
        """One row an entity, the greatest drag first, and last what belongs to none.

        Times on the path sum to the makespan. Where the rows are too many for a graph of this
        size to be replayed for each, those with the least time on the path have the drag that
        is certain, which is less than a replay might say. Empty without entities.
        """
        if not entities.names:
            return ()
        found = columns(entities, self.measured, self.workloads, self.gains.dag.owner)
        saved = self._saved(found, self._replayed(found.rows["on_path"][:-1]))
        rows = [self._row(name, found, row, saved[row]) for row, name in enumerate(entities.names)]
        rows = [row for row in rows if row.count or row.total_ns or row.on_path_ns]
        if not rows:
            return ()
        rows.sort(key=lambda row: (-row.drag_ns, -row.on_path_ns, -row.total_ns, row.name))
        rest = self._felt(UNATTRIBUTED, found, NOTHING, saved[len(entities.names)])
        return (*rows, rest)

    def _replayed(self, on_path: Sequence[int]) -> set[int]:
        """The rows worth a replay: those with the most time on the path."""
        ranked = sorted(range(len(on_path)), key=lambda row: -on_path[row])
        found: set[int] = set()
        visited = 0
        for row in ranked:
            if on_path[row] > self.gains.spare_ns:
                chains = len(self.gains.contracted(on_path[row]).first)
                visited += 2 * (chains + self.gains.dag.edges // EDGES_PER_CHAIN)
            if visited > REPLAYED_CHAINS and len(found) >= LEAST_REPLAYED:
                break
            found.add(row)
        return found

    def _row(self, name: str, found: Columns, row: int, saved: Saved) -> EntityRow:
        """One entity's."""
        pieces = [found.occurrences[part] for part in found.parts[row] if part in found.occurrences]
        events = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
        times_ns = found.times_ns[events].astype(np.float64)
        longest = np.lexsort((events, -times_ns))[:NAMED_EVENTS]
        strange = outlier(times_ns)
        calls = summed(found.works.get(row, ()))
        count = len(events)
        mean_ns = float(times_ns.mean()) if count else 0.0
        return replace(
            self._felt(name, found, row, saved),
            op=calls.op,
            shapes=calls.shapes,
            dtype=calls.dtype,
            count=count,
            flops=calls.flops / count if calls.flops is not None and count else None,
            bytes=calls.bytes / count if calls.bytes is not None and count else None,
            efficiency_ratio=calls.efficiency_ratio,
            bound=calls.bound,
            mean_ns=mean_ns,
            least_ns=int(times_ns.min()) if count else 0,
            most_ns=int(times_ns.max(initial=0)),
            variation_ratio=float(times_ns.std()) / mean_ns if mean_ns else 0.0,
            outlier=int(events[strange]) if strange >= 0 else NOTHING,
            events=tuple(events[longest].tolist()),
        )

    def _felt(self, name: str, found: Columns, row: int, saved: Saved) -> EntityRow:
        """What the makespan felt of some parts, and the limits of what can be gained on them."""
        on_path, total = found.rows["on_path"][row], found.rows["total"][row]
        drag, half = saved
        makespan, busy = self.gains.dag.makespan_ns, self.busy_ns
        device = found.rows["device"][row]
        return EntityRow(
            name=name,
            count=0,
            total_ns=total,
            on_path_ns=on_path,
            near_path_ns=found.rows["near_path"][row],
            drag_ns=drag,
            blame_ns=found.rows["blame"][row],
            speedup_2x=ratio(makespan, makespan - half),
            speedup_max=ratio(makespan, makespan - drag),
            bound_path=ratio(makespan, makespan - on_path),
            bound_work=ratio(makespan, makespan - total),
            bound_busy=ratio(busy, busy - device) if busy else 0.0,
        )

    def _saved(self, found: Columns, replayed: Collection[int]) -> list[Saved]:
        """Of the makespan, were each row free, and were it twice as fast; the last is nothing's.

        Without a replay: what is certain, as no other way could become the longest by less; and
        half of it, since the makespan is convex in what is taken away.
        """
        saved: list[Saved] = []
        asked: dict[int, Cut] = {}
        edges_of = _by_part(found.edge_part)
        for row, on_path in enumerate(found.rows["on_path"]):
            certain = min(on_path, self.gains.spare_ns)
            saved.append((certain, certain // 2))
            if on_path and (certain == on_path or row in replayed):
                asked[row] = self._cut(found.parts.get(row, {NOTHING: 1.0}), edges_of)
        drags = dict(zip(asked, self.gains.saved_each([*asked.values()]), strict=True))
        # Where all of it is saved on the path, the path stays the longest on the way there.
        straight = [row for row, cut in asked.items() if drags[row] == self.gains.on_path_ns(cut)]
        halves = {row: self.gains.on_path_ns(asked[row].half) for row in straight}
        others = [row for row in asked if row not in halves]
        answers = self.gains.saved_each([asked[row].half for row in others])
        halves |= dict(zip(others, answers, strict=True))
        for row, drag in drags.items():
            saved[row] = drag, halves[row]
        return saved

    def _cut(self, parts: Mapping[int, float], edges_of: Mapping[int, NDArray[np.int64]]) -> Cut:
        """What is cut where the share of each of some parts is free."""
        weight_ns, none = self.gains.dag.weight_ns, np.zeros(0, dtype=np.int64)
        pieces = [(edges_of.get(part, none), share) for part, share in parts.items()]
        return Cut(
            edges=np.concatenate([none, *(edges for edges, _ in pieces)]),
            ns=np.concatenate([none, *(part_of(weight_ns[one], share) for one, share in pieces)]),
        )


def _by_part(edge_part: NDArray[np.int64]) -> Mapping[int, NDArray[np.int64]]:
    """The edges of each part, in order."""
    order = ascending(edge_part)
    parts, begins = np.unique(edge_part[order], return_index=True)
    return dict(zip(parts.tolist(), np.split(order, begins[1:]), strict=False))


def ratio(whole: float, rest: float) -> float:
    """A speed-up; infinite where nothing would be left."""
    return whole / rest if rest > 0 else math.inf

"""Rows of a table: the cost of each entity, and the gain without it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

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
"""The row of time that belongs to none of a table's entities."""

NAMED_EVENTS = 5
"""Events that a row names, the longest first."""

REPLAYED_CHAINS = 3_000_000
"""Chains that the replays of one table may visit together: about a second."""

EDGES_PER_CHAIN = 16
"""Edges that are summed up in the time in which one chain is visited."""

LEAST_REPLAYED = 10
"""Rows that are replayed however large the graph is."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Input that all tables of one window share.

    Attributes:
        measured: time by event.
        gains: counterfactuals on the graph.
        workloads: the work of events.
        busy_ns: union of device work; 0 without a device.
    """

    measured: OwnerTimes
    gains: Gains
    workloads: Mapping[int, OperatorWork]
    busy_ns: int = 0

    def table(self, entities: Entities) -> tuple[EntityRow, ...]:
        """One row an entity, the greatest drag first, and last the time of none.

        Times on the path sum to the makespan. Where the rows are too many for a graph of this
        size to be replayed for each, those with the least time on the path have the drag that
        is certain, which is less than a replay might give. Empty without entities.
        """
        if not entities.names:
            return ()
        columns = self._columns(entities)
        parts: dict[int, dict[int, float]] = defaultdict(dict)
        for part, shares in enumerate(entities.shares):
            for row, share in shares.items():
                parts[row][part] = share
        saved = self._saved(entities, parts, columns["on_path"])
        events, times_ns = entities.occurrences(self.measured)
        events_of = {
            part: events[places] for part, places in _places(entities.part[events]).items()
        }
        works = self._works(entities)
        rows = [
            _described(
                self._costs(name, columns, row, saved[row]),
                _joined([events_of[part] for part in parts[row] if part in events_of]),
                times_ns,
                works.get(row, ()),
            )
            for row, name in enumerate(entities.names)
        ]
        rows = [row for row in rows if row.count or row.total_ns or row.on_path_ns]
        if not rows:
            return ()
        rows.sort(key=lambda row: (-row.drag_ns, -row.on_path_ns, -row.total_ns, row.name))
        return (*rows, self._costs(UNATTRIBUTED, columns, NOTHING, saved[-1]))

    def _columns(self, entities: Entities) -> dict[str, list[int]]:
        """Times of rows, parts divided among them; the last entry is the time of none."""
        part = np.append(entities.part, NOTHING) + 1
        measured = {
            "total": self.measured.total_ns,
            "on_path": self.measured.on_path_ns,
            "near_path": self.measured.near_path_ns,
            "device": self.measured.device_ns,
            "blame": self.measured.blame_ns,
        }
        columns = {}
        for name, time_ns in measured.items():
            none, *by_part = np.bincount(part, weights=time_ns).astype(np.int64).tolist()
            columns[name] = sums = [0] * len(entities.names) + [none]
            for total, shares in zip(by_part, entities.shares, strict=False):
                for row, piece in divided(total, shares).items():
                    sums[row] += piece
        return columns

    def _works(self, entities: Entities) -> Mapping[int, Sequence[OperatorWork]]:
        """The work of the operators of each row; shared work is of no row."""
        found: dict[int, list[OperatorWork]] = defaultdict(list)
        for event, work in self.workloads.items():
            part = int(entities.part[event])
            if part != NOTHING and len(entities.shares[part]) == 1:
                found[next(iter(entities.shares[part]))].append(work)
        return found

    def _costs(
        self, name: str, columns: Mapping[str, Sequence[int]], row: int, saved: Saved
    ) -> EntityRow:
        """Times of a row, and the limits of the gain on it."""
        on_path, total, device = (columns[key][row] for key in ("on_path", "total", "device"))
        drag, half = saved
        makespan, busy = self.gains.dag.makespan_ns, self.busy_ns
        return EntityRow(
            name=name,
            count=0,
            total_ns=total,
            on_path_ns=on_path,
            near_path_ns=columns["near_path"][row],
            drag_ns=drag,
            blame_ns=columns["blame"][row],
            speedup_2x=ratio(makespan, makespan - half),
            speedup_max=ratio(makespan, makespan - drag),
            bound_path=ratio(makespan, makespan - on_path),
            bound_work=ratio(makespan, makespan - total),
            bound_busy=ratio(busy, busy - device) if busy else 0.0,
        )

    def _saved(
        self,
        entities: Entities,
        parts: Mapping[int, Mapping[int, float]],
        on_path_ns: Sequence[int],
    ) -> list[Saved]:
        """Of the makespan, were each row free, and were it twice as fast; the last is of none.

        Without a replay: what is certain, as no other way could become the longest by less; and
        half of it, since the makespan is convex in what is taken away.
        """
        saved: list[Saved] = []
        cuts: dict[int, Cut] = {}
        edges_of = _places(np.append(entities.part, NOTHING)[self.gains.dag.owner])
        replayed = self._replayed(on_path_ns[:-1])
        for row, on_path in enumerate(on_path_ns):
            certain = min(on_path, self.gains.spare_ns)
            saved.append((certain, certain // 2))
            if on_path and (certain == on_path or row in replayed):
                cuts[row] = self._cut(parts.get(row, {NOTHING: 1.0}), edges_of)
        drags = dict(zip(cuts, self.gains.saved_each([*cuts.values()]), strict=True))
        # Where all of it is saved on the path, the path stays the longest on the way there.
        straight = [row for row, cut in cuts.items() if drags[row] == self.gains.on_path_ns(cut)]
        halves = {row: self.gains.on_path_ns(cuts[row].half) for row in straight}
        others = [row for row in cuts if row not in halves]
        answers = self.gains.saved_each([cuts[row].half for row in others])
        halves |= dict(zip(others, answers, strict=True))
        for row, drag in drags.items():
            saved[row] = drag, halves[row]
        return saved

    def _replayed(self, on_path: Sequence[int]) -> Collection[int]:
        """The rows worth a replay: those with the most time on the path."""
        found: set[int] = set()
        visited = 0
        for row in sorted(range(len(on_path)), key=lambda row: -on_path[row]):
            if on_path[row] > self.gains.spare_ns:
                chains = len(self.gains.contracted(on_path[row]).first)
                visited += 2 * (chains + self.gains.dag.edges // EDGES_PER_CHAIN)
            if visited > REPLAYED_CHAINS and len(found) >= LEAST_REPLAYED:
                break
            found.add(row)
        return found

    def _cut(self, parts: Mapping[int, float], edges_of: Mapping[int, NDArray[np.int64]]) -> Cut:
        """The cut that makes the share of each of some parts free."""
        known = [(edges_of[part], share) for part, share in parts.items() if part in edges_of]
        weight_ns = self.gains.dag.weight_ns
        return Cut(
            edges=_joined([edges for edges, _ in known]),
            ns=_joined([part_of(weight_ns[edges], share) for edges, share in known]),
        )


def _described(
    row: EntityRow,
    events: NDArray[np.int64],
    times_ns: NDArray[np.int64],
    works: Sequence[OperatorWork],
) -> EntityRow:
    """A row with its occurrences, given the time of each of all events, and its work."""
    took_ns = times_ns[events].astype(np.float64)
    longest = np.lexsort((events, -took_ns))[:NAMED_EVENTS]
    strange = outlier(took_ns)
    calls = summed(works)
    count = len(events)
    mean_ns = float(took_ns.mean()) if count else 0.0
    return replace(
        row,
        op=calls.op,
        shapes=calls.shapes,
        dtype=calls.dtype,
        count=count,
        flops=calls.flops / count if calls.flops is not None and count else None,
        bytes=calls.bytes / count if calls.bytes is not None and count else None,
        efficiency_ratio=calls.efficiency_ratio,
        bound=calls.bound,
        mean_ns=mean_ns,
        least_ns=int(took_ns.min()) if count else 0,
        most_ns=int(took_ns.max(initial=0)),
        variation_ratio=float(took_ns.std()) / mean_ns if mean_ns else 0.0,
        outlier=int(events[strange]) if strange >= 0 else NOTHING,
        events=tuple(events[longest].tolist()),
    )


def _joined(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


def divided(total: int, shares: Mapping[int, float]) -> dict[int, int]:
    """An integer divided by shares, by the largest remainder: the parts sum to the whole.

    Of equal remainders the lower key gets the unit.
    """
    exact = {row: total * share for row, share in shares.items()}
    found = {row: math.floor(value) for row, value in exact.items()}
    missing = total - sum(found.values())
    by_rest = sorted(found, key=lambda row: (found[row] - exact[row], row))
    for row in by_rest[:missing]:
        found[row] += 1
    return found


def ratio(whole: float, rest: float) -> float:
    """A speed-up; infinite where nothing would be left."""
    return whole / rest if rest > 0 else math.inf


def _places(column: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The places of each value of a column, in order."""
    order = ascending(column)
    values = column[order]
    begins = np.flatnonzero(np.diff(values, prepend=NOTHING - 1))
    return dict(zip(values[begins].tolist(), np.split(order, begins[1:]), strict=False))

"""The rows of a table: what each entity cost, and what would be gained without it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.gains import Gains, part_of
from benchorch.trace.attribution.measured import Measured
from benchorch.trace.attribution.workloads import Workload, summed
from benchorch.trace.events import NOTHING
from benchorch.trace.findings import Row
from benchorch.trace.folding import outlier

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

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

    measured: Measured
    gains: Gains
    workloads: Mapping[int, Workload]
    busy_ns: int = 0

    def table(self, entities: Entities) -> tuple[Row, ...]:
        """One row an entity, the greatest drag first, and last what belongs to none.

        Times on the path sum to the makespan. Where the rows are too many for a graph of this
        size to be replayed for each, those with the least time on the path have the drag that
        is certain, which is less than a replay might say. Empty without entities.
        """
        if not entities.names:
            return ()
        columns = self._columns(entities)
        rows = [self._row(entities, columns, row) for row in range(len(entities.names))]
        rows = [row for row in rows if row.count or row.total_ns or row.on_path_ns]
        if not rows:
            return ()
        rows.sort(key=lambda row: (-row.drag_ns, -row.on_path_ns, -row.total_ns, row.name))
        rest = self._felt(UNATTRIBUTED, columns, {NOTHING: 1.0}, NOTHING, replayed=False)
        return (*rows, rest)

    def occurrences(self, entities: Entities) -> Iterator[tuple[int, int]]:
        """Every occurrence of an entity in the window, in order, with the time of all of it."""
        import numpy as np

        times_ns = _by_occurrence(entities, self.measured.total_ns)
        own = entities.instance == np.arange(len(entities.part))
        chosen = np.flatnonzero(own & (self.measured.in_window[:-1] | (times_ns > 0)))
        yield from zip(chosen.tolist(), times_ns[chosen].tolist(), strict=True)

    def _columns(self, entities: Entities) -> _Columns:
        import numpy as np

        part = np.append(entities.part, NOTHING)
        times_ns = _by_occurrence(entities, self.measured.total_ns)
        chosen = [event for event, _ in self.occurrences(entities)]
        occurrences = np.array(chosen, dtype=np.int64)
        order = np.argsort(entities.part[occurrences], kind="stable")
        rows = {
            name: _by_row(entities, _by_part(part, column))
            for name, column in _columns_of(self.measured).items()
        }
        return _Columns(
            edge_part=part[self.gains.dag.owner],
            times_ns=times_ns,
            occurrences=_split(occurrences[order], entities.part[occurrences[order]]),
            parts=_parts_of(entities),
            rows=rows,
            works=_works(entities, self.workloads),
            replayed=self._replayed(rows["on_path"][:-1]),
        )

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

    def _row(self, entities: Entities, columns: _Columns, row: int) -> Row:
        """One entity's."""
        import numpy as np

        parts = columns.parts[row]
        found = [columns.occurrences[part] for part in parts if part in columns.occurrences]
        events = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        times_ns = columns.times_ns[events].astype(np.float64)
        longest = np.lexsort((events, -times_ns))[:NAMED_EVENTS]
        strange = outlier(times_ns)
        calls = summed(columns.works.get(row, ()))
        count = len(events)
        mean_ns = float(times_ns.mean()) if count else 0.0
        return replace(
            self._felt(entities.names[row], columns, parts, row, row in columns.replayed),
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

    def _felt(
        self,
        name: str,
        columns: _Columns,
        parts: Mapping[int, float],
        row: int,
        replayed: bool,
    ) -> Row:
        """What the makespan felt of some parts, and the limits of what can be gained on them."""
        on_path, total = columns.rows["on_path"][row], columns.rows["total"][row]
        drag, half = self._saved(columns, parts, on_path, replayed)
        makespan, busy = self.gains.dag.makespan_ns, self.busy_ns
        device = columns.rows["device"][row]
        return Row(
            name=name,
            count=0,
            total_ns=total,
            on_path_ns=on_path,
            near_path_ns=columns.rows["near_path"][row],
            drag_ns=drag,
            blame_ns=columns.rows["blame"][row],
            speedup_2x=ratio(makespan, makespan - half),
            speedup_max=ratio(makespan, makespan - drag),
            bound_path=ratio(makespan, makespan - on_path),
            bound_work=ratio(makespan, makespan - total),
            bound_busy=ratio(busy, busy - device) if busy else 0.0,
        )

    def _saved(
        self, columns: _Columns, parts: Mapping[int, float], on_path_ns: int, replayed: bool
    ) -> tuple[int, int]:
        """Of the makespan, were the parts free, and were they twice as fast.

        Without a replay: what is certain, as no other way could become the longest by less; and
        half of it, since the makespan is convex in what is taken away.
        """
        import numpy as np

        if not on_path_ns:
            return 0, 0
        certain = min(on_path_ns, self.gains.spare_ns)
        if certain < on_path_ns and not replayed:
            return certain, certain // 2
        weight_ns = self.gains.dag.weight_ns
        cut = np.zeros_like(weight_ns)
        for part, share in parts.items():
            mine = columns.edge_part == part
            cut[mine] = part_of(weight_ns[mine], share)
        return self.gains.saved_ns(cut), self.gains.saved_ns(cut // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """What the rows of one table are read from.

    Attributes:
        edge_part: (E,) the part that owns each edge.
        times_ns: (n,) own time of each occurrence, summed over what belongs to it.
        occurrences: of each part, indices of events.
        parts: of each row its parts and the share of each that is its.
        rows: columns of times; the last entry is that of nothing.
        works: of each row what its operators had to compute.
        replayed: rows whose gain is worth a replay.
    """

    edge_part: NDArray[int64]
    times_ns: NDArray[int64]
    occurrences: Mapping[int, NDArray[int64]]
    parts: Mapping[int, Mapping[int, float]]
    rows: Mapping[str, Sequence[int]]
    works: Mapping[int, Sequence[Workload]]
    replayed: set[int]


def ratio(whole: float, rest: float) -> float:
    """A speed-up; infinite where nothing would be left."""
    return whole / rest if rest > 0 else math.inf


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


def _columns_of(measured: Measured) -> dict[str, NDArray[int64]]:
    return {
        "total": measured.total_ns,
        "on_path": measured.on_path_ns,
        "near_path": measured.near_path_ns,
        "device": measured.device_ns,
        "blame": measured.blame_ns,
    }


def _by_occurrence(entities: Entities, time_ns: NDArray[int64]) -> NDArray[int64]:
    """Of every event the time of all that has it as its occurrence, (n,)."""
    import numpy as np

    known = np.flatnonzero(entities.instance >= 0)
    return np.bincount(
        entities.instance[known], weights=time_ns[known], minlength=len(entities.part)
    ).astype(np.int64)


def _by_part(part: NDArray[int64], time_ns: NDArray[int64]) -> NDArray[int64]:
    """Sums of a column by part; the first entry is that of no part."""
    import numpy as np

    return np.bincount(part + 1, weights=time_ns).astype(np.int64)


def _by_row(entities: Entities, by_part: NDArray[int64]) -> list[int]:
    """The same by row, parts divided; the last entry is that of no row."""
    sums = [0] * (len(entities.names) + 1)
    sums[-1] = int(by_part[0])
    for part, total in enumerate(by_part[1:].tolist()):
        for row, piece in divided(total, entities.shares[part]).items():
            sums[row] += piece
    return sums


def _parts_of(entities: Entities) -> Mapping[int, Mapping[int, float]]:
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for part, shares in enumerate(entities.shares):
        for row, share in shares.items():
            found[row][part] = share
    return found


def _split(values: NDArray[int64], part: NDArray[int64]) -> dict[int, NDArray[int64]]:
    """Values by part; both are in order of the part."""
    import numpy as np

    begins = np.flatnonzero(np.diff(part, prepend=NOTHING - 1))
    pieces = np.split(values, begins[1:])
    return dict(zip(part[begins].tolist(), pieces, strict=False))


def _works(
    entities: Entities, workloads: Mapping[int, Workload]
) -> Mapping[int, Sequence[Workload]]:
    """What the operators of each row had to compute; a shared part is nobody's."""
    found: dict[int, list[Workload]] = defaultdict(list)
    for event, workload in workloads.items():
        part = int(entities.part[event])
        if part != NOTHING and len(entities.shares[part]) == 1:
            found[next(iter(entities.shares[part]))].append(workload)
    return found

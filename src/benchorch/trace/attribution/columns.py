"""The columns that the rows of a table are read from: times by part, divided among rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.entities import Entities
from benchorch.trace.attribution.measured import OwnerTimes
from benchorch.trace.attribution.workloads import OperatorWork
from benchorch.trace.distinct import ascending
from benchorch.trace.events import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the rows of one table are read from.

    Attributes:
        edge_part: (E,) the part that owns each edge.
        times_ns: (n,) own time of each occurrence, summed over what belongs to it.
        occurrences: of each part, indices of events.
        parts: of each row its parts and the share of each that is its.
        rows: columns of times; the last entry is that of nothing.
        works: of each row what its operators had to compute.
    """

    edge_part: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    occurrences: Mapping[int, NDArray[np.int64]]
    parts: Mapping[int, Mapping[int, float]]
    rows: Mapping[str, Sequence[int]]
    works: Mapping[int, Sequence[OperatorWork]]


def columns(
    entities: Entities,
    measured: OwnerTimes,
    workloads: Mapping[int, OperatorWork],
    owner: NDArray[np.int32],
) -> Columns:
    """Those of one table; `owner` is (E,) the event that each edge belongs to."""
    part = np.append(entities.part, NOTHING)
    times_ns = _by_occurrence(entities, measured.total_ns)
    happened = _happened(entities, measured, times_ns)
    order = ascending(entities.part[happened])
    rows = {
        name: _by_row(entities, _by_part(part, column)) for name, column in _times(measured).items()
    }
    return Columns(
        edge_part=part[owner],
        times_ns=times_ns,
        occurrences=_split(happened[order], entities.part[happened[order]]),
        parts=_parts_of(entities),
        rows=rows,
        works=_works(entities, workloads),
    )


def occurrences(entities: Entities, measured: OwnerTimes) -> Iterator[tuple[int, int]]:
    """Every occurrence of an entity in the window, in order, with the time of all of it."""
    times_ns = _by_occurrence(entities, measured.total_ns)
    chosen = _happened(entities, measured, times_ns)
    yield from zip(chosen.tolist(), times_ns[chosen].tolist(), strict=True)


def _happened(
    entities: Entities, measured: OwnerTimes, times_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The events that are an occurrence, in the window or with time there."""
    own = entities.instance == np.arange(len(entities.part))
    return np.flatnonzero(own & (measured.in_window[:-1] | (times_ns > 0)))


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


def _times(measured: OwnerTimes) -> dict[str, NDArray[np.int64]]:
    return {
        "total": measured.total_ns,
        "on_path": measured.on_path_ns,
        "near_path": measured.near_path_ns,
        "device": measured.device_ns,
        "blame": measured.blame_ns,
    }


def _by_occurrence(entities: Entities, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of every event the time of all that has it as its occurrence, (n,)."""
    known = np.flatnonzero(entities.instance >= 0)
    return np.bincount(
        entities.instance[known], weights=time_ns[known], minlength=len(entities.part)
    ).astype(np.int64)


def _by_part(part: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of a column by part; the first entry is that of no part."""
    return np.bincount(part + 1, weights=time_ns).astype(np.int64)


def _by_row(entities: Entities, by_part: NDArray[np.int64]) -> list[int]:
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


def _split(values: NDArray[np.int64], part: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Values by part; both are in order of the part."""
    begins = np.flatnonzero(np.diff(part, prepend=NOTHING - 1))
    pieces = np.split(values, begins[1:])
    return dict(zip(part[begins].tolist(), pieces, strict=False))


def _works(
    entities: Entities, workloads: Mapping[int, OperatorWork]
) -> Mapping[int, Sequence[OperatorWork]]:
    """What the operators of each row had to compute; a shared part is nobody's."""
    found: dict[int, list[OperatorWork]] = defaultdict(list)
    for event, workload in workloads.items():
        part = int(entities.part[event])
        if part != NOTHING and len(entities.shares[part]) == 1:
            found[next(iter(entities.shares[part]))].append(workload)
    return found

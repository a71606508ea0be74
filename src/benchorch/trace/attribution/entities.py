"""Rows of a table, and the events that belong to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.attribution.measured import OwnerTimes
from benchorch.trace.attribution.owners import Owners
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events
from benchorch.trace.operators.provenance import is_fused

Shares = Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """Rows, and the part of a row that each of n events is.

    Most parts are one whole row. That of a fused kernel is shared by the rows of its operators.

    Attributes:
        names: of the rows.
        part: (n,) number of the part an event belongs to; NOTHING where it belongs to none.
        shares: of each part the rows it is divided among, with shares that sum to 1.
        instance: (n,) the event that is the occurrence an event belongs to, such as the
            operator that a kernel was launched by.
    """

    names: tuple[str, ...]
    part: NDArray[np.int64]
    shares: tuple[Shares, ...]
    instance: NDArray[np.int64]

    def occurrences(self, measured: OwnerTimes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Occurrences in the window, in order, and (n,) the time of each event as an occurrence.

        That is its own, and that of all events that have it as their occurrence.
        """
        known = np.flatnonzero(self.instance >= 0)
        times_ns = np.bincount(
            self.instance[known], weights=measured.total_ns[known], minlength=len(self.part)
        ).astype(np.int64)
        own = self.instance == np.arange(len(self.part))
        return np.flatnonzero(own & (measured.in_window[:-1] | (times_ns > 0))), times_ns

    def renamed(self, names: Sequence[str]) -> Entities:
        """The same with other names, in the order of the rows; rows of one name become one."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        shares = []
        for part in self.shares:
            merged: dict[int, float] = {}
            for row, share in part.items():
                merged[numbers[names[row]]] = merged.get(numbers[names[row]], 0.0) + share
            shares.append(merged)
        return Entities(
            names=tuple(numbers), part=self.part, shares=tuple(shares), instance=self.instance
        )


def operators(events: Events, owned: Owners, type_of: Mapping[int, str]) -> Entities:
    """Rows by the innermost operator: its own time, its launches and their device work.

    Args:
        events: n of them.
        owned: their owners.
        type_of: by event, the operator's type where it is not the event's name.
    """
    names = dict.fromkeys(type_of.values())
    number = {name: len(events.names) + place for place, name in enumerate(names)}
    code = events.name.astype("int64")
    for event, name in type_of.items():
        code[event] = number[name]
    known = (*events.names, *names)
    return by_key(owned.operator, lambda one: known[one], code)


def kernels(events: Events, owned: Owners) -> Entities:
    """Rows by the name of the device work, and of fused kernels compiled for a host."""
    fused = np.array([is_fused(name) for name in events.names] or [False], dtype=np.bool_)
    on_host = (events.category == Category.OPERATOR) & fused[events.name]
    chosen = np.isin(events.category, DEVICE_WORK) | on_host
    return _by_name(events, np.where(chosen, np.arange(len(events)), NOTHING))


def by_key(
    occurrence: NDArray[np.int64], key_of: Callable[[int], str], code: NDArray[np.int64]
) -> Entities:
    """Rows by the name of the occurrence's code; an empty name is no row.

    Args:
        occurrence: (n,) index of the event that each belongs to, or NOTHING.
        key_of: the row's name for a code.
        code: (n,) of every event as an occurrence, NOTHING for those that are none.
    """
    belongs = occurrence >= 0
    belongs[belongs] = code[occurrence[belongs]] >= 0
    codes = code[occurrence[belongs]]
    used = np.flatnonzero(np.bincount(codes))
    named = [key_of(int(one)) for one in used]
    rows = {name: row for row, name in enumerate(dict.fromkeys(filter(None, named)))}
    row_of = np.full(int(used[-1]) + 1 if len(used) else 0, NOTHING, dtype=np.int64)
    row_of[used] = [rows.get(name, NOTHING) for name in named]
    part = np.full(len(occurrence), NOTHING, dtype=np.int64)
    part[belongs] = row_of[codes]
    return Entities(
        names=tuple(rows),
        part=part,
        shares=tuple({row: 1.0} for row in range(len(rows))),
        instance=np.where(part >= 0, occurrence, NOTHING),
    )


def _by_name(events: Events, occurrence: NDArray[np.int64]) -> Entities:
    return by_key(occurrence, lambda code: events.names[code], events.name.astype(np.int64))

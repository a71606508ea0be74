"""In which order the waiting trials of one kind are begun: the longest chain first.

A trial's chain is what it still has to build and then its measuring. Trials that need an artifact
somebody is building now would only wait for it, so they come after all others; and where nothing
else is left they are begun all the same, for the store makes them wait no longer than they must.

Pure bookkeeping: no clock, no chance. Equal chains keep the order in which they were declared.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias, final

from benchorch.domain.trial import Trial


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a trial is expected to take, in seconds; the order of magnitude is enough.

    Attributes:
        measure_s: measuring it, its baseline included.
        builds: making each artifact that it needs, by name; trials that name the same one share it.
    """

    measure_s: float = 0.0
    builds: Mapping[str, float] = field(default_factory=dict)


UNKNOWN = Forecast()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuilds:
    """Builds that come before trials.

    Attributes:
        builds: trials of which only the first steps are built.
        after: by trial id, the ids of the builds that are over before it is leased.
        forecasts: by trial id, what builds and those that wait for them are expected to take.
    """

    builds: tuple[Trial, ...] = ()
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTrial:
    """A trial that nobody holds, with the attempt that comes next.

    Attributes:
        position: where it was declared; settles ties.
    """

    trial: Trial
    attempt: int
    forecast: Forecast
    position: int


@final
@dataclass(slots=True, eq=False)
class _Group:
    """Trials that need the same artifacts.

    Attributes:
        lacking: seconds of each of them that is not there yet, by name.
        members: the trials, the longest measurement first.
        filed: how often it was given its place.
    """

    lacking: dict[str, float]
    members: list[tuple[float, int, QueuedTrial]] = field(default_factory=list)
    filed: int = 0


_Place: TypeAlias = tuple[float, int, int, int, _Group]
"""Negative chain, position, a number that settles ties, the group's count of filings, the group."""


@final
class ReadyQueue:
    """Trials of one kind that wait, and which of their artifacts are there or on their way."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._sharing: dict[str, list[_Group]] = {}
        self._free: list[_Place] = []
        self._held_up: list[_Place] = []
        self._built: set[str] = set()
        self._making: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        """How many trials wait."""
        return self._count

    def add(self, waiting: QueuedTrial) -> None:
        """Take in a trial."""
        builds = waiting.forecast.builds
        key = tuple(builds)
        if key not in self._groups:
            missing = {name: taken_s for name, taken_s in builds.items() if name not in self._built}
            self._groups[key] = _Group(missing)
            for name in missing:
                self._sharing.setdefault(name, []).append(self._groups[key])
        group = self._groups[key]
        heappush(group.members, (-waiting.forecast.measure_s, waiting.position, waiting))
        self._count += 1
        self._file(group)

    def take(self) -> QueuedTrial | None:
        """The trial to begin next, which from now on makes what it needs; None if none waits."""
        group = _first(self._free) or _first(self._held_up)
        if group is None:
            return None
        waiting = heappop(group.members)[-1]
        self._count -= 1
        self._making.update(group.lacking.keys())
        begun = [name for name in group.lacking if self._making[name] == 1]
        self._file(group, *(other for name in begun for other in self._sharing[name]))
        return waiting

    def built(self, names: Iterable[str]) -> None:
        """One that made these is done: they are there."""
        fresh = [name for name in names if name not in self._built]
        self._built.update(fresh)
        for name in fresh:
            del self._making[name]
            for group in self._sharing[name]:
                del group.lacking[name]
        self._file(*(group for name in fresh for group in self._sharing.pop(name)))

    def gave_up(self, names: Iterable[str]) -> None:
        """One that made these will not finish them."""
        lacking = [name for name in names if name not in self._built]
        self._making.subtract(lacking)
        dropped = [name for name in lacking if not self._making[name]]
        self._file(*(group for name in dropped for group in self._sharing[name]))

    def clear(self) -> Sequence[QueuedTrial]:
        """Everything that waits, in the order of declaration; then nothing does."""
        waiting = [member[-1] for group in self._groups.values() for member in group.members]
        for group in self._groups.values():
            group.members.clear()
        self._file(*self._groups.values())
        self._count = 0
        return sorted(waiting, key=lambda one: one.position)

    def _file(self, *groups: _Group) -> None:
        """Give groups their places; those they had before no longer count."""
        for group in dict.fromkeys(groups):
            group.filed += 1
            if not group.members:
                continue
            negative_measure_s, position, _ = group.members[0]
            chain_s = sum(group.lacking.values()) - negative_measure_s
            held_up = any(self._making[name] for name in group.lacking)
            heap = self._held_up if held_up else self._free
            heappush(heap, (-chain_s, position, next(self._numbers), group.filed, group))


def _first(heap: list[_Place]) -> _Group | None:
    """The group in the first place that still counts."""
    while heap:
        *_, filed, group = heap[0]
        if filed == group.filed:
            return group
        heappop(heap)
    return None

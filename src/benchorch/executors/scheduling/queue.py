"""Ready queue: the trials of one kind that can be assigned, longest chain first.

A trial's chain is what it still has to build and then its measurement. Trials that need an artifact
whose build is under way would only wait for it, so they come after all others; when nothing else is
left they are begun anyway, because the store makes them wait no longer than they must.

Pure bookkeeping: no clock, no chance. Equal chains keep the order in which they were declared.
"""

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
    """Expected duration of a trial in seconds; the order of magnitude is enough.

    Attributes:
        measure_s: of its measurement, baseline included.
        builds: of each artifact that it needs, by name; trials that name the same one share it.
    """

    measure_s: float = 0.0
    builds: Mapping[str, float] = field(default_factory=dict)


UNKNOWN = Forecast()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuilds:
    """Builds that are made before trials, because several kinds share them.

    Attributes:
        builds: trials of which only the first steps are built.
        after: by trial id, the ids of the builds that end before it is assigned.
        forecasts: by trial id, of the builds and of the trials that wait for them.
    """

    builds: tuple[Trial, ...] = ()
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTrial:
    """A trial that no agent holds, with the attempt that comes next.

    Attributes:
        position: in the order of declaration; breaks ties.
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
        missing: seconds of each of them that is not built yet, by name.
        members: the trials, the longest measurement first.
        version: how often its priority has been computed.
    """

    missing: dict[str, float]
    members: list[tuple[float, int, QueuedTrial]] = field(default_factory=list)
    version: int = 0


_HeapItem: TypeAlias = tuple[float, int, int, int, _Group]
"""Negative chain, position, a unique number that breaks ties, the group's version, the group."""


@final
class ReadyQueue:
    """Queued trials of one kind, and which of their artifacts are built or being built."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._sharing: dict[str, list[_Group]] = {}
        self._ready: list[_HeapItem] = []
        self._waiting: list[_HeapItem] = []
        self._built: set[str] = set()
        self._building: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        """How many trials are queued."""
        return self._count

    def push(self, queued: QueuedTrial) -> None:
        """Add a trial."""
        builds = queued.forecast.builds
        key = tuple(builds)
        if key not in self._groups:
            missing = {name: taken_s for name, taken_s in builds.items() if name not in self._built}
            self._groups[key] = _Group(missing)
            for name in missing:
                self._sharing.setdefault(name, []).append(self._groups[key])
        group = self._groups[key]
        heappush(group.members, (-queued.forecast.measure_s, queued.position, queued))
        self._count += 1
        self._reprioritize(group)

    def pop(self) -> QueuedTrial | None:
        """The trial to begin next, which now builds what it needs; None if none is queued."""
        group = _first(self._ready) or _first(self._waiting)
        if group is None:
            return None
        queued = heappop(group.members)[-1]
        self._count -= 1
        self._building.update(group.missing.keys())
        begun = [name for name in group.missing if self._building[name] == 1]
        self._reprioritize(group, *(other for name in begun for other in self._sharing[name]))
        return queued

    def missing_s(self, builds: Mapping[str, float]) -> float:
        """Seconds of those artifacts that are not built yet."""
        return sum(taken_s for name, taken_s in builds.items() if name not in self._built)

    def expected_s(self) -> float:
        """Seconds of all queued trials one after the other, each missing artifact built once."""
        groups = [group for group in self._groups.values() if group.members]
        missing = {name: s for group in groups for name, s in group.missing.items()}
        measured = (member[0] for group in groups for member in group.members)
        return sum(missing.values()) - sum(measured)

    def mark_built(self, names: Iterable[str]) -> None:
        """These artifacts are built."""
        fresh = [name for name in names if name not in self._built]
        self._built.update(fresh)
        for name in fresh:
            del self._building[name]
            for group in self._sharing[name]:
                del group.missing[name]
        self._reprioritize(*(group for name in fresh for group in self._sharing.pop(name)))

    def release(self, names: Iterable[str]) -> None:
        """An agent that was building these artifacts will not finish them."""
        missing = [name for name in names if name not in self._built]
        self._building.subtract(missing)
        free = [name for name in missing if not self._building[name]]
        self._reprioritize(*(group for name in free for group in self._sharing[name]))

    def clear(self) -> Sequence[QueuedTrial]:
        """Remove all trials; returns them in the order of declaration."""
        queued = [member[-1] for group in self._groups.values() for member in group.members]
        for group in self._groups.values():
            group.members.clear()
        self._reprioritize(*self._groups.values())
        self._count = 0
        return sorted(queued, key=lambda each: each.position)

    def _reprioritize(self, *groups: _Group) -> None:
        """Compute the priorities of groups; heap items of earlier versions are stale."""
        for group in dict.fromkeys(groups):
            group.version += 1
            if not group.members:
                continue
            negative_measure_s, position, _ = group.members[0]
            chain_s = sum(group.missing.values()) - negative_measure_s
            waits = any(self._building[name] for name in group.missing)
            heap = self._waiting if waits else self._ready
            heappush(heap, (-chain_s, position, next(self._numbers), group.version, group))


def _first(heap: list[_HeapItem]) -> _Group | None:
    """The group of the first item that is not stale."""
    while heap:
        *_, version, group = heap[0]
        if version == group.version:
            return group
        heappop(heap)
    return None

"""Histories: one figure of one trial on one machine, session after session."""

import itertools
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.domain.codec import Json
from benchorch.domain.estimate import Estimate
from benchorch.formatting import axes_of, cell_name, varying_labels
from benchorch.results.compare.compatibility import differences
from benchorch.results.compare.metric_kinds import PRIMARY, SPEEDUP, higher_is_better, verdict_word
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.stats.level_shifts import LevelShift, level_shifts

_LABELS = ("model", "workload", "scenario", "hardware", "conversion")
_COMMIT_CHARACTERS = 10
_SAME_CODE = frozenset({"packages", "system", "host", "hardware"})
"""Conditions that may change within a history; a change is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Figure of one session.

    Attributes:
        started_at: in ISO 8601.
        commit: of the user's code, its first characters; empty outside git.
        estimate: None where the trial failed, disagreed, or has no such metric.
        problem: why there is no estimate; empty where there is one.
        changed: what differs from the last session that did not fail: packages, settings, the
            commit.
        redefined: whether what is measured differs from that session's.
    """

    plan_id: str
    started_at: str
    commit: str
    estimate: Estimate | None
    problem: str
    changed: tuple[str, ...]
    redefined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLevel:
    """Consecutive sessions that do not differ by more than sessions do.

    Attributes:
        first, last: indices into the points.
        value: geometric mean.
        shift: against the level before; None for the first one and after a new definition.
    """

    first: int
    last: int
    value: float
    shift: LevelShift | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricHistory:
    """The history of one trial in one metric on one machine."""

    name: str
    metric: str
    labels: Mapping[str, str]
    machine: str
    points: tuple[Point, ...]
    levels: tuple[SessionLevel, ...]

    @property
    def shifts(self) -> list[SessionLevel]:
        """The levels that begin with a shift."""
        return [level for level in self.levels if level.shift is not None]

    @property
    def latest(self) -> Point:
        """The last session that has a value, else the last one."""
        known = [point for point in self.points if point.estimate is not None]
        return (known or self.points)[-1]

    def word(self, level: SessionLevel) -> str:
        """``faster``, ``slower``, ``lower`` or ``higher``."""
        assert level.shift is not None
        return verdict_word(self.metric, smaller=level.shift.ratio.value < 1)

    def is_worse(self, level: SessionLevel) -> bool | None:
        """Whether a shift is for the worse; None where neither way is better."""
        assert level.shift is not None
        better = higher_is_better(self.metric)
        return None if better is None else (level.shift.ratio.value < 1) == better


def series_of(
    runs: Sequence[StoredRun], metrics: Sequence[str] = (), across: Collection[str] = ()
) -> list[MetricHistory]:
    """The histories of all trials of some runs, in the order in which they first appear.

    Args:
        runs: in order of time.
        metrics: of each trial; its primary one where there are none.
        across: with ``host``, machines of one kind are one.
    """
    trials = [one for run in runs for one in run.trials if one.result is not None]
    varying = varying_labels([one.trial.labels for one in trials])
    groups: dict[tuple[str, ...], list[StoredTrial]] = {}
    for one in trials:
        labels = (one.trial.labels.get(name, "") for name in _LABELS)
        key = (*labels, *axes_of(one.trial.labels), machine_of(one, across))
        groups.setdefault(key, []).append(one)
    return [
        _series(cell_name(group[0].trial.labels, varying), key[-1], metric, group)
        for key, group in groups.items()
        for metric in metrics or _primary(group)
        if any(_estimate(one, metric) for one in group)
    ]


def machine_of(stored: StoredTrial, across: Collection[str] = ()) -> str:
    """The machine by its name and what it is: ``node-1, Xeon Platinum 8375C, 2 cores``."""
    environment = stored.environment
    device = stored.evidence.device.get("name")
    cores = environment.get("cpu_physical_count")
    parts = [
        "" if "host" in across else _text(environment.get("host")),
        _text(environment.get("cpu_model")),
        f"{cores} cores" if cores else "",
        _text(device),
    ]
    return ", ".join(filter(None, parts)) or "unknown machine"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _primary(group: Sequence[StoredTrial]) -> tuple[str, ...]:
    """The first primary metric that any of them has."""
    known = (name for name in PRIMARY if any(_estimate(one, name) for one in group))
    return tuple(itertools.islice(known, 1))


def _series(name: str, machine: str, metric: str, group: Sequence[StoredTrial]) -> MetricHistory:
    group = sorted(group, key=_started_at)
    points: list[Point] = []
    sound: StoredTrial | None = None
    for one in group:
        points.append(_point(one, sound, metric))
        sound = sound if one.failure else one
    return MetricHistory(
        name=name,
        metric=metric,
        labels=group[0].trial.labels,
        machine=machine,
        points=tuple(points),
        levels=tuple(_levels(points)),
    )


def _started_at(stored: StoredTrial) -> str:
    return "" if stored.result is None else stored.result.started_at


def _point(stored: StoredTrial, before: StoredTrial | None, metric: str) -> Point:
    result = stored.result
    assert result is not None  # others have no place in time
    problem = stored.failure or stored.disagreement
    estimate = None if problem else _estimate(stored, metric)
    found = () if before is None or stored.failure else differences(before, stored)
    decisive = [one for one in found if one.factor]
    commits = [one for one in found if one.field == "environment.git_commit"]
    changes = [f"commit {_short(one.a)} → {_short(one.b)}" for one in commits]
    changes += [f"{one.field.removeprefix('environment.')}: {one.a} → {one.b}" for one in decisive]
    return Point(
        plan_id=stored.plan_id,
        started_at=result.started_at,
        commit=_short(result.environment.get("git_commit")),
        estimate=estimate,
        problem=problem or ("" if estimate else f"has no {metric}"),
        changed=tuple(changes),
        redefined=any(one.factor not in _SAME_CODE for one in decisive),
    )


def _short(commit: Json) -> str:
    """A commit's first characters, and whether files differed from it."""
    name, _, state = _text(commit).partition("-")
    return "-".join(filter(None, (name[:_COMMIT_CHARACTERS], state)))


def _estimate(stored: StoredTrial, metric: str) -> Estimate | None:
    if metric == SPEEDUP:
        return None if stored.speedup is None else stored.speedup.ratio
    found = stored.metrics.get(metric)
    return found if found is not None and found.value > 0 else None


def _levels(points: Sequence[Point]) -> Iterator[SessionLevel]:
    """The levels of each stretch in which one definition was measured."""
    starts = [0, *(i for i, point in enumerate(points) if point.redefined and i), len(points)]
    for low, high in itertools.pairwise(starts):
        places = [i for i in range(low, high) if points[i].estimate is not None]
        yield from _levels_of(points, places)


def _levels_of(points: Sequence[Point], places: Sequence[int]) -> Iterator[SessionLevel]:
    values = [found for i in places if (found := points[i].estimate) is not None]
    shifts: list[LevelShift | None] = [None, *level_shifts(values)]
    ends = [0, *(one.start for one in shifts if one is not None), len(values)]
    for shift, (low, high) in zip(shifts, itertools.pairwise(ends), strict=True):
        if low < high:
            yield SessionLevel(
                first=places[low],
                last=places[high - 1],
                value=statistics.geometric_mean(each.value for each in values[low:high]),
                shift=shift,
            )

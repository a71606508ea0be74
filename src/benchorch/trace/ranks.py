"""Traces of several ranks of one program, as one: clocks aligned by the collectives they share."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.trace.arrays import Int64s
from benchorch.trace.events import (
    BETWEEN_TWO,
    NOTHING,
    Category,
    Events,
    Lane,
    among,
    is_collective,
    once,
)
from benchorch.units import format_ns

_RECEIVED = re.compile(r"recv_?")
_OFFSET = 1 << 40  # between the ranks' own correlations and other ids
_MOST_LACKING = 32  # collectives at the beginning of one recording that another may be without
_CLEARLY = 4.0  # so much more even must ends be for recordings to count as begun differently
_IDS = ("correlation", "external_id", "sequence", "awaited")


def merged(several: Sequence[Events]) -> Events:
    """One trace of all ranks, in the order of the ranks that the traces name, or as given.

    A collective ends on all ranks at once: that aligns their clocks.
    """
    if len(several) == 1:
        return several[0]
    if ranks_named(several):
        several = sorted(several, key=lambda one: one.rank)
        ranks = [one.rank for one in several]
    else:
        ranks = [*range(len(several))]
    shifts_ns = _shifts_ns(several)
    names = {name: at for at, name in enumerate(sorted({n for e in several for n in e.names}))}
    columns: dict[str, list[NDArray[Any]]] = {}
    lanes: list[Lane] = []
    devices = 0
    for place, (rank, one, shift_ns) in enumerate(zip(ranks, several, shifts_ns, strict=True)):
        code = np.array([names[name] for name in one.names] or [0], dtype=np.int32)
        changed: dict[str, NDArray[Any]] = {
            "start_ns": one.start_ns + shift_ns,
            "name": code[one.name],
            "lane": one.lane + np.int32(len(lanes)),
            "forward_lane": _further(one.forward_lane, len(lanes)),
            **{key: _further(getattr(one, key), place * _OFFSET) for key in _IDS},
        }
        for entry in fields(one):
            column = changed.get(entry.name, getattr(one, entry.name))
            if isinstance(column, np.ndarray):
                columns.setdefault(entry.name, []).append(column)
        lanes += [_of_rank(lane, rank, devices) for lane in one.lanes]
        devices += max((lane.device for lane in one.lanes), default=-1) + 1
    return Events(
        **{key: np.concatenate(parts) for key, parts in columns.items()},
        names=tuple(names),
        lanes=tuple(lanes),
        rank=NOTHING,
        pytorch=several[0].pytorch,
        details=partial(_details, several),
        repairs=sum((Counter(one.repairs) for one in several), Counter()),
        allocated={
            f"rank {rank} {label}": rows + np.array([shift_ns, 0])
            for rank, one, shift_ns in zip(ranks, several, shifts_ns, strict=True)
            for label, rows in one.allocated.items()
        },
    )


def ranks_named(several: Sequence[Events]) -> bool:
    """Whether each of some traces names a rank of its own."""
    ranks = {one.rank for one in several}
    return NOTHING not in ranks and len(ranks) == len(several)


def _details(
    several: Sequence[Events], indices: Sequence[int]
) -> Mapping[int, Mapping[str, object]]:
    """Details of events of several traces which follow each other, each from its own file."""
    found: dict[int, Mapping[str, object]] = {}
    first = 0
    for one in several:
        mine = [index - first for index in indices if first <= index < first + len(one)]
        found.update({index + first: said for index, said in one.details(mine).items()})
        first += len(one)
    return found


class Meetings(NamedTuple):
    """Collectives that several ranks take part in; columns of shape ``(m,)``, one for each part."""

    event: Int64s  # the work, or the call, of one rank
    meeting: Int64s  # number of the collective that it is a part of
    last_ns: Int64s  # when the last rank came to it
    usual_ns: Int64s  # when the others had come to it, at the median
    transfer_ns: Int64s  # from then to its end


@once
def meetings(events: Events) -> Meetings:
    """The collectives of a trace of several ranks; of one rank's there are none."""
    by_rank = [_by_name(events, rank) for rank in np.unique(events.ranks).tolist()]
    none = np.zeros(0, dtype=np.int64)
    found, count = [Meetings(none, none, none, none, none)], 0
    for key in dict.fromkeys(key for one in by_rank for key in one):
        having = [one[key] for one in by_rank if key in one]
        if len(having) > 1 and (key.group != NOTHING or len(having) == len(by_rank)):
            met = _met(events, _in_step(events, having))
            found.append(met._replace(meeting=met.meeting + count))
            count += len(met.event) // len(having)
    return Meetings(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _met(events: Events, work: Int64s) -> Meetings:
    """The meetings among some collectives of a name, (meetings, ranks), numbered from 0."""
    ranks = work.shape[1]
    start_ns, end_ns = events.start_ns[work], events.end_ns[work]
    last_ns = start_ns.max(axis=1, initial=0)
    joint = (end_ns > last_ns[:, None]).all(axis=1)  # else they are not the same one
    work, start_ns, end_ns, last_ns = work[joint], start_ns[joint], end_ns[joint], last_ns[joint]
    others = np.sort(start_ns, axis=1)[:, :-1]
    usual_ns = np.median(others, axis=1) if others.size else last_ns
    return Meetings(
        event=work.ravel(),
        meeting=np.repeat(np.arange(len(work)), ranks),
        last_ns=np.repeat(last_ns, ranks),
        usual_ns=np.repeat(usual_ns.astype(np.int64), ranks),
        transfer_ns=np.repeat(end_ns.min(axis=1, initial=1 << 62) - last_ns, ranks),
    )


def _in_step(events: Events, by_rank: Sequence[Int64s]) -> Int64s:
    """The collectives of one sort that are the same, a column for each rank."""
    ends_ns = [events.end_ns[one] for one in by_rank]
    lacking = [_lacking(ends_ns[0], one_ns) for one_ns in ends_ns]
    whole = [one[max(lacking) - at :] for at, one in zip(lacking, by_rank, strict=True)]
    count = min(map(len, whole))
    return np.stack([one[:count] for one in whole], axis=1)


def _lacking(one_ns: Int64s, two_ns: Int64s) -> int:
    """How many of the first of one recording another lacks; negative where it has more.

    A recording has nothing that began before it. Ends of the same collectives differ by the same.
    """
    most = min(_MOST_LACKING, (min(len(one_ns), len(two_ns)) - 1) // 2)
    late_ns = {at: _apart_ns(one_ns, two_ns, at) for at in range(-most, most + 1)}
    spread_ns = {at: float(np.median(np.abs(ns - np.median(ns)))) for at, ns in late_ns.items()}
    limit_ns = _CLEARLY * min(spread_ns.values())
    good = [at for at in late_ns if spread_ns[at] <= limit_ns]
    return max(good, key=lambda at: (len(late_ns[at]), -abs(at)))


def _apart_ns(one_ns: Int64s, two_ns: Int64s, lacking: int) -> Int64s:
    one_ns, two_ns = one_ns[max(lacking, 0) :], two_ns[max(-lacking, 0) :]
    count = min(len(one_ns), len(two_ns))
    return one_ns[:count] - two_ns[:count]


def last_ranks(events: Events) -> str:
    """A sentence on the rank that comes last most often; empty without several ranks."""
    met = meetings(events)
    late_ns = met.last_ns - met.usual_ns
    last = (events.start_ns[met.event] == met.last_ns) & (late_ns > 0)
    if not last.any():
        return ""
    rank = events.ranks[events.lane[met.event]]
    times = np.bincount(rank[last])
    most = int(times.argmax())
    took = format_ns(float(np.median(late_ns[last & (rank == most)])))
    return (
        f"Rank {most} comes last to {times[most]} of {len(np.unique(met.meeting))} collectives, "
        f"{took} after the others at the median."
    )


def collectives(events: Events, rank: int = 0) -> Int64s:
    """The collectives of one rank: device work or, where there is none, outermost host calls.

    A send or receive in a group of more than two ranks is none: who takes part is not known.
    """
    own = events.called(is_collective) & (events.ranks == rank)[events.lane]
    works: Int64s = np.flatnonzero(events.works & own)
    if not len(works):
        calls = among(events.category, (Category.OPERATOR, Category.ANNOTATION)) & own
        works = np.flatnonzero(calls)
    works = works[events.group[works] != BETWEEN_TWO]
    return works[np.argsort(events.start_ns[works], kind="stable")]


class _Sort(NamedTuple):
    name: str
    group: int  # of ranks, NOTHING where the trace does not tell


def _shifts_ns(several: Sequence[Events]) -> list[int]:
    """By how much each clock is to be put forward, by collectives with the first rank or others."""
    sorts = [_by_name(one) for one in several]
    found = {0: 0}
    while len(found) < len(several):
        left = [at for at in range(len(several)) if at not in found]
        pairs = ((of, at) for of in found for at in left if sorts[of].keys() & sorts[at].keys())
        of, at = next(pairs, (NOTHING, NOTHING))
        if of == NOTHING:
            raise TraceError(
                "The traces share no collective (sends and receives in groups of more than two "
                "ranks are none), so their clocks cannot be aligned: give traces of ranks of one "
                "program."
            )
        shared = [(sorts[of][key], sorts[at][key]) for key in sorts[of] if key in sorts[at]]
        found[at] = found[of] + _shift_ns(several[of], several[at], shared)
    return [found[at] for at in range(len(several))]


def _shift_ns(first: Events, other: Events, pairs: Sequence[tuple[Int64s, Int64s]]) -> int:
    # The calls that start a collective end at once; those that take longest are its transfer.
    one, two = max(
        pairs,
        key=lambda pair: int(first.duration_ns[pair[0]].sum() + other.duration_ns[pair[1]].sum()),
    )
    one_ns, two_ns = first.end_ns[one], other.end_ns[two]
    late_ns = _apart_ns(one_ns, two_ns, _lacking(one_ns, two_ns))
    received = [
        bool(_RECEIVED.search(of.names[of.name[at[0]]])) for of, at in ((first, one), (other, two))
    ]
    # A collective ends everywhere at once, and what is received has been sent before.
    quantile = 0.5 + 0.45 * (received[1] - received[0])
    return round(float(np.quantile(late_ns, quantile)))


def _by_name(events: Events, rank: int = 0) -> dict[_Sort, Int64s]:
    """The collectives of one rank by name and group, each in order of start."""
    found = collectives(events, rank)
    if not len(found):
        return {}
    numbers: dict[str, int] = {}
    keys = (_RECEIVED.sub("send", name) for name in events.names)  # the other side of the same
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys])[events.name[found]]
    pairs = np.stack([codes, events.group[found]])
    there, number = np.unique(pairs, axis=1, return_inverse=True)
    named = [*numbers]
    return {
        _Sort(named[code], group): found[number.ravel() == at]
        for at, (code, group) in enumerate(there.T.tolist())
    }


def _further(column: NDArray[Any], offset: int) -> NDArray[Any]:
    """A column of numbers counted on, NOTHING excepted."""
    return np.where(column >= 0, column + column.dtype.type(offset), column)


def _of_rank(lane: Lane, rank: int, devices: int) -> Lane:
    return replace(
        lane,
        process=f"rank {rank}: {lane.process}",
        device=lane.device + devices if lane.on_device else lane.device,
        offset=lane.offset + devices if lane.on_device else lane.offset,
        label=f"rank {rank} {lane.label}",
        rank=rank,
    )

"""Steps of a program: consecutive marked ranges, and the steady period between them.

A step is over when its range has ended and all device work that was launched inside it is done.
Steps without a pause have the time from one completion to the next as their period.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.pages.markup import shortened
from benchorch.trace.arrays import Bools, Int64s, mask
from benchorch.trace.events import DEVICE_WORK, NOTHING, Category, Events, among
from benchorch.trace.lookup import launches
from benchorch.trace.nesting import nest, spans_of
from benchorch.units import format_ns

MARKS = ("benchorch:call*", "ProfilerStep#*", "model_run", "iteration *")
"""Ranges that tools open around steps, the most telling ones first."""

PAUSE_RATIO = 0.1  # share of the time from first to last step above which pauses separate steps
LATE_RATIO = 0.02  # share of a step: work that ends later after its range is not waited for in it
WARM_UP_RATIO = 1.5  # multiple of the other steps' median from which a first step is initialisation
AGAIN_RATIO = 0.7  # share of a first step: if a later one takes as much, it is not initialisation
ACCIDENT_RATIO = 0.15  # share of the steps that may differ from the others by accident
DRAINED_RATIO = 0.7  # of the others: a first third that takes less uses up what waited in queues
TURN_RATIO = 0.03  # of the median: steps so much longer and shorter by turns have no median step
TURNS_RATIO = 0.85  # of the changes from step to step: if so many cross the mean, steps go by turns
CUT_RATIO = 0.5  # share of the median below which a last step counts as cut off
COVERED_RATIO = 0.5  # minimum coverage of the time from first to last for a range that marks steps
TYPICAL_RATIO = 0.5  # of the median: typical steps are within it; a period requires most to be
_RANGES = (Category.ANNOTATION, Category.SESSION)
_ON_STREAMS = (*DEVICE_WORK, Category.SYNC, Category.RECORD)
NO_STEP = re.compile(
    r"^(mod:|wait:|nn\.Module|Optimizer\.|autograd::|Torch-Compiled|## Call|aten::|c10d::|"
    r"DistributedDataParallel|Pregraph|TorchDynamo|CompiledF|gloo:|nccl:|record_param_comms|"
    r"PyTorch Profiler|SequentialExecutor|Iteration Start|ProfilerStep#|benchorch:call|"
    r"(nccl|cudnn|cublas)[A-Z]|(cub|thrust)::)"
)
"""Ranges that no person named to mark steps."""
_LOADER = re.compile(r"^enumerate\(DataLoader\)")
_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_PROFILER_STEP = re.compile(r"torch[/\\]profiler[/\\]profiler\.py\(\d+\): step$")
_WARM_UP = re.compile(r"warm_?-?up|init|setup|compile", re.I)
_NUMBER = re.compile(r"\d+")
_MOST_NAMED = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """All m marked steps of a trace in order, columns ``(m,)``, and the k of them to analyse."""

    name: str  # of the ranges that mark them, ``trace`` for all of it
    start_ns: Int64s  # and end_ns: of the ranges
    end_ns: Int64s
    done_ns: Int64s  # when the range has ended and its device work is done; ascending
    end: int  # and first: the steps to analyse, ``end`` not included
    first: int = 0
    lane: int = NOTHING  # of the thread that marks them, NOTHING where none does
    marks: tuple[int, ...] = ()  # the events of the ranges
    back_to_back: bool = False  # whether a step begins when the last one is over
    notes: tuple[str, ...] = ()  # sentences on what was set aside

    def __len__(self) -> int:
        """How many are analysed."""
        return self.end - self.first

    @property
    def begin_ns(self) -> Int64s:
        """Start of each step, (m,): with its range, or at the end of the previous one."""
        if not self.back_to_back:
            return self.start_ns
        return np.append(self.start_ns[:1], self.done_ns[:-1])

    @property
    def periods_ns(self) -> Int64s:
        """How long each of those to analyse took, (k,)."""
        return (self.done_ns - self.begin_ns)[self.first : self.end]

    @property
    def averaged(self) -> bool:
        """Whether the period is the mean."""
        if not self.back_to_back:
            return False
        return _in_turn(self.periods_ns) or not typical(self.periods_ns).any()

    @property
    def period_ns(self) -> int:
        """The (lower) median period; the mean where most differ by half, or by turns."""
        periods_ns = self.periods_ns
        if self.back_to_back and _in_turn(periods_ns):
            return round(float(np.mean(periods_ns[len(periods_ns) % 2 :])))
        if self.back_to_back and not typical(periods_ns).any():
            return round(float(np.mean(periods_ns[whole_cycles(periods_ns)])))
        return int(np.sort(periods_ns)[(len(periods_ns) - 1) // 2])

    @property
    def shown(self) -> tuple[int, int]:
        """First and last step of the interval shown: all, or the one nearest to the median."""
        if self.back_to_back:
            return self.first, self.end - 1
        periods_ns = self.periods_ns
        nearest = self.first + int(np.argmin(np.abs(periods_ns - np.median(periods_ns))))
        return nearest, nearest

    @property
    def shown_count(self) -> int:
        """How many steps the interval shown has."""
        return self.shown[1] - self.shown[0] + 1


def _in_turn(periods_ns: Int64s) -> bool:
    """Whether steps are longer and shorter than their mean by turns, but for a few of them."""
    change_ns = np.diff(periods_ns)
    turns = np.diff(periods_ns > periods_ns.mean()) != 0
    far = np.abs(change_ns[turns]) > TURN_RATIO * np.median(periods_ns)
    return len(change_ns) > 2 and bool(turns.mean() >= TURNS_RATIO and far.all())


def whole_cycles(periods_ns: Int64s) -> slice:
    """The steps after the first long one up to the last: as many short ones as belong to them."""
    (long,) = np.nonzero(periods_ns > periods_ns.mean())
    several = len(long) > 1 and long[-1] - long[0] >= len(periods_ns) // 3
    return slice(long[0] + 1, long[-1] + 1) if several else slice(None)


def typical(periods_ns: Int64s, bursts: bool = True) -> Bools:
    """Steps near the median, (k,); none where that is not most of them, or not most of the time.

    One long step is an accident; several are how the program runs, as a loader's `bursts`.
    """
    middle = np.median(periods_ns)
    near: Bools = np.abs(periods_ns - middle) <= TYPICAL_RATIO * middle
    few = (~near).sum() <= max(1.0, ACCIDENT_RATIO * len(near))
    apart = np.diff(np.flatnonzero(~near))
    in_turn = len(apart) > 1 and np.ptp(apart) <= 1 and len(near) >= 3 * apart.max()
    most = periods_ns[near].sum() >= 0.5 * periods_ns.sum() and not in_turn
    usual = near.mean() >= 0.6 and bool(few or most or not bursts)
    return near if usual else np.zeros(len(near), dtype=np.bool_)


def find_steps(events: Events, name: str | None = None, number: int | None = None) -> Steps:
    """The steps of a trace of at least one event.

    `name` is that of the marking ranges, or a pattern; ``trace`` for all of it; None for the first
    of `MARKS`, then ranges that recur, then calls of a loader or an optimizer. `number` is the one
    step to analyse, from 0. TraceError: there is no such range or step.
    """
    found = _marked(events, name)
    if found is None:
        if number not in (None, 0):
            raise TraceError(f"There is no step {number}: the trace marks none.")
        return whole(events, _UNMARKED.format(how=_HOW if events.pytorch else ""))
    if number is None:
        return _without_warm_up(found, _may_be_ahead(events, found.lane))
    if not 0 <= number < len(found.start_ns):
        raise TraceError(
            f"There is no step {number}; {shortened(found.name)!r} has 0 to "
            f"{len(found.start_ns) - 1}. See --list-ranges."
        )
    return replace(found, first=number, end=number + 1)


_UNMARKED = "The trace marks no steps, so all of it is analysed as one{how}."
_HOW = "; mark them with profiler.step() or torch.profiler.record_function"


def whole(events: Events, note: str) -> Steps:
    """All of a trace as one step, from its first event to its last."""
    counted = events.category != Category.OVERHEAD
    counted = counted if counted.any() else np.ones(len(events), dtype=bool)
    start_ns = np.array([events.start_ns[counted].min()])
    end_ns = np.array([events.end_ns[counted].max()])
    return Steps(
        name="trace", start_ns=start_ns, end_ns=end_ns, done_ns=end_ns, end=1, notes=(note,)
    )


@final
@dataclass(frozen=True, slots=True)
class MarkedRange:
    """Ranges of one name, numbers in it apart."""

    name: str
    count: int
    total_ns: int
    median_ns: int


def marked_ranges(events: Events) -> list[MarkedRange]:
    """All ranges that may be named to ``--range``, those with most time first."""
    found = []
    for name, these in _groups(events, among(events.category, _RANGES)):
        took_ns = events.duration_ns[these]
        total_ns, median_ns = int(took_ns.sum()), int(np.median(took_ns))
        found.append(MarkedRange(name, len(these), total_ns, median_ns))
    return sorted(found, key=lambda one: (-one.total_ns, one.name))


def _groups(events: Events, chosen: Bools) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Chosen events by name, with ``*`` for the numbers of names that differ in nothing else."""
    stems: dict[str, list[int]] = {}
    for code in np.unique(events.name[chosen]).tolist():
        stems.setdefault(_NUMBER.sub("*", events.names[code]), []).append(code)
    for stem, same in stems.items():
        name = stem if len(same) > 1 else events.names[same[0]]
        yield name, np.flatnonzero(chosen & np.isin(events.name, same))


def _marked(events: Events, name: str | None) -> Steps | None:
    """The ranges that mark steps, all of them; None for the whole trace."""
    if name == "trace" and name not in events.names:
        return None
    if name is not None:
        chosen = _named(events, name) & ~among(events.category, _ON_STREAMS)
        marks = _on_one_lane(events, _outermost(events, chosen))
        if not len(marks):
            raise TraceError(_unknown(events, name))
        return _steps(events, name, marks)
    ranges = among(events.category, _RANGES)
    for mark in MARKS:
        marks = _on_one_lane(events, _outermost(events, _named(events, mark) & ranges))
        if len(marks):
            return _steps(events, mark, marks)
    frames = events.category == Category.PYTHON
    return (
        _boundaries(events, _PROFILER_STEP, frames)
        or _recurring(events, ranges)
        or _boundaries(events, _LOADER, ranges)
        or _boundaries(events, _OPTIMIZER, ranges)
        or _recurring(events, ranges, covered_ratio=0.0)
    )


def _recurring(events: Events, ranges: Bools, covered_ratio: float = COVERED_RATIO) -> Steps | None:
    """The ranges of one name on one thread, at least three, that take most time in all.

    Those that cover little of it mark steps from one to the next, if these are alike.
    """
    best: tuple[int, str, NDArray[np.intp]] | None = None
    for name, these in _groups(events, ranges):
        if NO_STEP.match(name) or _LOADER.match(name) or len(these) < 3:
            continue
        lane = np.bincount(events.lane[these]).argmax()
        marks = _outermost(events, mask(len(events), these[events.lane[these] == lane]))
        total_ns = int(events.duration_ns[marks].sum())
        if len(marks) < 3 or _WARM_UP.search(name) or (best and total_ns <= best[0]):
            continue
        if total_ns >= covered_ratio * int(events.end_ns[marks].max() - events.start_ns[marks[0]]):
            best = total_ns, name, marks
    if best is None:
        return None
    _, name, marks = best
    if not covered_ratio:
        found = _between(events, marks)
        outer = np.isin(marks, _outermost(events, ranges | (events.category == Category.OPERATOR)))
        return found if found and outer.all() and typical(found.periods_ns).any() else None
    found = _steps(events, name, marks)
    apart = not found.back_to_back and _interleaved(events, marks, ranges)
    return (_between(events, marks) if apart else None) or found


def _interleaved(events: Events, marks: NDArray[np.intp], ranges: Bools) -> np.bool_:
    """Whether other ranges of the thread fill most of the time between the marks, as they recur."""
    lane, name = events.lane[marks[0]], events.name[marks]
    others = _outermost(events, ranges & (events.lane == lane) & ~np.isin(events.name, name))
    step = np.searchsorted(events.start_ns[marks], events.start_ns[others], side="right") - 1
    after = (step >= 0) & (step < len(marks) - 1)
    others, step = others[after], step[after]
    after = events.start_ns[others] >= events.end_ns[marks[step]]
    between_ns = int((events.start_ns[marks[1:]] - events.end_ns[marks[:-1]]).sum())
    every = len(np.unique(step[after])) == len(marks) - 1
    return np.bool_(every and events.duration_ns[others[after]].sum() > 0.5 * between_ns)


def _boundaries(events: Events, pattern: re.Pattern[str], chosen: Bools) -> Steps | None:
    """From each call of some kind to the next one; at least three steps."""
    marks = _outermost(events, events.called(pattern.search) & chosen)
    return _between(events, _on_one_lane(events, marks))


def _between(events: Events, marks: NDArray[np.intp]) -> Steps | None:
    if len(marks) < 4:
        return None
    name = f"between {events.names[events.name[marks[0]]]}"
    found = _steps(events, name, marks[:-1], events.start_ns[marks[1:]])
    return replace(found, marks=())


def _steps(
    events: Events, name: str, marks: NDArray[np.intp], end_ns: Int64s | None = None
) -> Steps:
    """The steps of these ranges, which end with the ranges or at some times."""
    start_ns, end_ns = events.start_ns[marks], events.end_ns[marks] if end_ns is None else end_ns
    work, step = _work_of_ranges(events, start_ns, end_ns, int(events.lane[marks[0]]))
    done_ns = end_ns.copy()  # when it has ended and the device work that belongs to it is done
    np.maximum.at(done_ns, step, events.end_ns[work])
    done_ns = np.maximum.accumulate(done_ns)
    late = done_ns - end_ns > LATE_RATIO * (end_ns - start_ns)
    span_ns = int(end_ns[-1] - start_ns[0])
    pauses_ns = int(np.maximum(start_ns[1:] - done_ns[:-1], 0).sum())
    own_calls = name.startswith("benchorch:call") and not late.any()
    apart = own_calls or (len(marks) > 1 and pauses_ns > PAUSE_RATIO * span_ns)
    notes = []
    if len(marks) == 1 and late.any():
        notes.append(
            f"{shortened(name)!r} occurs once and does not end in a synchronisation; record "
            "several steps for a steady period."
        )
    elif apart and not own_calls:
        notes.append(
            f"The time between {shortened(name)!r}, {pauses_ns / max(span_ns, 1):.0%} of the "
            "whole, is not part of any step."
        )
    return Steps(
        name=name,
        start_ns=start_ns,
        end_ns=end_ns,
        done_ns=done_ns,
        lane=int(events.lane[marks[0]]),
        marks=tuple(marks.tolist()),
        back_to_back=not apart and len(marks) > 1,
        end=len(marks),
        notes=tuple(notes),
    )


def work_of_steps(events: Events, steps: Steps) -> tuple[Int64s, Int64s]:
    """Device work that belongs to the steps, and the number of the step of each."""
    return _work_of_ranges(events, steps.start_ns, steps.end_ns, steps.lane)


def _work_of_ranges(
    events: Events, start_ns: Int64s, end_ns: Int64s, lane: int
) -> tuple[Int64s, Int64s]:
    """The device work of each range of a thread: what its process launched inside it.

    Of a stream without recorded launches it is divided among the ranges evenly, if it can be.
    """
    programs = events.programs
    own = (programs == programs[max(lane, 0)])[events.lane]
    works = np.flatnonzero(events.works & own)
    call = launches(events)[works]
    launched = call != NOTHING
    called_ns = events.start_ns[call[launched]]
    step = np.searchsorted(start_ns, called_ns, side="right") - 1
    inside = (step >= 0) & (called_ns < end_ns[step])
    found, steps = [works[launched][inside]], [step[inside]]
    without = works[~launched]
    for lane in np.setdiff1d(events.lane[without], events.lane[works[launched]]):
        mine = without[events.lane[without] == lane]
        mine = mine[np.argsort(events.start_ns[mine], kind="stable")]
        if len(mine) % len(start_ns) == 0:
            found.append(mine)
            steps.append(np.repeat(np.arange(len(start_ns)), len(mine) // len(start_ns)))
    return np.concatenate(found), np.concatenate(steps)


def _may_be_ahead(events: Events, lane: int) -> bool:
    """Whether anything but the thread of the steps, or a process, may have made what they use."""
    others = (events.lane != lane) & (events.category != Category.OVERHEAD)
    others |= events.category == Category.PYTHON
    return bool(others.any() or events.called(_LOADER.search).any())


def _without_warm_up(steps: Steps, ahead: bool) -> Steps:
    """Without first steps that initialise or use what was made before, and a last one cut off."""
    periods_ns, end = steps.periods_ns, steps.end
    middle = float(np.median(periods_ns))
    if end > 2 and periods_ns[-1] < CUT_RATIO * middle and typical(periods_ns[:-1]).all():
        end -= 1
    first = 0
    while end - first > 2:
        others = periods_ns[first + 1 : end]
        later = others[len(others) // 2 :]
        again = (later >= AGAIN_RATIO * periods_ns[first]).any()  # it is how the program runs
        if again or periods_ns[first] <= WARM_UP_RATIO * np.median(others):
            break
        first += 1
    notes = list(steps.notes)
    if first:
        took = format_ns(int(periods_ns[:first].sum()))
        notes.append(
            f"Set aside as initialisation: the first {'step' if first == 1 else f'{first} steps'} "
            f"of {len(steps)}, which took {took}."
        )
    drained = len(periods_ns[first:end]) // 3 if steps.back_to_back and not first else 0
    others = periods_ns[drained:end]
    short = drained > 1 and np.mean(periods_ns[:drained]) < DRAINED_RATIO * np.mean(others)
    if short and (ahead or typical(others).any()):
        first = drained
        notes.append(f"Set aside: the first {first} steps, which used what was made before them.")
    asynchronous = steps.back_to_back and bool((steps.done_ns > steps.end_ns).any())
    if not first and asynchronous and end > 2:
        first = 1  # the time in which the host gets ahead of the device is not steady
    if end < steps.end:
        notes.append("Set aside: the last step, which the end of the recording cut off.")
    found = replace(steps, first=first, end=end)
    if found.back_to_back and end - first > 3 and not typical(found.periods_ns).any():
        notes.append(
            "Most steps differ from the median one by more than half, so the period is their mean: "
            "batches came in bursts, or other programs disturbed the recording."
        )
    return replace(found, notes=tuple(notes))


def _named(events: Events, pattern: str) -> Bools:
    """Which events are called so exactly or, if none is, fit the pattern."""
    if pattern in events.names:
        return events.called(lambda name: name == pattern)
    pattern = pattern.replace("[", "[[]")  # brackets are no set: names have them
    return events.called(lambda name: fnmatchcase(name, pattern))


def _outermost(events: Events, chosen: Bools) -> NDArray[np.intp]:
    """The chosen events that are in no other chosen one on their lane, in order of start."""
    indices = np.flatnonzero(chosen)
    top = indices[nest(spans_of(events, indices)).depth == 0]
    order = np.lexsort((events.lane[top], events.end_ns[top], events.start_ns[top]))
    in_order: NDArray[np.intp] = top[order]
    return in_order


def _on_one_lane(events: Events, marks: NDArray[np.intp]) -> NDArray[np.intp]:
    """Marks of the first lane with the most: each rank marks its own steps."""
    if not len(marks):
        return marks
    lane = np.bincount(events.lane[marks]).argmax()
    found: NDArray[np.intp] = marks[events.lane[marks] == lane]
    return found


def _unknown(events: Events, name: str) -> str:
    ranges = np.unique(events.name[among(events.category, _RANGES)])
    known: Sequence[str] = [
        repr(shortened(events.names[index])) for index in ranges[:_MOST_NAMED].tolist()
    ]
    more = f" and {len(ranges) - _MOST_NAMED} more" if len(ranges) > _MOST_NAMED else ""
    there = f"Its ranges are {', '.join(known)}{more}." if known else "It has no named ranges."
    return f"No event of the trace is called {name!r}. {there} See --list-ranges."

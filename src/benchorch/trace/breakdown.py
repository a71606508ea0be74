"""How each device spent each step: computing, communicating, moving memory, idle, and overlaps."""

from dataclasses import dataclass
from typing import final

import numpy as np

from benchorch.trace.arrays import Bools, Int64s
from benchorch.trace.events import Category, Events, among, is_collective
from benchorch.trace.steps import Steps

_COMPUTE, _COMMUNICATION, _MEMORY = 1, 2, 4
MOST_STEPS = 200


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """One device in one step, in ns; kinds overlap, so only idle and busy sum to the step."""

    device: int  # and step: their numbers in the trace; `rank` and `process` of the device
    rank: int
    process: str  # where the trace has device work of several processes
    step: int
    step_ns: int  # the step's length
    compute_ns: int  # and communication_ns, memory_ns: while at least one such piece of work ran
    communication_ns: int
    memory_ns: int
    idle_ns: int  # while none ran
    overlapped_ns: int  # of communication and memory, while something was computed

    @property
    def utilisation_ratio(self) -> float:
        """Busy share of the step."""
        return 1 - self.idle_ns / self.step_ns if self.step_ns else 0.0


def breakdown(events: Events, steps: Steps) -> tuple[DeviceShare, ...]:
    """The shares of each device in each of the steps to analyse, of the first `MOST_STEPS`."""
    device = events.devices[events.lane]
    works = np.flatnonzero(events.works & (device >= 0))
    memory = among(events.category, (Category.COPY, Category.FILL))
    collective = events.called(is_collective)
    kind = np.where(collective, _COMMUNICATION, np.where(memory, _MEMORY, _COMPUTE))
    last = min(steps.end, steps.first + MOST_STEPS)
    found = []
    for one in np.unique(device[works]).tolist():
        mine = works[device[works] == one]
        mine = mine[np.argsort(events.start_ns[mine], kind="stable")]
        lane = events.lanes[events.lane[mine[0]]]
        spans = events.start_ns[mine], events.end_ns[mine], kind[mine]
        reached_ns = np.maximum.accumulate(spans[1])
        for step in range(steps.first, last):
            begin, end = int(steps.begin_ns[step]), int(steps.done_ns[step])
            near = slice(np.searchsorted(reached_ns, begin), np.searchsorted(spans[0], end))
            times = _times_ns(begin, end, *(column[near] for column in spans))
            share = DeviceShare(
                device=lane.number, rank=lane.rank, process=lane.program, step=step, **times
            )
            found.append(share)
    return tuple(found)


def _times_ns(
    begin: int, end: int, start_ns: Int64s, end_ns: Int64s, kind: Int64s
) -> dict[str, int]:
    """The times of a `DeviceShare`, of work that runs between a step's begin and end."""
    inside = (end_ns > begin) & (start_ns < end)
    starts, ends = np.maximum(start_ns[inside], begin), np.minimum(end_ns[inside], end)
    times = np.concatenate([[begin, end], starts, ends])
    order = np.argsort(times, kind="stable")
    took_ns = np.diff(times[order])
    running = []
    for one in (_COMPUTE, _COMMUNICATION, _MEMORY):
        mine = (kind[inside] == one).astype(np.int64)
        change = np.concatenate([[0, 0], mine, -mine])[order]
        running.append(np.cumsum(change)[:-1] > 0)
    compute, communication, memory = running
    spent: dict[str, Bools] = {
        "compute_ns": compute,
        "communication_ns": communication,
        "memory_ns": memory,
        "idle_ns": ~(compute | communication | memory),
        "overlapped_ns": compute & (communication | memory),
    }
    sums = {name: int(took_ns[chosen].sum()) for name, chosen in spent.items()}
    return {"step_ns": end - begin, **sums}

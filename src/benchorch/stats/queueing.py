"""Queueing of requests: waiting, serving, lateness, and whether the times add up.

Everything here follows from three series: when a query was due, when it was started, how long it
took. A response is counted from when the query was *due*, so that a generator or a model that falls
behind cannot hide it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchorch.domain.measurement import Load, Observations
from benchorch.stats.quantiles import sample_quantile
from benchorch.stats.steady_state import steady_from
from benchorch.units import NS_PER_S

if TYPE_CHECKING:
    from numpy import bool_, int64
    from numpy.typing import ArrayLike, NDArray

_NEVER_NS = 2**62
WARMUP_RATIO = 0.1
"""The first part of a stretch by time, in which queues fill, does not count."""

SLOPE_CONFIDENCE = 0.99
SLOPE_BLOCKS = 10
LEAST_PER_BLOCK = 5
LEAST_ACHIEVED_RATIO = 0.99
LEAST_TO_SETTLE = 50
ROUNDS_BEHIND = 20
HALF_AGAIN = 1.5
"""A shortfall is one only if it is as long as so many mean calls, and so much longer than any wait
in the first half: short runs of a busy queue end a little late without growing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadPhase:
    """The queries of one load, in the order of its schedule.

    Attributes:
        due_ns, started_ns, duration_ns: shape (n,), int64; all from one origin.
        load: what was offered.
        answered: shape (n,), bool; the others were missed, and took up a server all the same.
    """

    due_ns: NDArray[int64]
    started_ns: NDArray[int64]
    duration_ns: NDArray[int64]
    load: Load
    answered: NDArray[bool_]

    @classmethod
    def of(
        cls,
        due_ns: ArrayLike,
        started_ns: ArrayLike,
        duration_ns: ArrayLike,
        load: Load,
        missed: Sequence[int] = (),
    ) -> LoadPhase:
        """A stretch of any sequences of whole numbers; `missed` are indices."""
        import numpy as np

        due = np.asarray(due_ns, dtype=np.int64)
        answered = np.ones(due.size, dtype=np.bool_)
        answered[list(missed)] = False
        return cls(
            due_ns=due,
            started_ns=np.asarray(started_ns, dtype=np.int64),
            duration_ns=np.asarray(duration_ns, dtype=np.int64),
            load=load,
            answered=answered,
        )

    @property
    def ended_ns(self) -> NDArray[int64]:
        """Completion times, shape (n,)."""
        return self.started_ns + self.duration_ns

    @property
    def response_ns(self) -> NDArray[int64]:
        """From due to done, shape (n,)."""
        return self.ended_ns - self.due_ns

    def until_answered_ns(self) -> NDArray[int64]:
        """The same, shape (n,); of a missed query longer than any target."""
        import numpy as np

        return np.where(self.answered, self.response_ns, _NEVER_NS)

    @property
    def queueing_ns(self) -> NDArray[int64]:
        """From due to started, shape (n,); lateness of the generator included."""
        return self.started_ns - self.due_ns

    def after(self, first: int) -> LoadPhase:
        """The same from a query on."""
        return self._only(slice(first, None))

    def with_answer(self) -> LoadPhase:
        """The queries that were answered: what responses are of."""
        return self if self.answered.all() else self._only(self.answered)

    def _only(self, kept: slice | NDArray[bool_]) -> LoadPhase:
        return replace(
            self,
            due_ns=self.due_ns[kept],
            started_ns=self.started_ns[kept],
            duration_ns=self.duration_ns[kept],
            answered=self.answered[kept],
        )

    def settled(self) -> LoadPhase:
        """Without the queries that were due in the first tenth of the time."""
        import numpy as np

        first, last = int(self.due_ns[0]), int(self.due_ns[-1])
        cut_ns = first + WARMUP_RATIO * (last - first)
        return self.after(int(np.searchsorted(self.due_ns, cut_ns)))

    def offered_per_s(self) -> float | None:
        """The schedule's rate as it was drawn; None for n < 2."""
        return _per_s(self.due_ns)

    def completed_per_s(self) -> float:
        """Answered queries over the time from the first start to the last completion."""
        lasted_ns = int(self.ended_ns.max() - self.started_ns.min())
        return int(self.answered.sum()) * NS_PER_S / lasted_ns

    def done_per_s(self) -> float | None:
        """The rate at which queries were done, with or without an answer; None for n < 2."""
        import numpy as np

        return _per_s(np.sort(self.ended_ns))

    def achieved_per_s(self) -> float | None:
        """The rate at which queries were answered; None for n < 2."""
        done = self.done_per_s()
        return None if done is None else done * float(self.answered.mean())


def _per_s(times_ns: NDArray[int64]) -> float | None:
    lasted_ns = int(times_ns[-1] - times_ns[0]) if times_ns.size > 1 else 0
    return (times_ns.size - 1) * NS_PER_S / lasted_ns if lasted_ns else None


def stretches(observations: Observations) -> Iterator[LoadPhase]:
    """Each load with its queries, in order of time; empty loads are left out."""
    if not observations.loads:  # and then nothing is scheduled
        return
    whole = LoadPhase.of(
        observations.scheduled_ns,
        observations.started_ns,
        observations.durations_ns,
        Load(rate_per_s=0.0, first=0, end=0, seed=0, arrivals=""),
        missed=[place for places in observations.missed.values() for place in places],
    )
    for load in observations.loads:
        if load.end > load.first:
            yield replace(whole._only(slice(load.first, load.end)), load=load)


def lateness_ns(stretch: LoadPhase) -> NDArray[int64]:
    """How long after it could have been started each query was: the generator's own delay.

    It could have been when it was due and a server was free. One number a batch, in order.

    Returns
    -------
    ndarray, shape (batches,), int64
        Below 0 only where a query was started before it was due, or before a server was free.
    """
    due, started, ended = _batches(stretch)
    return started - _ready_ns(due, ended, stretch.load.servers)


def _batches(stretch: LoadPhase) -> tuple[NDArray[int64], NDArray[int64], NDArray[int64]]:
    """Due time of the first query of each batch, and start and end of the batch."""
    if stretch.load.max_batch == 1:
        return stretch.due_ns, stretch.started_ns, stretch.ended_ns
    first = _first_of_batch(stretch)
    return stretch.due_ns[first], stretch.started_ns[first], stretch.ended_ns[first]


def _first_of_batch(stretch: LoadPhase) -> NDArray[int64]:
    """Index of the first query of each batch: queries served together started together."""
    import numpy as np

    _, first = np.unique(stretch.started_ns, return_index=True)
    return np.asarray(np.sort(first), dtype=np.int64)


def _ready_ns(due: NDArray[int64], ended: NDArray[int64], servers: int) -> NDArray[int64]:
    """The earliest time at which each could have been started, given when those before ended."""
    import numpy as np

    if servers == 1:
        return np.maximum(due, np.concatenate((due[:1], ended[:-1])))
    free = [int(due[0])] * servers
    ready = []
    for due_ns, ended_ns in zip(due.tolist(), ended.tolist(), strict=True):
        ready.append(max(due_ns, free[0]))
        heapq.heapreplace(free, ended_ns)
    return np.asarray(ready, dtype=np.int64)


def replay(stretch: LoadPhase) -> NDArray[int64]:
    """The response of each query by the queue's own law, from schedule, service and lateness.

    A query starts when it is due and a server is free, plus the generator's lateness, which cannot
    be negative; it is done after its service time. Where this differs from what was measured, the
    series contradicts itself: something was served before it was due, or two at once by one server.

    Returns
    -------
    ndarray, shape (n,), int64

    Source
    ------
    Lindley, *The theory of queues with a single server* (1952); for several servers Kiefer and
    Wolfowitz, *On the theory of queues with many servers* (1955).
    """
    import numpy as np

    return _done_ns(stretch, np.maximum(lateness_ns(stretch), 0)) - stretch.due_ns


def _done_ns(stretch: LoadPhase, late_ns: NDArray[int64]) -> NDArray[int64]:
    """Completion of each query by the queue's law, from the lateness of each batch."""
    import numpy as np

    due, started, ended = _batches(stretch)
    done = completions_ns(due, late_ns + (ended - started), stretch.load.servers)
    if stretch.load.max_batch == 1:
        return done
    batch_of = np.searchsorted(np.sort(started), stretch.started_ns)
    return done[np.argsort(started, kind="stable")][batch_of]


def _woken_in_time(stretch: LoadPhase) -> LoadPhase:
    """The same, had the generator not been late for queries that found a server free.

    Its lateness among queries that wait stays: it holds up the others as their service does.
    """
    import numpy as np

    due, _, ended = _batches(stretch)
    waited = _ready_ns(due, ended, stretch.load.servers) > due
    late = np.where(waited, np.maximum(lateness_ns(stretch), 0), 0)
    started = _done_ns(stretch, late) - stretch.duration_ns
    return replace(stretch, started_ns=np.maximum(started, stretch.due_ns))


def completions_ns(due: NDArray[int64], spent: NDArray[int64], servers: int) -> NDArray[int64]:
    """Completion times of queries that occupy a server for their service time.

    First come, first served.

    Parameters
    ----------
    due, spent : ndarray, shape (n,), int64

    Returns
    -------
    ndarray, shape (n,), int64
    """
    import numpy as np

    if servers == 1:
        total = spent.cumsum()
        return total + np.maximum.accumulate(due - (total - spent))
    free = [int(due[0])] * servers
    done = []
    for due_ns, spent_ns in zip(due.tolist(), spent.tolist(), strict=True):
        done.append(max(due_ns, free[0]) + spent_ns)
        heapq.heapreplace(free, done[-1])
    return np.asarray(done, dtype=np.int64)


def disagreement_ratio(stretch: LoadPhase) -> float:
    """How far mean and p99 of the replayed responses are from the measured ones, the farther."""
    measured, replayed = stretch.response_ns, replay(stretch)
    ratios = (
        replayed.mean() / measured.mean(),
        sample_quantile(replayed, 0.99) / sample_quantile(measured, 0.99),
    )
    return max(abs(float(ratio) - 1.0) for ratio in ratios)


def overloaded(stretch: LoadPhase, confidence: float = SLOPE_CONFIDENCE) -> bool:
    """Whether queues grow for as long as the load lasts, so that quantiles would too.

    Estimator: the rest of the schedule was given up; or the slope of queueing time over due time,
    by least squares on means of `SLOPE_BLOCKS` blocks, is above 0 with that one-sided confidence
    and adds up to more than one mean call; or completions came at less than
    `LEAST_ACHIEVED_RATIO` of the rate of the schedule, and by the end that is more than chance
    explains: see `HALF_AGAIN`. Blocks, because queueing times of neighbours are all but the same:
    a line through single queries would find a slope in every stable queue. The slope and the rate
    are those of a generator that wakes in time: on a busy machine one wakes late for idle servers.
    """
    if stretch.load.unserved:
        return True
    settled = _woken_in_time(stretch).settled()
    return _grows(settled, confidence) or _falls_short(settled)


def _grows(stretch: LoadPhase, confidence: float) -> bool:
    from scipy.special import stdtrit

    n = stretch.due_ns.size // SLOPE_BLOCKS * SLOPE_BLOCKS
    if n < SLOPE_BLOCKS * LEAST_PER_BLOCK:
        return False
    due = stretch.due_ns[:n].reshape(SLOPE_BLOCKS, -1).mean(axis=1)
    waits = stretch.queueing_ns[:n].reshape(SLOPE_BLOCKS, -1).mean(axis=1)
    places = due - due.mean()
    slope = float(places @ waits) / float(places @ places)
    rest = waits - waits.mean() - slope * places
    error = math.sqrt(float(rest @ rest) / (SLOPE_BLOCKS - 2) / float(places @ places))
    growth_ns = slope * float(stretch.due_ns[-1] - stretch.due_ns[0])
    significant = slope > float(stdtrit(SLOPE_BLOCKS - 2, confidence)) * error
    return significant and growth_ns > float(stretch.duration_ns.mean())


def _falls_short(stretch: LoadPhase) -> bool:
    offered, achieved = stretch.offered_per_s(), stretch.done_per_s()
    if offered is None or achieved is None or achieved >= LEAST_ACHIEVED_RATIO * offered:
        return False
    behind_ns = stretch.due_ns.size * NS_PER_S * (1.0 / achieved - 1.0 / offered)
    before_ns = float(stretch.queueing_ns[: stretch.due_ns.size // 2].max())
    usual_ns = max(ROUNDS_BEHIND * float(stretch.duration_ns.mean()), HALF_AGAIN * before_ns)
    return behind_ns > usual_ns


def steady(stretch: LoadPhase) -> bool | None:
    """Whether service times had settled when the first tenth was over.

    None where nobody can tell: calls were too few, or were batched, so that their time depends on
    how many were waiting. Responses are no witness: in any busy queue they wander.
    """
    if stretch.load.max_batch > 1 or stretch.due_ns.size < LEAST_TO_SETTLE:
        return None
    durations = stretch.settled().with_answer().duration_ns
    start = steady_from(durations, least_steady_ns=0)
    return start is not None and start <= WARMUP_RATIO * durations.size

"""What had to be over on a device before a stream got to some moment of its queue?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.trace.events import NOTHING
from benchorch.trace.graph.stream_queues import Queues

_MOST_WAITS = 8  # since a stream's last work: more only repeat each other
_MOST_STREAMS = 8  # that wait for each other without any work in between


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Queues, and what is queued between their work: waits for events of other streams.

    Columns of shape ``(waits,)``, by lane and time.

    Attributes:
        queue: the work.
        lane, called_ns: which stream waits, and when the host told it to.
        source, recorded_ns: the stream of the event, and when the host recorded it there.
    """

    queue: Queues
    lane: NDArray[np.int64]
    called_ns: NDArray[np.int64]
    source: NDArray[np.int64]
    recorded_ns: NDArray[np.int64]

    def reached(
        self, lane: NDArray[np.int64], at_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The work that had to be over when streams got to what was queued at some times.

        For each lane and time that is its last work by then, and where it was told to wait since,
        what had to be over at that event. Pairs of the question's index and a piece of work.
        """
        asked = np.arange(len(lane), dtype=np.int64)
        lane, at_ns = lane.astype(np.int64), at_ns.astype(np.int64)
        pairs = []
        for _ in range(_MOST_STREAMS):
            work = self.queue.last_before(lane, at_ns)
            pairs.append(np.stack([asked, work], axis=1)[work != NOTHING])
            since = self._since(lane, at_ns)
            if not len(since):
                break
            asked, lane, at_ns = (
                asked[since[:, 0]],
                self.source[since[:, 1]],
                self.recorded_ns[since[:, 1]],
            )
        both = np.unique(np.concatenate(pairs), axis=0)
        return both[:, 0], both[:, 1]

    def _since(self, lane: NDArray[np.int64], at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Pairs of a question's index and a wait on its lane after the lane's last work by then."""
        if not len(self.lane) or not len(lane):
            return np.zeros((0, 2), dtype=np.int64)
        after_ns = self.queue.launched_before(lane, at_ns)
        first_ns = min(int(self.called_ns.min()), int(after_ns.min()), int(at_ns.min()))
        last_ns = max(int(self.called_ns.max()), int(at_ns.max()), int(after_ns.max()))
        span_ns = last_ns - first_ns + 1
        key = self.lane * span_ns + self.called_ns - first_ns
        low = np.searchsorted(key, lane * span_ns + after_ns - first_ns, side="right")
        high = np.searchsorted(key, lane * span_ns + at_ns - first_ns)
        count = np.clip(high - low, 0, _MOST_WAITS)
        asked = np.repeat(np.arange(len(lane)), count)
        place = np.arange(len(asked)) - np.repeat(np.cumsum(count) - count, count)
        return np.stack([asked, np.repeat(high, count) - 1 - place], axis=1)

"""How long is long? What inference needs to tell waiting from working."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Times and ratios that decide whether an unrecorded dependency may be inferred.

    All times scale with the trace's clock: where every stamp is multiplied, so must these be.

    Attributes:
        idle_ns: a lane is idle in a gap longer than this ...
        idle_gaps_ratio: ... and than so many times the lane's median gap.
        wake_ns: what ended a gap ended at most this long before it.
        woken_ns: ... and if anything did, so much before it, for a thread takes time to wake up.
        stalled_ns: a kernel that starts so much later than is explained waited for something.
        blocked_ratio: a call that takes so many times its median was held up.
        queue: launches that a stream holds at least before a launch blocks.
    """

    idle_ns: int = 100_000
    idle_gaps_ratio: float = 20.0
    wake_ns: int = 300_000
    woken_ns: int = 8_000
    stalled_ns: int = 20_000
    blocked_ratio: float = 3.0
    queue: int = 500

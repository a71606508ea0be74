"""Raw observations of one process, exactly as the clock gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchorch.domain.codec import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What reading the clock costs on this host.

    Attributes:
        pair_cost_ns: median cost of two reads back to back.
        step_ns: smallest difference between two reads that is not zero.
        loop_turn_ns: cost of one turn of the loop around the calls.
    """

    pair_cost_ns: float
    step_ns: float
    loop_turn_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Every block of one process from the first, warm-up included.

    Attributes:
        durations_ns: length n; one block each, in order of time.
        started_ns: length n; when each block started, since the first one's start.
        calls_per_block: how many calls each block holds (k).
        items_per_call: elements of the batch in one call.
        preempted: length n; whether the process was switched out against its will in the block.
    """

    durations_ns: tuple[int, ...]
    started_ns: tuple[int, ...]
    calls_per_block: int
    items_per_call: int
    preempted: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What one fresh process saw.

    Attributes:
        load_s: artifact on disk to ready, in seconds.
        first_call_s: the very first call, in seconds.
        observations: the blocks, or None where the process failed before any.
        steady_from: index of the first steady block, or None where no steady state was found.
        peak_rss_bytes: highest resident memory of the process.
        facts: what really ran: dtype, threads, provider, device.
        elapsed_s: the whole process, from its start to its last message.
    """

    load_s: float
    first_call_s: float
    observations: Observations
    steady_from: int | None
    calibration: Calibration
    peak_rss_bytes: int
    facts: Mapping[str, Json]
    elapsed_s: float = 0.0

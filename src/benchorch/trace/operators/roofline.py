"""Roofline position of an operator's call: its distance from the limit, and which limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchorch.trace.operators.flops import ArithmeticWork
from benchorch.units import NS_PER_S

LATENCY_FLOORS = 2.0
"""A kernel below so many launch floors is too short for its arithmetic or bytes to matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak rates of a machine.

    Attributes:
        flops_per_s: by dtype as PyTorch spells it; ``float32`` stands in for a missing one.
        bytes_per_s: of its memory.
        launch_floor_ns: the shortest useful kernel; 0 where nothing is launched.
        source: ``measured`` here, or from a ``data sheet``.
        caveats: restrictions on their use.
        promised: share of the machine's data sheet, as a sentence, where there is one.
    """

    flops_per_s: Mapping[str, float]
    bytes_per_s: float
    launch_floor_ns: float = 0.0
    source: str = "measured"
    caveats: tuple[str, ...] = field(default=())
    promised: str = ""

    def flops_of(self, dtype: str) -> float | None:
        """The peak that applies to a dtype; None where there is none."""
        return self.flops_per_s.get(dtype) or self.flops_per_s.get("float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePosition:
    """Where a call stands under the roofline.

    Attributes:
        intensity: operations per byte.
        attained_flops_per_s: its own rate.
        ceiling_flops_per_s: ``min(peak, intensity * bandwidth)``.
        least_ns: ``max(flops / peak, bytes / bandwidth)``: as fast as the roofline allows.
        efficiency_ratio: `least_ns` over the observed time, which is attained over ceiling.
        bound: ``compute``, ``memory`` or ``latency``: which side is the nearer limit.
    """

    intensity: float
    attained_flops_per_s: float
    ceiling_flops_per_s: float
    least_ns: float
    efficiency_ratio: float
    bound: str


def least_ns(work: ArithmeticWork, peaks: Peaks) -> float | None:
    """The time that the roofline allows; None where no peak applies.

    Parameters
    ----------
    work : Work
    peaks : Peaks
        Of the device that ran it, in units per second, > 0.

    Returns
    -------
    float or None
        Nanoseconds, ``max(flops / peak, bytes / bandwidth)``.

    Source
    ------
    Williams, Waterman, Patterson, *Roofline*, CACM 52(4), 2009.
    """
    peak = peaks.flops_of(work.dtype)
    if not peak or peaks.bytes_per_s <= 0:
        return None
    return NS_PER_S * max(work.flops / peak, work.bytes / peaks.bytes_per_s)


def roofline_position(
    work: ArithmeticWork, duration_ns: float, peaks: Peaks
) -> RooflinePosition | None:
    """Where a call of this duration stands; None where no peak applies or it took no time."""
    least = least_ns(work, peaks)
    peak = peaks.flops_of(work.dtype)
    if least is None or peak is None or duration_ns <= 0 or not least:
        return None
    intensity = work.flops / work.bytes if work.bytes else float("inf")
    compute = work.flops / peak >= work.bytes / peaks.bytes_per_s
    short = duration_ns < LATENCY_FLOORS * peaks.launch_floor_ns
    return RooflinePosition(
        intensity=intensity,
        attained_flops_per_s=work.flops / duration_ns * NS_PER_S,
        ceiling_flops_per_s=min(peak, intensity * peaks.bytes_per_s),
        least_ns=least,
        efficiency_ratio=least / duration_ns,
        bound="latency" if short else "compute" if compute else "memory",
    )

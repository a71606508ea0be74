"""Agreement of benchorch's timing with a bare loop around the same call."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchorch.domain.estimate import Estimate
from benchorch.hardware.cpu import CpuClock
from benchorch.host.advice import BAD, GOOD, NOTE
from benchorch.host.bare_loop import bare_blocks_ns
from benchorch.host.pinning import pinned
from benchorch.interfaces.hardware import Clock
from benchorch.scenarios.series import sized
from benchorch.stats.quantiles import quantile
from benchorch.units import s_to_ns

PAIRS = 60
SLICE_S = 0.005
# How far from the bare loop's time a timed call may be.
GOAL_RATIO = 0.01
# A search through it fails within some microseconds. A loop of the interpreter would not do: the
# addresses of its objects shift it by 5 to 20 % between slices.
_HAYSTACK = bytes(400_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One call, timed by benchorch and by a bare loop, interleaved.

    Attributes:
        ratio: benchorch's time over the bare loop's, the median over pairs of slices.
        bare_ratio: the same of the bare loop over itself, the limit of this machine.
        band_ratio: what this machine can tell: 1 %, or twice the bare loop's distance from itself.
    """

    ratio: Estimate
    bare_ratio: Estimate
    band_ratio: float

    @property
    def weight(self) -> str:
        """Good where the whole interval is as asked, bad where it misses the band, else unknown."""
        low, high = _ends(self.ratio)
        if low >= 1 - GOAL_RATIO and high <= 1 + GOAL_RATIO:
            return GOOD
        return NOTE if self.agrees else BAD

    @property
    def agrees(self) -> bool:
        """Whether the ratio's interval overlaps the band."""
        low, high = _ends(self.ratio)
        return low <= 1 + self.band_ratio and high >= 1 - self.band_ratio


def agreement(
    call: Callable[[], object] | None = None,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    timed: Callable[[Callable[[], object], int], list[int]] | None = None,
) -> Agreement:
    """Time by benchorch, the bare loop and the bare loop again, in slices of 5 ms in random order.

    Of each slice the 10th percentile is compared, which interruptions do not reach. Blocks are
    sized and timed as in any trial, and the bare loop's hold as many calls.

    Args:
        call: the timed function; by default a search that takes some microseconds.
        pairs: of slices; at least 6, below which a median has no interval.
        timed: stands in for benchorch's own timing: durations of blocks of that many calls.
    """
    call = call or _search
    repeats, candidate = _own_timing(call)
    sides: Mapping[str, Callable[[], list[int]]] = {
        "candidate": candidate if timed is None else lambda: timed(call, repeats),
        "bare": lambda: bare_blocks_ns(call, repeats, s_to_ns(SLICE_S)),
        "again": lambda: bare_blocks_ns(call, repeats, s_to_ns(SLICE_S)),
    }
    with pinned(1):
        rounds = _rounds(sides, pairs, random.Random(seed))
    ratios = [one["candidate"] / one["bare"] for one in rounds]
    bare_ratios = [one["again"] / one["bare"] for one in rounds]
    ratio, bare_ratio = (
        quantile(values, 0.5, unit="ratio", level_ratio=0.95) for values in (ratios, bare_ratios)
    )
    if ratio is None or bare_ratio is None:
        raise ValueError(f"{pairs} pairs are too few for an interval")
    widest = max(abs(end - 1) for end in _ends(bare_ratio))
    band_ratio = max(GOAL_RATIO, 2 * widest)
    return Agreement(ratio=ratio, bare_ratio=bare_ratio, band_ratio=band_ratio)


def _search() -> None:
    _HAYSTACK.find(b"x")


def _own_timing(call: Callable[[], object]) -> tuple[int, Callable[[], list[int]]]:
    """Number of calls in a block of benchorch's, and a slice of further blocks of as many.

    Sized once, as in any process of a trial: the 10th percentile of long blocks is above that of
    short ones where the machine's speed varies, so both loops need blocks of one length.
    """
    clock: Clock = CpuClock()
    series = sized([call], clock, clock.calibrate())

    def slice_() -> list[int]:
        first = len(series.durations_ns)
        ends_ns = clock.now_ns() + s_to_ns(SLICE_S)
        while clock.now_ns() < ends_ns:
            series.add_blocks()
        return list(series.durations_ns[first:])

    return series.repeats, slice_


def _rounds(
    sides: Mapping[str, Callable[[], list[int]]], count: int, order: random.Random
) -> list[dict[str, float]]:
    """The 10th percentile of each side's slice, round by round, after one to warm up."""
    found = []
    for _ in range(count + 1):
        names = order.sample(sorted(sides), len(sides))
        found.append({name: _tenth_percentile(sides[name]()) for name in names})
    return found[1:]


def _tenth_percentile(blocks_ns: list[int]) -> float:
    return float(sorted(blocks_ns)[len(blocks_ns) // 10])


def _ends(estimate: Estimate) -> tuple[float, float]:
    low, high = estimate.low, estimate.high
    return (estimate.value if low is None else low, estimate.value if high is None else high)

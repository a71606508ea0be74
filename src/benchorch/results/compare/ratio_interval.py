"""The interval of a ratio from the two intervals of its parts."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from benchorch.domain.estimate import Estimate
from benchorch.results.compare.machine_change import Difference
from benchorch.stats.quantiles import standard_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioInterval:
    """Ends of a logarithm of a ratio, and the p-value of the ratio being 1."""

    low: float
    high: float
    p_value: float


def ratio_interval(
    above: Estimate,
    below: Estimate,
    *,
    alpha: float,
    machine: Difference | None = None,
    session: Difference | None = None,
) -> RatioInterval | None:
    """The interval of ``log(above / below)``; None where a side has none, or one with a zero in it.

    Estimator: the distances from each estimate to the end that matters, on logarithms, added as
    independent standard errors are; for another error rate than that of the two intervals, scaled
    as a normal's would be. It keeps whatever asymmetry the two intervals have. Swapping the two
    mirrors it. What the machine changed by may be in the ratio wholly or not at all: the interval
    holds both the ratio as it is and the ratio less that change. Where several sessions show which
    of the two repeats better, it holds that one.

    Args:
        machine: ``log(above / below)`` of the machine's own speed; None where it does not count.
        session: what else sessions differ by, as several show it or as it is assumed; None where
            it does not count.

    Source
    ------
    Zou and Donner, *Construction of confidence limits about effect measures*, 2008 (MOVER).
    """
    ends = (above.low, above.value, above.high, below.low, below.value, below.high)
    if not all(end is not None and 0 < end < math.inf for end in ends):
        return None
    low, mid, high, other_low, other_mid, other_high = (math.log(end or 1) for end in ends)
    scale, other = (_z(alpha) / standard_errors(one) for one in (above, below))
    among = 0.0 if session is None else session.reach(alpha)
    down = math.hypot(scale * (mid - low), other * (other_high - other_mid), among)
    up = math.hypot(scale * (high - mid), other * (other_mid - other_low), among)
    found = [_Shifted(mid - other_mid, down, up)]
    is_shown = session is not None and not session.assumed
    if machine is not None and (not is_shown or (session and session.explained)):
        more = machine.reach(alpha)
        shifted = mid - other_mid - machine.centre
        found.append(_Shifted(shifted, math.hypot(down, more), math.hypot(up, more)))
        found = found[1:] if is_shown else found
    return RatioInterval(
        low=min(one.centre - one.down for one in found),
        high=max(one.centre + one.up for one in found),
        p_value=_p_value(found, alpha),
    )


@dataclass(frozen=True, slots=True)
class _Shifted:
    """A centre with the distances of its interval's ends."""

    centre: float
    down: float
    up: float

    def deviations(self) -> float:
        """How many half-widths it is away from 0, with its sign."""
        towards = self.down if self.centre > 0 else self.up
        if towards == 0:
            return math.copysign(math.inf, self.centre) if self.centre else 0.0
        return self.centre / towards


def _p_value(found: list[_Shifted], alpha: float) -> float:
    away = [one.deviations() for one in found]
    if min(away) <= 0 <= max(away):
        return 1.0
    return 2 * NormalDist().cdf(-min(map(abs, away)) * _z(alpha))


def _z(alpha: float) -> float:
    return NormalDist().inv_cdf(1 - alpha / 2)

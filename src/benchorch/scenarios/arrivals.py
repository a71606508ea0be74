"""Arrival schedules, fixed before a run by a seed alone."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchorch.units import NS_PER_S

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Kind = Literal["poisson", "constant", "bursty"]

# How long one state of a bursty stream lasts, in mean gaps between queries.
STATE_GAPS = 100
_SEED_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Distribution of the gaps between queries.

    Attributes:
        kind: ``poisson`` (independent users), ``constant`` (a metronome) or ``bursty`` (periods of
            many queries and of few in alternation).
        cv: of the gaps of a bursty stream: their standard deviation over their mean, which is 1
            where arrivals are Poisson.
    """

    kind: Kind = "poisson"
    cv: float = 2.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"arrivals: one of {', '.join(KINDS)}; got {self.kind!r}")
        if not 1 <= self.cv <= _most_cv():
            raise ValueError(f"cv: from 1 to {_most_cv():.3g}; got {self.cv}")

    def due_ns(self, count: int, rate_per_s: float, seed: int) -> list[int]:
        """Due time of each query in whole nanoseconds from the start.

        The same on every machine: random numbers are PCG64's own bits, whose stream NumPy keeps
        from version to version, and times are rounded before they are compared.

        Returns
        -------
        list of int, length `count`
            Never falling, all above 0.
        """
        return _KINDS[self.kind](count, rate_per_s, seed, self.cv)


def _poisson(count: int, rate_per_s: float, seed: int, _: float) -> list[int]:
    """Independent exponential gaps."""
    return _in_ns(_exponentials(count, seed).cumsum(), rate_per_s)


def _constant(count: int, rate_per_s: float, _: int, __: float) -> list[int]:
    """Equal gaps."""
    return [round(number * NS_PER_S / rate_per_s) for number in range(1, count + 1)]


def _bursty(count: int, rate_per_s: float, seed: int, cv: float) -> list[int]:
    """A Poisson stream whose rate switches between two values; each lasts equally long on average.

    With rates ``1 + d`` and ``1 - d`` and switching at rate ``s``, all in units of the mean rate,
    the gaps' squared coefficient of variation is ``2 (1 + 2 s) / (1 + 2 s - d**2) - 1``, from the
    moments of the phase-type gap; here it is solved for ``d``.

    Source
    ------
    Fischer and Meier-Hellstern, *The Markov-modulated Poisson process (MMPP) cookbook*,
    Performance Evaluation 18 (1993).
    """
    import numpy as np

    swing = math.sqrt((1 + 2 / STATE_GAPS) * (1 - 2 / (cv**2 + 1)))
    states = 2 + 4 * math.ceil(count / STATE_GAPS)
    drawn = _exponentials(count + states + 1, seed)
    targets = drawn[:count].cumsum()
    lasts = drawn[count : count + states] * STATE_GAPS
    starts_busy = bool(drawn[-1] > math.log(2))
    rates = np.where(np.arange(states) % 2 == (0 if starts_busy else 1), 1 + swing, 1 - swing)
    while (rates @ lasts) <= targets[-1]:  # the states drawn do not last for all queries
        lasts, rates = np.tile(lasts, 2), np.tile(rates, 2)
    ends = np.concatenate(([0.0], lasts.cumsum()))
    offered = np.concatenate(([0.0], (rates * lasts).cumsum()))
    return _in_ns(np.interp(targets, offered, ends), rate_per_s)


def _exponentials(count: int, seed: int) -> NDArray[float64]:
    """Independent exponential numbers of mean 1, shape (count,), by inversion."""
    import numpy as np

    bits = np.random.PCG64(seed).random_raw(count)
    uniform = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return -np.log1p(-uniform)


def _in_ns(gaps: NDArray[float64], rate_per_s: float) -> list[int]:
    """Times in mean gaps as whole nanoseconds; none at the very start."""
    import numpy as np

    due = np.maximum(np.rint(gaps * (NS_PER_S / rate_per_s)), 1.0)
    return [int(time) for time in due.tolist()]


def _most_cv() -> float:
    """The cv at which the calmer state of a bursty stream has rate 0."""
    lull = 1 + 2 / STATE_GAPS
    return math.sqrt(2 * lull / (lull - 1) - 1)


_KINDS = {"poisson": _poisson, "constant": _constant, "bursty": _bursty}
KINDS = tuple(_KINDS)


def fresh_seed() -> int:
    """A random seed."""
    return secrets.randbits(_SEED_BITS)


def seeds(seed: int, count: int) -> list[int]:
    """`count` seeds derived from one."""
    import numpy as np

    bits = np.random.PCG64(seed).random_raw(count)
    return [int(number) for number in (bits >> np.uint64(64 - _SEED_BITS)).tolist()]

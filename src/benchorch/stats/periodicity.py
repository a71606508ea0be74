"""Detection of oscillations too slow for the window of a measurement."""

import numpy as np
from numpy.typing import ArrayLike

from benchorch.stats.steady_state import median

LEAST_PERIODS = 5
LEAST_SWING_RATIO = 0.01
_ALPHA = 0.001
_MOST_POINTS = 400


def slow_period(durations_ns: ArrayLike) -> int | None:
    """How many of its periods a window holds, if they are too few to average over; else None.

    Estimator: the strongest line in the spectrum of at most 400 medians of consecutive blocks,
    where Fisher's test finds it at 0.1 %, it swings by more than 1 % of the median, and the
    window holds fewer than five of its periods.

    Parameters
    ----------
    durations_ns : array_like, shape (n,), in order of time
        None for n < 40, where a spectrum has too few lines to test one.

    Source
    ------
    Fisher, *Tests of significance in harmonic analysis*, 1929; the first term of its series.
    """
    series = np.asarray(durations_ns, dtype=np.float64)
    if series.size < 10 * (LEAST_PERIODS - 1):
        return None
    group = -(-series.size // _MOST_POINTS)
    points = median(series[: series.size // group * group].reshape(-1, group), axis=1)
    lines = np.abs(np.fft.rfft(points - points.mean()))[1:]
    power = lines**2
    if power.sum() == 0:
        return None
    strongest = int(np.argmax(power))
    share = float(power[strongest] / power.sum())
    chance = power.size * (1.0 - share) ** (power.size - 1)
    swing = 2.0 * 2.0 * float(lines[strongest]) / points.size
    found = chance < _ALPHA and swing > LEAST_SWING_RATIO * abs(float(median(points)))
    periods = strongest + 1
    return periods if found and periods < LEAST_PERIODS else None

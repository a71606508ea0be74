"""A reference answer: simple estimators that show which cells can be met, and how well.

Nothing here is meant as the best method, only as a sane one. Numpy and scipy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, t

from statistics_corpus.adapter import (
    Array,
    Flags,
    Gate,
    Indices,
    Interval,
    Ratio,
    Run,
    Session,
    Table,
    Trial,
    Verdict,
)

NOT_KNOWN = (math.nan, math.nan)
LEVEL = 0.95
LOOKS = (5, 8, 12, 18, 27, 40)
LOOK_ALPHA = 0.0115
"""The level of each of the six looks that keeps 5 % over all of them."""

LOWER, UPPER = 2.6, 4.0
"""Errors to either side of a percentile under load: its count of exceedances is skewed."""

STATED_SESSION = 0.03
"""The session effect that is assumed where no history tells."""

FEW_MARGIN = 1.05
"""How many pooled standard deviations beyond the range of three or four processes."""


@cache
def ranks(n: int) -> tuple[int, int, float]:
    """Order statistics (from 0) whose interval holds a median, and a share of the next ones.

    The share interpolates to the level as Hettmansperger and Sheather do.
    """
    inner = n // 2
    for r in range(1, n // 2 + 1):
        if 1.0 - 2.0 * binom.cdf(r - 1, n, 0.5) < LEVEL:
            inner = r
            break
    if inner <= 1:
        return 0, n - 1, 0.0
    outer = inner - 1
    wide = 1.0 - 2.0 * binom.cdf(outer - 1, n, 0.5)
    narrow = 1.0 - 2.0 * binom.cdf(inner - 1, n, 0.5)
    part = (wide - LEVEL) / (wide - narrow)
    share = (n - outer) * part / (outer + (n - 2 * outer) * part)
    return outer - 1, n - outer, float(min(share, 0.5))


def order_interval(values: Array) -> tuple[float, float]:
    """An interval for the median from order statistics."""
    ordered = np.sort(values)
    low, high, share = ranks(len(values))
    if high - low < 3:
        share = 0.0
    return (
        float(ordered[low] + share * (ordered[min(low + 1, high)] - ordered[low])),
        float(ordered[high] - share * (ordered[high] - ordered[max(high - 1, low)])),
    )


def without_phases(trial: Trial, peers: Sequence[Trial]) -> tuple[Array, list[Array]]:
    """Log medians; where the reference workload moves by more than 2 %, at its quiet level."""
    logs = [np.log(one.medians) for one in (trial, *peers)]
    if not peers and len(trial.references) < 5:
        return logs[0], []
    marks = [np.log(one.references) for one in (trial, *peers)]
    everything = np.concatenate(marks)
    if everything.std() < 0.02:
        return logs[0], logs[1:]
    quiet = everything[everything <= (everything.min() + everything.max()) / 2.0].mean()
    level = [log - (mark - quiet) for log, mark in zip(logs, marks, strict=True)]
    return level[0], level[1:]


class Reference:
    """The judge's own answers."""

    estimand: Literal["median", "geometric mean"] = "median"
    tail_estimand: Literal["pooled", "process"] = "pooled"

    def headline(self, trial: Trial, peers: Sequence[Trial]) -> Interval:
        """Order statistics from five on; below, t with the variance of all trials of the run."""
        logs, others = without_phases(trial, peers)
        n = len(logs)
        point = float(np.exp(np.median(logs)))
        if n < 3:
            return Interval(point, *NOT_KNOWN)
        if n >= 5:
            low, high = order_interval(logs)
        else:
            groups = [logs, *(other for other in others if len(other) > 1)]
            freedom = sum(len(group) - 1 for group in groups)
            squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
            spread = math.sqrt(squares / freedom)
            if freedom >= 8:
                low = float(logs.min()) - FEW_MARGIN * spread
                high = float(logs.max()) + FEW_MARGIN * spread
            else:
                half = t_ppf(LEVEL, freedom) * spread / math.sqrt(n)
                low, high = float(logs.mean()) - half, float(logs.mean()) + half
        if high - low > math.log(2.0):
            return Interval(point, *NOT_KNOWN)
        return Interval(point, math.exp(low), math.exp(high))

    def headline_of_calls(self, series: Sequence[Array]) -> Interval:
        """The same from the median of each process."""
        medians = np.array([np.median(calls) for calls in series])
        return self.headline(Trial(medians, np.ones(len(medians))), [])

    def modes(self, medians: Array) -> int:
        """Two where one gap is far larger than a single normal law would leave."""
        ordered = np.sort(np.log(medians))
        n = len(ordered)
        if n < 8:
            return 1
        best = 0.0
        for cut in range(2, n - 1):
            left, right = ordered[:cut], ordered[cut:]
            within = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())
            gap = float(right.mean() - left.mean())
            best = max(best, gap / math.sqrt(within / (n - 2) + 1e-12))
        return 2 if best > 5.5 else 1

    def quantile(self, series: Sequence[Array], q: float) -> Interval | None:
        """Process effects and calls apart: generalised pivots of a random-effects model.

        A percentile of all calls is that of residuals convolved with a normal process effect
        whose mean and variance are drawn from what the data leave open (t and chi-squared), at
        a level drawn from what the effective number of calls leaves open (beta). The ends are
        those of 97 %, because process effects need not be normal. Calls that remember more than
        ten others get none: how often a process is slow then differs, too.
        """
        count = len(series)
        if count < 3:
            return None
        logs = [np.log(calls) for calls in series]
        memory = float(np.mean([remembered(log) for log in logs]))
        if memory > 10.0:
            return None
        calls = sum(len(log) for log in logs) / memory
        if 1.0 - q**calls < LEVEL / 2.0 + 0.5:
            return None
        means = np.array([log.mean() for log in logs])
        residuals = np.sort(np.concatenate([log - log.mean() for log in logs]))
        within = float(np.mean([log.var() * memory / len(log) for log in logs]))
        rng = np.random.default_rng(int(np.abs(means.sum() * 1e9)) % 2**32)
        between = float(((means - means.mean()) ** 2).sum())
        drawn = 600
        total = between / rng.chisquare(count - 1, drawn)
        spread = np.sqrt(np.maximum(total - within, 1e-8))
        middle = means.mean() + np.sqrt(total / count) * rng.standard_normal(drawn)
        level = rng.beta(q * (calls + 1.0), (1.0 - q) * (calls + 1.0), drawn)
        points, weights = thinned(residuals)
        grid = np.geomspace(spread.min(), spread.max() * 1.0001, 6)
        places = np.linspace(
            np.quantile(residuals, max(0.0, 3.0 * q - 2.0)) - spread.max(),
            residuals[-1] + 3.5 * spread.max(),
            90,
        )
        table = np.empty((len(grid), drawn))
        for row, sd in enumerate(grid):
            below = ndtr((places[:, None] - points) / sd) @ weights
            table[row] = np.interp(level, below, places)
        at = np.log(spread / grid[0]) / np.log(grid[-1] / grid[0]) * (len(grid) - 1)
        left = np.clip(at.astype(int), 0, len(grid) - 2)
        part = at - left
        columns = np.arange(drawn)
        values = middle + (1.0 - part) * table[left, columns] + part * table[left + 1, columns]
        low, point, high = np.quantile(values, [0.014, 0.5, 0.986])
        if high - low > math.log(2.0):
            return None
        return Interval(math.exp(point), math.exp(low), math.exp(high))

    def throughput(self, series: Sequence[Array]) -> Interval | None:
        """One over the mean of process means; none where the tail has no variance (Hill)."""
        everything = np.concatenate(list(series))
        excess = np.sort(everything - np.median(everything))
        top = max(20, len(excess) // 40)
        threshold = excess[-top - 1]
        if threshold <= 0.0:
            return None
        if 1.0 / float(np.mean(np.log(excess[-top:] / threshold))) < 2.3:
            return None
        means = np.array([calls.mean() for calls in series])
        if len(means) < 3:
            return None
        half = t_ppf(LEVEL, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
        centre = means.mean()
        if half >= centre:
            return None
        return Interval(1e9 / centre, 1e9 / (centre + half), 1e9 / (centre - half))

    def steady(self, series: Array) -> bool:
        """No slope over block means once up to 30 % of the calls are cut."""
        logs = np.log(series)
        n = len(logs)
        for cut in (0, n // 10, n // 5, (3 * n) // 10):
            part = logs[cut:]
            blocks = np.array([block.mean() for block in np.array_split(part, 20)])
            at = np.linspace(-0.5, 0.5, len(blocks))
            slope = float(at @ blocks / (at @ at))
            rest = blocks - blocks.mean() - slope * at
            error = math.sqrt(float(rest @ rest) / (len(blocks) - 2) / float(at @ at))
            if abs(slope) < 0.01 or abs(slope) < t_ppf(0.998, len(blocks) - 2) * error:
                return True
        return False

    def sides(self, processes: int) -> Flags:
        """Pairs of processes, each in an order drawn from the machine's own randomness."""
        rng = np.random.default_rng()
        first = np.repeat(rng.random((processes + 1) // 2) < 0.5, 2)
        first[1::2] = ~first[1::2]
        return first[:processes]

    def ratio(self, pairs: Array, first: Flags) -> Ratio:
        """A paired t of the logs with the position as a covariate."""
        gain, error, freedom = paired(pairs, first)
        if freedom < 1:
            return Ratio(math.exp(gain), *NOT_KNOWN, "inconclusive")
        half = t_ppf(LEVEL, freedom) * error
        return Ratio(
            math.exp(gain), math.exp(gain - half), math.exp(gain + half), verdict_of(gain, half)
        )

    def position(self, pairs: Array, first: Flags) -> Interval:
        """The other coefficient of the same regression."""
        logs = np.log(pairs[:, 1] / pairs[:, 0])
        n, ours = len(logs), int(first.sum())
        if ours < 2 or n - ours < 2:
            return Interval(1.0, *NOT_KNOWN)
        one, other = logs[first], logs[~first]
        effect = other.mean() - one.mean()
        squares = ((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()
        error = math.sqrt(squares / (n - 2) * (1.0 / ours + 1.0 / (n - ours)))
        half = t_ppf(LEVEL, n - 2) * error
        return Interval(math.exp(effect), math.exp(effect - half), math.exp(effect + half))

    def table(self, pairs: Array, first: Flags) -> Table:
        """Six looks; the level of a look is divided by the candidates, half of it for the winner.

        A candidate goes on while it has no verdict or while it could be the fastest and others
        could, too.
        """
        count, most = first.shape
        level = 1.0 - LOOK_ALPHA / (2.0 * count)
        verdicts: list[Verdict] = ["inconclusive"] * count
        used = [0] * count
        state = np.zeros((count + 1, 2))
        going = set(range(count))
        best = frozenset([*range(count), -1])
        for look in LOOKS:
            if look > most or not going:
                break
            for i in going:
                gain, error, freedom = paired(pairs[i, :look], first[i, :look])
                half = t_ppf(level, freedom) * error
                state[i] = gain, half
                used[i] = look
                if verdicts[i] == "inconclusive":
                    verdicts[i] = verdict_of(gain, half)
            leader = int(np.argmax(state[:count, 0]))
            top, reach = (
                (0.0, 0.0) if state[leader, 0] <= 0.0 else (state[leader, 0], state[leader, 1])
            )
            gaps = top - state[:, 0] - np.hypot(reach, state[:, 1])
            names = [*range(count), -1]
            chief = -1 if top == 0.0 else leader
            best = frozenset(
                name for name, gap in zip(names, gaps, strict=True) if gap <= 0.0 or name == chief
            )
            going = {
                i
                for i in range(count)
                if verdicts[i] == "inconclusive" or (i in best and len(best) > 1)
            }
        return Table(verdicts, used, best)

    def schedule(self, trials: int, processes: int) -> Indices:
        """Rounds, each in an order of its own."""
        rng = np.random.default_rng()
        return np.concatenate([rng.permutation(trials) for _ in range(processes)])

    def interferes(self, alone: Array, paired: Array) -> bool:
        """A paired t at the looks with their level."""
        logs = np.log(paired / alone)
        for look in LOOKS:
            if look > len(logs):
                break
            part = logs[:look]
            error = part.std(ddof=1) / math.sqrt(look)
            if abs(part.mean()) > t_ppf(1.0 - LOOK_ALPHA, look - 1) * error:
                return True
        return False

    def compare(self, old: Session, new: Session, history: Sequence[Session]) -> Ratio:
        """The p50 (with the reference workload as covariate where that is steadier)."""
        change = min(changes(old, new, history)[:2], key=lambda one: one.reach)
        verdict = verdict_of(-change.value, change.reach)
        return Ratio(
            math.exp(-change.value),
            math.exp(-change.value - change.reach),
            math.exp(-change.value + change.reach),
            verdict,
        )

    def gate(self, old: Session, new: Session, limit: float, history: Sequence[Session]) -> Gate:
        """The steadiest of p50, p50 over the reference workload, and floor."""
        change = min(changes(old, new, history), key=lambda one: one.reach)
        edge = math.log1p(limit)
        one_sided = t_ppf(0.90, change.freedom) * change.error
        if change.value - one_sided > edge:
            return Gate("regression", None)
        if change.value + one_sided < edge:
            return Gate("passed", None)
        return Gate("cannot_tell", further(change, edge, len(new.medians)))

    def duel(self, pairs: Array, floors: Array, first: Flags, limit: float) -> Gate:
        """The steadier of medians and floors, paired."""
        edge = math.log1p(limit)
        gain, error, freedom = min((paired(pairs, first), paired(floors, first)), key=second)
        half = t_ppf(0.90, freedom) * error
        if -gain - half > edge:
            return Gate("regression", None)
        if -gain + half < edge:
            return Gate("passed", None)
        return Gate("cannot_tell", float(len(first)))

    def response_quantile(self, runs: Sequence[Run], q: float) -> Interval | None:
        """Cycles of the queue are independent; too short runs only get "at least"."""
        responses, lengths, labels = [], [], []
        offset = 0
        memory = 0.0
        for run in runs:
            done = run.due + run.response
            idle = np.concatenate([[True], run.due[1:] >= done[:-1] - 1e-6])
            start = np.maximum(run.due, np.concatenate([[0.0], done[:-1]]))
            service = done - start
            load = min(float(service.sum() / (done[-1] - run.due[0])), 0.999)
            spread = float(service.var() / service.mean() ** 2)
            memory = max(memory, (1.0 + spread) * load / (1.0 - load) ** 2)
            label = np.cumsum(idle) - 1 + offset
            offset = int(label[-1]) + 1
            responses.append(run.response)
            labels.append(label)
            lengths.append(len(run.due))
        response = np.concatenate(responses)
        cycle = np.concatenate(labels)
        point = float(np.quantile(response, q))
        above = np.bincount(cycle, weights=(response > point) * 1.0)
        size = np.bincount(cycle)
        error = math.sqrt(float(((above - (1.0 - q) * size) ** 2).sum())) / len(response)
        rate = error / (1.0 - q)
        low = float(np.quantile(response, max(0.0, 1.0 - (1.0 - q) * math.exp(LOWER * rate))))
        if min(lengths) / memory < 250.0 or rate > 0.5:
            return Interval(point, low, math.inf)
        high = float(np.quantile(response, 1.0 - (1.0 - q) * math.exp(-UPPER * rate)))
        return Interval(point, low, high)


class Change(NamedTuple):
    """A log change between sessions: its error, that of the session alone, and its reach."""

    value: float
    error: float
    session: float
    freedom: float
    reach: float


def changes(old: Session, new: Session, history: Sequence[Session]) -> list[Change]:
    """Of p50, of p50 over the reference workload, and of the floor."""
    found = []
    statistics: tuple[Callable[[Session], Array], ...] = (
        lambda one: np.log(one.medians),
        lambda one: np.log(one.medians) - np.log(one.references),
        lambda one: np.log(one.floors),
    )
    for of in statistics:
        before, after = of(old), of(new)
        n, m = len(before), len(after)
        inside = before.var(ddof=1) / n + after.var(ddof=1) / m
        error2, freedom, session = float(inside), float(n + m - 2), 0.0
        if len(history) >= 3:
            means = np.array([of(one).mean() for one in (*history, old)])
            total = 2.0 * float(means.var(ddof=1))
            session = max(0.0, total - error2)
            if total > error2:
                error2, freedom = total, float(len(means) - 1)
        else:
            session = 2.0 * STATED_SESSION**2
            error2 += session
        error = math.sqrt(error2)
        found.append(
            Change(
                float(after.mean() - before.mean()),
                error,
                session,
                freedom,
                t_ppf(LEVEL, freedom) * error,
            )
        )
    return found


def further(change: Change, edge: float, n: int) -> float:
    """How many more processes would tell 0 from the limit; `inf` if sessions alone forbid it."""
    needed = (edge / (t_ppf(0.90, change.freedom) + 1.3)) ** 2
    inside = change.error**2 - change.session
    if change.session >= needed:
        return math.inf
    return max(1.0, math.ceil(n * inside / (needed - change.session)) - n)


def second(values: tuple[float, float, int]) -> float:
    """The middle one of three."""
    return values[1]


def paired(pairs: Array, first: Flags) -> tuple[float, float, int]:
    """Mean log gain, its standard error and degrees of freedom, the position taken out.

    Not before twelve pairs: two small groups on two levels would have almost no variance.
    """
    logs = np.log(pairs[:, 1] / pairs[:, 0])
    n, ours = len(logs), int(first.sum())
    if n < 3:
        return float(logs.mean()), math.inf, 0
    if n < 12 or min(ours, n - ours) < 4:
        return float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(n), n - 1
    one, other = logs[first], logs[~first]
    squares = ((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()
    error = 0.5 * math.sqrt(squares / (n - 2) * (1.0 / ours + 1.0 / (n - ours)))
    return float((one.mean() + other.mean()) / 2.0), error, n - 2


def verdict_of(gain: float, half: float) -> Verdict:
    """The verdict of a log gain and the half-width of its interval."""
    if gain - half > 0.0:
        return "faster"
    if gain + half < 0.0:
        return "slower"
    if abs(gain) + half < math.log(1.01):
        return "equivalent"
    return "inconclusive"


def remembered(logs: Array) -> float:
    """Integrated autocorrelation time, summed until it turns negative."""
    centred = logs - logs.mean()
    power = float(centred @ centred)
    if power <= 0.0:
        return 1.0
    total = 1.0
    for lag in range(1, len(logs) // 4):
        value = float(centred[lag:] @ centred[:-lag]) / power
        if value < 0.05:
            break
        total += 2.0 * value
    return total


def thinned(ordered: Array) -> tuple[Array, Array]:
    """Some 300 points with weights, each at most a fortieth of what lies above it."""
    n = len(ordered)
    ends, at = [0], 0
    while at < n:
        at += max(1, (n - at) // 40)
        ends.append(at)
    starts = np.array(ends[:-1])
    sizes = np.diff(ends)
    return np.add.reduceat(ordered, starts) / sizes, sizes / n


@cache
def t_ppf(level: float, freedom: float) -> float:
    """Student's two-sided critical value."""
    return float(t.ppf(0.5 + level / 2.0, freedom))

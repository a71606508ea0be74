"""How often the statistics are right: each experiment of the protocol as a function of its size.

The tests in ``protocol/`` run small ones; ``benchmarks/statistical_power.py`` runs those of full
power. Every one is seeded, and runs the code that real results go through.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchorch.domain.estimate import Comparison, Estimate
from benchorch.results.compare.gate import gated
from benchorch.results.metrics.single_process import median_of_one
from benchorch.results.metrics.speedup import Question, answers
from benchorch.stats.between_processes import over_processes
from benchorch.stats.heavy_tailed_mean import LEAST_INDEX, tail_index
from benchorch.stats.moderated_variance import ASSUMED, usual_spread
from benchorch.stats.quantiles import order_bounds, sample_quantile
from benchorch.stats.ratio_test import compare_pairs
from benchorch.stats.sequential_testing import look_alpha
from benchorch.stats.steady_state import steady_from
from benchorch.stats.variance_components import components
from benchorch.stopping.precision import Precision
from statistics_corpus.adapter import Session
from support.simulated_samples import (
    Array,
    Draw,
    Node,
    adjacent_medians,
    autoregressive,
    dies,
    log_ratios,
    pairs_of,
    process_effects,
    stopped_at,
    true_quantile,
)
from support.statistics_lab import verdict as session_verdict

CALL_NS = 10_000_000.0
BLOCKS = 400
_PLACES = np.arange(BLOCKS)

WARM_UPS: Mapping[str, Array] = {
    "flat": np.ones(BLOCKS),
    "step at 20": np.where(_PLACES < 20, 1.1, 1),
    "slow first call, step at 35": np.where(_PLACES == 0, 6, np.where(_PLACES < 35, 1.1, 1)),
    "2 % step at 60": np.where(_PLACES < 60, 1.02, 1),
    "exponential": 1 + 0.5 * np.exp(-_PLACES / 15),
    "step at 120": np.where(_PLACES < 120, 1.1, 1),
    "slowdown at 150": np.where(_PLACES < 150, 1, 1.1),
    "square wave": np.where(_PLACES // 40 % 2, 1.1, 1),
    "drift": 1 + 0.25 * _PLACES / BLOCKS,
}
SETTLING = [name for name in WARM_UPS if name not in ("square wave", "drift")]


def warm_up_series(name: str, rng: np.random.Generator, blocks: int = BLOCKS) -> Array:
    """One of `WARM_UPS` with 2 % noise and 2 % Pareto(2) spikes, in nanoseconds."""
    base = np.interp(np.linspace(0, BLOCKS - 1, blocks), _PLACES, WARM_UPS[name])
    spikes = (rng.random(blocks) < 0.02) * rng.pareto(2, blocks)
    return CALL_NS * base * (1 + rng.normal(0, 0.02, blocks) + spikes)


@dataclass(kw_only=True)
class Settled:
    """What the detector found in many series of one kind.

    Attributes:
        errors: of the steady median, relative to the level that the series ends on.
        lost: in how many no steady state was found.
        cut: in how many it begins later than the series.
    """

    errors: list[float] = field(default_factory=list)
    lost: int = 0
    cut: int = 0


def settle(name: str, series: int, seed: int = 0) -> Settled:
    rng, found = np.random.default_rng(seed), Settled()
    truth = WARM_UPS[name][-1] * CALL_NS
    for _ in range(series):
        drawn = warm_up_series(name, rng)
        start = steady_from(drawn)
        if start is None:
            found.lost += 1
        else:
            found.cut += start > 0
            found.errors.append(abs(float(np.median(drawn[start:])) / truth - 1))
    return found


def detector_cpu_s(blocks: int) -> float:
    """The least of five."""
    series = warm_up_series("step at 120", np.random.default_rng(0), blocks)
    took = []
    for _ in range(5):
        started = time.process_time()
        steady_from(series)
        took.append(time.process_time() - started)
    return min(took)


def order_statistics_cover(
    draw: Draw, n: int, replications: int, quantile_ratio: float = 0.5, seed: int = 0
) -> float:
    """How often the interval of a quantile of n independent calls holds it."""
    truth = true_quantile(draw, quantile_ratio)
    bounds = order_bounds(n, quantile_ratio)
    assert bounds is not None
    rng = np.random.default_rng(seed)
    covered = 0
    for part in _parts(replications):
        ordered = np.sort(draw(rng, (part, n)), axis=1)
        covered += int(np.sum((ordered[:, bounds[0]] <= truth) & (truth <= ordered[:, bounds[1]])))
    return covered / replications


def headline_covers(
    draw: Draw, calls: int, processes: int, replications: int, seed: int = 0
) -> float:
    """How often the interval over processes holds the median of all calls."""
    truth = true_quantile(draw, 0.5)
    rng = np.random.default_rng(seed)
    covered = 0
    for part in _parts(replications):
        medians = np.median(draw(rng, (part * processes, calls)), axis=1).reshape(part, processes)
        medians *= process_effects(rng, medians.shape, 0.01)
        covered += sum(_holds(over_processes(row, unit="ms"), truth) for row in medians)
    return covered / replications


def headline_covers_drift(trials: int, processes: int, replications: int, seed: int = 0) -> float:
    """The same on a machine that wanders by 3 %, each trial in every round in random order.

    The truth is what the machine was on average while the session lasted.
    """
    rng = np.random.default_rng(seed)
    shape = (replications, trials * processes)
    walk = np.cumsum(0.03 / math.sqrt(shape[1]) * rng.standard_normal(shape), axis=1)
    places = rng.integers(0, trials, (replications, processes)) + np.arange(0, shape[1], trials)
    medians = np.exp(np.take_along_axis(walk, places, axis=1))
    medians *= process_effects(rng, medians.shape, 0.01)
    truths = np.exp(walk.mean(axis=1))
    rows = zip(medians, truths, strict=True)
    return float(np.mean([_holds(over_processes(row, unit="ms"), truth) for row, truth in rows]))


def p99_covers(draw: Draw, processes: int, replications: int, calls: int = 500) -> float:
    """How often the interval over processes holds the p99 of all calls, where it is given."""
    truth = true_quantile(draw, 0.99)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(replications):
        own = [sample_quantile(row, 0.99) for row in draw(rng, (processes, calls))]
        factors = process_effects(rng, (1, processes), 0.01)[0]
        covered += _holds(over_processes(np.array(own) * factors, unit="ms"), truth)
    return covered / replications


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """What came of trials that stopped by themselves.

    Attributes:
        covered, converged: shares of all trials.
        too_wide: converged trials whose interval is wider than the target all the same.
    """

    covered: float
    converged: float
    too_wide: int


def stopped_trials(
    spread: float, replications: int, tail: str = "normal", seed: int = 0
) -> Stopped:
    """Headlines of trials that stop as soon as a look finds the target met.

    Args:
        tail: of how processes differ: ``normal`` or Student's ``t3``.
    """
    rng, rule = np.random.default_rng(seed), Precision()
    covered = converged = too_wide = 0
    for _ in range(replications):
        draws = rng.standard_t(3, 40) if tail == "t3" else rng.standard_normal(40)
        medians = (1e6 * np.exp(spread * draws)).tolist()
        count, reason = stopped_at(rule, medians, ())
        found = over_processes(medians[:count], unit="ms")
        covered += _holds(found, 1e6)
        if reason == "converged":
            converged += 1
            too_wide += _half_width(found) > rule.target_ratio
    return Stopped(
        covered=covered / replications, converged=converged / replications, too_wide=too_wide
    )


@dataclass(frozen=True, kw_only=True)
class Alone:
    """What single processes of correlated calls were given.

    Attributes:
        as_independent, by_stretches: shares of all series.
        covered: share of all intervals that were given; NaN where none was.
    """

    as_independent: float
    by_stretches: float
    covered: float


def single_processes(rho: float, n: int, replications: int, seed: int = 0) -> Alone:
    rng = np.random.default_rng(seed)
    found = [median_of_one(row, unit="ms") for row in autoregressive(rho)(rng, (replications, n))]
    given = [estimate for estimate in found if estimate is not None and estimate.low is not None]
    counted = sum("order-statistic" in estimate.method for estimate in given)
    covered = [_holds(estimate, 1.0) for estimate in given]
    return Alone(
        as_independent=counted / replications,
        by_stretches=(len(given) - counted) / replications,
        covered=float(np.mean(covered)) if covered else math.nan,
    )


def mean_refused(draw: Draw, n: int, replications: int, seed: int = 0) -> float:
    """How often no mean is given because of its tail."""
    drawn = draw(np.random.default_rng(seed), (replications, n))
    indices = [tail_index(row) for row in drawn]
    return float(np.mean([index is None or index < LEAST_INDEX for index in indices]))


def pareto(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.pareto(1.5, shape) + 1


def headline_width(processes: int, replications: int, seed: int = 0) -> float:
    """Median half-width of the headline over that of one who knows the spread of processes."""
    rng = np.random.default_rng(seed)
    medians = process_effects(rng, (replications, processes), 0.01)
    widths = [_half_width(over_processes(row, unit="ms")) for row in medians]
    return float(np.median(widths)) / math.expm1(1.959964 * 0.01 / math.sqrt(processes))


def single_width(n: int, replications: int, seed: int = 0) -> float:
    """The same for the median of n independent calls of one process."""
    drawn = np.random.default_rng(seed).standard_normal((replications, n))
    bounds = order_bounds(n, 0.5)
    assert bounds is not None
    ordered = np.sort(drawn, axis=1)
    half = np.median(ordered[:, bounds[1]] - ordered[:, bounds[0]]) / 2
    return float(half / (1.959964 * math.sqrt(math.pi / 2) / math.sqrt(n)))


def mean_components(replications: int, seed: int = 0) -> tuple[float, float, float]:
    """Average variances of call, process and node in 30 processes on 6 nodes.

    The truth is 2 %, 1 % and 3 %, squared.
    """
    rng = np.random.default_rng(seed)
    sums = np.zeros(3)
    for _ in range(replications):
        nodes = [
            [
                np.exp(level + 0.01 * rng.standard_normal() + 0.02 * rng.standard_normal(30))
                for _ in range(5)
            ]
            for level in 0.03 * rng.standard_normal(6)
        ]
        found = components(nodes)
        assert found is not None
        assert found.process is not None
        assert found.node is not None
        sums += (found.call, found.process, found.node)
    call, process, node = sums / replications
    return float(call), float(process), float(node)


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What came of many comparisons.

    Attributes:
        faster, slower, equivalent, material: shares of all.
        covered: share whose interval holds the true ratio.
        pairs: how many pairs the middle one took.
        half_width: the middle one's interval.
    """

    faster: float
    slower: float
    equivalent: float
    material: float
    covered: float
    pairs: float
    half_width: float

    @property
    def different(self) -> float:
        return self.faster + self.slower


UNHURRIED = Precision(target_ratio=0.99)
"""Stops for its comparison alone: whatever the headline is, it is good enough."""


def compared(
    node: Node,
    sessions: int,
    *,
    pairs: int | None = None,
    log_ratio: float = 0.0,
    delta_ratio: float = 0.01,
    seed: int = 0,
    deaths: bool = False,
    rule: Precision = UNHURRIED,
) -> Verdicts:
    """Comparisons of so many pairs each, or of as many as the rule wants.

    Args:
        deaths: whether a pair is lost in a fifth of all sessions.
    """
    rng = np.random.default_rng(seed)
    found: list[Comparison] = []
    for part in _parts(sessions, 500):
        ours, theirs = adjacent_medians(node, rng, part, pairs or 40, log_ratio)
        for mine, other in zip(ours, theirs, strict=True):
            kept = np.arange(mine.size, dtype=np.float64)
            kept = (dies(rng, kept) if deaths else kept).astype(int)
            found.append(_one(mine[kept], other[kept], pairs, rule, delta_ratio))
    return _tally(found, math.exp(log_ratio))


def _one(
    ours: Array, theirs: Array, pairs: int | None, rule: Precision, delta_ratio: float
) -> Comparison:
    count, alpha = ours.size, 0.05
    if pairs is None:
        ratios = log_ratios(ours, theirs).tolist()
        count, _ = stopped_at(rule, (1e6 * ours).tolist(), ratios)
        alpha = look_alpha(rule.looks)
    met = pairs_of(ours[:count].tolist(), theirs[:count].tolist())
    found = compare_pairs(met, "adjacent", delta_ratio=delta_ratio, alpha=alpha)
    assert found is not None
    return found


def _tally(found: Sequence[Comparison], truth: float) -> Verdicts:
    verdicts = [comparison.verdict for comparison in found]
    return Verdicts(
        faster=verdicts.count("faster") / len(found),
        slower=verdicts.count("slower") / len(found),
        equivalent=verdicts.count("equivalent") / len(found),
        material=sum(comparison.material for comparison in found) / len(found),
        covered=sum(_holds(comparison.ratio, truth) for comparison in found) / len(found),
        pairs=float(np.median([comparison.ratio.n for comparison in found])),
        half_width=float(np.median([_half_width(comparison.ratio) for comparison in found])),
    )


def interrupted(node: Node, sessions: int, seed: int = 0) -> float:
    """How often identical sides differ where the budget may end between any two pairs."""
    rng = np.random.default_rng(seed)
    ours, theirs = adjacent_medians(node, rng, sessions, 40)
    different = 0
    for mine, other in zip(ours, theirs, strict=True):
        ends = int(rng.integers(3, 41))
        ratios = log_ratios(mine, other)[:ends].tolist()
        count, _ = stopped_at(UNHURRIED, (1e6 * mine[:ends]).tolist(), ratios)
        met = pairs_of(mine[:count].tolist(), other[:count].tolist())
        found = compare_pairs(met, "adjacent", alpha=look_alpha(UNHURRIED.looks))
        different += found is not None and found.verdict in ("faster", "slower")
    return different / sessions


def naive_peeking(node: Node, sessions: int, seed: int = 0) -> float:
    """How often they differ for one who stops at the first p below 5 %, looking at every pair."""
    ours, theirs = adjacent_medians(node, np.random.default_rng(seed), sessions, 40)
    different = 0
    for ratios in log_ratios(ours, theirs):
        counts = np.arange(5, 41)
        means = np.array([ratios[:n].mean() for n in counts])
        errors = np.array([ratios[:n].std(ddof=1) / math.sqrt(n) for n in counts])
        from scipy.special import stdtr

        different += bool((2 * stdtr(counts - 1, -np.abs(means / errors)) < 0.05).any())
    return different / sessions


def false_winners(
    tables: int, variants: int, pairs: int, looks: tuple[int, ...] = (), seed: int = 0
) -> float:
    """In how many tables of identical candidates any of them is called faster or slower."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(tables):
        ours, theirs = adjacent_medians(Node(), rng, variants, pairs)
        questions = {
            str(i): Question(
                design="adjacent",
                pairs=pairs_of(mine.tolist(), other.tolist()),
                looks=looks,
                delta_ratio=0.01,
            )
            for i, (mine, other) in enumerate(zip(ours, theirs, strict=True))
        }
        found = answers(questions, "baseline").comparisons.values()
        wrong += any(comparison.verdict in ("faster", "slower") for comparison in found)
    return wrong / tables


FLOORS: Mapping[str, Draw] = {
    "lognormal 0.5 %": lambda rng, shape: np.exp(0.005 * rng.standard_normal(shape)),
    "lognormal 1.2 %": lambda rng, shape: np.exp(0.012 * rng.standard_normal(shape)),
    "30 % are 10 % slower": lambda rng, shape: _two_levels(rng, shape, 0.3),
    "half are 10 % slower": lambda rng, shape: _two_levels(rng, shape, 0.5),
    "1 + exponential 3 %": lambda rng, shape: 1 + rng.exponential(0.03, shape),
}
"""How the floors of processes of one session differ."""

OTHERS = 5


def _two_levels(rng: np.random.Generator, shape: tuple[int, int], slow: float) -> Array:
    return (1 + 0.1 * (rng.random(shape) < slow)) * np.exp(0.005 * rng.standard_normal(shape))


def gates(
    floors: Draw,
    processes: int,
    change: float,
    count: int,
    *,
    others: Draw | None = None,
    apart: float = 0.0,
    seed: int = 0,
) -> Counter[str]:
    """Outcomes of so many gates at a limit of 2 % whose medians scatter by 5 % more than floors.

    Args:
        change: by which share the new session's code takes longer.
        others: of the floors of `OTHERS` more trials in each session; None for none.
        apart: standard deviation of what floors of one code differ by from session to session.
    """
    rng, found = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        sides = []
        for slower in (1.0 + change, 1.0):
            own = slower * math.exp(apart * rng.standard_normal()) * floors(rng, (1, processes))[0]
            medians = 1.2 * own * np.exp(0.05 * rng.standard_normal(processes))
            references = 5e7 * np.exp(0.002 * rng.standard_normal(processes))
            more = [others(rng, (1, processes))[0] for _ in range(OTHERS)] if others else []
            usual = usual_spread([own, *more]) if others else ASSUMED
            sides.append((Session(medians, own, references), usual))
        (new, new_usual), (old, old_usual) = sides
        usuals = (new_usual, old_usual)
        by_floor = session_verdict(old, new, (), floor=True, usual=usuals)
        by_median = session_verdict(old, new, (), floor=False)
        found[gated(by_median, by_floor, 0.02).state] += 1
    return found


def standard_error(share: float, replications: int) -> float:
    """Of a share that was counted in so many replications."""
    return math.sqrt(share * (1 - share) / replications)


def _holds(found: Estimate | None, truth: float) -> bool:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


def _half_width(found: Estimate | None) -> float:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return math.sqrt(found.high / found.low) - 1


def _parts(total: int, size: int = 1000) -> Iterator[int]:
    """Shares of the work that fit into memory."""
    while total > 0:
        yield min(size, total)
        total -= size

"""Tables of candidates against one baseline with paired noise, and single comparisons.

The log ratio of a pair is log(baseline / candidate) = gain + position + noise. Two copies of one
code that are treated alike can only differ symmetrically, so every law of noise here is
symmetric about 0; what is not symmetric is the order of loading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from statistics_corpus.adapter import Adapter, Array, Flags, Trial, Verdict
from statistics_corpus.laws import CALL_NS, REFERENCE_NS, phase_states
from statistics_corpus.scoring import Cell, Play, Tally

Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]
MOST = 40
PROCESS_SD = 0.03


def gaussian(sd: float) -> Noise:
    """Normal noise."""
    return lambda rng, shape: sd * rng.standard_normal(shape)


def heavy(sd: float, freedom: float) -> Noise:
    """Student's noise, scaled to the standard deviation."""
    scale = sd / math.sqrt(freedom / (freedom - 2.0))
    return lambda rng, shape: scale * rng.standard_t(freedom, shape)


def two_levels(gap: float, share: float, sd: float) -> Noise:
    """Each side falls by itself into a slow mode."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        ours = (rng.random(shape) < share).astype(float)
        theirs = (rng.random(shape) < share).astype(float)
        noise: Array = gap * (ours - theirs) + sd * rng.standard_normal(shape)
        return noise

    return draw


def laplace(sd: float) -> Noise:
    """Noise with a peak."""
    return lambda rng, shape: rng.laplace(0.0, sd / math.sqrt(2.0), shape)


def growing(sd: float) -> Noise:
    """Noise that grows threefold along the trial."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        ramp = np.linspace(0.5, 1.5, shape[-1])
        return sd * ramp * rng.standard_normal(shape)

    return draw


@dataclass(frozen=True)
class Setting:
    """How a table is measured."""

    name: str
    noise: Noise
    position: float = 0.0
    """By how much whoever is loaded first is slower."""

    shared: float = 0.0
    """The share of a pair's variance that all candidates of a round have in common."""


def sides_of(tool: Adapter, rng: np.random.Generator, candidates: int, processes: int) -> Flags:
    """Who is loaded first, as the tool draws it; a fair coin where it does not say."""
    try:
        return np.array([tool.sides(processes) for _ in range(candidates)], dtype=bool)
    except NotImplementedError:
        return rng.random((candidates, processes)) < 0.5


def draw_table(
    tool: Adapter,
    rng: np.random.Generator,
    setting: Setting,
    gains: Sequence[float],
    processes: int = MOST,
) -> tuple[Array, Flags]:
    """Pairs of a table, `candidates x processes x (candidate, baseline)`, and who came first."""
    count = len(gains)
    first = sides_of(tool, rng, count, processes)
    own = setting.noise(rng, (count, processes))
    common = setting.noise(rng, (1, processes))
    noise = math.sqrt(1.0 - setting.shared) * own + math.sqrt(setting.shared) * common
    order = np.where(first, -0.5, 0.5) * setting.position
    logs = np.log1p(np.asarray(gains))[:, None] + order + noise
    process = PROCESS_SD * rng.standard_normal((count, processes))
    candidate = np.exp(process - logs / 2.0)
    baseline = np.exp(process + logs / 2.0)
    return np.stack([candidate, baseline], axis=2) * CALL_NS, first


def decided(verdict: Verdict) -> bool:
    """Whether a verdict names a difference."""
    return verdict in ("faster", "slower")


def wrong_table(gain: float, verdict: Verdict) -> bool:
    """Whether a verdict contradicts the truth."""
    if verdict == "faster":
        return gain <= 0.0
    if verdict == "slower":
        return gain >= 0.0
    if verdict == "equivalent":
        return abs(math.log1p(gain)) >= math.log(1.01) - 1e-12
    return False


def false_tables(setting: Setting, gains: Sequence[float]) -> Play:
    """In how many tables at least one verdict is false."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, gains)
            answer = tool.table(pairs, first)
            hits += any(wrong_table(g, v) for g, v in zip(gains, answer.verdicts, strict=True))
        return Tally(hits, reps, reps)

    return play


def verdict_power(setting: Setting, gains: Sequence[float], wanted: Verdict) -> Play:
    """How many candidates get the verdict that is true of them."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, gains)
            hits += sum(verdict == wanted for verdict in tool.table(pairs, first).verdicts)
        return Tally(hits, reps * len(gains), reps * len(gains))

    return play


def pairs_used(setting: Setting, gains: Sequence[float]) -> Play:
    """Pairs per candidate."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        used = []
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, gains)
            used.append(float(np.mean(tool.table(pairs, first).used)))
        return Tally(0, reps, reps, value=float(np.mean(used)))

    return play


def stopped_undecided(setting: Setting, gains: Sequence[float]) -> Play:
    """How many candidates stop before the last pair without a verdict."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, gains)
            answer = tool.table(pairs, first)
            hits += sum(
                verdict == "inconclusive" and used < MOST
                for verdict, used in zip(answer.verdicts, answer.used, strict=True)
            )
        return Tally(hits, reps * len(gains), reps * len(gains))

    return play


def best_set(setting: Setting, gains: Sequence[float], kind: str) -> Play:
    """Questions about the set of best: `holds` the best, is `alone` right or `falsely`."""
    everything = [*gains, 0.0]
    top = max(everything)
    names = [*range(len(gains)), -1]
    best = {name for name, gain in zip(names, everything, strict=True) if gain == top}

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, gains)
            said = set(tool.table(pairs, first).best)
            if kind == "holds":
                hits += best <= said
            elif kind == "alone":
                hits += said == best
            else:
                hits += len(said) == 1 and said != best
        return Tally(hits, reps, reps)

    return play


def single(setting: Setting, n: int, gain: float, count: Callable[[float, Verdict], bool]) -> Play:
    """A comparison of one candidate, without looks."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, [gain], n)
            hits += count(gain, tool.ratio(pairs[0], first[0]).verdict)
        return Tally(hits, reps, reps)

    return play


def ratio_coverage(setting: Setting, n: int, gain: float) -> Play:
    """How often the interval of the ratio holds the truth."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = given = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, [gain], n)
            answer = tool.ratio(pairs[0], first[0])
            if math.isfinite(answer.low) and math.isfinite(answer.high):
                given += 1
                hits += answer.low <= 1.0 + gain <= answer.high
        return Tally(hits, given, reps)

    return play


def position_coverage(setting: Setting, n: int) -> Play:
    """How often the reported effect of the position holds the true one."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        truth = math.exp(setting.position)
        hits = given = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, [0.0], n)
            answer = tool.position(pairs[0], first[0])
            if math.isfinite(answer.low) and math.isfinite(answer.high):
                given += 1
                hits += answer.low <= truth <= answer.high
        return Tally(hits, given, reps)

    return play


def mirrored(setting: Setting, n: int, gain: float) -> Play:
    """How often swapping the sides does not exactly invert the ratio and turn the verdict."""
    turned = {"faster": "slower", "slower": "faster"}

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, first = draw_table(tool, rng, setting, [gain], n)
            there = tool.ratio(pairs[0], first[0])
            back = tool.ratio(pairs[0][:, ::-1].copy(), ~first[0])
            same = turned.get(there.verdict, there.verdict) == back.verdict
            close = math.isclose(there.ratio * back.ratio, 1.0, rel_tol=1e-9)
            ends = math.isnan(there.low) or math.isclose(there.low * back.high, 1.0, rel_tol=1e-6)
            hits += not (same and close and ends)
        return Tally(hits, reps, reps)

    return play


def fair_sides(processes: int) -> Play:
    """In how many runs the candidate comes first; a run is one draw of the tool."""

    def play(tool: Adapter, _: np.random.Generator, reps: int) -> Tally:
        first = sum(int(np.sum(tool.sides(processes))) for _ in range(reps))
        return Tally(first, reps * processes, reps * processes)

    return play


def repeated_sides(processes: int) -> Play:
    """How often two runs draw the same order."""

    def play(tool: Adapter, _: np.random.Generator, reps: int) -> Tally:
        hits = sum(
            bool(np.array_equal(tool.sides(processes), tool.sides(processes))) for _ in range(reps)
        )
        return Tally(hits, reps, reps)

    return play


def interference(setting: Setting, effect: float, wanted: bool) -> Play:
    """How often the pair is said to slow its baseline, at any look up to the last process."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            process = PROCESS_SD * rng.standard_normal(MOST)
            noise = setting.noise(rng, (2, MOST))
            alone = np.exp(process + noise[0] / math.sqrt(2.0)) * CALL_NS
            paired = np.exp(process + noise[1] / math.sqrt(2.0) + math.log1p(effect)) * CALL_NS
            hits += tool.interferes(alone, paired) == wanted
        return Tally(hits, reps, reps)

    return play


def spread_in_time(
    trials: int, processes: int, dwell: float, slower: float, differ: float | None
) -> Play:
    """How often two copies of one code in one table come out different.

    The machine has slow phases 30 % of the time, which the reference workload sees; the
    processes run in the tool's order. Different are medians that lie more than `differ` apart,
    or, without it, headlines whose intervals exclude each other.
    """

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        slow = phase_states(rng, reps, trials * processes, dwell, 0.3)
        hits = 0
        for row in slow:
            order = np.asarray(tool.schedule(trials, processes))
            phase = np.where(row, 1.0 + slower, 1.0)
            times = phase * np.exp(0.01 * rng.standard_normal(len(row)))
            marks = phase * np.exp(0.002 * rng.standard_normal(len(row)))
            run = [
                Trial(times[order == i] * CALL_NS, marks[order == i] * REFERENCE_NS)
                for i in range(trials)
            ]
            if differ is not None:
                apart = np.log(np.median(run[0].medians) / np.median(run[-1].medians))
                hits += abs(apart) > math.log1p(differ)
                continue
            one, other = tool.headline(run[0], run[1:]), tool.headline(run[-1], run[:-1])
            hits += one.high < other.low or other.high < one.low
        return Tally(hits, reps, reps)

    return play


def cell(
    promise: str,
    name: str,
    asked: str,
    sense: str,
    bound: float,
    function: str,
    play: Play,
    *,
    n: int = MOST,
    reps: int = 400,
    own: bool = False,
    given: float = 0.0,
    unreachable: str = "",
) -> Cell:
    """A cell of this family."""
    return Cell(
        name=name,
        promise=promise,
        law=name,
        processes=n,
        repetitions=reps,
        asked=asked,
        sense=">=" if sense == ">=" else "<=",
        bound=bound,
        function=function,
        play=play,
        given=given,
        own_number=own,
        unreachable=unreachable,
    )

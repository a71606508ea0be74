"""The headline's cells: coverage of p50 over processes, few processes, modes."""

from __future__ import annotations

import math

import numpy as np

from statistics_corpus.adapter import Adapter, Interval, Trial
from statistics_corpus.laws import (
    CALL_NS,
    REFERENCE_NS,
    Array,
    CallLaw,
    ProcessLaw,
    Truth,
    median_truth,
    phase_states,
    truth_of,
)
from statistics_corpus.scoring import Cell, Play, Tally

REFERENCE_SD = 0.002
PEERS = 9
SEVERAL_LEVELS = ("two modes 50/50 +10 %", "three modes", "two modes 60/40 +20 %")
"""Laws whose median a few processes of one level cannot see."""


def known(interval: Interval | None) -> bool:
    """Whether an interval is given."""
    return interval is not None and math.isfinite(interval.low) and math.isfinite(interval.high)


def holds(interval: Interval, truth: Truth, estimand: str) -> bool:
    """Whether an interval in units of one call holds the truth."""
    if estimand == "geometric mean":
        return interval.low <= truth.geometric <= interval.high
    return interval.low <= truth.high and interval.high >= truth.low


def draw_run(
    law: ProcessLaw, rng: np.random.Generator, reps: int, n: int, trials: int
) -> tuple[Array, Array]:
    """Effects and reference workloads of whole runs: `reps x trials x n`.

    Laws with phases are drawn along the run's time, one process of each trial a round, as a
    table that is spread over rounds is measured; the reference workload sees the phase.
    """
    references = np.exp(REFERENCE_SD * rng.standard_normal((reps, trials, n)))
    if law.phase is None:
        return law.draw(rng, reps * trials, n).reshape(reps, trials, n), references
    dwell, share, slower, jitter = law.phase
    slow = phase_states(rng, reps, n * trials, dwell, share)
    slow = slow.reshape(reps, n, trials).transpose(0, 2, 1)
    factor = np.where(slow, 1.0 + slower, 1.0)
    scatter = np.exp(jitter * rng.standard_normal(slow.shape))
    return factor * scatter, references * factor


def trial_at(effects: Array, references: Array) -> Trial:
    """A trial in nanoseconds."""
    return Trial(effects * CALL_NS, references * REFERENCE_NS)


def scaled(interval: Interval) -> Interval:
    """An interval in units of one call."""
    return Interval(*(float(value) / CALL_NS for value in interval))


def coverage(law: ProcessLaw, n: int, peers: int) -> Play:
    """How often the interval holds the truth."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        truth = truth_of(law)
        effects, references = draw_run(law, rng, reps, n, peers + 1)
        hits = given = 0
        for effect, reference in zip(effects, references, strict=True):
            trials = [trial_at(e, r) for e, r in zip(effect, reference, strict=True)]
            answer = tool.headline(trials[0], trials[1:])
            if known(answer):
                given += 1
                hits += holds(scaled(answer), truth, tool.estimand)
        return Tally(hits, given, reps)

    return play


def wrong(law: ProcessLaw, n: int, peers: int) -> Play:
    """How often an interval is given that does not hold the truth."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        held = coverage(law, n, peers)(tool, rng, reps)
        return Tally(held.of - held.hits, reps, reps, answered=held.of)

    return play


def touches(law: ProcessLaw, n: int) -> Play:
    """How often an end of the interval is the point itself: the mark of a clamped interval."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, references = draw_run(law, rng, reps, n, 1)
        hits = given = 0
        for effect, reference in zip(effects[:, 0], references[:, 0], strict=True):
            answer = tool.headline(trial_at(effect, reference), [])
            if known(answer):
                given += 1
                hits += answer.point in (answer.low, answer.high) or not (
                    answer.low <= answer.point <= answer.high
                )
        return Tally(hits, given, reps)

    return play


def width_ratio(law: ProcessLaw, fewer: int, more: int, peers: int) -> Play:
    """Mean log width with more processes over that with fewer."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, references = draw_run(law, rng, reps, more, peers + 1)
        widths: dict[int, list[float]] = {fewer: [], more: []}
        for effect, reference in zip(effects, references, strict=True):
            for n in (fewer, more):
                trials = [trial_at(e[:n], r[:n]) for e, r in zip(effect, reference, strict=True)]
                answer = tool.headline(trials[0], trials[1:])
                if known(answer):
                    widths[n].append(math.log(answer.high / answer.low))
        if not widths[fewer] or not widths[more]:
            return Tally(0, 0, reps, value=math.nan)
        value = float(np.mean(widths[more]) / np.mean(widths[fewer]))
        return Tally(0, len(widths[more]), reps, value=value)

    return play


def oracle_width(law: ProcessLaw, n: int, sd: float, peers: int) -> Play:
    """Mean half-width over that of somebody who knows the standard deviation of the logs."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, references = draw_run(law, rng, reps, n, peers + 1)
        halves = []
        for effect, reference in zip(effects, references, strict=True):
            trials = [trial_at(e, r) for e, r in zip(effect, reference, strict=True)]
            answer = tool.headline(trials[0], trials[1:])
            if known(answer):
                halves.append(math.log(answer.high / answer.low) / 2.0)
        oracle = 1.959964 * sd / math.sqrt(n)
        value = float(np.mean(halves)) / oracle if halves else math.nan
        return Tally(0, len(halves), reps, value=value)

    return play


def never_given(law: ProcessLaw, n: int, peers: int) -> Play:
    """How often an interval is given where none may be."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, references = draw_run(law, rng, reps, n, peers + 1)
        hits = 0
        for effect, reference in zip(effects, references, strict=True):
            trials = [trial_at(e, r) for e, r in zip(effect, reference, strict=True)]
            hits += known(tool.headline(trials[0], trials[1:]))
        return Tally(hits, reps, reps)

    return play


def too_wide(law: ProcessLaw, n: int, disturbed: float) -> Play:
    """How often an interval spans more than a factor of two, one process being disturbed."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, references = draw_run(law, rng, reps, n, 1)
        effects[:, 0, 0] *= disturbed
        hits = 0
        for effect, reference in zip(effects[:, 0], references[:, 0], strict=True):
            answer = tool.headline(trial_at(effect, reference), [])
            hits += known(answer) and answer.high > 2.0 * answer.low
        return Tally(hits, reps, reps)

    return play


def sees_modes(law: ProcessLaw, n: int, several: bool) -> Play:
    """How often several modes are reported."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        effects, _ = draw_run(law, rng, reps, n, 1)
        hits = sum((tool.modes(row * CALL_NS) > 1) == several for row in effects[:, 0])
        return Tally(int(hits), reps, reps)

    return play


def coverage_of_calls(process: ProcessLaw, law: CallLaw, n: int, calls: int) -> Play:
    """How often the interval holds the truth, from the calls of each process."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        truth = median_truth(process, law, calls)
        hits = given = 0
        for _ in range(reps):
            effects = process.draw(rng, 1, n)[0]
            rows = law.draw(rng, n, calls) * effects[:, None] * CALL_NS
            answer = tool.headline_of_calls(list(rows))
            if known(answer):
                given += 1
                hits += holds(scaled(answer), truth, tool.estimand)
        return Tally(hits, given, reps)

    return play


def coverage_cells(laws: dict[str, ProcessLaw], counts: tuple[int, ...], reps: int) -> list[Cell]:
    """Coverage for each law and number of processes."""
    cells = []
    for law in laws.values():
        for n in counts:
            peers = 4 if law.phase is not None else 2
            cells.append(
                Cell(
                    name=f"{law.name}, n = {n}, {peers} other trials",
                    promise="1 headline coverage",
                    law=law.name,
                    processes=n,
                    repetitions=reps,
                    asked="coverage of the median over processes >= 0.935",
                    sense=">=",
                    bound=0.935,
                    function="headline",
                    play=coverage(law, n, peers),
                    given=0.90,
                )
            )
    return cells


def few_cells(
    laws: dict[str, ProcessLaw], counts: tuple[int, ...], peers: int, reps: int, hopeless: str
) -> list[Cell]:
    """Trials of three or four processes; "not known yet" is an answer that is not wrong.

    Beside other trials of the run an interval must come in half of the repetitions; a trial
    that stands alone may go without.
    """
    cells = []
    for law in laws.values():
        for n in counts:
            if law.phase is not None:
                continue
            alone = peers == 0 and law.name in SEVERAL_LEVELS
            cells.append(
                Cell(
                    name=f"{law.name}, n = {n}, {peers} other trials",
                    promise="2 few processes",
                    law=law.name,
                    processes=n,
                    repetitions=reps,
                    asked="an interval that misses the median over processes in <= 0.065",
                    sense="<=",
                    bound=0.065,
                    function="headline",
                    play=wrong(law, n, peers),
                    given=0.50 if peers else 0.0,
                    unreachable=hopeless if alone else "",
                )
            )
    return cells


def call_cells(
    process: ProcessLaw, laws: dict[str, CallLaw], counts: tuple[int, ...], calls: int, reps: int
) -> list[Cell]:
    """Coverage from calls."""
    return [
        Cell(
            name=f"{law.name}; {process.name}; {n} x {calls} calls",
            promise="1 headline coverage from calls",
            law=law.name,
            processes=n,
            repetitions=reps,
            asked="coverage of the median over processes >= 0.935",
            sense=">=",
            bound=0.935,
            function="headline_of_calls",
            play=coverage_of_calls(process, law, n, calls),
        )
        for law in laws.values()
        for n in counts
    ]

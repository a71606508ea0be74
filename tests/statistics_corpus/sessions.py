"""Pairs of sessions: each has an effect of its own that the reference workload may not see."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from statistics_corpus.adapter import Adapter, Array, Flags, Gate, Outcome, Session
from statistics_corpus.laws import CALL_NS, REFERENCE_NS
from statistics_corpus.scoring import Play, Tally

FLOOR = 0.75


@dataclass(frozen=True)
class Machine:
    """Standard deviations of logs, except where said."""

    name: str
    process: float
    reference: float = 0.002
    unseen: float = 0.0
    """Session effect on the medians that the reference workload does not see."""

    seen: float = 0.0
    """Session effect that it sees; calls and reference workload feel it alike."""

    floor: float = 0.005
    """Between the floors of processes."""

    floor_unseen: float = 0.0
    """Session effect on the floors that the reference workload does not see."""

    modes: tuple[float, float] = (0.0, 0.0)
    """A second level of the medians: by how much slower, in which share of the processes."""


QUIET = Machine("quiet: processes 1 %, reference 0.2 %", 0.01)
NOISY_REFERENCE = Machine("processes 1 %, reference 1 %", 0.01, reference=0.01)
UNSEEN_1 = Machine("unseen session effect 1 %", 0.01, unseen=0.01, floor_unseen=0.01)
UNSEEN_3 = Machine("unseen session effect 3 %", 0.01, unseen=0.03, floor_unseen=0.03)
SEEN_3 = Machine("session effect 3 %, seen", 0.01, seen=0.03)
SHARED_CI = Machine(
    "noisy two cores: medians of two levels, sessions 5 % apart; floors 0.9 %",
    0.025,
    reference=0.01,
    unseen=0.05,
    floor=0.009,
    floor_unseen=0.0015,
    modes=(0.15, 0.4),
)


def draw_session(machine: Machine, rng: np.random.Generator, n: int, change: float) -> Session:
    """One session of `n` processes; its code takes 1 + `change` times as long."""
    seen = machine.seen * rng.standard_normal()
    slower, share = machine.modes
    level = np.where(rng.random(n) < share, math.log1p(slower), 0.0)
    medians = machine.process * rng.standard_normal(n) + level
    medians += seen + machine.unseen * rng.standard_normal() + math.log1p(change)
    floors = machine.floor * rng.standard_normal(n) + math.log(FLOOR)
    floors += seen + machine.floor_unseen * rng.standard_normal() + math.log1p(change)
    references = machine.reference * rng.standard_normal(n) + seen
    return Session(
        np.exp(medians) * CALL_NS,
        np.minimum(np.exp(floors), np.exp(medians)) * CALL_NS,
        np.exp(references) * REFERENCE_NS,
    )


Counts = Callable[[Gate], bool]


def passes(gate: Gate) -> bool:
    """The gate passes."""
    return gate.outcome == "passed"


def alarms(gate: Gate) -> bool:
    """The gate reports a regression."""
    return gate.outcome == "regression"


def says_when(gate: Gate) -> bool:
    """The gate cannot tell and says what it would take."""
    return gate.outcome == "cannot_tell" and gate.more is not None and gate.more > 0


def right_or_says(right: Outcome) -> Counts:
    """The right outcome, or an honest "cannot tell"."""
    return lambda gate: gate.outcome == right or says_when(gate)


def gated(
    machine: Machine, n: int, change: float, limit: float, history: int, count: Counts
) -> Play:
    """How often a gate between two sessions does what is counted."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            past = [draw_session(machine, rng, n, 0.0) for _ in range(history)]
            old = draw_session(machine, rng, n, 0.0)
            new = draw_session(machine, rng, n, change)
            hits += count(tool.gate(old, new, limit, past))
        return Tally(hits, reps, reps)

    return play


def compared(machine: Machine, n: int, change: float, history: int, wanted: str) -> Play:
    """How often `compare` gives a verdict: `any` difference, or the named one."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            past = [draw_session(machine, rng, n, 0.0) for _ in range(history)]
            old = draw_session(machine, rng, n, 0.0)
            new = draw_session(machine, rng, n, change)
            verdict = tool.compare(old, new, past).verdict
            hits += verdict in ("faster", "slower") if wanted == "any" else verdict == wanted
        return Tally(hits, reps, reps)

    return play


def compare_coverage(machine: Machine, n: int, change: float, history: int) -> Play:
    """How often the interval of `compare` holds the true ratio old / new."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = given = 0
        for _ in range(reps):
            past = [draw_session(machine, rng, n, 0.0) for _ in range(history)]
            old = draw_session(machine, rng, n, 0.0)
            new = draw_session(machine, rng, n, change)
            answer = tool.compare(old, new, past)
            if math.isfinite(answer.low) and math.isfinite(answer.high):
                given += 1
                hits += answer.low <= 1.0 / (1.0 + change) <= answer.high
        return Tally(hits, given, reps)

    return play


def draw_duel(
    rng: np.random.Generator, n: int, change: float, sd: float, floor_sd: float, position: float
) -> tuple[Array, Array, Flags]:
    """Pairs of adjacent processes (new, old) in counterbalanced order on a machine that drifts."""
    first = np.repeat(rng.random((n + 1) // 2) < 0.5, 2)[:n]
    first[1::2] = ~first[1::2]
    drift = np.cumsum(0.01 * rng.standard_normal(n))
    order = np.where(first, 0.5, -0.5) * position
    out = []
    for spread in (sd, floor_sd):
        noise = spread / math.sqrt(2.0) * rng.standard_normal((n, 2))
        new = drift + order + math.log1p(change) + noise[:, 0]
        old = drift - order + noise[:, 1]
        out.append(np.exp(np.stack([new, old], axis=1)) * CALL_NS)
    return out[0], out[1], first


def duelled(
    n: int,
    change: float,
    limit: float,
    spreads: tuple[float, float],
    position: float,
    count: Counts,
) -> Play:
    """How often a duel of two versions does what is counted."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            pairs, floors, first = draw_duel(rng, n, change, *spreads, position)
            hits += count(tool.duel(pairs, floors, first, limit))
        return Tally(hits, reps, reps)

    return play

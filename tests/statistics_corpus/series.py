"""Cells about the calls of processes: tails, throughput, steady state."""

from __future__ import annotations

import numpy as np

from statistics_corpus.adapter import Adapter
from statistics_corpus.headline import known
from statistics_corpus.laws import (
    CALL_NS,
    CallDraw,
    CallLaw,
    ProcessLaw,
    mean_truth,
    quantile_truth,
    trend,
)
from statistics_corpus.scoring import Cell, Play, Tally


def tail(process: ProcessLaw, law: CallLaw, n: int, calls: int, q: float) -> Play:
    """How often the interval of a percentile, where it is given, holds the truth."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        pooled, own = quantile_truth(process, law, q)
        truth = (pooled if tool.tail_estimand == "pooled" else own) * CALL_NS
        hits = given = 0
        for _ in range(reps):
            effects = process.draw(rng, 1, n)[0]
            rows = law.draw(rng, n, calls) * effects[:, None] * CALL_NS
            answer = tool.quantile(list(rows), q)
            if answer is not None and known(answer):
                given += 1
                hits += answer.low <= truth <= answer.high
        return Tally(hits, given, reps)

    return play


def tail_never(process: ProcessLaw, law: CallLaw, n: int, calls: int, q: float) -> Play:
    """How often an interval is given where the calls cannot bear one."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            effects = process.draw(rng, 1, n)[0]
            rows = law.draw(rng, n, calls) * effects[:, None] * CALL_NS
            hits += known(tool.quantile(list(rows), q))
        return Tally(hits, reps, reps)

    return play


def mean_rate(process: ProcessLaw, law: CallLaw, n: int, calls: int) -> Play:
    """How often the throughput, where it is given, holds the truth."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        truth = 1e9 / (mean_truth(process, law) * CALL_NS)
        hits = given = 0
        for _ in range(reps):
            effects = process.draw(rng, 1, n)[0]
            rows = law.draw(rng, n, calls) * effects[:, None] * CALL_NS
            answer = tool.throughput(list(rows))
            if answer is not None and known(answer):
                given += 1
                hits += answer.low <= truth <= answer.high
        return Tally(hits, given, reps)

    return play


def mean_given(process: ProcessLaw, law: CallLaw, n: int, calls: int) -> Play:
    """How often a throughput with an interval is given at all."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        hits = 0
        for _ in range(reps):
            effects = process.draw(rng, 1, n)[0]
            rows = law.draw(rng, n, calls) * effects[:, None] * CALL_NS
            hits += known(tool.throughput(list(rows)))
        return Tally(hits, reps, reps)

    return play


def accepts(draw: CallDraw, calls: int, wanted: bool) -> Play:
    """How often a series is (or is not) called steady."""

    def play(tool: Adapter, rng: np.random.Generator, reps: int) -> Tally:
        rows = draw(rng, reps, calls) * CALL_NS
        hits = sum(tool.steady(row) == wanted for row in rows)
        return Tally(int(hits), reps, reps)

    return play


def tail_cells(
    points: list[tuple[ProcessLaw, CallLaw, int, int, float, float]], reps: int
) -> list[Cell]:
    """Coverage of percentiles; the last of a point is the least share that must be given."""
    return [
        Cell(
            name=f"p{100 * q:g}; {law.name}; {process.name}; {n} x {calls} calls",
            promise="5 tails",
            law=f"{process.name}; {law.name}",
            processes=n,
            repetitions=reps,
            asked=f"coverage of p{100 * q:g} >= 0.935 where given",
            sense=">=",
            bound=0.935,
            function="quantile",
            play=tail(process, law, n, calls, q),
            given=least,
        )
        for process, law, n, calls, q, least in points
    ]


def tail_refused_cells(
    points: list[tuple[ProcessLaw, CallLaw, int, int, float]], reps: int
) -> list[Cell]:
    """Percentiles that so few calls cannot have."""
    return [
        Cell(
            name=f"p{100 * q:g}; {law.name}; {process.name}; {n} x {calls} calls: too few",
            promise="5 tails",
            law=f"{process.name}; {law.name}",
            processes=n,
            repetitions=reps,
            asked="an interval is given in <= 0.01",
            sense="<=",
            bound=0.01,
            function="quantile",
            play=tail_never(process, law, n, calls, q),
            own_number=True,
        )
        for process, law, n, calls, q in points
    ]


def throughput_cells(points: list[tuple[ProcessLaw, CallLaw, int, int]], reps: int) -> list[Cell]:
    """Throughput covers; with a tail that has no variance it is withheld."""
    cells = []
    for process, law, n, calls in points:
        name = f"{law.name}; {process.name}; {n} x {calls} calls"
        cells.append(
            Cell(
                name=name,
                promise="5 throughput",
                law=f"{process.name}; {law.name}",
                processes=n,
                repetitions=reps,
                asked="coverage of 1/mean >= 0.935 where given",
                sense=">=",
                bound=0.935,
                function="throughput",
                play=mean_rate(process, law, n, calls),
                given=0.90 if law.has_mean else 0.0,
            )
        )
        if not law.has_mean:
            cells.append(
                Cell(
                    name=f"{name}: withheld",
                    promise="5 throughput",
                    law=f"{process.name}; {law.name}",
                    processes=n,
                    repetitions=reps,
                    asked="an interval of 1/mean is given in <= 0.05",
                    sense="<=",
                    bound=0.05,
                    function="throughput",
                    play=mean_given(process, law, n, calls),
                )
            )
    return cells


def stationary_cells(
    points: list[tuple[str, CallDraw, int]], reps: int, bound: float = 0.02, own: bool = False
) -> list[Cell]:
    """Series without a trend are not refused."""
    return [
        Cell(
            name=f"{name}, {calls} calls",
            promise="6 steady: stationary",
            law=name,
            processes=1,
            repetitions=reps,
            asked=f"steady-state refuses <= {bound}",
            sense="<=",
            bound=bound,
            function="steady",
            play=accepts(draw, calls, wanted=False),
            own_number=own,
        )
        for name, draw, calls in points
    ]


def drift_cells(
    points: list[tuple[str, CallDraw, int, float, float]], reps: int, doubt: str = ""
) -> list[Cell]:
    """Series that drift are refused."""
    return [
        Cell(
            name=f"drift {100 * total:g} %, {name}, {calls} calls",
            promise="6 steady: drift",
            law=f"drift within, {name}",
            processes=1,
            repetitions=reps,
            asked=f"drift of {100 * total:g} % accepted <= {bound}",
            sense="<=",
            bound=bound,
            function="steady",
            play=accepts(trend(total, draw), calls, wanted=True),
            unreachable=doubt,
        )
        for name, draw, calls, total, bound in points
    ]


def warm_cells(points: list[tuple[str, CallDraw, int]], reps: int) -> list[Cell]:
    """Series that warm up and then stay are accepted."""
    return [
        Cell(
            name=f"{name}, {calls} calls",
            promise="6 steady: warm-up",
            law=name,
            processes=1,
            repetitions=reps,
            asked="a series that settles is accepted >= 0.95",
            sense=">=",
            bound=0.95,
            function="steady",
            play=accepts(draw, calls, wanted=True),
            own_number=True,
        )
        for name, draw, calls in points
    ]

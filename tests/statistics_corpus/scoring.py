"""A promise as a cell, and what a score says about it."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import binom

from statistics_corpus.adapter import Adapter

BAND = 0.001
"""A tool that is exactly as good as promised leaves the band in one of 1000 runs of a cell."""

Play = Callable[[Adapter, np.random.Generator, int], "Tally"]
State = Literal["met", "in band", "missed", "not answered"]


@dataclass(frozen=True)
class Tally:
    """What was counted: `hits` of `of`; `asked` repetitions, of which `of` were answered.

    `value` replaces the share where a cell asks for something that is not one (a width).
    """

    hits: int
    of: int
    asked: int
    value: float | None = None
    answered: int | None = None
    """How many were answered, where `of` counts all."""

    @property
    def given(self) -> float:
        """The share of repetitions that were answered."""
        answered = self.of if self.answered is None else self.answered
        return answered / self.asked if self.asked else 1.0

    @property
    def score(self) -> float:
        """The share of hits, or the value."""
        if self.value is not None:
            return self.value
        return self.hits / self.of if self.of else math.nan


@dataclass(frozen=True)
class Cell:
    """One promise under one law."""

    name: str
    promise: str
    law: str
    processes: int
    repetitions: int
    asked: str
    sense: Literal[">=", "<="]
    bound: float
    function: str
    play: Play
    given: float = 0.0
    """The least share of repetitions in which an answer must be given at all."""

    own_number: bool = False
    """The bound is the judge's, where the promise has no number."""

    unreachable: str = ""
    """Why no sane method can meet it."""

    held: bool = False


@dataclass(frozen=True)
class Result:
    """A cell, what was counted, and what follows."""

    cell: Cell
    tally: Tally | None
    state: State
    band: tuple[float, float]
    seconds: float

    def line(self) -> str:
        """One row of the report."""
        cell = self.cell
        score = "-" if self.tally is None else f"{self.tally.score:.3f}"
        given = "-"
        if self.tally is not None and self.tally.asked:
            given = f"{self.tally.given:.2f}"
        mark = " (unreachable)" if cell.unreachable else ""
        return (
            f"{self.state:12} {score:>6} {cell.sense} {cell.bound:.3f} "
            f"given {given:>4} >= {cell.given:.2f} {self.seconds:5.1f} s  "
            f"{cell.promise} | {cell.name}{mark}"
        )


def band(cell: Cell, of: int) -> tuple[float, float]:
    """Between which shares a tool that is exactly as good as promised stays."""
    low, high = binom.ppf([BAND, 1.0 - BAND], of, cell.bound) / of
    return float(low), float(high)


def state_of(cell: Cell, tally: Tally) -> tuple[State, tuple[float, float]]:
    """Whether a promise is met, missed, or too near to tell."""
    if cell.given and tally.given < binom.ppf(BAND, tally.asked, cell.given) / tally.asked:
        return "missed", (cell.bound, cell.bound)
    if tally.of == 0:
        return "met", (cell.bound, cell.bound)
    if tally.value is not None:
        good = tally.value <= cell.bound if cell.sense == "<=" else tally.value >= cell.bound
        return ("met" if good else "missed"), (cell.bound, cell.bound)
    low, high = band(cell, tally.of)
    if cell.sense == ">=":
        if tally.score >= cell.bound:
            return "met", (low, high)
        return ("in band" if tally.score >= low else "missed"), (low, high)
    if tally.score <= cell.bound:
        return "met", (low, high)
    return ("in band" if tally.score <= high else "missed"), (low, high)


def judge(cell: Cell, tool: Adapter, quick: bool = False, seed: int = 15) -> Result:
    """Play one cell."""
    repetitions = quick_repetitions(cell) if quick else cell.repetitions
    key = zlib.crc32(f"{cell.promise}|{cell.name}".encode())
    rng = np.random.default_rng([seed, key])
    begin = time.process_time()
    try:
        tally = cell.play(tool, rng, repetitions)
    except NotImplementedError:
        return Result(cell, None, "not answered", (math.nan, math.nan), 0.0)
    state, edges = state_of(cell, tally)
    return Result(cell, tally, state, edges, time.process_time() - begin)


def quick_repetitions(cell: Cell) -> int:
    """How many repetitions a slice plays."""
    return min(cell.repetitions, max(20, cell.repetitions // 20))


def run(
    cells: Sequence[Cell],
    tool: Adapter,
    quick: bool = False,
    seed: int = 15,
    show: Callable[[str], None] | None = None,
) -> list[Result]:
    """Play cells; `show` gets each row as it comes. A slice takes every third cell."""
    results = []
    for cell in cells[::3] if quick else cells:
        result = judge(cell, tool, quick, seed)
        results.append(result)
        if show is not None:
            show(result.line())
    return results


def held_out(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, marked as held out."""
    return [replace(cell, held=True) for cell in cells]


def summary(results: Sequence[Result]) -> str:
    """Per promise how many cells are met, in the band, missed, and unreachable ones apart."""
    states: tuple[State, ...] = ("met", "in band", "missed", "not answered")
    lines = [f"{'promise':34} cells  " + "  ".join(states) + "  unreachable"]
    for promise in dict.fromkeys(result.cell.promise for result in results):
        own = [result for result in results if result.cell.promise == promise]
        fair = [result for result in own if not result.cell.unreachable]
        counts = [sum(result.state == state for result in fair) for state in states]
        row = "  ".join(
            f"{count:>{len(state)}}" for count, state in zip(counts, states, strict=True)
        )
        lines.append(f"{promise:34} {len(own):5}  {row}  {len(own) - len(fair):11}")
    return "\n".join(lines)

"""Repeated-layer detection: equal layers, runs of operators, and the outlier among them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NUMBER = re.compile(r"(?<![^./_])\d+(?![^./_])")
FAR_DISTANCES = 5.0
"""Median distances from the median; of normal values one in 1,300 is as far."""

LONGEST_RUN = 64
"""Operators in a run that is looked for; layers are shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRun:
    """A part of a sequence that is repeated without anything between.

    Attributes:
        start: where its first copy begins.
        length: of one copy.
        copies: how many there are, at least two.
    """

    start: int
    length: int
    copies: int

    @property
    def end(self) -> int:
        """Where the last copy ends."""
        return self.start + self.length * self.copies


def starred(name: str) -> str:
    """A name with ``*`` for its numbers: ``layers.*.norm`` for ``layers.3.norm``, ``linear_*``.

    A number is a whole part of the name, between dots, slashes or underscores: ``conv1`` is none.
    """
    return _NUMBER.sub("*", name)


def repeated_names(names: Sequence[str], structure: Mapping[str, Hashable]) -> dict[str, str]:
    """The row of each name: numbers starred, then siblings of one structure joined.

    Modules of one parent and one structure, such as the projections of an attention, are one row:
    ``layers.*.attention.{key,query,value}``.

    Args:
        names: qualified names.
        structure: of those whose structure is known, what must be equal for two to be one.
    """
    row_of = {name: starred(name) for name in names}
    kinds: dict[str, set[Hashable]] = defaultdict(set)
    for name, row in row_of.items():
        if name in structure:
            kinds[row].add(structure[name])
    siblings: dict[tuple[str, Hashable], list[str]] = defaultdict(list)
    for row, kind in kinds.items():
        if len(kind) == 1:  # one that differs among its own copies is not joined with others
            siblings[row.rpartition(".")[0], next(iter(kind))].append(row)
    joined = {row: _joined(rows) for rows in siblings.values() for row in rows if len(rows) > 1}
    return {name: joined.get(row, row) for name, row in row_of.items()}


def _joined(rows: Sequence[str]) -> str:
    parent, _, _ = rows[0].rpartition(".")
    members = sorted({row.rpartition(".")[2] for row in rows})
    return f"{parent}{'.' if parent else ''}{{{','.join(members)}}}"


def structures(
    parent: Mapping[str, str], operators: Mapping[str, Sequence[Hashable]]
) -> dict[str, Hashable]:
    """A module's own operators in order, and the structures of its children in order of name.

    Args:
        parent: of each module the one it is in, empty for none; parents come first.
        operators: of each module what its own operators are: type and shapes.
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, above in parent.items():
        children[above].append(name)
    found: dict[str, Hashable] = {}
    for name in reversed(list(parent)):
        below = tuple(found[child] for child in sorted(children[name]))
        found[name] = hash((tuple(operators.get(name, ())), below))
    return found


def tandem_repeats(sequence: Sequence[Hashable]) -> tuple[RepeatedRun, ...]:
    """Tandem repeats, from the left; each takes the period that covers most.

    Of two periods that cover the same the shorter one counts, so ``abababab`` is four ``ab``. A
    sequence of n takes O(n * `LONGEST_RUN`) comparisons.
    """
    codes = {symbol: number for number, symbol in enumerate(dict.fromkeys(sequence))}
    numbers = np.array([codes[symbol] for symbol in sequence])
    same = {length: _agreeing(numbers, length) for length in _periods(len(numbers))}
    runs: list[RepeatedRun] = []
    place = 0
    while place < len(numbers):
        best = max(
            (
                RepeatedRun(start=place, length=length, copies=1 + agreeing[place] // length)
                for length, agreeing in same.items()
                if place < len(agreeing) and agreeing[place] >= length
            ),
            key=lambda run: (run.length * run.copies, -run.length),
            default=None,
        )
        if best is None:
            place += 1
        else:
            runs.append(best)
            place = best.end
    return tuple(runs)


def _periods(count: int) -> range:
    return range(1, min(LONGEST_RUN, count // 2) + 1)


def _agreeing(numbers: NDArray[np.int64], length: int) -> list[int]:
    """From each place on, how many entries equal those one period later; for the last one none."""
    place = np.arange(len(numbers) - length + 1)
    differs = np.append(numbers[:-length] != numbers[length:], True)
    until = np.minimum.accumulate(np.where(differs, place, len(numbers))[::-1])[::-1]
    agreeing: list[int] = (until - place).tolist()
    return agreeing


def outlier(values: NDArray[np.float64]) -> int:
    """The value farthest from the median, if it is far: beyond `FAR_DISTANCES` median distances.

    Parameters
    ----------
    values : ndarray, shape (n,)

    Returns
    -------
    int
        Its index, the first of equals; -1 where none is far or for n < 3.
    """
    if len(values) < 3:
        return -1
    distances = np.abs(values - np.median(values))
    far = int(np.argmax(distances))
    return far if distances[far] > FAR_DISTANCES * np.median(distances) else -1
